/* Programs compiled from random slices of random graphs compute in planned, shared memory what the graph computes with
 * every value in memory of its own: on the reference device and on the CPU, in one and in two segments, with values
 * written in place, accumulated, copied, and memory full of NaN before the run. */
#include "plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/program.h"

enum { MOST_VALUES = 64, REGIONS = 4, GUARD = 256, ROUNDS = 150 };

typedef struct source {
    gp_random_key key;
    uint32_t count;
} source;

static uint32_t draw(source *s, uint32_t below) {
    gp_random_block block = gp_random4(s->key, (gp_random_block){{s->count++, 0, 0, 0}});
    return block.word[0] % below;
}

/* ---- random graphs: all values are [4, 6], so that any operation may follow any other ---- */

typedef struct made {
    gp_graph *graph;
    gp_value values[MOST_VALUES], gradient, wanted[8], gradients[8];
    size_t count, wanted_count;
} made;

static gp_value pick(const made *m, source *s) {
    return m->values[draw(s, (uint32_t)m->count)];
}

static gp_value through_shapes(gp_value x, source *s) {
    gp_shape flat = gp_shape_of(1, (int64_t[]){24}), turned = gp_shape_of(2, (int64_t[]){6, 4});
    switch (draw(s, 4)) {
    case 0:
        return gp_reshape(gp_relu(gp_reshape(x, flat)), gp_shape_of(2, (int64_t[]){4, 6}));
    case 1:
        return gp_transpose(gp_reshape(x, turned), (int[]){1, 0});
    case 2:
        return gp_graph_alias(gp_graph_alias(x));
    default:
        return gp_reshape(gp_reshape(x, turned), gp_shape_of(2, (int64_t[]){4, 6}));
    }
}

static gp_value unary(gp_value x, source *s) {
    switch (draw(s, 7)) {
    case 0:
        return gp_relu(x);
    case 1:
        return gp_gelu_tanh(x);
    case 2:
        return gp_scale(x, 0.5 + draw(s, 3));
    case 3:
        return gp_softmax(x);
    case 4:
        return gp_dropout(x, 0.3);
    case 5:
        return gp_tanh(x);
    default:
        return through_shapes(x, s);
    }
}

static gp_value binary(gp_value a, gp_value b, source *s) {
    switch (draw(s, 5)) {
    case 0:
        return gp_add(a, b);
    case 1:
        return gp_sub(a, b);
    case 2:
        return gp_mul(a, b);
    case 3:
        return gp_add(a, gp_sum(b, -1, true));
    default:
        return gp_concatenate((gp_value[]){gp_slice(a, 1, 0, 2), gp_slice(b, 1, 2, 6)}, 2, 1);
    }
}

static gp_value with_parameters(made *m, gp_value x, source *s) {
    gp_value vector = gp_graph_parameter(m->graph, gp_shape_of(1, (int64_t[]){6}));
    if (m->wanted_count < 8) m->wanted[m->wanted_count++] = vector;
    switch (draw(s, 4)) {
    case 0:
        return gp_layer_norm(x, vector, gp_none(), 1e-5);
    case 1:
        return gp_rms_norm(x, vector, 1e-5);
    case 2:
        return gp_bias(x, vector);
    default: {
        gp_value matrix = gp_graph_parameter(m->graph, gp_shape_of(2, (int64_t[]){6, 6}));
        if (m->wanted_count < 8) m->wanted[m->wanted_count++] = matrix;
        return gp_linear(x, matrix, vector);
    }
    }
}

