/* For the tests of programs: a graph, a reference device and one region of memory in which values are placed one after
 * the other. */
#ifndef GP_TESTS_PROGRAM_BENCH_H
#define GP_TESTS_PROGRAM_BENCH_H

#include "plain.h"

#include "program/compile.h"

#define TYPE(...)                                                                                                      \
    ((gp_type){GP_F32,                                                                                                 \
               gp_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})})

typedef struct bench {
    gp_graph *graph;
    gp_device *device;
    gp_placement available[16], wanted[16];
    size_t available_count, wanted_count, bytes; /* of region 1 */
    unsigned char *memory;                       /* region 1 */
    unsigned char *workspace;
    gp_program *program;
} bench;

static inline bench bench_create(void) {
    bench b = {0};
    assert_ok(gp_graph_create(&b.graph, true));
    assert_ok(gp_device_create_reference(&b.device, NULL));
    gp_graph_begin_layer(b.graph, 3);
    return b;
}

static inline gp_placement *place(bench *b, gp_placement *list, size_t *count, gp_value value) {
    assert_true(gp_value_valid(value) && *count < 16);
    gp_placement *p = &list[(*count)++];
    *p = (gp_placement){.value = value.index, .region = 1, .offset = b->bytes};
    b->bytes += (b->device->class->bytes(gp_value_type(value)) + 63) / 64 * 64;
    return p;
}

static inline gp_placement *available(bench *b, gp_value value) {
    return place(b, b->available, &b->available_count, value);
}

static inline gp_placement *wanted(bench *b, gp_value value) {
    return place(b, b->wanted, &b->wanted_count, value);
}

static inline gp_program_desc desc_of(const bench *b) {
    return (gp_program_desc){.graph = b->graph,
                             .device = b->device,
                             .available = b->available,
                             .available_count = b->available_count,
                             .wanted = b->wanted,
                             .wanted_count = b->wanted_count};
}

/* Memory for the program; region 1 holds 1, 2, 3, ... in every value. */
static inline void make_memory(bench *b) {
    b->memory = gp_allocate(b->bytes);
    b->workspace = gp_allocate(gp_program_workspace(b->program));
    assert_true(b->memory && b->workspace);
    for (size_t i = 0; i < b->available_count; i++) {
        int64_t count = gp_shape_elements(b->graph->values[b->available[i].value].type.shape);
        double *data = (double *)(void *)(b->memory + b->available[i].offset);
        for (int64_t e = 0; e < count; e++) {
            data[e] = (double)(e + 1);
        }
    }
}

static inline void create(bench *b, const gp_program_desc *desc) {
    assert_ok(gp_graph_status(b->graph));
    assert_ok(gp_program_create(&b->program, desc));
    make_memory(b);
}

static inline gp_status run(const bench *b, int segment, bool check, gp_program_fault *fault) {
    void *regions[] = {b->workspace, b->memory};
    gp_run how = {.seed = 1, .step = 1, .check = check};
    return gp_program_run(b->program, segment, regions, &how, fault);
}

static inline double *data_at(const bench *b, const gp_placement *p) {
    return (double *)(void *)(b->memory + p->offset);
}

static inline void bench_destroy(bench *b) {
    gp_program_destroy(b->program);
    gp_free(b->memory);
    gp_free(b->workspace);
    gp_graph_destroy(b->graph);
    gp_device_destroy(b->device);
}

#endif
