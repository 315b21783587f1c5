/* What the cases of worlds share: teams of workers, which are threads of this test and, when it is started by MPI, of
 * the other processes too. */
#ifndef GP_TESTS_WORLD_TEAM_H
#define GP_TESTS_WORLD_TEAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/thread.h"
#include "world/cluster.h"

/* In what world the cases are run. */
typedef struct setting {
    gp_cluster *cluster; /* NULL: threads */
    int workers;         /* of a cluster's world; 0: as many as the case likes */
} setting;

enum { MOST_WORKERS = 8 };

typedef struct team team;

typedef struct member {
    team *team;
    int worker;
    gp_thread *thread;
    gp_status status;
    char message[256];
    void *memory[2]; /* of its links: the world's until it is destroyed */
} member;

struct team {
    gp_world *world;
    gp_cluster *cluster;
    int workers;
    gp_status (*work)(team *all, int worker);
    member members[MOST_WORKERS];
    void *data;
};

gp_status create_world(const setting *where, gp_world **world, int workers, const gp_world_options *options);
/* A team of so many workers; in a cluster there are as many as there are, of which cases leave some idle. */
void form_team(team *all, const setting *where, int workers, gp_status (*work)(team *, int),
               const gp_world_options *options);
/* Every worker of this process does its work. */
void run_team(team *all);
/* Memory for a link of a worker, which end_team() frees. */
void *lend(team *all, int worker, int which, size_t bytes);
void end_team(team *all);
void assert_all_done(const team *all);

/* ---- sums.c ---- */

void sum_floats(void *user, void *destination, const void *const *sources, int source_count, int64_t count);
void sums_are_added_in_order(void **state);
void members_may_give_nothing(void **state);

#endif
