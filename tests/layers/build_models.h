/* Short ways to write models in tests. All of them fail the test on an error. */
#ifndef GP_TESTS_LAYERS_BUILD_MODELS_H
#define GP_TESTS_LAYERS_BUILD_MODELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/model.h"

#define INTEGER(name, value)                                                                                           \
    { .key = name, .type = GP_OPTION_INTEGER, .integer = value }
#define NUMBER(name, value)                                                                                            \
    { .key = name, .type = GP_OPTION_NUMBER, .number = value }
#define BOOLEAN(name, value)                                                                                           \
    { .key = name, .type = GP_OPTION_BOOLEAN, .integer = value }
#define TEXT(name, value)                                                                                              \
    { .key = name, .type = GP_OPTION_TEXT, .text = value }
/* The options of a layer as two arguments. */
#define OPTIONS(...) (const gp_option[]){__VA_ARGS__}, sizeof((const gp_option[]){__VA_ARGS__}) / sizeof(gp_option)
#define NO_OPTIONS   NULL, 0

static inline void assert_ok(gp_status status) {
    if (status != GP_OK) fail_msg("status %d: %s", (int)status, gp_error_message());
}

static inline void assert_message(gp_status status, gp_status expected, const char *part) {
    if (status != expected) fail_msg("status %d instead of %d: %s", (int)status, (int)expected, gp_error_message());
    if (!strstr(gp_error_message(), part)) fail_msg("\"%s\" is not in \"%s\"", part, gp_error_message());
}

static inline gp_type type_of(gp_dtype dtype, int rank, const int64_t *dims) {
    return (gp_type){.dtype = dtype, .shape = gp_shape_of(rank, dims)};
}

static inline void assert_type(gp_type type, const char *text) {
    char own[160];
    assert_string_equal(gp_type_format(type, own, sizeof own), text);
}

static inline gp_model *model_of(gp_type sample) {
    gp_model *model = NULL;
    assert_ok(gp_model_create(&model, sample));
    return model;
}

static inline gp_layer *layer_of(const char *kind, const gp_option *options, size_t count) {
    gp_layer *layer = NULL;
    assert_ok(gp_layer_create_builtin(&layer, kind, options, count, NULL, 0));
    return layer;
}

static inline void add(gp_model *model, const char *kind, const gp_option *options, size_t count) {
    assert_ok(gp_model_add(model, layer_of(kind, options, count)));
}

static inline void add_linear(gp_model *model, int64_t features) {
    add(model, "linear", OPTIONS(INTEGER("features", features)));
}

static inline void add_container(gp_model *model, const char *kind, gp_layer **children, size_t count) {
    gp_layer *layer = NULL;
    assert_ok(gp_layer_create_builtin(&layer, kind, NULL, 0, children, count));
    assert_ok(gp_model_add(model, layer));
}

static inline void use_squared_error(gp_model *model) {
    assert_ok(gp_model_set_loss(model, &(gp_loss){.kind = GP_LOSS_SQUARED_ERROR}));
}

#endif
