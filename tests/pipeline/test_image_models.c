/* The same bits for networks of images from the zoo: batch norm's moving averages, drop-path that grows, an auxiliary
 * output, long skips; a batch that the micro-batches do not divide. With GPIPE_TEST_LONG=1 in the environment also
 * AmoebaNet-D (6,32) on images of 32 x 32 for ten steps, which takes minutes. */
#include "variants.h"

#include <stdlib.h>

#define INTEGER(name, value)                                                                                           \
    { .key = name, .type = GP_OPTION_INTEGER, .integer = value }
#define TEXT(name, value)                                                                                              \
    { .key = name, .type = GP_OPTION_TEXT, .text = value }
#define NUMBER(name, value)                                                                                            \
    { .key = name, .type = GP_OPTION_NUMBER, .number = value }

static void check(const char *name, const gp_option *options, size_t option_count, const size_t *partitions,
                  size_t partition_count, gp_dtype precision) {
    gp_model *model;
    assert_ok(gp_model_create_named(&model, name, options, option_count, NULL));
    gp_engine_options engine = test_options(model, 1, 5, 3);
    engine.precision = precision;
    engine.steps = 6;
    test_all_variants(&engine, partitions, partition_count, 2, 1.0);
    gp_model_destroy(model);
}

static void amoebanet(void **state) {
    (void)state;
    static const size_t partitions[] = {2, 4};
    const gp_option options[] = {INTEGER("layers", 3), INTEGER("filters", 16),   INTEGER("classes", 5),
                                 INTEGER("image", 16), NUMBER("drop_path", 0.4), NUMBER("auxiliary", 0.4)};
    check("amoebanet_d", options, sizeof options / sizeof *options, partitions, 2, GP_F32);
}

static void amoebanet_for_long(void **state) {
    (void)state;
    static const size_t partitions[] = {1, 2, 4};
    const gp_option options[] = {INTEGER("layers", 6), INTEGER("filters", 32),   INTEGER("classes", 10),
                                 INTEGER("image", 32), NUMBER("drop_path", 0.4), NUMBER("auxiliary", 0.4),
                                 TEXT("stem", "cifar")};
    gp_model *model;
    if (!getenv("GPIPE_TEST_LONG")) skip();
    assert_ok(gp_model_create_named(&model, "amoebanet_d", options, sizeof options / sizeof *options, NULL));
    gp_engine_options engine = test_options(model, 1, 10, 4);
    engine.steps = 12;
    test_all_variants(&engine, partitions, 3, 10, 1.0);
    gp_model_destroy(model);
}

static void resnet(void **state) {
    (void)state;
    static const size_t partitions[] = {2, 3};
    const gp_option options[] = {INTEGER("depth", 8), INTEGER("width", 4), INTEGER("classes", 5), INTEGER("image", 8)};
    check("resnet_cifar", options, sizeof options / sizeof *options, partitions, 2, GP_BF16);
}

static void unet(void **state) {
    (void)state;
    static const size_t partitions[] = {2, 4};
    const gp_option options[] = {INTEGER("depth", 2), INTEGER("channels", 3), INTEGER("levels", 2),
                                 INTEGER("image", 8)};
    check("unet", options, sizeof options / sizeof *options, partitions, 2, GP_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(amoebanet), cmocka_unit_test(amoebanet_for_long),
                                       cmocka_unit_test(resnet), cmocka_unit_test(unet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