static void make_graph(made *m, source *s) {
    gp_type type = {GP_F32, gp_shape_of(2, (int64_t[]){4, 6})};
    assert_ok(gp_graph_create(&m->graph, true));
    gp_graph_begin_layer(m->graph, 0);
    for (int i = 0; i < 2; i++) {
        m->values[m->count++] = m->wanted[m->wanted_count++] = gp_graph_input(m->graph, type);
    }
    size_t nodes = 3 + draw(s, 25);
    for (size_t i = 0; i < nodes; i++) {
        if (i % 5 == 4) gp_graph_begin_layer(m->graph, (int32_t)(i / 5));
        uint32_t kind = draw(s, 4);
        gp_value any = pick(m, s), last = m->values[m->count - 1];
        gp_value made_now = kind < 2   ? unary(draw(s, 2) ? any : last, s)
                            : kind < 3 ? binary(any, last, s)
                                       : with_parameters(m, last, s);
        m->values[m->count++] = made_now;
    }
    gp_value output = m->values[m->count - 1];
    m->gradient = gp_graph_input(m->graph, gp_value_type(output));
    assert_ok(gp_graph_status(m->graph));
    assert_ok(gp_graph_gradients(m->graph, &output, &m->gradient, 1, m->wanted, m->gradients, m->wanted_count));
    assert_ok(gp_graph_status(m->graph));
}

/* ---- random slices ---- */

typedef struct trial {
    plain *plain;
    gp_placement available[512], wanted[512];
    size_t available_count, wanted_count;
    size_t region_bytes[REGIONS];
    unsigned char *regions[REGIONS];
    bool late;
} trial;

static gp_placement place(trial *t, source *s, int32_t value) {
    int region = 1 + (int)draw(s, REGIONS - 1);
    gp_placement p = {.value = value, .region = region, .offset = t->region_bytes[region]};
    t->region_bytes[region] += (plain_bytes(t->plain, value) + 63) / 64 * 64;
    return p;
}

static void choose(trial *t, const made *m, source *s) {
    const gp_graph *graph = m->graph;
    uint32_t stash = draw(s, 4);
    for (int32_t v = 0; v < graph->value_count && t->available_count < 500; v++) {
        bool given = graph->values[v].node < 0, forward = !given && !graph->nodes[graph->values[v].node].backward;
        if (!given && !(forward && stash && draw(s, stash + 1) == 0)) continue;
        t->available[t->available_count] = place(t, s, v);
        t->available[t->available_count++].consumable = graph->values[v].kind != GP_VALUE_PARAMETER && draw(s, 2);
    }
    for (size_t i = 0; i < m->wanted_count; i++) {
        if (!gp_value_valid(m->gradients[i]) || draw(s, 4) == 0) continue;
        t->wanted[t->wanted_count] = place(t, s, m->gradients[i].index);
        t->wanted[t->wanted_count++].accumulate = draw(s, 2);
    }
    uint32_t more = 1 + draw(s, 4);
    for (uint32_t i = 0; i < more; i++) { /* anything at all: forward values, statistics, inputs, twice the same */
        t->wanted[t->wanted_count] = place(t, s, (int32_t)draw(s, (uint32_t)graph->value_count));
        t->wanted[t->wanted_count++].accumulate = draw(s, 4) == 0;
    }
}

static unsigned char *at(const trial *t, const gp_placement *p) {
    return t->regions[p->region] + p->offset;
}

/* Memory full of NaN (0xFF everywhere is one in every dtype) but for what is available and what is added to. */
static void fill_regions(trial *t, gp_program *program, int32_t late_value) {
    t->region_bytes[GP_REGION_WORKSPACE] = gp_program_workspace(program);
    for (int r = 0; r < REGIONS; r++) {
        t->regions[r] = gp_allocate(t->region_bytes[r] + GUARD);
        assert_non_null(t->regions[r]);
        memset(t->regions[r], 0xFF, t->region_bytes[r] + GUARD);
    }
    for (size_t i = 0; i < t->available_count; i++) {
        int32_t value = t->available[i].value;
        if (t->late && value == late_value) continue;
        memcpy(at(t, &t->available[i]), t->plain->data[value], plain_bytes(t->plain, value));
    }
    for (size_t i = 0; i < t->wanted_count; i++) {
        if (t->wanted[i].accumulate) memset(at(t, &t->wanted[i]), 0, plain_bytes(t->plain, t->wanted[i].value));
    }
}

