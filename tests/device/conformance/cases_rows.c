/* Cases of normalisation and softmax. */
#include "suite.h"

static const gp_shape SHAPES[] = {{1, {9}},        {2, {1, 2}},     {2, {5, 3}},   {3, {2, 3, 16}}, {2, {7, 33}},
                                  {3, {1, 4, 64}}, {2, {130, 100}}, {2, {3, 257}}, {2, {2, 1000}},  {4, {2, 1, 3, 24}}};

static const gp_norm_attributes EPSILON = {1e-5};

static gp_shape last_of(gp_shape shape) {
    return SHAPE(shape.dims[shape.rank - 1]);
}

void cases_layer_norm(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x = uniform(s, s->dtype, SHAPES[i], -1.0, 3.0);
        operand inputs[] = {x, parameter(s, last_of(SHAPES[i])), absent()};
        emit(s, GP_OP_LAYER_NORM, &EPSILON, inputs, 3);
        inputs[2] = parameter(s, last_of(SHAPES[i]));
        emit(s, GP_OP_LAYER_NORM, &EPSILON, inputs, 3);
    }
    /* A mean that is large beside the deviation. */
    operand far[] = {uniform(s, s->dtype, SHAPE(3, 48), 20.0, 24.0), parameter(s, SHAPE(48)), absent()};
    emit(s, GP_OP_LAYER_NORM, &EPSILON, far, 3);
}

/* x, w and what the forward operation makes of them. */
static void norm(suite *s, gp_op_id id, gp_shape shape, operand *x, operand *w, operand *outputs) {
    *x = uniform(s, s->dtype, shape, -1.0, 3.0);
    *w = parameter(s, last_of(shape));
    operand inputs[] = {*x, *w, absent()};
    compute(s, id, &EPSILON, inputs, id == GP_OP_LAYER_NORM ? 3 : 2, outputs, output_count_of(id));
}

/* Of two columns nothing is left but rounding: normalised they are -1 and 1 whatever they were. */
void cases_layer_norm_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        if (last_of(SHAPES[i]).dims[0] <= 2) continue;
        operand x, w, made[3];
        norm(s, GP_OP_LAYER_NORM, SHAPES[i], &x, &w, made);
        operand inputs[] = {activation(s, SHAPES[i]), x, w, made[1], made[2]};
        emit(s, GP_OP_LAYER_NORM_GRADIENT, &EPSILON, inputs, 5);
    }
}

void cases_layer_norm_weight_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x, w, made[3];
        norm(s, GP_OP_LAYER_NORM, SHAPES[i], &x, &w, made);
        operand inputs[] = {activation(s, SHAPES[i]), x, made[1], made[2]};
        emit(s, GP_OP_LAYER_NORM_WEIGHT_GRADIENT, &EPSILON, inputs, 4);
    }
}

void cases_rms_norm(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand inputs[] = {uniform(s, s->dtype, SHAPES[i], -1.0, 3.0), parameter(s, last_of(SHAPES[i]))};
        emit(s, GP_OP_RMS_NORM, &EPSILON, inputs, 2);
    }
}

void cases_rms_norm_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x, w, made[2];
        norm(s, GP_OP_RMS_NORM, SHAPES[i], &x, &w, made);
        operand inputs[] = {activation(s, SHAPES[i]), x, w, made[1]};
        emit(s, GP_OP_RMS_NORM_GRADIENT, &EPSILON, inputs, 4);
    }
}

void cases_rms_norm_weight_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x, w, made[2];
        norm(s, GP_OP_RMS_NORM, SHAPES[i], &x, &w, made);
        operand inputs[] = {activation(s, SHAPES[i]), x, made[1]};
        emit(s, GP_OP_RMS_NORM_WEIGHT_GRADIENT, &EPSILON, inputs, 3);
    }
}

void cases_softmax(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x = uniform(s, s->dtype, SHAPES[i], -5.0, 5.0);
        emit(s, GP_OP_SOFTMAX, NULL, &x, 1);
    }
    operand large = uniform(s, s->dtype, SHAPE(3, 20), -500.0, 500.0);
    emit(s, GP_OP_SOFTMAX, NULL, &large, 1);
}

void cases_softmax_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x = uniform(s, s->dtype, SHAPES[i], -3.0, 3.0), y;
        compute(s, GP_OP_SOFTMAX, NULL, &x, 1, &y, 1);
        operand inputs[] = {activation(s, SHAPES[i]), y};
        emit(s, GP_OP_SOFTMAX_GRADIENT, NULL, inputs, 2);
    }
}
