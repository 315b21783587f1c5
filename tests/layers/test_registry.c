/* Built-in layers by name: the table, options and what is said about wrong ones. */
#include "layers/build_models.h"

static gp_status try_layer(const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    gp_status status = gp_layer_create_builtin(&layer, kind, options, count, NULL, 0);
    if (status != GP_OK) assert_null(layer);
    gp_layer_destroy(layer);
    return status;
}

static void test_table(void **state) {
    (void)state;
    size_t count = 0;
    const gp_layer_info *kinds = gp_layer_kinds(&count);
    assert_true(count >= 20);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(kinds[i].help) > 0);
        for (size_t j = 0; j < kinds[i].option_count; j++) {
            assert_true(strlen(kinds[i].options[j].key) > 0);
            assert_true(strlen(kinds[i].options[j].help) > 0);
        }
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(kinds[i].kind, kinds[j].kind);
    }
}

/* The kind of an instance is the name that it was asked for by; defaults of the table are accepted by the layer itself.
 */
static void test_kinds(void **state) {
    (void)state;
    size_t count = 0;
    const gp_layer_info *kinds = gp_layer_kinds(&count);
    for (size_t i = 0; i < count; i++) {
        gp_option options[16];
        size_t given = 0;
        for (size_t j = 0; j < kinds[i].option_count; j++) {
            const gp_option_info *info = &kinds[i].options[j];
            if (info->default_text) continue;
            options[given++] =
                (gp_option){.key = info->key, .type = info->type, .integer = 1, .number = 1, .text = "1"};
        }
        gp_layer *children[1] = {NULL};
        if (kinds[i].container) children[0] = layer_of("relu", NO_OPTIONS);
        gp_layer *layer = NULL;
        assert_ok(gp_layer_create_builtin(&layer, kinds[i].kind, options, given, children, kinds[i].container));
        assert_string_equal(gp_layer_kind(layer), kinds[i].kind);
        gp_layer_destroy(layer);
        if (given == 0) continue;
        assert_message(try_layer(kinds[i].kind, NO_OPTIONS), GP_INVALID, options[0].key);
    }
}

static void test_nearest(void **state) {
    (void)state;
    assert_message(try_layer("liner", NO_OPTIONS), GP_INVALID,
                   "there is no layer \"liner\"; the nearest one is \"linear\"");
    assert_message(try_layer("linear", OPTIONS(INTEGER("featrues", 3))), GP_INVALID,
                   "layer linear has no option \"featrues\"; the nearest one is \"features\"");
    assert_message(try_layer("relu", OPTIONS(INTEGER("slope", 3))), GP_INVALID, "layer relu takes no options");
    assert_message(try_layer("gelu", OPTIONS(TEXT("approximate", "tan"))), GP_INVALID,
                   "the nearest accepted one is \"tanh\"");
    assert_message(try_layer("transformer", OPTIONS(INTEGER("heads", 1), TEXT("norm", "rmsnorm"))), GP_INVALID,
                   "\"rms_norm\"");
    assert_message(try_layer("positions", OPTIONS(TEXT("kind", "sinus"))), GP_INVALID, "\"sinusoidal\"");
}

static void test_types(void **state) {
    (void)state;
    assert_message(try_layer("linear", OPTIONS(TEXT("features", "many"))), GP_INVALID,
                   "is a text, but an integer is accepted");
    assert_message(try_layer("linear", OPTIONS(NUMBER("features", 3))), GP_INVALID, "is a number, but an integer");
    assert_message(try_layer("linear", OPTIONS(INTEGER("features", 3), INTEGER("bias", 1))), GP_INVALID,
                   "true or false");
    assert_message(try_layer("linear", OPTIONS(INTEGER("features", 3), INTEGER("features", 3))), GP_INVALID,
                   "given twice");
    assert_message(try_layer("keep", OPTIONS({.key = "name", .type = GP_OPTION_TEXT})), GP_INVALID, "name");
    assert_ok(try_layer("dropout", OPTIONS(INTEGER("p", 0)))); /* integers serve as numbers */
}

