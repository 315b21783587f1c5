#include "steps.h"

void bench_contender_start(bench_contender *contender, const gp_model *model, const gp_pipeline_options *pipeline,
                           const gp_optimizer_options *optimizer, double flops) {
    int threads = pipeline->device.threads > 1 ? pipeline->device.threads : 1;
    *contender = (bench_contender){.flops = flops};
    bench_check(gp_trainer_create(&contender->trainer, model, pipeline, optimizer, 1000), "trainer");
    const gp_plan *plan = gp_trainer_plan(contender->trainer);
    contender->cores = (int)plan->worker_count * threads;
    for (size_t w = 0; w < plan->worker_count; w++) {
        size_t bytes = plan->workers[w].bytes.total;
        contender->bytes += bytes;
        if (bytes > contender->most) contender->most = bytes;
    }
}

void bench_contender_stop(bench_contender *contender) {
    gp_trainer_destroy(contender->trainer);
    contender->trainer = NULL;
}

static void step(bench_contender *contender, const gp_tensor *inputs, const gp_tensor *targets, double peak,
                 int round) {
    gp_step_metrics metrics;
    double before = bench_seconds(), processor = bench_processor_seconds();
    bench_check(gp_trainer_step(contender->trainer, inputs, targets, NULL, &metrics), "step");
    double used = bench_processor_seconds() - processor, seconds = bench_seconds() - before;
    contender->samples[0][round] = seconds;
    contender->samples[1][round] = used;
    contender->samples[2][round] = contender->flops / (seconds * contender->cores) / peak;
    contender->samples[3][round] = contender->flops / used / peak;
    contender->bubble = metrics.bubble;
}

double bench_steps_run(bench_contender *contenders, int count, int rounds, const gp_tensor *inputs,
                       const gp_tensor *targets) {
    double peaks[BENCH_MOST_STEPS];
    for (int r = -1; r < rounds; r++) { /* the first warms up */
        gp_machine_speed speed = {.peak_f32 = 1};
        if (r >= 0) bench_check(gp_machine_measure(&speed, 0.3), "peak");
        int slot = r < 0 ? 0 : r;
        peaks[slot] = speed.peak_f32;
        for (int c = 0; c < count; c++)
            step(&contenders[c], inputs, targets, speed.peak_f32, slot);
    }
    size_t made = (size_t)rounds;
    for (int c = 0; c < count; c++) {
        bench_contender *contender = &contenders[c];
        contender->seconds = bench_median(contender->samples[0], made);
        contender->processor = bench_median(contender->samples[1], made);
        contender->share = bench_median(contender->samples[2], made);
        contender->busy_share = bench_median(contender->samples[3], made);
    }
    return bench_median(peaks, made);
}
