/* The engine over processes that MPI started: the same bits as threads, whatever the grid, for every schedule and
 * recompute mode; errors and NaN are told alike by all processes. Started with 2, 3 or 4 ranks. */
#include "support.h"
#include "together.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/cluster.h"

enum { BATCH = 7, MICRO_BATCHES = 2, STEPS = 20 };

typedef struct grid {
    int ranks;
    size_t stages;
    int replicas;
} grid;

/* The workers of a rank are its threads. */
static const grid grids[] = {{2, 2, 1}, {2, 1, 2}, {2, 2, 2}, {2, 4, 1}, {3, 3, 1}, {3, 1, 3},
                             {3, 3, 2}, {4, 4, 1}, {4, 2, 2}, {4, 1, 4}, {4, 4, 2}};
enum { GRIDS = sizeof grids / sizeof *grids };

/* ---- same bits ---- */

/* What one process makes of it with threads is compared with what all make of it together. */
static void compare(gp_engine_options options, int steps, const char *what) {
    double loss, other_loss;
    size_t count;
    options.cluster = NULL;
    float *expected = test_train(&options, BATCH, steps, 1.0, &loss, &count);
    options.cluster = cluster;
    float *found = test_train(&options, BATCH, steps, 1.0, &other_loss, &count);
    test_assert_same(expected, found, count, what);
    if (loss != other_loss) fail_msg("%s: the loss is %.17g instead of %.17g", what, other_loss, loss);
    gp_free(expected);
    gp_free(found);
}

static void compare_grids(const gp_model *model, int steps, bool all_modes) {
    for (int g = 0; g < GRIDS; g++) {
        if (grids[g].ranks != gp_cluster_ranks(cluster)) continue;
        for (int variant = 0; variant < (all_modes ? 9 : 2); variant++) {
            char what[96];
            gp_engine_options options = test_options(model, grids[g].stages, BATCH, MICRO_BATCHES);
            options.replicas = grids[g].replicas;
            options.schedule = (gp_schedule_kind)(variant % 3);
            options.recompute = (gp_recompute)(variant / 3);
            options.granularity = variant % 2 ? GP_GRANULARITY_LAYER : GP_GRANULARITY_STAGE;
            options.precision = (variant + g) % 2 ? GP_BF16 : GP_F32;
            options.shard_optimizer = variant % 2 == 1;
            if (options.recompute == GP_RECOMPUTE_NEVER) options.granularity = GP_GRANULARITY_STAGE;
            snprintf(what, sizeof what, "K=%zu, D=%d, variant %d", grids[g].stages, grids[g].replicas, variant);
            compare(options, steps, what);
        }
    }
}

/* Dropout, a tied head, clipping. */
static void gpt_has_the_same_bits(void **state) {
    (void)state;
    gp_model *model = test_gpt(6, 0.1, false);
    compare_grids(model, STEPS, true);
    gp_model_destroy(model);
}

/* Matrices that are cut between replicas, packed weights; a weight of many stages; skips over stages. */
static void other_models_have_the_same_bits(void **state) {
    (void)state;
    gp_model *models[] = {test_wide_gpt(4), test_shared(8, 70), test_skips(8, 6, (int[]){1, 3, 5, 6, -1})};
    for (int m = 0; m < 3; m++) {
        compare_grids(models[m], 3, false);
        gp_model_destroy(models[m]);
    }
}

/* ---- what else an engine does ---- */

static grid own_grid(void) {
    int g = 0;
    while (grids[g].ranks != gp_cluster_ranks(cluster))
        g++;
    return grids[g];
}

static gp_engine *create(gp_engine_options options, bool together) {
    gp_engine *engine;
    options.cluster = together ? cluster : NULL;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 42));
    assert_ok(gp_cluster_agree(cluster, GP_OK)); /* nobody fails before all are here */
    return engine;
}

