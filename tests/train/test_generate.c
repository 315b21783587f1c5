/* Generation through the public API: the same tokens whatever the partitions, stopping, options out of range. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpipe/gpipe.h"

enum { VOCABULARY = 11, MOST = 16 };

typedef struct tokens {
    int32_t ids[MOST];
    int count, most;
} tokens;

static bool take(void *user, int32_t token) {
    tokens *taken = user;
    taken->ids[taken->count++] = token;
    return taken->count < taken->most;
}

static gp_model *small_model(void) {
    gp_model *model = NULL;
    gp_gpt2_options options = {.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = VOCABULARY};
    assert_int_equal(gp_model_create_gpt2(&model, &options), GP_OK);
    return model;
}

static gp_trainer *trainer_of(const gp_model *model, int partitions) {
    gp_trainer *trainer = NULL;
    gp_pipeline_options pipeline = {.partitions = partitions, .balance = GP_BALANCE_PARAMETERS, .seed = 3};
    assert_int_equal(gp_trainer_create(&trainer, model, &pipeline, NULL, 0), GP_OK);
    return trainer;
}

static tokens generate(int partitions, const gp_generate_options *options, int64_t count, int most) {
    tokens taken = {.most = most};
    gp_model *model = small_model();
    gp_trainer *trainer = trainer_of(model, partitions);
    assert_int_equal(gp_trainer_generate(trainer, (int32_t[]){1, 2}, 2, count, options, take, &taken), GP_OK);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    for (int i = 0; i < taken.count; i++) {
        assert_in_range(taken.ids[i], 0, VOCABULARY - 1);
    }
    return taken;
}

static void assert_same(tokens a, tokens b) {
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.ids, b.ids, sizeof a.ids);
}

static void test_partitions(void **state) {
    (void)state;
    gp_generate_options options = {.temperature = 1, .seed = 5};
    tokens one = generate(1, &options, 12, MOST);
    assert_int_equal(one.count, 12);
    assert_same(one, generate(2, &options, 12, MOST));
    options.seed = 6;
    tokens other = generate(1, &options, 12, MOST);
    assert_memory_not_equal(one.ids, other.ids, sizeof one.ids);
}

static void test_likeliest(void **state) {
    (void)state;
    tokens likeliest = generate(1, NULL, 8, MOST);
    assert_same(likeliest, generate(1, &(gp_generate_options){.temperature = 1, .top_k = 1, .seed = 9}, 8, MOST));
    assert_same(likeliest, generate(1, &(gp_generate_options){.temperature = 1, .top_p = 1e-9, .seed = 9}, 8, MOST));
}

static void test_stopping(void **state) {
    (void)state;
    assert_int_equal(generate(1, NULL, 12, 3).count, 3);
    assert_int_equal(generate(1, NULL, 0, 3).count, 0);
}

static void test_refusals(void **state) {
    (void)state;
    const struct {
        gp_generate_options options;
        const char *message;
    } wrong[] = {
        {{.temperature = -1}, "temperature is -1; 0 or more is accepted"},
        {{.temperature = (double)NAN}, "temperature is"},
        {{.top_k = -2}, "top_k is -2; 0 (all) or more is accepted"},
        {{.top_p = 1.5}, "top_p is 1.5; a probability from 0 (all) to 1 is accepted"},
        {{.size = 3}, "gp_generate_options.size is 3"},
    };
    tokens taken = {.most = MOST};
    gp_model *model = small_model();
    gp_trainer *trainer = trainer_of(model, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(gp_trainer_generate(trainer, (int32_t[]){1}, 1, 4, &wrong[i].options, take, &taken),
                         GP_INVALID);
        assert_non_null(strstr(gp_error_message(), wrong[i].message));
    }
    assert_int_equal(gp_trainer_generate(trainer, (int32_t[]){VOCABULARY}, 1, 4, NULL, take, &taken), GP_INVALID);
    assert_int_equal(gp_trainer_generate(trainer, NULL, 0, 4, NULL, take, &taken), GP_INVALID);
    assert_int_equal(taken.count, 0);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_likeliest),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
