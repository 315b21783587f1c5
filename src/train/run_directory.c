/* The run directory: every file in it is either complete or not there. */
#include "train/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

struct gp_run_directory {
    char *path, *checkpoints;
    FILE *metrics;
    int64_t keep, best, saved; /* best, saved last: steps; -1: none */
};

static gp_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return GP_OK;
    return gp_error(GP_IO, "%s could not be created: %s", path, strerror(errno));
}

gp_status gp_run_directory_open(gp_run_directory **directory, const char *path, int64_t keep) {
    gp_run_directory *made = gp_allocate(sizeof *made);
    char *metrics = gp_format_text("%s/metrics.jsonl", path);
    gp_status status = GP_OUT_OF_MEMORY;
    *directory = NULL;
    if (!made || !metrics) goto failed;
    made->keep = keep > 0 ? keep : 2;
    made->best = -1;
    made->saved = -1;
    made->path = gp_copy_text(path);
    made->checkpoints = gp_format_text("%s/checkpoints", path);
    if (!made->path || !made->checkpoints) goto failed;
    status = make_folder(made->checkpoints);
    if (status != GP_OK) goto failed;
    made->metrics = fopen(metrics, "w");
    if (!made->metrics) {
        status = gp_error(GP_IO, "%s could not be written: %s", metrics, strerror(errno));
        goto failed;
    }
    gp_free(metrics);
    *directory = made;
    return GP_OK;
failed:
    gp_free(metrics);
    gp_run_directory_close(made);
    return status;
}

void gp_run_directory_close(gp_run_directory *directory) {
    if (!directory) return;
    if (directory->metrics) fclose(directory->metrics);
    gp_free(directory->path);
    gp_free(directory->checkpoints);
    gp_free(directory);
}

/* JSON has no NaN: what is not finite becomes null. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

gp_status gp_run_directory_metrics(gp_run_directory *directory, const gp_step_metrics *metrics, bool has_validation,
                                   double validation_loss) {
    double per_second = metrics->seconds > 0 ? (double)metrics->tokens / metrics->seconds : 0;
    json_t *line = json_pack("{s:I, s:o, s:f, s:o, s:I, s:I, s:f, s:f, s:f}", "step", (json_int_t)metrics->step, "loss",
                             number(metrics->loss), "lr", metrics->lr, "grad_norm", number(metrics->gradient_norm),
                             "examples", (json_int_t)metrics->examples, "tokens", (json_int_t)metrics->tokens,
                             "seconds", metrics->seconds, "tokens_per_second", per_second, "bubble", metrics->bubble);
    if (!line) return gp_error(GP_OUT_OF_MEMORY, "no memory for a line of metrics");
    if (has_validation) json_object_set_new(line, "val_loss", number(validation_loss));
    if (!metrics->finite) json_object_set_new(line, "fault", json_string(metrics->fault));
    bool written = json_dumpf(line, directory->metrics, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                   fputc('\n', directory->metrics) != EOF && fflush(directory->metrics) == 0;
    json_decref(line);
    return written ? GP_OK
                   : gp_error(GP_IO, "%s/metrics.jsonl could not be written: %s", directory->path, strerror(errno));
}

/* Points checkpoints/<name> at step-N: a new link is made beside and renamed over the old one. */
static gp_status link_to(const gp_run_directory *directory, const char *name, int64_t step) {
    char target[48];
    char *link = gp_format_text("%s/%s", directory->checkpoints, name);
    char *fresh = gp_format_text("%s/.%s.new", directory->checkpoints, name);
    gp_status status = link && fresh ? GP_OK : GP_OUT_OF_MEMORY;
    snprintf(target, sizeof target, "step-%lld", (long long)step);
    if (status == GP_OK) {
        unlink(fresh);
        if (symlink(target, fresh) != 0 || rename(fresh, link) != 0)
            status = gp_error(GP_IO, "%s could not be linked to %s: %s", link, target, strerror(errno));
    }
    gp_free(link);
    gp_free(fresh);
    return status;
}

