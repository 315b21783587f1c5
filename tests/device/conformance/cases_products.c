/* Cases of matrix products, attention and embedding. */
#include <string.h>

#include "suite.h"

/* rows, k, n */
static const int64_t SIZES[][3] = {{1, 1, 1},    {1, 7, 5},    {5, 1, 3},      {3, 17, 1},
                                   {16, 32, 64}, {33, 65, 31}, {64, 100, 257}, {7, 512, 48}};

static gp_shape rows_of(size_t i, int64_t columns) {
    return i % 2 ? SHAPE(1, SIZES[i][0], columns) : SHAPE(SIZES[i][0], columns);
}

void cases_linear(suite *s) {
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        int64_t k = SIZES[i][1], n = SIZES[i][2];
        operand inputs[] = {activation(s, rows_of(i, k)), parameter(s, SHAPE(n, k)), absent()};
        emit(s, GP_OP_LINEAR, NULL, inputs, 3);
        inputs[2] = parameter(s, SHAPE(n));
        emit(s, GP_OP_LINEAR, NULL, inputs, 3);
    }
    operand one_row[] = {activation(s, SHAPE(24)), parameter(s, SHAPE(40, 24)), parameter(s, SHAPE(40))};
    emit(s, GP_OP_LINEAR, NULL, one_row, 3);
    operand deep[] = {activation(s, SHAPE(2, 3, 4, 5)), parameter(s, SHAPE(6, 5)), absent()};
    emit(s, GP_OP_LINEAR, NULL, deep, 3);
}

void cases_linear_input_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        operand inputs[] = {activation(s, rows_of(i, SIZES[i][2])), parameter(s, SHAPE(SIZES[i][2], SIZES[i][1]))};
        emit(s, GP_OP_LINEAR_INPUT_GRADIENT, NULL, inputs, 2);
    }
}

void cases_linear_weight_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        operand inputs[] = {activation(s, rows_of(i, SIZES[i][2])), activation(s, rows_of(i, SIZES[i][1]))};
        emit(s, GP_OP_LINEAR_WEIGHT_GRADIENT, NULL, inputs, 2);
    }
    operand long_sum[] = {activation(s, SHAPE(3, 700, 10)), activation(s, SHAPE(3, 700, 9))};
    emit(s, GP_OP_LINEAR_WEIGHT_GRADIENT, NULL, long_sum, 2);
}

/* a[leading a, n, k] b[leading b, k, m] with every way of transposing. */
static void products(suite *s, gp_shape leading_a, gp_shape leading_b, int64_t n, int64_t k, int64_t m) {
    for (int way = 0; way < 4; way++) {
        gp_matmul_options options = {way & 1, way & 2};
        gp_shape a = leading_a, b = leading_b;
        a.dims[a.rank++] = options.transpose_a ? k : n;
        a.dims[a.rank++] = options.transpose_a ? n : k;
        b.dims[b.rank++] = options.transpose_b ? m : k;
        b.dims[b.rank++] = options.transpose_b ? k : m;
        operand inputs[] = {activation(s, a), activation(s, b)};
        emit(s, GP_OP_MATMUL, &options, inputs, 2);
    }
}

void cases_matmul(suite *s) {
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        products(s, SCALAR, SCALAR, SIZES[i][0], SIZES[i][1], SIZES[i][2]);
    }
    products(s, SHAPE(3), SHAPE(3), 5, 7, 9);
    products(s, SHAPE(2, 3), SHAPE(2, 3), 17, 4, 8);
    products(s, SHAPE(2, 1), SHAPE(1, 3), 3, 5, 2);
    products(s, SHAPE(4), SCALAR, 6, 7, 8);
    products(s, SCALAR, SHAPE(2, 2), 6, 7, 8);
    products(s, SHAPE(2, 1, 3), SHAPE(4, 1), 2, 3, 4);
}

/* ---- attention ---- */

typedef struct attention_case {
    int64_t batch, time, heads, size;
    bool causal;
    double dropout;
} attention_case;

static const attention_case ATTENTIONS[] = {
    {1, 1, 1, 1, true, 0.0},   {1, 5, 1, 3, true, 0.0},    {2, 7, 3, 5, false, 0.0},
    {2, 16, 2, 8, true, 0.25}, {1, 33, 2, 16, true, 0.0},  {1, 65, 1, 64, true, 0.1},
    {2, 40, 4, 8, false, 0.5}, {1, 130, 2, 32, true, 0.0}, {1, 100, 1, 24, false, 0.0}};

static gp_attention_attributes attributes_of(const attention_case *c) {
    return (gp_attention_attributes){c->heads, c->causal, c->dropout, 0.7, 515};
}

