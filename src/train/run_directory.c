/* metrics.jsonl grows line by line; the other files are either complete or not there. A resumed run goes on with the
 * line after its checkpoint's step, so no step is there twice. A line that cannot be written, on a disk that is full,
 * is a loud warning: training is worth more than what is written about it. */
#include "train/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "train/trainer.h"

struct gp_run_directory {
    char *path;
    FILE *metrics; /* for reading; lines are written to its descriptor */
    long last;     /* where the last line begins that was kept; -1: none */
    long end;      /* of the last line */
    bool failing;  /* the last line could not be written */
};

/* ---- opening ---- */

static gp_status metrics_error(const gp_run_directory *directory) {
    return gp_error(GP_IO, "'%s/metrics.jsonl' could not be written: %s", directory->path, strerror(errno));
}

/* The step of a line; -1 for what is none (the torn end that a killed process left). */
static int64_t step_of(const char *line, size_t length) {
    if (length == 0 || line[length - 1] != '\n') return -1;
    json_t *object = json_loadb(line, length, 0, NULL);
    json_t *step = json_object_get(object, "step");
    int64_t number = json_is_integer(step) ? json_integer_value(step) : -1;
    json_decref(object);
    return number;
}

/* Cuts the file behind its lines up to `step`. */
static gp_status keep_lines(gp_run_directory *directory, int64_t step) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while (step > 0 && (length = getline(&line, &room, directory->metrics)) > 0) {
        int64_t here = step_of(line, (size_t)length);
        if (here < 1 || here > step) break;
        directory->last = here == step ? directory->end : -1;
        directory->end += (long)length;
    }
    free(line); /* getline's */
    return ftruncate(fileno(directory->metrics), directory->end) == 0 ? GP_OK : metrics_error(directory);
}

/* Held until the file is closed, however the process ends. A file system without locks has none. */
static gp_status check_metrics(int descriptor, const char *path) {
    struct stat information;
    if (fstat(descriptor, &information) != 0 || !S_ISREG(information.st_mode))
        return gp_error(GP_INVALID, "'%s' is not a regular file: one is needed, or none to begin with", path);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return gp_error(GP_INVALID, "another process is training in this run directory: it holds '%s'", path);
    return GP_OK;
}

static gp_status open_metrics(gp_run_directory *directory, const char *path) {
    /* Without blocking: a pipe would wait for ever. */
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0) return metrics_error(directory);
    gp_status status = check_metrics(descriptor, path);
    if (status == GP_OK && !(directory->metrics = fdopen(descriptor, "r+"))) status = metrics_error(directory);
    if (!directory->metrics) close(descriptor);
    return status;
}

gp_status gp_run_directory_open(gp_run_directory **directory, const char *path, int64_t step) {
    gp_run_directory *made = gp_allocate(sizeof *made);
    char *metrics = gp_format_text("%s/metrics.jsonl", path);
    gp_status status = GP_OUT_OF_MEMORY;
    *directory = NULL;
    if (!made || !metrics) goto failed;
    made->last = -1;
    made->path = gp_copy_text(path);
    if (!made->path) goto failed;
    status = open_metrics(made, metrics);
    if (status == GP_OK) status = keep_lines(made, step);
    if (status != GP_OK) goto failed;
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
    gp_free(directory);
}

int gp_run_directory_descriptor(const gp_run_directory *directory) {
    return fileno(directory->metrics);
}

/* ---- lines ---- */

/* JSON has no NaN: what is not finite becomes null. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Half a line goes again. */
static gp_status write_text(gp_run_directory *directory, const char *text) {
    char *line = gp_format_text("%s\n", text), *path = gp_format_text("%s/metrics.jsonl", directory->path);
    int descriptor = fileno(directory->metrics);
    gp_status status = GP_OUT_OF_MEMORY;
    if (line && path) status = gp_write_all_at(descriptor, line, strlen(line), (uint64_t)directory->end, path);
    if (status == GP_OK) directory->end += (long)strlen(line);
    if (status == GP_IO && ftruncate(descriptor, directory->end) != 0)
        gp_log(GP_LOG_DEBUG, "half a line stays in %s", path);
    gp_free(line);
    gp_free(path);
    return status;
}

/* Takes the reference. */
static gp_status write_line(gp_run_directory *directory, json_t *line) {
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    gp_status status =
        text ? write_text(directory, text) : gp_error(GP_OUT_OF_MEMORY, "no memory for a line of metrics");
    json_decref(line);
    free(text); /* Jansson's */
    if (status == GP_IO && !directory->failing)
        gp_log(GP_LOG_WARNING, "%s; training goes on, and lines are NOT written until they can be", gp_error_message());
    directory->failing = status == GP_IO;
    return status == GP_IO ? GP_OK : status;
}

static void add_validation(json_t *line, const gp_evaluation *validation) {
    double samples = (double)validation->samples;
    json_object_set_new(line, "val_loss", number(validation->loss));
    if (validation->samples < 1) return;
    json_object_set_new(line, "val_accuracy", json_real((double)validation->top1 / samples));
    if (validation->classes > 5) json_object_set_new(line, "val_top5", json_real((double)validation->top5 / samples));
}

/* Tokens, or images and the like: then a target is a sample. */
static void add_rate(json_t *line, const gp_step_metrics *metrics) {
    const char *unit = metrics->unit ? metrics->unit : "tokens";
    bool tokens = strcmp(unit, "tokens") == 0;
    double seconds = metrics->seconds + metrics->data_seconds;
    int64_t count = tokens ? metrics->tokens : metrics->examples;
    char key[64];
    snprintf(key, sizeof key, "%.32s_per_second", unit);
    if (tokens) json_object_set_new(line, unit, json_integer((json_int_t)count));
    json_object_set_new(line, key, json_real(seconds > 0 ? (double)count / seconds : 0));
}

gp_status gp_run_directory_metrics(gp_run_directory *directory, const gp_trainer *trainer,
                                   const gp_step_metrics *metrics, const gp_evaluation *validation) {
    json_t *line = json_pack("{s:I, s:o, s:f, s:o, s:I, s:f, s:f, s:f}", "step", (json_int_t)metrics->step, "loss",
                             number(metrics->loss), "lr", metrics->lr, "grad_norm", number(metrics->gradient_norm),
                             "examples", (json_int_t)metrics->examples, "seconds", metrics->seconds, "data_seconds",
                             metrics->data_seconds, "bubble", metrics->bubble);
    if (line) add_rate(line, metrics);
    if (line) gp_traffic_step_json(&trainer->traffic, trainer->plan, line);
    if (line && validation) add_validation(line, validation);
    if (line && !metrics->finite) json_object_set_new(line, "fault", json_string(metrics->fault));
    return write_line(directory, line);
}

gp_status gp_run_directory_amend(gp_run_directory *directory, const gp_evaluation *validation) {
    FILE *file = directory->metrics;
    if (directory->last < 0) return GP_OK; /* the line was lost with the machine's power */
    if (fseek(file, directory->last, SEEK_SET) != 0) return metrics_error(directory);
    json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
    if (line) add_validation(line, validation);
    if (ftruncate(fileno(file), directory->last) != 0) {
        json_decref(line);
        return metrics_error(directory);
    }
    directory->end = directory->last;
    directory->last = -1;
    return write_line(directory, line);
}

/* ---- the report ---- */

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