static void evaluation_output_and_gradients_are_the_same(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0.1, false);
    double loss[2], weight[2], messages[2] = {0}, bytes[2] = {0};
    size_t links[2];
    float outputs[2][2 * 4 * 11];
    float *gradients[2];
    size_t count;
    for (int together = 0; together < 2; together++) {
        gp_engine_options options = test_options(model, own_grid().stages, 4, 1);
        gp_engine *engine = create(options, together);
        gp_step_result result;
        gp_batch batch;
        test_batch_create(&batch, model, 2, 9);
        assert_ok(gp_engine_evaluate(engine, &batch, &loss[together], &weight[together]));
        gp_tensor logits = {.type = {GP_F32, gp_shape_of(3, (int64_t[]){2, 4, 11})}, .data = outputs[together]};
        assert_ok(gp_engine_forward(engine, &batch.inputs, &logits));
        assert_ok(gp_engine_gradients(engine, &batch, 0, &result));
        gradients[together] = test_read_all(engine, model, true, &count);
        assert_true(result.span > 0 && result.bubble >= 0 && result.bubble < 1);
        for (size_t w = 0; w < own_grid().stages; w++)
            assert_true(result.workers[w].forward > 0);
        links[together] = result.link_count;
        for (size_t i = 0; i < result.link_count; i++) {
            messages[together] += result.links[i].messages;
            bytes[together] += result.links[i].bytes;
            assert_true(result.links[i].transfer >= 0 && result.links[i].transfer < 60);
        }
        assert_ok(gp_engine_gather_traces(engine));
        for (size_t w = 0; w < own_grid().stages; w++) {
            size_t entries;
            assert_non_null(gp_engine_trace(engine, w, &entries));
            assert_true(entries >= 2);
        }
        test_batch_destroy(&batch);
        gp_engine_destroy(engine);
    }
    assert_true(loss[0] == loss[1] && weight[0] == weight[1]);
    assert_true(links[0] == links[1] && messages[0] == messages[1] && bytes[0] == bytes[1]);
    assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
    test_assert_same(gradients[0], gradients[1], count, "gradients");
    gp_free(gradients[0]);
    gp_free(gradients[1]);
    gp_model_destroy(model);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    gp_model *model = test_wide_gpt(4);
    gp_engine_options options = test_options(model, own_grid().stages, BATCH, MICRO_BATCHES);
    gp_engine *engine = create(options, true);
    gp_batch batch;
    gp_step_result result;
    uint64_t before = 0;
    test_batch_create(&batch, model, BATCH, 3);
    for (uint32_t s = 0; s < 4; s++) {
        gp_step_options step = test_step_options(s, 1.0);
        if (s == 2) before = gp_allocation_count();
        assert_ok(gp_engine_step(engine, &batch, &step, &result));
    }
    assert_int_equal(gp_allocation_count(), before);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

/* ---- when something is wrong ---- */

typedef struct culprit {
    int layer;
    bool fails;
} culprit;

static gp_status misbehave(void *user, int layer, float *values, int64_t count) {
    const culprit *b = user;
    if (layer != b->layer) return GP_OK;
    if (b->fails) return gp_error(GP_FAILED, "the operation was told to fail");
    values[count / 2] = nanf("");
    return GP_OK;
}

