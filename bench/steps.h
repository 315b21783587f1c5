/* Timing training steps of several trainers, for bench-gpt2-step and bench-image-step: they take turns, and the peak of
 * a core is measured before every turn, because shared machines change speed from minute to minute. */
#ifndef GP_BENCH_STEPS_H
#define GP_BENCH_STEPS_H

#include "common.h"

enum { BENCH_MOST_STEPS = 100 };

/* One that takes turns: a trainer with the work of a step, and after bench_steps_run the medians. */
typedef struct bench_contender {
    gp_trainer *trainer;
    int cores;                 /* that it has */
    double flops;              /* of a step */
    size_t bytes;              /* of all workers together */
    size_t most;               /* of the worker that needs most */
    double seconds, processor; /* of a step: on the clock, and of all threads together */
    double share;              /* of what its cores could do in the seconds of the step */
    double busy_share;         /* the same in the processor's seconds: waiting does not count */
    double bubble;
    double samples[4][BENCH_MOST_STEPS]; /* of seconds, processor, shares */
} bench_contender;

/* Creates the trainer; ends the benchmark when it cannot. */
void bench_contender_start(bench_contender *contender, const gp_model *model, const gp_pipeline_options *pipeline,
                           const gp_optimizer_options *optimizer, double flops);
void bench_contender_stop(bench_contender *contender);

/* A step of each to warm up, then `rounds` rounds (1 to BENCH_MOST_STEPS) in which each makes one. Returns the
 * median of the f32 peak of a core, operations a second. */
double bench_steps_run(bench_contender *contenders, int count, int rounds, const gp_tensor *inputs,
                       const gp_tensor *targets);

#endif
