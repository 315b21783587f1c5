/* What checkpoints of GPT-2 124M cost: seconds to write one and to go on from it while it is in the page cache, and how
 * much longer training takes when it saves every 20 steps.
 *
 * A run saves after every `period` steps, by a copy that is written while the steps go on. The steps right after a save
 * are compared with those at the end of the period, when nothing is written: that is done within a minute, since shared
 * machines change speed. What a save costs, divided by the time of 20 steps, is the overhead. FOLDER (default: the
 * current one) needs 6 GB; what is written there is removed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "gpipe/checkpoint.h"

enum { MOST_STEPS = 1000, EVERY = 20 };

typedef struct measurement {
    const char *out, *precision;
    int64_t period, saves;
    gp_model *model;
    gp_trainer *trainer;
    double at[MOST_STEPS],
        processor[MOST_STEPS];               /* at the end of each step: the clock, processor time of all threads */
    int64_t whole[MOST_STEPS];               /* the newest whole checkpoint then */
    double step, pause, cost, busy, written; /* seconds: of a plain step; more in the first step after a save, in all of
                                                them; processor time of a save; until a checkpoint was whole */
    double save, load;
} measurement;

static bool note_step(void *user, const gp_step_metrics *metrics, const gp_evaluation *validation) {
    measurement *m = user;
    (void)validation;
    if (metrics->step >= MOST_STEPS) return false;
    m->at[metrics->step] = bench_seconds();
    m->processor[metrics->step] = bench_processor_seconds();
    m->whole[metrics->step] = gp_checkpoint_before(m->out, INT64_MAX);
    if (metrics->step % m->period == 0)
        fprintf(stderr, "%s: step %lld of %lld, %.2f s each\n", m->precision, (long long)metrics->step,
                (long long)((m->saves + 1) * m->period), metrics->seconds);
    return true;
}

/* ---- the steps after a save, and the others ---- */

/* Steps after the save at `saved` until its checkpoint was whole. */
static int64_t steps_of_writing(const measurement *m, int64_t saved) {
    int64_t steps = 1;
    while (steps < m->period && m->whole[saved + steps] < saved)
        steps++;
    return steps;
}

/* The median of the steps in which nothing was written. */
static double plain(const measurement *m, const double *at) {
    double seconds[MOST_STEPS];
    size_t count = 0;
    for (int64_t save = 1; save <= m->saves; save++)
        for (int64_t i = steps_of_writing(m, save * m->period) + 1; i <= m->period; i++)
            seconds[count++] = at[save * m->period + i] - at[save * m->period + i - 1];
    return count > 0 ? bench_median(seconds, count) : 0;
}

static void evaluate(measurement *m) {
    double pauses[MOST_STEPS], costs[MOST_STEPS], busy[MOST_STEPS], written[MOST_STEPS];
    m->step = plain(m, m->at);
    if (m->step <= 0) {
        fprintf(stderr, "bench-checkpoint: checkpoints were being written all the time: a longer --period is needed\n");
        exit(1);
    }
    double processor = plain(m, m->processor);
    for (int64_t save = 1; save <= m->saves; save++) {
        int64_t first = save * m->period, steps = steps_of_writing(m, first);
        pauses[save - 1] = m->at[first + 1] - m->at[first] - m->step;
        costs[save - 1] = m->at[first + steps] - m->at[first] - (double)steps * m->step;
        busy[save - 1] = m->processor[first + steps] - m->processor[first] - (double)steps * processor;
        written[save - 1] = m->at[first + steps] - m->at[first];
    }
    m->pause = bench_median(pauses, (size_t)m->saves);
    m->cost = bench_median(costs, (size_t)m->saves);
    m->busy = bench_median(busy, (size_t)m->saves);
    m->written = bench_median(written, (size_t)m->saves);
}

/* ---- one precision ---- */

