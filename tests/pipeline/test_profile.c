/* Profiles: of layers that cost the same one is measured, wherever they are, and whoever waits is told which. */
#include "variants.h"

#include <string.h>

#include "pipeline/alike.h"

static gp_layer *layer_of(const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer;
    assert_ok(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    return layer;
}

static gp_option number(const char *key, int64_t value) {
    return (gp_option){.key = key, .type = GP_OPTION_INTEGER, .integer = value};
}

static gp_model *empty(gp_shape sample) {
    gp_model *model;
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    assert_ok(gp_model_create(&model, (gp_type){GP_F32, sample}));
    assert_ok(gp_model_set_loss(model, &loss));
    return model;
}

static void add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    assert_ok(gp_model_add(model, layer_of(kind, options, count)));
}

/* 0 linear, 1 relu, 2 linear, 3 relu, 4 a narrower linear, 5 a narrower relu, 6 linear, all of the same width but
 * those. */
static gp_model *alternating(void) {
    enum { WIDE = 12, NARROW = 6 };
    gp_model *model = empty(gp_shape_of(1, (int64_t[]){WIDE}));
    const int64_t widths[] = {WIDE, WIDE, NARROW};
    for (int i = 0; i < 3; i++) {
        gp_option features = number("features", widths[i]);
        add(model, "linear", &features, 1);
        add(model, "relu", NULL, 0);
    }
    gp_option features = number("features", WIDE);
    add(model, "linear", &features, 1);
    assert_ok(gp_model_finish(model));
    return model;
}

static void layers_apart_are_alike(void **state) {
    (void)state;
    gp_model *model = alternating();
    size_t first[7];
    const size_t expected[] = {0, 1, 2, 1, 4, 5, 6}; /* the first and the last are like no other */
    gp_layers_alike(model, first);
    for (int i = 0; i < 7; i++)
        assert_int_equal(expected[i], first[i]);
    gp_model_destroy(model);
}

/* As many numbers, no parameters, but other shapes. */
static void other_shapes_are_not_alike(void **state) {
    (void)state;
    gp_model *model = empty(gp_shape_of(3, (int64_t[]){8, 8, 4}));
    gp_option convolution[] = {number("channels", 16), number("kernel", 1), number("stride", 2)};
    gp_option first_convolution[] = {number("channels", 4), number("kernel", 1)};
    add(model, "conv2d", first_convolution, 2);
    add(model, "relu", NULL, 0);
    add(model, "relu", NULL, 0);
    add(model, "conv2d", convolution, 3);
    add(model, "relu", NULL, 0);
    add(model, "global_average_pool", NULL, 0);
    assert_ok(gp_model_finish(model));
    size_t first[6];
    gp_layers_alike(model, first);
    assert_true(gp_model_layer_flops(model, 4) == gp_model_layer_flops(model, 2));
    assert_int_equal(1, first[2]);
    assert_int_equal(4, first[4]);
    gp_model_destroy(model);
}

typedef struct told {
    size_t layers[8], count;
    bool kinds_are_right;
    const gp_model *model;
} told;

static void hear(void *user, size_t layer, size_t layers, const char *kind) {
    told *t = user;
    const char *right = layer < layers ? gp_model_layer_kind(t->model, layer) : "";
    t->kinds_are_right = t->kinds_are_right && layers == 7 && strcmp(kind, right) == 0;
    if (t->count < 8) t->layers[t->count++] = layer;
}

static void one_of_each_is_measured(void **state) {
    (void)state;
    gp_model *model = alternating();
    told t = {.model = model, .kinds_are_right = true};
    gp_engine_options options = test_options(model, 1, 4, 2);
    gp_stage_times times[7];
    options.measuring = hear;
    options.measuring_user = &t;
    assert_ok(gp_engine_profile(&options, times));
    const size_t expected[] = {0, 1, 2, 4, 5, 6, 7};
    assert_int_equal(7, t.count);
    assert_true(t.kinds_are_right);
    for (size_t i = 0; i < t.count; i++)
        assert_int_equal(expected[i], t.layers[i]);
    assert_true(times[3].forward == times[1].forward && times[3].backward == times[1].backward);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_apart_are_alike),
        cmocka_unit_test(other_shapes_are_not_alike),
        cmocka_unit_test(one_of_each_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
