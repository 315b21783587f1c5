/* Redrawn at most ten times a second; a plain line about every five seconds and at evaluations. */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "message.h"

static const double redraw_every = 0.1, line_every = 5.0, newest = 0.1; /* share of the newest step in averages */
static const double told_waiting = 0.05;                                /* less waiting for data is not worth a word */

double cli_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

const char *cli_duration(double seconds, char *text, size_t size) {
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(text, size, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    } else if (whole >= 60) {
        snprintf(text, size, "%lldm%02llds", whole / 60, whole % 60);
    } else {
        snprintf(text, size, "%llds", whole);
    }
    return text;
}

const char *cli_rate(double value, char *text, size_t size) {
    const char *unit = value >= 1e6 ? "M" : value >= 1e3 ? "k" : "";
    double scaled = value >= 1e6 ? value / 1e6 : value >= 1e3 ? value / 1e3 : value;
    snprintf(text, size, "%.*f%s", scaled < 10 ? 2 : scaled < 100 ? 1 : 0, scaled, unit);
    return text;
}

void cli_progress_start(cli_progress *progress, int64_t first, int64_t steps, bool skips, const gp_plan *plan) {
    *progress = (cli_progress){.first = first, .steps = steps, .skips = skips, .started = cli_now()};
    progress->last_line = progress->started;
    for (size_t w = 0; w < plan->worker_count; w++) {
        if (plan->workers[w].bytes.total > progress->memory) progress->memory = plan->workers[w].bytes.total;
    }
}

static double smooth(double average, double value, bool first) {
    return first ? value : average + newest * (value - average);
}

static bool counts_tokens(const gp_step_metrics *metrics) {
    return !metrics->unit || strcmp(metrics->unit, "tokens") == 0;
}

static void measure(cli_progress *progress, const gp_step_metrics *metrics) {
    double seconds = metrics->seconds + metrics->data_seconds;
    double count = (double)(counts_tokens(metrics) ? metrics->tokens : metrics->examples);
    bool first = metrics->step <= progress->first + 2;
    if (seconds <= 0) seconds = 1e-9;
    progress->per_second = smooth(progress->per_second, count / seconds, first);
    progress->waiting = smooth(progress->waiting, metrics->data_seconds / seconds, first);
}

/* What is left goes by the whole run so far, evaluations included: the newest step alone would make it jump. */
static void line_of(const cli_progress *progress, const gp_step_metrics *metrics, double time, char *line,
                    size_t size) {
    char count[16], left[24], memory[16], waiting[32] = "";
    double remaining = (time - progress->started) / (double)(metrics->step - progress->first) *
                       (double)(progress->steps - metrics->step);
    if (progress->waiting > told_waiting)
        snprintf(waiting, sizeof waiting, "waits for data %.0f%%  ", 100 * progress->waiting);
    snprintf(line, size, "step %lld/%lld  loss %.4f  %s %s/s  bubble %.1f%%  %s%s  %s left", (long long)metrics->step,
             (long long)progress->steps, metrics->loss, cli_rate(progress->per_second, count, sizeof count),
             metrics->unit ? metrics->unit : "tokens", 100 * metrics->bubble, waiting,
             gp_bytes_format(progress->memory, memory, sizeof memory), cli_duration(remaining, left, sizeof left));
}

/* A line that is not worth keeping: drawn over on a terminal, written now and then elsewhere. */
static void show(cli_progress *progress, double time, const char *line) {
    bool due = time - progress->last_line >= line_every;
    if (!cli_live_possible() && due) {
        cli_message(GP_LOG_INFO, "%s", line);
    } else if (cli_message_shows(GP_LOG_DEBUG)) {
        cli_message(GP_LOG_DEBUG, "%s", line);
    }
    if (due) progress->last_line = time;
}

static void draw(cli_progress *progress, double time, const char *line) {
    if (!cli_live_possible() || time - progress->last_drawn < redraw_every) return;
    progress->last_drawn = time;
    cli_live(line);
}

void cli_progress_step(cli_progress *progress, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    double time = cli_now();
    char line[256];
    measure(progress, metrics);
    line_of(progress, metrics, time, line, sizeof line);
    if (!metrics->finite && progress->skips)
        cli_message(GP_LOG_WARNING, "step %lld: not finite, no update is made: %s", (long long)metrics->step,
                    metrics->fault);
    if (validation) {
        char accuracy[40] = "";
        if (validation->samples > 0)
            snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%",
                     100.0 * (double)validation->top1 / (double)validation->samples);
        cli_message(GP_LOG_INFO, "%s  validation loss %.4f%s", line, validation->loss, accuracy);
        progress->last_line = time;
    } else {
        show(progress, time, line);
    }
    draw(progress, time, line);
}

void cli_progress_evaluation(void *user, int64_t done, int64_t count) {
    cli_progress *progress = user;
    double time = cli_now(), share = (double)done / (double)count;
    char line[96], left[24];
    if (done == 0) progress->evaluation_began = progress->last_line = time;
    double remaining = done > 0 ? (time - progress->evaluation_began) * (1 - share) / share : 0;
    snprintf(line, sizeof line, "evaluation %.0f%%%s%s%s", 100 * share, done > 0 ? "  " : "",
             done > 0 ? cli_duration(remaining, left, sizeof left) : "", done > 0 ? " left" : "");
    show(progress, time, line);
    draw(progress, time, line);
}

void cli_progress_end(void) {
    cli_live("");
}