/* Wherever it is: every process gets the same sentence, with rank, host, stage and layer, and the next engine works. */
static void a_failure_is_told_alike_everywhere(void **state) {
    (void)state;
    gp_model *model = test_hooked(8, 4);
    for (int layer = 0; layer < 8; layer += 7) {
        culprit b = {.layer = layer, .fails = true};
        gp_engine_options options = test_options(model, own_grid().stages, 4, 2);
        gp_engine *engine = create(options, true);
        gp_step_options step = test_step_options(0, 1.0);
        gp_step_result result;
        gp_batch batch;
        char mine[600], first[600], place[64];
        test_batch_create(&batch, model, 4, 0);
        test_set_hook(misbehave, &b);
        assert_int_equal(gp_engine_step(engine, &batch, &step, &result), GP_FAILED);
        snprintf(mine, sizeof mine, "%s", gp_error_message());
        snprintf(place, sizeof place, "layer %d (small), hooked: the operation was told to fail", layer);
        assert_non_null(strstr(mine, place));
        assert_non_null(strstr(mine, layer == 0 ? "rank 0 (host " : "rank "));
        assert_non_null(strstr(mine, "micro-batch 0"));
        test_set_hook(NULL, NULL);
        gp_engine_destroy(engine);
        snprintf(first, sizeof first, "%s", mine);
        assert_ok(gp_cluster_share(cluster, 0, first, sizeof first));
        assert_string_equal(mine, first);
        test_batch_destroy(&batch);
    }
    gp_engine_destroy(create(test_options(model, own_grid().stages, 4, 2), true));
    gp_model_destroy(model);
}

static void nan_is_told_alike_and_skipped(void **state) {
    (void)state;
    gp_model *model = test_hooked(8, 4);
    culprit b = {.layer = 7};
    gp_engine *engine = create(test_options(model, own_grid().stages, 4, 2), true);
    gp_step_options step = test_step_options(0, 1.0);
    gp_step_result result;
    gp_batch batch;
    size_t count;
    float *before = test_read_all(engine, model, false, &count);
    test_batch_create(&batch, model, 4, 0);
    test_set_hook(misbehave, &b);
    assert_ok(gp_engine_step(engine, &batch, &step, &result));
    test_set_hook(NULL, NULL);
    assert_false(result.finite);
    assert_string_equal(result.fault, "layer 7 (small), forward of hooked, micro-batch 0");
    float *after = test_read_all(engine, model, false, &count);
    test_assert_same(before, after, count, "weights after a step that is not finite");
    assert_ok(gp_engine_step(engine, &batch, &step, &result));
    assert_true(result.finite);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_free(before);
    gp_free(after);
    gp_model_destroy(model);
}

static void give_up(const gp_model *model) {
    gp_engine *engine = create(test_options(model, own_grid().stages, 4, 2), true);
    gp_step_options step = test_step_options(0, 1.0);
    gp_step_result result;
    gp_batch batch;
    gp_status status;
    int last = gp_cluster_ranks(cluster) - 1;
    test_batch_create(&batch, model, 4, 0);
    if (gp_cluster_rank(cluster) == last)
        status = gp_engine_fail(engine, gp_error(GP_IO, "the disk is gone"));
    else
        status = gp_engine_step(engine, &batch, &step, &result);
    assert_int_equal(status, GP_IO);
    assert_non_null(strstr(gp_error_message(), "the disk is gone"));
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
}

/* A process that cannot go on ends the step of the others, whose messages may still be under way to it when its engine
 * goes: each time others. */
static void one_process_gives_up(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0, false);
    for (int i = 0; i < 8; i++)
        give_up(model);
    gp_model_destroy(model);
}

static void workers_must_spread_evenly(void **state) {
    (void)state;
    gp_model *model = test_gpt(6, 0, false);
    gp_engine *engine;
    gp_engine_options options = test_options(model, (size_t)gp_cluster_ranks(cluster) + 1, 4, 2);
    options.cluster = cluster;
    assert_int_equal(gp_engine_create(&engine, &options), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "cannot be spread evenly over"));
    gp_model_destroy(model);
}

int main(void) {
    if (!together_begin()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_has_the_same_bits),
        cmocka_unit_test(other_models_have_the_same_bits),
        cmocka_unit_test(evaluation_output_and_gradients_are_the_same),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_failure_is_told_alike_everywhere),
        cmocka_unit_test(nan_is_told_alike_and_skipped),
        cmocka_unit_test(one_process_gives_up),
        cmocka_unit_test(workers_must_spread_evenly),
    };
    return together_end(cmocka_run_group_tests(tests, NULL, NULL));
}
