/* Until all ranks have met nobody watches anybody. A launcher that ends all processes with the first one needs no help
 * then. MPICH's, when it was told not to (-disable-auto-cleanup), sends the others the signal SIGUSR1 instead, but
 * MPI_Init goes on waiting for the one that has ended, with a handler of its own for the signal: so a thread takes the
 * signal before any handler does, and ends the process. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "world/mpi/inside.h"

struct gp_mpi_arrival {
    gp_thread *thread;
    int news, over; /* descriptors: that SIGUSR1 has come, that the others are there; -1: none */
    sigset_t before;
};

static void wait_for_news(void *user) {
    const gp_mpi_arrival *arrival = user;
    struct pollfd both[] = {{.fd = arrival->over, .events = POLLIN}, {.fd = arrival->news, .events = POLLIN}};
    while (poll(both, 2, -1) < 0)
        ;
    if (both[0].revents) return;
    gp_log(GP_LOG_ERROR, "another process of the run ended before all had started, says the launcher (by SIGUSR1)");
    _exit(gp_status_exit(GP_PEER_LOST));
}

/* Without the thread a rank starts all the same. */
gp_mpi_arrival *gp_mpi_arrival_begin(void) {
    gp_mpi_arrival *arrival = gp_allocate(sizeof *arrival);
    sigset_t news;
    if (!arrival) return NULL;
    sigemptyset(&news);
    sigaddset(&news, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &news, &arrival->before); /* threads that MPI starts do as this one does */
    arrival->news = signalfd(-1, &news, SFD_CLOEXEC);
    arrival->over = eventfd(0, EFD_CLOEXEC);
    if (arrival->news >= 0 && arrival->over >= 0 &&
        gp_thread_create(&arrival->thread, wait_for_news, arrival, 0, 0) == GP_OK)
        return arrival;
    gp_mpi_arrival_end(arrival);
    return NULL;
}

void gp_mpi_arrival_end(gp_mpi_arrival *arrival) {
    if (!arrival) return;
    if (arrival->thread) {
        eventfd_write(arrival->over, 1);
        gp_thread_join(arrival->thread);
    }
    if (arrival->news >= 0) close(arrival->news);
    if (arrival->over >= 0) close(arrival->over);
    pthread_sigmask(SIG_SETMASK, &arrival->before, NULL);
    gp_free(arrival);
}
