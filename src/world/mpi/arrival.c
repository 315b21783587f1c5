/* Until all ranks have met nobody watches anybody, and MPI_Init waits for ever for a process that has ended, or was
 * never started, unless the launcher ends them all. MPICH's, when it was told not to (-disable-auto-cleanup), sends
 * those that are in MPI_Init the signal SIGUSR1 when another one ends, for which MPICH has a handler that does not end
 * the wait: so a thread takes the signal and ends the process. (In a program with threads of its own one of them may
 * get it first.) Of a process that ends before its own MPI_Init nobody says anything: a long wait is told of. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "world/mpi/inside.h"

enum { LONG_WAIT = 30 }; /* seconds */

struct gp_mpi_arrival {
    gp_thread *thread;
    int news, over; /* descriptors: that SIGUSR1 has come, that all are there; -1: none */
    sigset_t before;
};

/* Returns whether the signal has come; false: all are there, or nothing happens for so many milliseconds. */
static bool comes(const gp_mpi_arrival *arrival, int milliseconds, bool *over) {
    struct pollfd both[] = {{.fd = arrival->over, .events = POLLIN}, {.fd = arrival->news, .events = POLLIN}};
    int found;
    do
        found = poll(both, 2, milliseconds);
    while (found < 0 && errno == EINTR);
    *over = found < 0 || both[0].revents;
    return !*over && both[1].revents;
}

static void wait_for_news(void *user) {
    const gp_mpi_arrival *arrival = user;
    bool over, signalled = comes(arrival, 1000 * LONG_WAIT, &over);
    if (!over && !signalled) {
        gp_log(GP_LOG_WARNING,
               "MPI has waited %d s for all processes of the run to start: one may have ended, or may not have been "
               "started",
               LONG_WAIT);
        signalled = comes(arrival, -1, &over);
    }
    if (!signalled) return;
    gp_log(GP_LOG_ERROR, "the signal SIGUSR1 came before all processes of the run had started: MPICH's launcher sends "
                         "it when one of them has ended");
    _exit(gp_status_exit(GP_PEER_LOST));
}

static void listen_for_news(gp_mpi_arrival *arrival) {
    sigset_t news;
    sigemptyset(&news);
    sigaddset(&news, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &news, NULL); /* threads that MPI starts do as this one does */
    arrival->news = signalfd(-1, &news, SFD_CLOEXEC);
}

/* Without the thread a rank starts all the same. */
gp_mpi_arrival *gp_mpi_arrival_begin(bool signals) {
    gp_mpi_arrival *arrival = gp_allocate(sizeof *arrival);
    if (!arrival) return NULL;
    pthread_sigmask(SIG_BLOCK, NULL, &arrival->before);
    arrival->news = -1;
    if (signals) listen_for_news(arrival);
    arrival->over = eventfd(0, EFD_CLOEXEC);
    if (arrival->over >= 0 && gp_thread_create(&arrival->thread, wait_for_news, arrival, 0, 0) == GP_OK) return arrival;
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
