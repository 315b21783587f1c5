/* What all workers do together: the workers of a rank meet first, then the last to come speaks for all of them. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

typedef struct gp_mpi_meeting {
    pthread_mutex_t lock;      /* of who has come, and of what they give and want while it is copied */
    int arrived;               /* workers of this rank */
    _Atomic uint32_t finished; /* exchanges */
    const void **given;        /* per worker of this rank; both NULL: it has left */
    void **wanted;
    char *mine; /* what this rank's workers give */
    size_t capacity;
    gp_mpi_exchange exchange;
} gp_mpi_meeting;

gp_status gp_mpi_create_meeting(gp_mpi_world *world) {
    gp_mpi_meeting *meeting = gp_allocate(sizeof *meeting);
    if (!meeting) return GP_OUT_OF_MEMORY;
    world->meeting = meeting;
    pthread_mutex_init(&meeting->lock, NULL);
    meeting->exchange.tag = gp_mpi_first_tag(world, GP_MPI_MEETING);
    meeting->given = gp_allocate_array((size_t)world->each, sizeof *meeting->given);
    meeting->wanted = gp_allocate_array((size_t)world->each, sizeof *meeting->wanted);
    return meeting->given && meeting->wanted ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_mpi_free_meeting(gp_mpi_world *world) {
    gp_mpi_meeting *meeting = world->meeting;
    if (!meeting) return;
    gp_mpi_exchange_end(world, &meeting->exchange);
    pthread_mutex_destroy(&meeting->lock);
    gp_free(meeting->given);
    gp_free(meeting->wanted);
    gp_free(meeting->mine);
    gp_free(meeting);
}

static gp_status make_room(gp_mpi_meeting *meeting, size_t bytes) {
    if (bytes <= meeting->capacity) return GP_OK;
    gp_free(meeting->mine);
    meeting->capacity = 0;
    meeting->mine = gp_allocate(bytes);
    if (!meeting->mine) return GP_OUT_OF_MEMORY;
    meeting->capacity = bytes;
    return GP_OK;
}

static void collect(gp_mpi_meeting *meeting, size_t each, size_t bytes) {
    pthread_mutex_lock(&meeting->lock);
    for (size_t i = 0; i < each; i++)
        if (meeting->given[i]) memcpy(meeting->mine + i * bytes, meeting->given[i], bytes);
    pthread_mutex_unlock(&meeting->lock);
}

static void hand_out(gp_mpi_meeting *meeting, size_t each, const char *gathered, size_t bytes) {
    pthread_mutex_lock(&meeting->lock);
    for (size_t i = 0; i < each; i++)
        if (meeting->wanted[i]) memcpy(meeting->wanted[i], gathered, bytes);
    pthread_mutex_unlock(&meeting->lock);
}

/* A worker that leaves early, because of a failure, takes its memory along. */
static void leave(gp_mpi_meeting *meeting, int place) {
    pthread_mutex_lock(&meeting->lock);
    meeting->given[place] = NULL;
    meeting->wanted[place] = NULL;
    pthread_mutex_unlock(&meeting->lock);
}

/* By the last of this rank's workers: what each gave goes out together, all that comes back goes to each. */
static gp_status exchange(gp_mpi_world *world, int worker, size_t bytes) {
    gp_mpi_meeting *meeting = world->meeting;
    size_t each = (size_t)world->each, row = bytes > 0 ? bytes * each : 1, all = bytes * each;
    char nothing[1] = {0};
    GP_TRY(make_room(meeting, row * (size_t)(1 + world->cluster->ranks)));
    if (bytes > 0) collect(meeting, each, bytes);
    char *gathered = meeting->mine + row;
    GP_TRY(gp_mpi_exchange_all(world, &meeting->exchange, worker, bytes > 0 ? meeting->mine : nothing, row, gathered));
    if (bytes > 0) hand_out(meeting, each, gathered, all * (size_t)world->cluster->ranks);
    return GP_OK;
}

typedef struct turn {
    const gp_mpi_meeting *meeting;
    uint32_t finished;
} turn;

static bool is_over(const void *object) {
    const turn *wait = object;
    return atomic_load_explicit(&wait->meeting->finished, memory_order_acquire) != wait->finished;
}

gp_status gp_mpi_all_gather(gp_world *base, int worker, const void *mine, size_t bytes, void *all) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    gp_mpi_meeting *meeting = world->meeting;
    int place = worker - world->first;
    turn wait = {meeting, atomic_load(&meeting->finished)};
    pthread_mutex_lock(&meeting->lock);
    meeting->given[place] = mine;
    meeting->wanted[place] = all;
    bool last = ++meeting->arrived == world->each;
    if (last) meeting->arrived = 0;
    pthread_mutex_unlock(&meeting->lock);
    gp_status status =
        last ? exchange(world, worker, bytes)
             : gp_threads_wait(&world->threads, worker, is_over, &wait, GP_WAITS_FOR_ALL, "the barrier of");
    if (status != GP_OK) leave(meeting, place); /* the others are woken by the failure */
    if (status != GP_OK || !last) return status;
    atomic_fetch_add_explicit(&meeting->finished, 1, memory_order_release);
    for (int i = 0; i < world->each; i++)
        if (world->first + i != worker) gp_threads_wake(&world->threads, world->first + i);
    return GP_OK;
}

gp_status gp_mpi_barrier(gp_world *base, int worker) {
    return gp_mpi_all_gather(base, worker, NULL, 0, NULL);
}