static void run(measurement *m, const gp_pipeline_options *pipeline, int64_t context) {
    gp_type tokens = {GP_I32, gp_shape_of(1, (int64_t[]){context})};
    gp_random_options random = {.input = tokens, .target = tokens, .input_below = 50257, .target_below = 50257};
    gp_optimizer_options optimizer = {.lr = 1e-4, .weight_decay = 0.1, .clip = 1};
    gp_run_options options = {.steps = (m->saves + 1) * m->period,
                              .out = m->out,
                              .checkpoint_every = m->period,
                              .forget_best = true,
                              .keep = 1,
                              .on_step = note_step,
                              .user = m};
    gp_dataset *dataset = NULL;
    bench_check(gp_dataset_create_random(&dataset, &random), "data");
    bench_check(gp_trainer_create(&m->trainer, m->model, pipeline, &optimizer, 1000), "trainer");
    bench_check(gp_trainer_run(m->trainer, dataset, &options, NULL), "run");
    evaluate(m);
    double begun = bench_seconds();
    bench_check(gp_trainer_save_checkpoint(m->trainer, m->out), "save");
    m->save = bench_seconds() - begun;
    begun = bench_seconds();
    bench_check(gp_trainer_resume(m->trainer, m->out), "resume");
    m->load = bench_seconds() - begun;
    gp_trainer_destroy(m->trainer);
    gp_dataset_destroy(dataset);
    gp_checkpoint_remove(m->out, 0);
    m->trainer = NULL;
}

static void print(const measurement *m, bool json) {
    double gigabytes = 12e-9 * (double)gp_model_parameter_count(m->model), overhead = m->cost / (EVERY * m->step);
    if (json) {
        printf("{\"bench\": \"checkpoint\", \"precision\": \"%s\", \"gigabytes\": %.4g, \"step_seconds\": %.4g, "
               "\"pause_seconds\": %.4g, \"cost_seconds\": %.4g, \"processor_seconds\": %.4g, \"written_seconds\": "
               "%.4g, \"overhead_every_20_steps\": %.4g, \"save_seconds\": %.4g, \"load_seconds\": %.4g}\n",
               m->precision, gigabytes, m->step, m->pause, m->cost, m->busy, m->written, overhead, m->save, m->load);
        return;
    }
    printf("%s, %.2f GB, a step %.2f s\n", m->precision, gigabytes, m->step);
    printf("  saved meanwhile: the next step takes %.2f s more, all steps until it is on the disk %.2f s more (%.1f s "
           "later, %.2f s of processor time)\n",
           m->pause, m->cost, m->written, m->busy);
    printf("  every %d steps: %.1f%% of the time of training\n", EVERY, 100 * overhead);
    printf("  saved while training waits %.2f s; read and verified %.2f s\n", m->save, m->load);
}

/* A folder of its own in the one that is given. */
static void make_folder(const char *in, char *path, size_t size) {
    snprintf(path, size, "%s/bench-checkpoint-XXXXXX", in ? in : ".");
    if (mkdtemp(path)) return;
    perror(path);
    exit(1);
}

static void remove_folder(const char *path) {
    static const char *const files[] = {"metrics.jsonl", "report.json"};
    char file[600];
    gp_checkpoint_remove(path, 0);
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i]);
        unlink(file);
    }
    rmdir(path);
}

static const char usage[] = "[--out=FOLDER] [--layers=12] [--partitions=2] [--batch=4] [--context=256] [--saves=3] "
                            "[--period=10] [--bf16] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-checkpoint", usage);
    int64_t context = bench_count(count, arguments, "context", 256);
    gp_gpt2_options options = {.context = context, .layers = bench_count(count, arguments, "layers", 12)};
    gp_pipeline_options pipeline = {.partitions = bench_count(count, arguments, "partitions", 2),
                                    .batch = bench_count(count, arguments, "batch", 4),
                                    .micro_batches = 4,
                                    .snapshot = true};
    static measurement m;
    bool json = bench_flag(count, arguments, "json");
    char out[512];
    m = (measurement){.out = out,
                      .period = bench_count(count, arguments, "period", 10),
                      .saves = bench_count(count, arguments, "saves", 3)};
    if (m.period < 2 || (m.saves + 1) * m.period >= MOST_STEPS) {
        fprintf(stderr, "bench-checkpoint: --period from 2 on, and (saves + 1) * period below %d, are accepted\n",
                MOST_STEPS);
        return 2;
    }
    bench_check(gp_model_create_gpt2(&m.model, &options), "model");
    make_folder(bench_text(count, arguments, "out"), out, sizeof out);
    if (!json) bench_print_machine();
    pipeline.precision = bench_flag(count, arguments, "bf16") ? GP_BF16 : GP_F32;
    m.precision = gp_dtype_name(pipeline.precision);
    run(&m, &pipeline, context);
    print(&m, json);
    remove_folder(out);
    gp_model_destroy(m.model);
    return 0;
}
