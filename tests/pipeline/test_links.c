/* What a step tells of the messages between workers: how many, how long, between whom; for stages, replicas, skips,
 * with evaluations in between and steps that are run twice. */
#include <math.h>

#include "pipeline/support.h"

enum { SAMPLES = 6, MICRO_BATCHES = 3 };

static gp_step_result step(gp_engine *engine, const gp_batch *batch, uint32_t number) {
    gp_step_result result;
    gp_step_options options = test_step_options(number, 1.0);
    assert_ok(gp_engine_step(engine, batch, &options, &result));
    return result;
}

/* The figures of a step whose every link carried a message of each micro-batch. */
static void check_links(const gp_step_result *result, const gp_engine_options *options, size_t count) {
    int stages = (int)options->stages, workers = stages * options->replicas;
    double micro_batches = MICRO_BATCHES, exposed[16] = {0};
    assert_int_equal(result->link_count, count);
    for (size_t i = 0; i < result->link_count; i++) {
        const gp_link_times *link = &result->links[i];
        assert_in_range(link->from, 0, workers - 1);
        assert_in_range(link->to, 0, workers - 1);
        assert_int_equal(link->from / stages, link->to / stages); /* of one replica */
        assert_true(link->gradients ? link->from > link->to : link->from < link->to);
        assert_true(link->messages == micro_batches);
        assert_true(link->bytes > 0 && fmod(link->bytes, micro_batches) == 0);
        assert_true(link->transfer >= 0 && link->exposed >= 0);
        exposed[link->to] += link->exposed;
    }
    for (int w = 0; w < workers; w++) {
        const gp_worker_times *times = &result->workers[w];
        assert_true(fabs(times->communication - exposed[w]) <= 1e-12);
        assert_true(times->blocked >= 0 && times->communication + times->blocked <= times->wait + 1e-6);
    }
}

static void check(const gp_model *model, size_t stages, int replicas, size_t count) {
    gp_engine_options options = test_options(model, stages, SAMPLES * replicas, MICRO_BATCHES);
    gp_engine *engine;
    gp_batch batch;
    double loss, weight, bytes = 0, again = 0;
    options.replicas = replicas;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 5));
    assert_true(gp_engine_most_links(engine) >= count);
    test_batch_create(&batch, model, SAMPLES * replicas, 3);
    for (uint32_t s = 0; s < 3; s++) {
        gp_step_result result = step(engine, &batch, s);
        check_links(&result, &options, count);
        for (size_t i = 0; i < count; i++)
            *(s == 0 ? &bytes : &again) += result.links[i].bytes;
        assert_ok(gp_engine_evaluate(engine, &batch, &loss, &weight)); /* its messages count nowhere */
    }
    assert_true(again == 2 * bytes);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
}

static void links_join_neighbours_of_a_replica(void **state) {
    (void)state;
    gp_model *model = test_gpt(4, 0, false);
    for (size_t stages = 1; stages <= 4; stages++)
        for (int replicas = 1; replicas <= 2; replicas++)
            check(model, stages, replicas, 2 * (stages - 1) * (size_t)replicas);
    gp_model_destroy(model);
}

/* Layer 0 is added to layers 3 and 5: stages of two layers send it past their neighbours. */
static void skips_are_links_of_their_own(void **state) {
    (void)state;
    gp_model *model = test_skips(6, 6, (int[]){3, 5, -1});
    check(model, 3, 1, 2 * 3);
    gp_model_destroy(model);
}

static gp_status make_nan(void *user, int layer, float *values, int64_t count) {
    if (layer == *(int *)user) values[count / 2] = nanf("");
    return GP_OK;
}

/* The second run, which looks for where it began, sends everything again. */
static void a_step_that_is_looked_into_counts_once(void **state) {
    (void)state;
    int layer = 1;
    gp_model *model = test_hooked(4, 8);
    gp_engine_options options = test_options(model, 2, SAMPLES, MICRO_BATCHES);
    gp_engine *engine;
    gp_batch batch;
    options.replicas = 1;
    assert_ok(gp_engine_create(&engine, &options));
    assert_ok(gp_engine_initialise(engine, 5));
    test_batch_create(&batch, model, SAMPLES, 3);
    test_set_hook(make_nan, &layer);
    gp_step_result result = step(engine, &batch, 0);
    test_set_hook(NULL, NULL);
    assert_false(result.finite);
    check_links(&result, &options, 2);
    result = step(engine, &batch, 1);
    assert_true(result.finite);
    check_links(&result, &options, 2);
    test_batch_destroy(&batch);
    gp_engine_destroy(engine);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_join_neighbours_of_a_replica),
        cmocka_unit_test(skips_are_links_of_their_own),
        cmocka_unit_test(a_step_that_is_looked_into_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
