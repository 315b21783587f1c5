/* Running a graph node by node; see plain.h. */
#include "plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t plain_bytes(const plain *p, int32_t value) {
    return p->device->class->bytes(p->graph->values[value].type);
}

double *plain_read(gp_device *device, gp_type type, const void *data) {
    size_t count = (size_t)gp_shape_elements(type.shape);
    gp_type wide = {gp_dtype_is_float(type.dtype) ? GP_F64 : type.dtype, type.shape};
    bool reference = device->class->bytes(type) == count * sizeof(double) && gp_dtype_is_float(type.dtype);
    double *values = gp_allocate(count * sizeof *values + 8);
    assert_non_null(values);
    if (reference) {
        device->class->download(device, values, data, wide);
    } else {
        gp_convert(values, GP_F64, data, type.dtype, count); /* the CPU device has plain host memory */
    }
    return values;
}

void plain_write(gp_device *device, gp_type type, void *data, const double *values) {
    size_t count = (size_t)gp_shape_elements(type.shape);
    bool reference = device->class->bytes(type) == count * sizeof(double) && gp_dtype_is_float(type.dtype);
    gp_convert(data, reference ? GP_F64 : type.dtype, values, GP_F64, count);
}

double plain_distance(gp_device *device, gp_type type, const void *got, const void *want) {
    double *a = plain_read(device, type, got), *b = plain_read(device, type, want);
    double difference = 0.0, norm = 0.0;
    for (int64_t i = 0; i < gp_shape_elements(type.shape); i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    gp_free(a);
    gp_free(b);
    double distance = sqrt(difference) / (norm > 0.0 ? sqrt(norm) : 1.0);
    return isnan(distance) ? (double)INFINITY : distance;
}

static void fill(plain *p, int32_t value, uint64_t seed) {
    gp_type type = p->graph->values[value].type;
    int64_t count = gp_shape_elements(type.shape);
    if (!gp_dtype_is_float(type.dtype)) return;
    char name[32];
    snprintf(name, sizeof name, "value %d", (int)value);
    float *drawn = gp_allocate((size_t)count * sizeof *drawn + 4);
    double *values = gp_allocate((size_t)count * sizeof *values + 8);
    assert_true(drawn && values);
    gp_random_fill_uniform(drawn, count, seed, name);
    gp_convert(values, GP_F64, drawn, GP_F32, (size_t)count);
    plain_write(p->device, type, p->data[value], values);
    gp_free(drawn);
    gp_free(values);
}

plain plain_create(const gp_graph *graph, gp_device *device, uint64_t seed) {
    plain p = {.graph = graph,
               .device = device,
               .data = gp_allocate_array((size_t)graph->value_count, sizeof(void *)),
               .run = {.seed = seed, .step = 3, .first_sample = 2}};
    assert_non_null(p.data);
    for (int32_t v = 0; v < graph->value_count; v++) {
        p.data[v] = gp_allocate(plain_bytes(&p, v));
        assert_non_null(p.data[v]);
        if (graph->values[v].node < 0) fill(&p, v, seed);
    }
    return p;
}

void plain_destroy(plain *p) {
    for (int32_t v = 0; v < p->graph->value_count; v++) {
        gp_free(p->data[v]);
    }
    gp_free(p->data);
}

static void run_node(plain *p, int32_t index) {
    const gp_node *node = &p->graph->nodes[index];
    if (node->id == GP_OP_ALIAS || node->id == GP_OP_RESHAPE) {
        size_t bytes = plain_bytes(p, node->outputs[0]);
        if (bytes) memcpy(p->data[node->outputs[0]], p->data[node->inputs[0]], bytes);
        return;
    }
    gp_type input_types[GP_MAX_OPERANDS], output_types[GP_MAX_OPERANDS];
    const void *inputs[GP_MAX_OPERANDS] = {NULL};
    void *outputs[GP_MAX_OPERANDS] = {NULL};
    gp_node_call(p->graph, index, input_types, output_types);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = node->inputs[i] >= 0 ? p->data[node->inputs[i]] : NULL;
    }
    for (int i = 0; i < node->output_count; i++) {
        outputs[i] = p->data[node->outputs[i]];
    }
    gp_kernel_desc desc = {node->id,     node->op,          node->attributes,   input_types,
                           output_types, node->input_count, node->output_count, 0};
    gp_kernel *kernel = NULL;
    assert_ok(p->device->class->kernel_create(p->device, &desc, &kernel));
    void *workspace = gp_allocate(kernel->workspace);
    assert_ok(kernel->run(kernel, inputs, outputs, workspace, &p->run));
    gp_free(workspace);
    kernel->destroy(kernel);
}

void plain_run(plain *p) {
    for (int32_t n = 0; n < p->graph->node_count; n++) {
        run_node(p, n);
    }
}
