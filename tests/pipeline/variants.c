#include "variants.h"

#include <stdio.h>

#include "base/memory.h"

typedef struct variant {
    size_t stages;
    gp_schedule_kind schedule;
    gp_recompute recompute;
    gp_granularity granularity;
} variant;

static void assert_variant(const gp_engine_options *common, const variant *v, int steps, double clip,
                           const float *expected, double expected_loss) {
    char what[160];
    double loss;
    size_t count;
    gp_engine_options options = *common;
    options.stages = v->stages;
    options.schedule = v->schedule;
    options.recompute = v->recompute;
    options.granularity = v->granularity;
    snprintf(what, sizeof what, "K=%zu, %s, recompute %s by %s, %s", v->stages, gp_schedule_kind_name(v->schedule),
             gp_recompute_name(v->recompute), v->granularity == GP_GRANULARITY_LAYER ? "layer" : "stage",
             gp_dtype_name(options.precision));
    float *weights = test_train(&options, options.batch, steps, clip, &loss, &count);
    test_assert_same(expected, weights, count, what);
    if (loss != expected_loss) fail_msg("%s: the loss is %.17g instead of %.17g", what, loss, expected_loss);
    gp_free(weights);
}

void test_all_variants(const gp_engine_options *common, const size_t *partitions, size_t partition_count, int steps,
                       double clip) {
    double loss;
    size_t count;
    gp_engine_options options = *common;
    options.stages = 1;
    options.schedule = GP_SCHEDULE_GPIPE;
    options.recompute = GP_RECOMPUTE_NEVER;
    float *expected = test_train(&options, options.batch, steps, clip, &loss, &count);
    for (size_t k = 0; k < partition_count; k++)
        for (int schedule = 0; schedule < 3; schedule++)
            for (int recompute = 0; recompute < 3; recompute++)
                for (int granularity = 0; granularity < 2; granularity++) {
                    variant v = {partitions[k], (gp_schedule_kind)schedule, (gp_recompute)recompute,
                                 (gp_granularity)granularity};
                    if (v.recompute == GP_RECOMPUTE_NEVER && v.granularity == GP_GRANULARITY_LAYER) continue;
                    assert_variant(&options, &v, steps, clip, expected, loss);
                }
    gp_free(expected);
}
