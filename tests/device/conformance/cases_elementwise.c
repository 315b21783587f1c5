/* Cases of element by element operations. */
#include "suite.h"

static const gp_shape SHAPES[] = {{0, {0}},        {1, {1}},          {1, {7}},   {2, {1, 16}},
                                  {2, {3, 33}},    {3, {2, 5, 64}},   {1, {257}}, {6, {2, 1, 3, 1, 2, 5}},
                                  {2, {130, 101}}, {4, {2, 3, 4, 17}}};

static const struct {
    gp_shape a, b;
} PAIRS[] = {
    {{0, {0}}, {0, {0}}},
    {{1, {5}}, {1, {5}}},
    {{1, {5}}, {1, {1}}},
    {{2, {3, 16}}, {0, {0}}},
    {{2, {3, 17}}, {1, {17}}},
    {{2, {3, 17}}, {2, {3, 1}}},
    {{2, {1, 4}}, {2, {3, 1}}},
    {{3, {2, 3, 65}}, {2, {3, 65}}},
    {{3, {2, 1, 7}}, {3, {1, 5, 7}}},
    {{4, {2, 1, 3, 1}}, {3, {4, 1, 5}}},
    {{6, {2, 1, 2, 1, 2, 3}}, {6, {1, 3, 1, 2, 1, 3}}},
    {{2, {1, 1}}, {3, {2, 3, 4}}},
    {{2, {64, 100}}, {2, {64, 100}}},
    {{2, {65, 130}}, {1, {130}}},
};

/* Both orders of the operands; with bf16 also an f32 operand on either side. `low`: the operands are between it and 2.
 */
static void pairs(suite *s, gp_op_id id, double low) {
    for (size_t i = 0; i < COUNT(PAIRS); i++) {
        operand a = uniform(s, s->dtype, PAIRS[i].a, low, 2.0), b = uniform(s, s->dtype, PAIRS[i].b, low, 2.0);
        emit(s, id, NULL, (operand[]){a, b}, 2);
        emit(s, id, NULL, (operand[]){b, a}, 2);
        if (s->dtype == GP_F32) continue;
        operand wide = uniform(s, GP_F32, PAIRS[i].b, low, 2.0);
        emit(s, id, NULL, (operand[]){a, wide}, 2);
        emit(s, id, NULL, (operand[]){wide, a}, 2);
    }
}

void cases_add(suite *s) {
    pairs(s, GP_OP_ADD, -1.0);
}

void cases_sub(suite *s) {
    pairs(s, GP_OP_SUB, -1.0);
}

void cases_mul(suite *s) {
    pairs(s, GP_OP_MUL, -1.0);
}

void cases_div(suite *s) {
    pairs(s, GP_OP_DIV, 0.5);
}

void cases_scale(suite *s) {
    static const double FACTORS[] = {-2.5, 0.0, 1.0 / 3.0};
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        gp_scale_attributes attributes = {FACTORS[i % COUNT(FACTORS)]};
        operand x = activation(s, SHAPES[i]);
        emit(s, GP_OP_SCALE, &attributes, &x, 1);
    }
}

void cases_cast(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        gp_cast_attributes attributes = {s->dtype == GP_F32 ? GP_BF16 : GP_F32};
        operand x = activation(s, SHAPES[i]);
        emit(s, GP_OP_CAST, &attributes, &x, 1);
    }
}

void cases_activation(suite *s) {
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        gp_activation_attributes attributes = {(gp_activation_kind)kind};
        for (size_t i = 0; i < COUNT(SHAPES); i++) {
            operand x = uniform(s, s->dtype, SHAPES[i], -4.0, 4.0);
            emit(s, GP_OP_ACTIVATION, &attributes, &x, 1);
        }
        operand far = uniform(s, s->dtype, SHAPE(3, 50), -200.0, 200.0);
        emit(s, GP_OP_ACTIVATION, &attributes, &far, 1);
    }
}

void cases_activation_gradient(suite *s) {
    for (int kind = GP_RELU; kind <= GP_TANH; kind++) {
        gp_activation_attributes attributes = {(gp_activation_kind)kind};
        bool from_result = kind == GP_SIGMOID || kind == GP_TANH;
        for (size_t i = 0; i < COUNT(SHAPES); i++) {
            operand x = uniform(s, s->dtype, SHAPES[i], -4.0, 4.0), y;
            if (from_result) compute(s, GP_OP_ACTIVATION, &attributes, &x, 1, &y, 1);
            operand inputs[] = {activation(s, SHAPES[i]), from_result ? y : x};
            emit(s, GP_OP_ACTIVATION_GRADIENT, &attributes, inputs, 2);
        }
    }
}

void cases_dropout(suite *s) {
    static const double P[] = {0.0, 0.1, 0.5, 0.9};
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        gp_dropout_attributes attributes = {P[i % COUNT(P)], 256 + (uint32_t)i};
        operand x = activation(s, SHAPES[i]);
        if (x.type.shape.rank > 0) emit(s, GP_OP_DROPOUT, &attributes, &x, 1);
    }
}

void cases_accumulate(suite *s) {
    for (size_t i = 0; i < COUNT(SHAPES); i++) {
        operand x = activation(s, SHAPES[i]);
        emit(s, GP_OP_ACCUMULATE, NULL, &x, 1);
    }
}
