/* Every gradient rule against central differences, in double precision on the reference device: the graph is
 * differentiated, compiled and run as in training; then each element of each input is moved a little both ways. A
 * differentiable operation without a case here fails the test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/status.h"
#include "gradient_cases.h"
#include "program/program.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != GP_OK) fail_msg("%s: %s", #call, gp_error_message());                                            \
    } while (0)

/* ---- checking one ---- */

/* Values in one region, one after the other. */
typedef struct memory {
    gp_placement places[3 * MOST];
    size_t count, bytes;
    unsigned char *data;
} memory;

static gp_placement *place(memory *m, gp_device *device, gp_value value) {
    gp_placement *p = &m->places[m->count++];
    *p = (gp_placement){.value = value.index, .region = 1, .offset = m->bytes};
    m->bytes += (device->class->bytes(gp_value_type(value)) + 63) / 64 * 64;
    return p;
}

static double *doubles(const memory *m, size_t place) {
    return (double *)(void *)(m->data + m->places[place].offset);
}

static void run(const gp_program *program, const memory *m, void *workspace) {
    void *regions[] = {workspace, m->data};
    gp_run how = {.seed = 11, .step = 4, .first_sample = 3, .progress = 0.75};
    assert_ok(gp_program_run(program, 0, regions, &how, NULL));
}

static gp_program *compile(fixture *f, gp_device *device, const memory *m, size_t available, size_t wanted_count) {
    gp_program_desc desc = {.graph = f->graph,
                            .device = device,
                            .available = m->places,
                            .available_count = available,
                            .wanted = m->places + m->count - wanted_count,
                            .wanted_count = wanted_count};
    gp_program *program = NULL;
    assert_ok(gp_program_create(&program, &desc));
    return program;
}

static void fill(const memory *m, size_t place, gp_type type, double low, double high) {
    int64_t count = gp_shape_elements(type.shape);
    char name[32];
    snprintf(name, sizeof name, "operand %zu", place);
    float *drawn = gp_allocate((size_t)count * sizeof *drawn + 4);
    assert_non_null(drawn);
    gp_random_fill_uniform(drawn, count, 2, name);
    for (int64_t i = 0; i < count; i++) {
        double value = low + (high - low) * ((double)drawn[i] + 1.0) / 2.0;
        if (type.dtype == GP_I32) {
            ((int32_t *)(void *)doubles(m, place))[i] = (int32_t)floor(value);
        } else {
            doubles(m, place)[i] = value;
        }
    }
    gp_free(drawn);
}

static double projected(const double *y, const double *dy, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; i++) {
        total += y[i] * dy[i];
    }
    return total;
}

/* Places: inputs 0 .. n - 1, dy n, y n + 1, gradients of the float inputs behind. */
typedef struct check {
    fixture f;
    gp_device *device;
    memory m;
    gp_value y, dy;
    gp_program *forward, *backward;
    void *workspace;
    size_t gradient_place[MOST]; /* 0: none */
} check;

static void prepare(check *c) {
    size_t n = c->f.count, wanted_count = 0;
    gp_value wanted[MOST], gradients[MOST];
    c->dy = gp_graph_input(c->f.graph, gp_value_type(c->y));
    for (size_t i = 0; i < n; i++) {
        place(&c->m, c->device, c->f.inputs[i]);
        if (!c->f.constant[i]) wanted[wanted_count++] = c->f.inputs[i];
    }
    place(&c->m, c->device, c->dy);
    place(&c->m, c->device, c->y);
    assert_ok(gp_graph_gradients(c->f.graph, &c->y, &c->dy, 1, wanted, gradients, wanted_count));
    c->forward = compile(&c->f, c->device, &c->m, n, 1);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (c->f.constant[i]) continue;
        gp_value gradient = gradients[kept++];
        assert_true(gp_value_valid(gradient));
        assert_true(gp_type_equal(gp_value_type(gradient), gp_value_type(c->f.inputs[i])));
        c->gradient_place[i] = c->m.count;
        place(&c->m, c->device, gradient);
    }
    c->backward = compile(&c->f, c->device, &c->m, n + 1, kept);
    size_t bytes = gp_program_workspace(c->forward), more = gp_program_workspace(c->backward);
    c->workspace = gp_allocate(bytes > more ? bytes : more);
    c->m.data = gp_allocate(c->m.bytes);
    assert_true(c->workspace && c->m.data);
}

