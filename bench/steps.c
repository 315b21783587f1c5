#include "steps.h"

#include <time.h>

void bench_runner_start(bench_runner *runner, const gp_model *model, const gp_pipeline_options *pipeline,
                        const gp_optimizer_options *optimizer, double flops) {
    int threads = pipeline->device.threads > 1 ? pipeline->device.threads : 1;
    *runner = (bench_runner){.flops = flops};
    bench_check(gp_trainer_create(&runner->trainer, model, pipeline, optimizer, 1000), "trainer");
    const gp_plan *plan = gp_trainer_plan(runner->trainer);
    runner->cores = (int)plan->worker_count * threads;
    for (size_t w = 0; w < plan->worker_count; w++) {
        size_t bytes = plan->workers[w].bytes.total;
        runner->bytes += bytes;
        if (bytes > runner->most) runner->most = bytes;
    }
}

void bench_runner_stop(bench_runner *runner) {
    gp_trainer_destroy(runner->trainer);
    runner->trainer = NULL;
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void step(bench_runner *runner, const gp_tensor *inputs, const gp_tensor *targets, double peak, int round) {
    gp_step_metrics metrics;
    double before = bench_seconds(), processor = processor_seconds();
    bench_check(gp_trainer_step(runner->trainer, inputs, targets, NULL, &metrics), "step");
    double used = processor_seconds() - processor, seconds = bench_seconds() - before;
    runner->samples[0][round] = seconds;
    runner->samples[1][round] = used;
    runner->samples[2][round] = runner->flops / (seconds * runner->cores) / peak;
    runner->samples[3][round] = runner->flops / used / peak;
    runner->bubble = metrics.bubble;
}

double bench_steps_run(bench_runner *runners, int count, int rounds, const gp_tensor *inputs,
                       const gp_tensor *targets) {
    double peaks[BENCH_MOST_STEPS];
    if (rounds < 1) rounds = 1;
    if (rounds > BENCH_MOST_STEPS) rounds = BENCH_MOST_STEPS;
    for (int r = -1; r < rounds; r++) { /* the first warms up */
        gp_machine_speed speed = {.peak_f32 = 1};
        if (r >= 0) bench_check(gp_machine_measure(&speed, 0.3), "peak");
        int slot = r < 0 ? 0 : r;
        peaks[slot] = speed.peak_f32;
        for (int c = 0; c < count; c++)
            step(&runners[c], inputs, targets, speed.peak_f32, slot);
    }
    size_t made = (size_t)rounds;
    for (int c = 0; c < count; c++) {
        bench_runner *runner = &runners[c];
        runner->seconds = bench_median(runner->samples[0], made);
        runner->processor = bench_median(runner->samples[1], made);
        runner->share = bench_median(runner->samples[2], made);
        runner->busy_share = bench_median(runner->samples[3], made);
    }
    return bench_median(peaks, made);
}
