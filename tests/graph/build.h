/* How the tests of this folder write graphs: types as text, and the comparison of types and of lists of operations. */
#ifndef GP_TESTS_GRAPH_BUILD_H
#define GP_TESTS_GRAPH_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "graph/graph.h"

/* "f32[2,3]" */
static inline gp_type type_of(const char *text) {
    gp_type type = {.dtype = GP_DTYPE_COUNT};
    size_t length = strcspn(text, "[");
    for (int d = 0; d < GP_DTYPE_COUNT; d++) {
        const char *name = gp_dtype_name((gp_dtype)d);
        if (strlen(name) == length && strncmp(name, text, length) == 0) type.dtype = (gp_dtype)d;
    }
    assert_int_not_equal(type.dtype, GP_DTYPE_COUNT);
    for (const char *at = text + length; *at && *at != ']' && at[1] != ']'; at = strpbrk(at + 1, ",]"))
        type.shape.dims[type.shape.rank++] = strtoll(at + 1, NULL, 10);
    return type;
}

static inline gp_value given(gp_graph *graph, const char *type) {
    return gp_graph_input(graph, type_of(type));
}

static inline gp_value parameter(gp_graph *graph, const char *type) {
    return gp_graph_parameter(graph, type_of(type).shape);
}

static inline void assert_type(gp_value value, const char *expected) {
    char text[160];
    if (!gp_value_valid(value)) print_message("invalid: %s\n", gp_error_message());
    assert_true(gp_value_valid(value));
    assert_string_equal(gp_type_format(gp_value_type(value), text, sizeof text), expected);
}

static inline gp_graph *new_graph(bool training) {
    gp_graph *graph = NULL;
    assert_int_equal(gp_graph_create(&graph, training), GP_OK);
    return graph;
}

/* The names of nodes, separated by blanks. */
static inline void node_names(const gp_graph *graph, const int32_t *nodes, size_t count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *name = graph->nodes[nodes ? nodes[i] : (int32_t)i].op->name;
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", name);
        assert_true(used < size);
    }
}

/* The type of an output of the node that made `value`. */
static inline void assert_output(gp_value value, int position, const char *expected) {
    const gp_graph *g = value.graph;
    const gp_node *node = &g->nodes[g->values[value.index].node];
    assert_true(position < node->output_count);
    assert_type((gp_value){value.graph, node->outputs[position]}, expected);
}

static inline double flops_of(gp_value value) {
    return gp_node_flops(value.graph, value.graph->values[value.index].node);
}

/* Expects that `value` was refused with a message that begins with "op: " and has both types; then forgets the error.
 */
static inline void assert_refused(gp_value value, const char *op, const char *first, const char *second) {
    gp_graph *g = value.graph;
    assert_non_null(g);
    assert_false(gp_value_valid(value));
    assert_int_equal(gp_graph_status(g), GP_INVALID);
    const char *message = gp_error_message();
    size_t length = strlen(op);
    bool good = strncmp(message, op, length) == 0 && message[length] == ':' && strstr(message, first) &&
                (!second || strstr(message, second));
    if (!good) print_message("%s, %s, %s: %s\n", op, first, second ? second : "", message);
    assert_true(good);
    gp_free(g->error);
    g->error = NULL;
    g->status = GP_OK;
}

#endif