/* Removes the weights in a folder of checkpoints, whole ones and what a killed process was writing, and the folder. */
static void remove_weights(const gp_run_directory *directory, const char *name) {
    char *folder = gp_format_text("%s/%s", directory->checkpoints, name);
    DIR *list = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (strncmp(entry->d_name, "model.safetensors", 17) == 0) unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list) closedir(list);
    if (folder) rmdir(folder);
    gp_free(folder);
}

static void remove_step(const gp_run_directory *directory, int64_t step) {
    char name[48];
    snprintf(name, sizeof name, "step-%lld", (long long)step);
    remove_weights(directory, name);
}

static int descending(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

/* Removes what is older than the newest `keep`, of which the one just saved, `latest`, counts as the first whatever
 * numbers lie about; and what killed processes left unfinished. Failing to list or remove is no reason to stop a run.
 */
static void prune(const gp_run_directory *directory, int64_t latest) {
    DIR *folder = opendir(directory->checkpoints);
    int64_t *steps = NULL;
    size_t count = 0, capacity = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *end;
        if (strncmp(entry->d_name, ".step-", 6) == 0) remove_weights(directory, entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) != 0) continue;
        long long step = strtoll(entry->d_name + 5, &end, 10);
        if (*end != '\0' || step == directory->best || step == latest) continue;
        if (count == capacity) {
            int64_t *grown = gp_grow_array(steps, capacity, 2 * capacity + 8, sizeof *steps);
            if (!grown) break;
            steps = grown;
            capacity = 2 * capacity + 8;
        }
        steps[count++] = step;
    }
    if (folder) closedir(folder);
    if (count > 0) qsort(steps, count, sizeof *steps, descending);
    for (size_t i = (size_t)directory->keep - (latest != directory->best); i < count; i++) {
        remove_step(directory, steps[i]);
    }
    gp_free(steps);
}

/* Writes into a folder beside and renames it, so that a folder step-N always holds a whole model. What an earlier run
 * left under these names goes. */
static gp_status write_step(gp_run_directory *directory, gp_trainer *trainer, const char *folder, int64_t step) {
    char name[48];
    snprintf(name, sizeof name, ".step-%lld.new", (long long)step);
    char *fresh = gp_format_text("%s/%s", directory->checkpoints, name);
    char *model = gp_format_text("%s/%s/model.safetensors", directory->checkpoints, name);
    remove_weights(directory, name);
    gp_status status = fresh && model ? make_folder(fresh) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = gp_trainer_save(trainer, model);
    if (status == GP_OK) {
        remove_step(directory, step);
        if (rename(fresh, folder) != 0)
            status = gp_error(GP_IO, "%s could not be named %s: %s", fresh, folder, strerror(errno));
    }
    if (status == GP_OK) directory->saved = step;
    if (status != GP_OK) remove_weights(directory, name); /* on a full disk it would only be in the way */
    gp_free(fresh);
    gp_free(model);
    return status;
}

gp_status gp_run_directory_save(gp_run_directory *directory, gp_trainer *trainer, int64_t step, bool best) {
    char *folder = gp_format_text("%s/step-%lld", directory->checkpoints, (long long)step);
    gp_status status = folder ? GP_OK : GP_OUT_OF_MEMORY;
    if (status == GP_OK && directory->saved != step) status = write_step(directory, trainer, folder, step);
    gp_free(folder);
    if (status == GP_OK) status = link_to(directory, "latest", step);
    if (status == GP_OK && best) {
        status = link_to(directory, "best", step);
        directory->best = step;
    }
    if (status == GP_OK) prune(directory, step);
    return status;
}

gp_status gp_run_directory_report(gp_run_directory *directory, const gp_trainer *trainer, bool trace) {
    char *text = NULL;
    char *report = gp_format_text("%s/report.json", directory->path);
    char *events = gp_format_text("%s/trace.json", directory->path);
    gp_status status = report && events ? gp_trainer_report_format(trainer, true, &text) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = gp_file_write_text(report, text);
    if (status == GP_OK && trace) status = gp_trainer_trace(trainer, events);
    gp_text_free(text);
    gp_free(report);
    gp_free(events);
    return status;
}