static void run_program(trial *t, gp_program *program, int32_t late_value) {
    uint64_t allocations = gp_allocation_count();
    for (int segment = 0; segment < gp_program_segments(program); segment++) {
        for (size_t i = 0; i < t->available_count && segment == 1; i++) {
            if (t->available[i].value != late_value) continue;
            memcpy(at(t, &t->available[i]), t->plain->data[late_value], plain_bytes(t->plain, late_value));
        }
        gp_program_fault fault;
        assert_ok(gp_program_run(program, segment, (void *const *)t->regions, &t->plain->run, &fault));
        assert_int_equal(fault.layer, -1);
    }
    assert_true(gp_allocation_count() == allocations);
}

/* What was to be overwritten has the same bits. What was added to zeros may be summed in another order. */
static void check_results(const trial *t, gp_device *device, double tolerance) {
    for (size_t i = 0; i < t->wanted_count; i++) {
        const gp_placement *p = &t->wanted[i];
        gp_type type = t->plain->graph->values[p->value].type;
        const void *want = t->plain->data[p->value];
        if (!p->accumulate) assert_memory_equal(at(t, p), want, plain_bytes(t->plain, p->value));
        double distance = plain_distance(device, type, at(t, p), want);
        if (!(distance <= tolerance)) {
            const gp_value_info *info = &t->plain->graph->values[p->value];
            fail_msg("seed %d: value %d of %s: distance %g", (int)t->plain->run.seed, (int)p->value,
                     info->node >= 0 ? t->plain->graph->nodes[info->node].op->name : "no node", distance);
        }
    }
    for (size_t i = 0; i < t->available_count; i++) {
        const gp_placement *p = &t->available[i];
        if (p->consumable) continue;
        assert_memory_equal(at(t, p), t->plain->data[p->value], plain_bytes(t->plain, p->value));
    }
    for (int r = 0; r < REGIONS; r++) {
        for (size_t i = 0; i < GUARD; i++) {
            assert_int_equal(t->regions[r][t->region_bytes[r] + i], 0xFF);
        }
    }
}

/* A value that nothing reads need not be there: filled with NaN it changes nothing. */
static void spoil_unread(trial *t, const gp_program *program) {
    for (size_t i = 0; i < t->available_count; i++) {
        gp_placement *p = &t->available[i];
        if (gp_program_reads(program, p->value)) continue;
        memset(at(t, p), 0xFF, plain_bytes(t->plain, p->value));
        p->consumable = true; /* so that it is not compared */
    }
}

static void check_round(gp_device *device, uint64_t seed, double tolerance) {
    source s = {gp_random_key_of(seed), 0};
    made m = {0};
    make_graph(&m, &s);
    plain p = plain_create(m.graph, device, seed);
    plain_run(&p);
    trial t = {.plain = &p, .late = draw(&s, 2)};
    choose(&t, &m, &s);
    gp_program_desc desc = {.graph = m.graph,
                            .device = device,
                            .available = t.available,
                            .available_count = t.available_count,
                            .wanted = t.wanted,
                            .wanted_count = t.wanted_count,
                            .late = &m.gradient.index,
                            .late_count = t.late,
                            .early_all = draw(&s, 2)};
    gp_program *program = NULL;
    assert_ok(gp_program_create(&program, &desc));
    assert_int_equal(gp_program_segments(program), t.late ? 2 : 1);
    fill_regions(&t, program, m.gradient.index);
    spoil_unread(&t, program);
    run_program(&t, program, m.gradient.index);
    check_results(&t, device, tolerance);
    for (int r = 0; r < REGIONS; r++) {
        gp_free(t.regions[r]);
    }
    gp_program_destroy(program);
    plain_destroy(&p);
    gp_graph_destroy(m.graph);
}

static void test_reference(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_ok(gp_device_create_reference(&device, NULL));
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        check_round(device, seed, 1e-13);
    }
    gp_device_destroy(device);
}

static void test_cpu(void **state) {
    (void)state;
    gp_device *device = NULL;
    assert_ok(gp_device_create_cpu(&device, NULL));
    assert_ok(device->class->enter(device));
    for (uint64_t seed = 1000; seed < 1000 + ROUNDS; seed++) {
        check_round(device, seed, 1e-5);
    }
    gp_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
