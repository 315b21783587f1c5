/* The processes of a run do all that can fail at the beginning at the same places and agree on how it went, so that
 * they end alike, with one message. */
#include "cluster.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "gpipe/words.h"
#include "message.h"
#include "signals.h"

static bool speaks(const void *cluster) {
    return gp_cluster_speaks(cluster);
}

/* MPICH's launcher tells processes with this signal that another one has ended, which is noticed anyhow once all have
 * met (before: world/mpi/arrival.c); nobody is to be ended by it. */
static void ignore_news(void) {
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL) signal(SIGUSR1, SIG_IGN);
}

gp_status cli_cluster_join(gp_cluster **cluster, const cli_command *command) {
    int launched = gp_cluster_launched();
    *cluster = NULL;
    if (launched <= 1) return GP_OK;
    if (!command->together)
        return gp_error(GP_INVALID,
                        "gpipe %s is the work of one process, but %d were started: leave mpirun (srun) away",
                        command->name, launched);
    gp_status status = gp_cluster_create(cluster, NULL);
    if (status != GP_OK) return status;
    cli_message_speaker(speaks, *cluster);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* no process is left when the launcher is killed */
    ignore_news();
    cli_message(GP_LOG_INFO, "cluster: %d process%s, %s", gp_cluster_ranks(*cluster),
                gp_plural(gp_cluster_ranks(*cluster), "es"), gp_cluster_implementation(*cluster));
    return GP_OK;
}

int cli_cluster_leave(gp_cluster *cluster, int result) {
    if (!cluster) return result;
    fflush(NULL);
    if (result == 0) {
        cli_message_speaker(NULL, NULL);
        gp_cluster_destroy(cluster);
    } else {
        gp_cluster_abort(cluster, result);
        cli_message_speaker(NULL, NULL);
    }
    return result;
}

gp_status cli_cluster_agree(gp_cluster *cluster, gp_status status) {
    return cluster ? gp_cluster_agree(cluster, status) : status;
}

int cli_cluster_signal(gp_cluster *cluster) {
    static const int numbers[] = {SIGINT, SIGHUP, SIGTERM, SIGUSR1};
    char message[1024];
    int asked = cli_signals_asked();
    if (!cluster) return asked;
    snprintf(message, sizeof message, "%s", gp_error_message());
    int found = 0;
    for (size_t i = 0; found == 0 && i < sizeof numbers / sizeof *numbers; i++) {
        bool any = false;
        if (gp_cluster_any(cluster, asked == numbers[i], &any) != GP_OK) break;
        if (any) found = numbers[i];
    }
    gp_error(GP_INTERRUPTED, "%s", message); /* what the caller is about to say */
    return found;
}

bool cli_cluster_writes(const gp_cluster *cluster) {
    return !cluster || gp_cluster_rank(cluster) == 0;
}