static double forward_at(const check *c, size_t input, int64_t element, double value) {
    double *x = doubles(&c->m, input);
    double before = x[element];
    x[element] = value;
    run(c->forward, &c->m, c->workspace);
    x[element] = before;
    size_t n = c->f.count;
    return projected(doubles(&c->m, n + 1), doubles(&c->m, n), gp_shape_elements(gp_value_type(c->y).shape));
}

/* The gradient of one input, element by element, against differences: relative error of the whole. */
static double error_of_input(const check *c, size_t input) {
    const double *gradient = doubles(&c->m, c->gradient_place[input]);
    double error = 0.0, norm = 0.0, step = 1e-5;
    for (int64_t e = 0; e < gp_shape_elements(gp_value_type(c->f.inputs[input]).shape); e++) {
        double x = doubles(&c->m, input)[e];
        double slope = (forward_at(c, input, e, x + step) - forward_at(c, input, e, x - step)) / (2.0 * step);
        error += (gradient[e] - slope) * (gradient[e] - slope);
        norm += slope * slope;
    }
    assert_true(norm > 0.0);
    return sqrt(error / norm);
}

static void mark_covered(const gp_graph *graph, bool *covered) {
    for (int32_t n = 0; n < graph->node_count; n++) {
        if (!graph->nodes[n].backward) covered[graph->nodes[n].id] = true;
    }
}

static void check_case(const char *name, gp_value (*build)(fixture *f), gp_dtype dtype, bool *covered) {
    check c = {.f = {.dtype = dtype}};
    assert_ok(gp_graph_create(&c.f.graph, true));
    assert_ok(gp_device_create_reference(&c.device, NULL));
    gp_graph_begin_layer(c.f.graph, 0);
    c.y = build(&c.f);
    assert_ok(gp_graph_status(c.f.graph));
    mark_covered(c.f.graph, covered);
    prepare(&c);
    for (size_t i = 0; i < c.f.count; i++) {
        fill(&c.m, i, gp_value_type(c.f.inputs[i]), c.f.low[i], c.f.high[i]);
    }
    fill(&c.m, c.f.count, gp_value_type(c.dy), 0.2, 1.8);
    run(c.backward, &c.m, c.workspace);
    for (size_t i = 0; i < c.f.count; i++) {
        double error = c.gradient_place[i] ? error_of_input(&c, i) : 0.0;
        if (!(error < 1e-6)) fail_msg("%s (%s), input %zu: error %g", name, gp_dtype_name(dtype), i, error);
    }
    gp_program_destroy(c.forward);
    gp_program_destroy(c.backward);
    gp_free(c.m.data);
    gp_free(c.workspace);
    gp_graph_destroy(c.f.graph);
    gp_device_destroy(c.device);
}

static void check_cases(const gradient_case *cases, size_t count, bool *covered) {
    for (size_t i = 0; i < count; i++) {
        check_case(cases[i].name, cases[i].build, GP_F32, covered);
        check_case(cases[i].name, cases[i].build, GP_BF16, covered);
    }
}

static void test_every_rule(void **state) {
    (void)state;
    bool covered[GP_OP_COUNT] = {false};
    check_cases(gradient_cases, gradient_case_count, covered);
    check_cases(image_gradient_cases, image_gradient_case_count, covered);
    for (int id = 0; id < GP_OP_CUSTOM; id++) {
        if (gp_op_class_of((gp_op_id)id)->gradient && !covered[id]) {
            fail_msg("%s has a gradient rule and no case in this test", gp_op_name((gp_op_id)id));
        }
    }
    assert_true(covered[GP_OP_CUSTOM]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
