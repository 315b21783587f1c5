/* A run goes on only with what it was made with; everything is checked before the checkpoint is read. */
#include "resume.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster.h"
#include "gpipe/checkpoint.h"
#include "message.h"
#include "run_folder.h"

/* ---- from where ---- */

static gp_status join(char path[4096], const char *folder, const char *name) {
    int length = snprintf(path, 4096, *name ? "%s/%s" : "%s%s", folder, name);
    return length >= 0 && length < 4096 ? GP_OK : gp_error(GP_INVALID, "the path %s is too long", folder);
}

static bool has(const char *folder, const char *name) {
    char path[4096];
    struct stat information;
    return join(path, folder, name) == GP_OK && stat(path, &information) == 0;
}

static gp_status find_newest(cli_resume *resume) {
    int64_t step = -1;
    gp_status status = join(resume->from, resume->run, "");
    if (status == GP_OK) status = gp_checkpoint_find_newest(resume->run, &step, resume->folder, sizeof resume->folder);
    resume->found = status == GP_OK && step >= 0;
    return status;
}

static gp_status find_in_run(cli_resume *resume, const char *run) {
    gp_status status = join(resume->run, run, "");
    if (status == GP_OK) status = find_newest(resume);
    if (status != GP_OK || resume->found) return status;
    return gp_error(GP_INVALID,
                    "there is no whole checkpoint in %s/checkpoints: the run can only begin again, with gpipe train "
                    "run.yaml --force",
                    run);
}

/* A folder step-N, or a link to one, in the checkpoints of a run. */
static gp_status find_by_name(cli_resume *resume, const char *folder) {
    char real[PATH_MAX], *slash;
    if (!realpath(folder, real)) return gp_error(GP_INVALID, "%s could not be found", folder);
    gp_status status = join(resume->from, real, "");
    if (status == GP_OK) status = join(resume->folder, real, "");
    for (int i = 0; i < 2; i++)
        if ((slash = strrchr(real, '/'))) *slash = '\0';
    if (status == GP_OK) status = join(resume->run, real, "");
    if (status == GP_OK && !has(resume->run, "config.yaml"))
        status = gp_error(GP_INVALID, "%s is not in the checkpoints of a run directory", folder);
    resume->found = resume->by_name = true;
    return status;
}

/* Beginning again would remove what is there: what cannot be used now (damaged, unreadable, of a newer gpipe, weights
 * that were imported) may be worth something all the same. */
static gp_status check_beginning(const cli_resume *resume, bool force) {
    int64_t step = gp_checkpoint_before(resume->run, INT64_MAX);
    if (resume->found || step < 0 || force) return GP_OK;
    return gp_error(GP_INVALID,
                    "%s/checkpoints has step-%lld, but none that training can go on from: --force begins again and "
                    "removes it; --out takes another run directory",
                    resume->run, (long long)step);
}

/* The newest of the output directory, or the beginning: what a job that is started again and again wants. */
static gp_status find_auto(cli_resume *resume, const cli_arguments *arguments) {
    cli_config config;
    cli_config_options options = {.sets = arguments->sets,
                                  .set_count = arguments->set_count,
                                  .option = "--out",
                                  .key = "train.out",
                                  .text = cli_given_value(arguments, "out")};
    if (arguments->word_count < 1)
        return gp_error(GP_INVALID, "--resume auto needs a configuration: gpipe train run.yaml --resume auto");
    gp_status status = cli_config_load(&config, arguments->words[0], &options);
    if (status == GP_OK) status = join(resume->run, config.settings.train.out, "");
    cli_config_free(&config);
    if (status == GP_OK) status = find_newest(resume);
    return status == GP_OK ? check_beginning(resume, cli_given_flag(arguments, "force")) : status;
}

static bool sets_out(const cli_arguments *arguments) {
    static const char out[] = "train.out=";
    for (size_t i = 0; i < arguments->set_count; i++)
        if (strncmp(arguments->sets[i], out, sizeof out - 1) == 0) return true;
    return false;
}

static gp_status find(cli_resume *resume, const cli_arguments *arguments, const char *from) {
    if (strcmp(from, "auto") == 0) return find_auto(resume, arguments);
    if (cli_given_value(arguments, "out") || sets_out(arguments))
        return gp_error(GP_INVALID, "--out and --resume %s exclude each other: the run goes on where it is", from);
    if (has(from, "config.yaml")) return find_in_run(resume, from);
    if (has(from, "state.json")) return find_by_name(resume, from);
    return gp_error(GP_INVALID,
                    "%s is neither a run directory (with a config.yaml) nor a checkpoint (with a state.json): --resume "
                    "takes one of them, or auto",
                    from);
}

