/* See team.h. */
#include "team.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* Errors of a worker stop the others, as in the engine. */
static void run_member(void *argument) {
    member *self = argument;
    self->status = self->team->work(self->team, self->worker);
    if (self->status == GP_OK) return;
    snprintf(self->message, sizeof self->message, "%s", gp_error_message());
    if (self->status != GP_ABORTED) gp_world_fail(self->team->world, self->worker, self->status, gp_error_message());
}

void run_team(team *all) {
    int first = gp_world_first_local(all->world), end = first + gp_world_local_workers(all->world);
    for (int w = first; w < end; w++) {
        all->members[w] = (member){.team = all, .worker = w};
        assert_int_equal(gp_thread_create(&all->members[w].thread, run_member, &all->members[w], 0, 0), GP_OK);
    }
    for (int w = first; w < end; w++)
        gp_thread_join(all->members[w].thread);
}

gp_status create_world(const setting *where, gp_world **world, int workers, const gp_world_options *options) {
    if (where->cluster) return gp_world_create_cluster(world, where->cluster, workers, options);
    return gp_world_create_threads(world, workers, options);
}

void form_team(team *all, const setting *where, int workers, gp_status (*work)(team *, int),
               const gp_world_options *options) {
    memset(all, 0, sizeof *all);
    all->cluster = where->cluster;
    all->workers = where->workers > 0 ? where->workers : workers;
    all->work = work;
    assert_true(all->workers >= workers);
    if (create_world(where, &all->world, all->workers, options) != GP_OK) fail_msg("%s", gp_error_message());
    assert_int_equal(gp_world_workers(all->world), all->workers);
}

void *lend(team *all, int worker, int which, size_t bytes) {
    return all->members[worker].memory[which] = gp_allocate(bytes);
}

void end_team(team *all) {
    gp_world_destroy(all->world);
    for (int w = 0; w < MOST_WORKERS; w++)
        for (int i = 0; i < 2; i++)
            gp_free(all->members[w].memory[i]);
}

void assert_all_done(const team *all) {
    int first = gp_world_first_local(all->world), end = first + gp_world_local_workers(all->world);
    for (int w = first; w < end; w++)
        if (all->members[w].status != GP_OK) fail_msg("worker %d: %s", w, all->members[w].message);
}