/* Sequences with padding at the end, of other lengths in every sample; with `holes` also before. */
static operand mask_of(suite *s, const attention_case *c, bool holes) {
    operand mask = integers(s, SHAPE(c->batch, c->time), 0, 2);
    for (int64_t i = 0; i < c->batch * c->time; i++) {
        int64_t sample = i / c->time, column = i % c->time, length = 1 + (c->time - 1) * (sample + 1) / (c->batch + 1);
        if (column >= length) mask.values[i] = 0;
        if (column < length && (!holes || column == length - 1)) mask.values[i] = 1;
    }
    return mask;
}

void cases_attention(suite *s) {
    for (size_t i = 0; i < COUNT(ATTENTIONS); i++) {
        const attention_case *c = &ATTENTIONS[i];
        gp_attention_attributes attributes = attributes_of(c);
        operand qkv = activation(s, SHAPE(c->batch, c->time, 3 * c->heads * c->size));
        emit(s, GP_OP_ATTENTION, &attributes, &qkv, 1);
        for (int holes = 0; holes < 2 && !c->causal; holes++) {
            operand inputs[] = {qkv, mask_of(s, c, holes)};
            emit(s, GP_OP_ATTENTION, &attributes, inputs, 2);
        }
    }
    /* Scores that would overflow an exponential. */
    gp_attention_attributes attributes = {1, true, 0.0, 1.0, 0};
    operand large = uniform(s, s->dtype, SHAPE(1, 9, 12), -20.0, 20.0);
    emit(s, GP_OP_ATTENTION, &attributes, &large, 1);
    /* The second sample hides everything. */
    operand nobody[] = {activation(s, SHAPE(2, 3, 12)), integers(s, SHAPE(2, 3), 1, 2)}, outputs[2];
    attributes.causal = false;
    memset(nobody[1].values + 3, 0, 3 * sizeof(double));
    emit(s, GP_OP_ATTENTION, &attributes, nobody, 2);
    compute(s, GP_OP_ATTENTION, &attributes, nobody, 2, outputs, 2);
    for (int64_t i = 12; i < 24; i++)
        assert_true(outputs[0].values[i] == 0);
    operand inputs[] = {activation(s, outputs[0].type.shape), nobody[0], outputs[0], outputs[1], nobody[1]};
    emit(s, GP_OP_ATTENTION_GRADIENT, &attributes, inputs, 5);
}

void cases_attention_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(ATTENTIONS); i++) {
        const attention_case *c = &ATTENTIONS[i];
        gp_attention_attributes attributes = attributes_of(c);
        for (int masks = 0; masks < (c->causal ? 1 : 3); masks++) {
            operand forward[] = {activation(s, SHAPE(c->batch, c->time, 3 * c->heads * c->size)), absent()}, outputs[2];
            if (masks > 0) forward[1] = mask_of(s, c, masks == 2);
            compute(s, GP_OP_ATTENTION, &attributes, forward, 2, outputs, 2);
            operand inputs[] = {activation(s, outputs[0].type.shape), forward[0], outputs[0], outputs[1], forward[1]};
            emit(s, GP_OP_ATTENTION_GRADIENT, &attributes, inputs, masks > 0 ? 5 : 4);
        }
    }
}

/* ---- embedding ---- */

static const struct {
    int rows;
    int64_t width;
    gp_shape indices;
} EMBEDDINGS[] = {
    {1, 1, {1, {1}}}, {3, 5, {1, {9}}}, {50, 33, {2, {2, 7}}}, {7, 64, {3, {2, 3, 5}}}, {100, 48, {0, {0}}}};

void cases_embedding(suite *s) {
    gp_cast_attributes attributes = {s->dtype};
    for (size_t i = 0; i < COUNT(EMBEDDINGS); i++) {
        operand inputs[] = {parameter(s, SHAPE(EMBEDDINGS[i].rows, EMBEDDINGS[i].width)),
                            integers(s, EMBEDDINGS[i].indices, 0, EMBEDDINGS[i].rows)};
        emit(s, GP_OP_EMBEDDING, &attributes, inputs, 2);
    }
    static const int WRONG[] = {-1, 4, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT(WRONG); i++) {
        operand inputs[] = {parameter(s, SHAPE(4, 3)), integers(s, SHAPE(2), 0, 4)};
        inputs[1].values[1] = WRONG[i];
        assert_int_equal(run_status(s, GP_OP_EMBEDDING, &attributes, inputs, 2), GP_INVALID);
    }
}

void cases_embedding_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(EMBEDDINGS); i++) {
        gp_embedding_gradient_attributes attributes = {EMBEDDINGS[i].rows};
        gp_shape dy = EMBEDDINGS[i].indices;
        dy.dims[dy.rank++] = EMBEDDINGS[i].width;
        operand inputs[] = {activation(s, dy), integers(s, EMBEDDINGS[i].indices, 0, EMBEDDINGS[i].rows)};
        emit(s, GP_OP_EMBEDDING_GRADIENT, &attributes, inputs, 2);
    }
}