gp_status cli_resume_find(cli_resume *resume, const cli_arguments *arguments) {
    const char *from = cli_given_value(arguments, "resume");
    memset(resume, 0, sizeof *resume);
    if (!from) return GP_OK;
    gp_status status = cli_cluster_agree(arguments->cluster, find(resume, arguments, from));
    if (status != GP_OK || !arguments->cluster) return status;
    return gp_cluster_compare(arguments->cluster, "the newest checkpoint", resume->folder, strlen(resume->folder));
}

/* ---- whether ---- */

static gp_status compare(cli_resume *resume, const cli_session *session) {
    char path[4096];
    cli_config before;
    cli_config_options options = {.any_schedule = true};
    gp_status status = join(path, resume->run, "config.yaml");
    if (status != GP_OK) return status;
    status = cli_config_load(&before, path, &options);
    if (status == GP_OK) status = cli_config_compare(&before, &session->config, &resume->difference);
    cli_config_free(&before);
    if (status != GP_OK || !resume->difference.refused.text) return status;
    return gp_error(GP_INVALID, "%s cannot go on with a configuration that differs from its own in %s", resume->run,
                    resume->difference.refused.text);
}

static gp_status check_later(const cli_resume *resume, int64_t step, bool force) {
    int64_t last = gp_checkpoint_before(resume->run, INT64_MAX);
    if (!resume->by_name || last <= step || force) return GP_OK;
    return gp_error(GP_INVALID,
                    "going back to step %lld would lose later checkpoints of %s (up to step %lld): --force does it; "
                    "--resume %s goes on from the newest",
                    (long long)step, resume->run, (long long)last, resume->run);
}

static gp_status check_state(cli_resume *resume, const cli_session *session, bool force) {
    gp_checkpoint_state state;
    gp_status status = gp_checkpoint_read_state(resume->folder, &state);
    if (status != GP_OK) return status;
    resume->complete = state.step >= session->config.settings.train.steps && !state.evaluation_pending;
    return check_later(resume, state.step, force);
}

gp_status cli_resume_open(cli_resume *resume, cli_session *session, const cli_arguments *arguments) {
    char path[4096];
    gp_status status = join(path, resume->run, "config.yaml");
    if (status != GP_OK) return status;
    status = cli_session_open_resumed(session, arguments->word_count > 0 ? arguments->words[0] : path, resume->run,
                                      arguments);
    if (status != GP_OK) return status;
    status = compare(resume, session);
    if (status == GP_OK) status = check_state(resume, session, cli_given_flag(arguments, "force"));
    return cli_cluster_agree(session->cluster, status);
}

/* ---- going on ---- */

/* By one process. */
static gp_status record(const cli_resume *resume, const cli_session *session, int64_t step) {
    if (resume->by_name) gp_checkpoint_remove(resume->run, step + 1);
    return resume->difference.changed.text ? cli_run_folder_write_config(resume->run, &session->config) : GP_OK;
}

/* A refused run leaves its folder as it was. */
static gp_status check_resumed(const cli_session *session) {
    cli_text configuration = {0};
    gp_status status = cli_config_fixed_text(&session->config, &configuration);
    if (status == GP_OK) status = gp_trainer_check_resumed(session->trainer, session->dataset, configuration.text);
    cli_text_free(&configuration);
    return cli_cluster_agree(session->cluster, status);
}

gp_status cli_resume_apply(cli_resume *resume, cli_session *session) {
    const char *changed = resume->difference.changed.text;
    gp_status status = gp_trainer_resume(session->trainer, resume->from);
    if (status == GP_OK) status = check_resumed(session);
    if (status != GP_OK) return status;
    int64_t step = gp_trainer_step_count(session->trainer);
    cli_message(GP_LOG_INFO, "%s goes on after step %lld of %lld%s%s", resume->run, (long long)step,
                (long long)session->config.settings.train.steps, changed ? ", changed: " : "", changed ? changed : "");
    if (cli_cluster_writes(session->cluster)) status = record(resume, session, step);
    return cli_cluster_agree(session->cluster, status);
}

void cli_resume_free(cli_resume *resume) {
    cli_difference_free(&resume->difference);
}

void cli_resume_command(const char *run, cli_text *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%";
    cli_text_add(text, "gpipe train --resume ");
    if (strspn(run, plain) == strlen(run)) {
        cli_text_add(text, "%s", run);
        return;
    }
    cli_text_add(text, "'");
    for (; *run; run++)
        cli_text_add(text, *run == '\'' ? "'\\%c'" : "%c", *run);
    cli_text_add(text, "'");
}
