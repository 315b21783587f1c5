/* Cases of operations that move or sum elements. What only moves them takes integers too: labels, tokens and masks. */
#include "suite.h"

void cases_transpose(suite *s) {
    static const struct {
        gp_shape x;
        gp_transpose_attributes attributes;
    } CASES[] = {
        {{1, {7}}, {{0}}},
        {{2, {1, 5}}, {{1, 0}}},
        {{2, {33, 65}}, {{1, 0}}},
        {{3, {2, 3, 17}}, {{0, 1, 2}}},
        {{3, {2, 3, 17}}, {{0, 2, 1}}},
        {{3, {5, 4, 16}}, {{1, 0, 2}}},
        {{3, {5, 4, 9}}, {{2, 0, 1}}},
        {{4, {2, 7, 3, 8}}, {{0, 2, 1, 3}}},
        {{4, {2, 7, 3, 8}}, {{3, 1, 2, 0}}},
        {{6, {2, 1, 3, 2, 1, 5}}, {{5, 0, 3, 1, 4, 2}}},
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        operand x = activation(s, CASES[i].x), numbers = integers(s, CASES[i].x, -90, 90);
        emit(s, GP_OP_TRANSPOSE, &CASES[i].attributes, &x, 1);
        emit(s, GP_OP_TRANSPOSE, &CASES[i].attributes, &numbers, 1);
    }
}

static const struct {
    gp_shape x;
    int axis;
    int64_t begin, end;
} SLICES[] = {
    {{1, {5}}, 0, 0, 5},        {{1, {9}}, 0, 3, 4},         {{2, {4, 33}}, 1, 16, 33},    {{2, {7, 5}}, 0, 2, 6},
    {{3, {2, 6, 17}}, 1, 1, 3}, {{3, {2, 3, 64}}, 2, 1, 63}, {{4, {2, 3, 4, 5}}, 2, 3, 4}, {{4, {2, 3, 4, 5}}, 1, 0, 2},
};

void cases_slice(suite *s) {
    for (size_t i = 0; i < COUNT(SLICES); i++) {
        int64_t length = SLICES[i].x.dims[SLICES[i].axis];
        gp_slice_attributes attributes = {SLICES[i].axis, SLICES[i].begin, SLICES[i].end, length};
        operand x = activation(s, SLICES[i].x), numbers = integers(s, SLICES[i].x, -90, 90);
        emit(s, GP_OP_SLICE, &attributes, &x, 1);
        emit(s, GP_OP_SLICE, &attributes, &numbers, 1);
    }
}

void cases_slice_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SLICES); i++) {
        gp_shape shape = SLICES[i].x;
        gp_slice_attributes attributes = {SLICES[i].axis, SLICES[i].begin, SLICES[i].end, shape.dims[SLICES[i].axis]};
        shape.dims[SLICES[i].axis] = SLICES[i].end - SLICES[i].begin;
        operand dy = activation(s, shape);
        emit(s, GP_OP_SLICE_GRADIENT, &attributes, &dy, 1);
    }
}

void cases_concatenate(suite *s) {
    static const struct {
        gp_shape x;
        int axis, count;
    } CASES[] = {{{1, {3}}, 0, 1},       {{1, {5}}, 0, 3},          {{2, {3, 17}}, 1, 2},  {{2, {3, 16}}, 0, 8},
                 {{3, {2, 3, 5}}, 1, 4}, {{4, {2, 1, 3, 7}}, 2, 3}, {{3, {4, 1, 1}}, 2, 5}};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        gp_concatenate_attributes attributes = {CASES[i].axis};
        operand inputs[GP_MAX_OPERANDS], numbers[GP_MAX_OPERANDS];
        for (int k = 0; k < CASES[i].count; k++) {
            gp_shape shape = CASES[i].x;
            shape.dims[CASES[i].axis] += k % 3;
            inputs[k] = activation(s, shape);
            numbers[k] = integers(s, shape, -90, 90);
        }
        emit(s, GP_OP_CONCATENATE, &attributes, inputs, CASES[i].count);
        emit(s, GP_OP_CONCATENATE, &attributes, numbers, CASES[i].count);
    }
}

static const struct {
    gp_shape large, small;
} SUMS[] = {
    {{0, {0}}, {0, {0}}},
    {{1, {9}}, {0, {0}}},
    {{1, {9}}, {1, {1}}},
    {{2, {5, 33}}, {1, {33}}},
    {{2, {5, 33}}, {2, {5, 1}}},
    {{2, {5, 33}}, {2, {1, 33}}},
    {{2, {700, 3}}, {1, {3}}},
    {{3, {4, 7, 16}}, {1, {16}}},
    {{3, {4, 7, 16}}, {3, {4, 1, 16}}},
    {{3, {4, 7, 16}}, {2, {7, 1}}},
    {{4, {2, 3, 4, 5}}, {4, {1, 3, 1, 5}}},
    {{5, {2, 3, 2, 3, 4}}, {4, {1, 2, 1, 4}}},
    {{2, {4, 6}}, {2, {4, 6}}},
};

/* Sums of bf16 activations go to f32 (gradients of parameters) as well as to bf16. */
void cases_reduce_to(suite *s) {
    for (size_t i = 0; i < COUNT(SUMS); i++) {
        gp_shape_attributes attributes = {SUMS[i].small, GP_F32};
        operand x = activation(s, SUMS[i].large);
        emit(s, GP_OP_REDUCE_TO, &attributes, &x, 1);
        attributes.dtype = s->dtype;
        if (s->dtype != GP_F32) emit(s, GP_OP_REDUCE_TO, &attributes, &x, 1);
    }
}

void cases_broadcast_to(suite *s) {
    for (size_t i = 0; i < COUNT(SUMS); i++) {
        gp_shape_attributes attributes = {SUMS[i].large, s->dtype};
        operand x = activation(s, SUMS[i].small);
        emit(s, GP_OP_BROADCAST_TO, &attributes, &x, 1);
    }
}