static void test_ranges(void **state) {
    (void)state;
    assert_message(try_layer("linear", OPTIONS(INTEGER("features", 0))), GP_INVALID,
                   "\"features\" of layer linear is 0, but 1 to");
    assert_message(try_layer("linear", OPTIONS(INTEGER("features", INT64_MAX))), GP_INVALID, "features");
    assert_message(try_layer("dropout", OPTIONS(NUMBER("p", 1))), GP_INVALID, "less than 1");
    assert_message(try_layer("dropout", OPTIONS(NUMBER("p", -0.1))), GP_INVALID, "-0.1");
    assert_message(try_layer("dropout", OPTIONS(NUMBER("p", strtod("nan", NULL)))), GP_INVALID, "nan");
    assert_message(try_layer("attention", OPTIONS(INTEGER("heads", 0))), GP_INVALID, "heads");
    assert_message(try_layer("transformer", OPTIONS(INTEGER("heads", -1))), GP_INVALID,
                   "layer transformer: option \"heads\"");
    assert_message(try_layer("layer_norm", OPTIONS(NUMBER("epsilon", -1))), GP_INVALID, "epsilon");
    assert_message(try_layer("mean", OPTIONS(INTEGER("axis", 0))), GP_INVALID, "batch");
    assert_message(try_layer("mean", OPTIONS(INTEGER("axis", 6))), GP_INVALID, "axis");
    assert_message(try_layer("concatenate_kept", OPTIONS(TEXT("name", "a"), INTEGER("axis", 0))), GP_INVALID, "batch");
    assert_message(try_layer("keep", OPTIONS(TEXT("name", ""))), GP_INVALID, "empty");
    const char *shapes[] = {"", "a", "1,", ",1", "1 1", "0", "-2", "-1,-1", "1,1,1,1,1,1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_message(try_layer("reshape", OPTIONS(TEXT("shape", shapes[i]))), GP_INVALID, "shape");
    assert_ok(try_layer("reshape", OPTIONS(TEXT("shape", "2, 3 ,-1,5,6"))));
}

static void test_children(void **state) {
    (void)state;
    gp_layer *layer = NULL, *child = layer_of("relu", NO_OPTIONS);
    assert_message(gp_layer_create_builtin(&layer, "linear", OPTIONS(INTEGER("features", 3)), &child, 1), GP_INVALID,
                   "takes no layers inside");
    assert_message(try_layer("residual", NO_OPTIONS), GP_INVALID, "needs at least one layer inside");
    child = layer_of("relu", NO_OPTIONS);
    assert_message(gp_layer_create_builtin(&layer, "sequential", OPTIONS(INTEGER("times", 3)), &child, 1), GP_INVALID,
                   "takes no options");
    gp_layer *children[] = {layer_of("relu", NO_OPTIONS), NULL};
    assert_message(gp_layer_create_builtin(&layer, "sequential", NULL, 0, children, 2), GP_INVALID,
                   "layer 1 inside is missing");
}

static int destroyed;

static void count_destroyed(void *self) {
    (void)self;
    destroyed++;
}

static gp_value pass(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)builder;
    return input;
}

static void test_own_class(void **state) {
    (void)state;
    const gp_layer_class good = {.size = sizeof good, .kind = "good", .forward = pass, .destroy = count_destroyed};
    gp_layer_class bad = good;
    bad.forward = NULL;
    gp_layer *layer = NULL;
    destroyed = 0;
    assert_message(gp_layer_create(&layer, &bad, NULL), GP_INVALID, "forward");
    assert_null(layer);
    assert_int_equal(destroyed, 1);
    assert_ok(gp_layer_create(&layer, &good, NULL));
    assert_string_equal(gp_layer_kind(layer), "good");
    gp_layer_destroy(layer);
    assert_int_equal(destroyed, 2);
    gp_layer_destroy(NULL);
    /* a container takes the layers inside over, also on error */
    assert_ok(gp_layer_create(&layer, &good, NULL));
    gp_layer *outer = NULL;
    assert_int_equal(gp_layer_create_builtin(&outer, "resdual", NULL, 0, &layer, 1), GP_INVALID);
    assert_int_equal(destroyed, 3);
    assert_ok(gp_layer_create(&layer, &good, NULL));
    assert_ok(gp_layer_create_builtin(&outer, "residual", NULL, 0, &layer, 1));
    gp_layer_destroy(outer);
    assert_int_equal(destroyed, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),     cmocka_unit_test(test_kinds),  cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_types),     cmocka_unit_test(test_ranges), cmocka_unit_test(test_children),
        cmocka_unit_test(test_own_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
