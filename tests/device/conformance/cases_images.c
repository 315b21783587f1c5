/* Cases of what image models do beside convolving: batch norm, pooling, padding, drop-path, channel scaling. */
#include "suite.h"

/* ---- batch norm ---- */

/* Few rows, few columns, columns that fit no vector, several groups, a part of a folded row at the end. */
static const gp_shape ROWS[] = {{2, {3, 1}},         {2, {5, 3}},     {4, {2, 2, 2, 7}}, {4, {2, 3, 5, 16}},
                                {4, {3, 4, 4, 33}},  {2, {130, 64}},  {3, {2, 9, 65}},   {4, {2, 7, 7, 256}},
                                {4, {5, 13, 11, 3}}, {2, {301, 100}}, {2, {4, 2500}},    {4, {4, 20, 21, 24}}};

static const gp_batch_norm_attributes NORMS[] = {{1e-3, false}, {1e-5, true}};

static gp_shape channels_of(gp_shape shape) {
    return SHAPE(shape.dims[shape.rank - 1]);
}

void cases_batch_norm(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(ROWS); i++) {
        gp_shape shape = ROWS[i / 2];
        operand inputs[] = {uniform(s, s->dtype, shape, -1.0, 3.0), parameter(s, channels_of(shape)),
                            parameter(s, channels_of(shape))};
        s->nan_travels = i % 2 == 0; /* comparisons with a NaN are false: the rectifier lets it pass, or not */
        emit(s, GP_OP_BATCH_NORM, &NORMS[i % 2], inputs, 3);
    }
    /* A mean that is large beside the deviation. */
    operand far[] = {uniform(s, s->dtype, SHAPE(90, 48), 20.0, 24.0), parameter(s, SHAPE(48)), parameter(s, SHAPE(48))};
    emit(s, GP_OP_BATCH_NORM, &NORMS[0], far, 3);
    operand one_row[] = {activation(s, SHAPE(1, 9)), parameter(s, SHAPE(9)), parameter(s, SHAPE(9))};
    emit(s, GP_OP_BATCH_NORM, &NORMS[0], one_row, 3);
}

void cases_batch_norm_inference(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(ROWS); i++) {
        gp_shape shape = ROWS[i / 2], n = channels_of(shape);
        operand inputs[] = {activation(s, shape), parameter(s, n), parameter(s, n), parameter(s, n),
                            uniform(s, GP_F32, n, 0.1, 2.0)};
        s->nan_travels = i % 2 == 0;
        emit(s, GP_OP_BATCH_NORM_INFERENCE, &NORMS[i % 2], inputs, 5);
    }
}

/* dy, x, w, b, and what the forward operation has found. */
static void norm(suite *s, gp_shape shape, const gp_batch_norm_attributes *attributes, operand *inputs) {
    operand made[3];
    inputs[0] = activation(s, shape);
    inputs[1] = uniform(s, s->dtype, shape, -1.0, 3.0);
    inputs[2] = parameter(s, channels_of(shape));
    inputs[3] = parameter(s, channels_of(shape));
    compute(s, GP_OP_BATCH_NORM, attributes, inputs + 1, 3, made, 3);
    inputs[4] = made[1];
    inputs[5] = made[2];
}

void cases_batch_norm_weight_gradient(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(ROWS); i++) {
        operand inputs[6];
        norm(s, ROWS[i / 2], &NORMS[i % 2], inputs);
        s->nan_travels = i % 2 == 0;
        emit(s, GP_OP_BATCH_NORM_WEIGHT_GRADIENT, &NORMS[i % 2], inputs, 6);
    }
}

/* Of few rows nothing is left but rounding. */
void cases_batch_norm_gradient(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(ROWS); i++) {
        operand inputs[8];
        if (ROWS[i / 2].dims[0] * ROWS[i / 2].dims[1] < 6) continue;
        norm(s, ROWS[i / 2], &NORMS[i % 2], inputs);
        compute(s, GP_OP_BATCH_NORM_WEIGHT_GRADIENT, &NORMS[i % 2], inputs, 6, inputs + 6, 2);
        s->nan_travels = i % 2 == 0;
        emit(s, GP_OP_BATCH_NORM_GRADIENT, &NORMS[i % 2], inputs, 8);
    }
}

void cases_batch_norm_inference_gradient(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(ROWS); i++) {
        operand inputs[6];
        norm(s, ROWS[i / 2], &NORMS[i % 2], inputs);
        s->nan_travels = i % 2 == 0;
        emit(s, GP_OP_BATCH_NORM_INFERENCE_GRADIENT, &NORMS[i % 2], inputs, 6);
    }
}

/* ---- pooling ---- */

typedef struct pool {
    int64_t n, image[2], channels;
    int64_t kernel[2], stride[2], before[2], after[2];
} pool;

static const pool POOLS[] = {
    {2, {8, 8}, 16, {2, 2}, {2, 2}, {0, 0}, {0, 0}},   {1, {9, 7}, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {3, {5, 6}, 65, {3, 3}, {1, 1}, {1, 1}, {1, 1}},   {2, {8, 9}, 33, {3, 2}, {2, 1}, {0, 1}, {1, 0}},
    {2, {1, 1}, 5, {1, 1}, {1, 1}, {0, 0}, {0, 0}},    {1, {1, 1}, 130, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {2, {7, 5}, 8, {2, 2}, {4, 3}, {0, 0}, {0, 0}},    {1, {4, 6}, 2, {4, 6}, {1, 1}, {0, 0}, {0, 0}},
    {1, {4, 6}, 70, {2, 3}, {2, 2}, {1, 0}, {0, 2}},   {2, {16, 16}, 64, {5, 5}, {3, 3}, {2, 2}, {2, 2}},
    {1, {33, 34}, 48, {3, 3}, {2, 2}, {0, 0}, {1, 1}}, {1, {20, 19}, 1, {16, 16}, {2, 3}, {0, 0}, {0, 0}},
};

static gp_window_attributes window_of(const pool *p) {
    gp_window_attributes w = {.dilation = {1, 1}};
    for (int axis = 0; axis < 2; axis++) {
        w.kernel[axis] = p->kernel[axis];
        w.stride[axis] = p->stride[axis];
        w.before[axis] = p->before[axis];
        w.after[axis] = p->after[axis];
        w.image[axis] = p->image[axis];
    }
    return w;
}

static gp_shape large(const pool *p) {
    return SHAPE(p->n, p->image[0], p->image[1], p->channels);
}

/* Of random numbers, and of few different ones, so that the greatest is there more than once. */
static operand pixels(suite *s, const pool *p, bool equal) {
    operand x = uniform(s, s->dtype, large(p), -2.0, 2.0);
    for (int64_t i = 0; equal && i < elements(&x); i++) {
        x.values[i] = (double)(int)x.values[i];
    }
    return x;
}

void cases_max_pool(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(POOLS); i++) {
        gp_window_attributes w = window_of(&POOLS[i / 2]);
        operand x = pixels(s, &POOLS[i / 2], i % 2);
        emit(s, GP_OP_MAX_POOL, &w, &x, 1);
    }
}

void cases_max_pool_gradient(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(POOLS); i++) {
        gp_window_attributes w = window_of(&POOLS[i / 2]);
        operand x = pixels(s, &POOLS[i / 2], i % 2), made[2];
        compute(s, GP_OP_MAX_POOL, &w, &x, 1, made, 2);
        operand inputs[] = {activation(s, made[0].type.shape), made[1]};
        emit(s, GP_OP_MAX_POOL_GRADIENT, &w, inputs, 2);
    }
}

void cases_average_pool(suite *s) {
    for (size_t i = 0; i < COUNT(POOLS); i++) {
        gp_window_attributes w = window_of(&POOLS[i]);
        operand x = pixels(s, &POOLS[i], false);
        emit(s, GP_OP_AVERAGE_POOL, &w, &x, 1);
    }
}

void cases_average_pool_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(POOLS); i++) {
        gp_window_attributes w = window_of(&POOLS[i]);
        operand x = pixels(s, &POOLS[i], false), made;
        compute(s, GP_OP_AVERAGE_POOL, &w, &x, 1, &made, 1);
        operand dy = activation(s, made.type.shape);
        emit(s, GP_OP_AVERAGE_POOL_GRADIENT, &w, &dy, 1);
    }
}

void cases_global_average_pool(suite *s) {
    for (size_t i = 0; i < COUNT(POOLS); i++) {
        operand x = pixels(s, &POOLS[i], false);
        emit(s, GP_OP_GLOBAL_AVERAGE_POOL, NULL, &x, 1);
    }
}

void cases_global_average_pool_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(POOLS); i++) {
        gp_image_attributes image = {POOLS[i].image[0], POOLS[i].image[1]};
        operand dy = activation(s, SHAPE(POOLS[i].n, POOLS[i].channels));
        emit(s, GP_OP_GLOBAL_AVERAGE_POOL_GRADIENT, &image, &dy, 1);
    }
}

/* ---- padding, repeating ---- */

typedef struct padding {
    gp_shape x;
    gp_pad_attributes pad;
    bool first; /* the first element stays */
} padding;

static const padding PADDINGS[] = {
    {{2, {3, 4}}, {{0, 2}, {0, 1}}, true},
    {{2, {3, 4}}, {{0, -1}, {0, 3}}, false},
    {{3, {2, 3, 5}}, {{0, 0, 2}, {0, -1, -3}}, true},
    {{3, {2, 3, 5}}, {{0, 1, 0}, {0, 2, 0}}, true},
    {{4, {2, 4, 3, 17}}, {{0, -1, 2, 0}, {0, 1, -2, 0}}, false}, /* a shift */
    {{4, {1, 5, 5, 8}}, {{0, 1, 1, 0}, {0, 1, 1, 0}}, true},
    {{4, {2, 3, 4, 5}}, {{0, 3, 0, 1}, {0, -3, 0, -2}}, false}, /* nothing is left */
    {{1, {6}}, {{0}, {0}}, true},
};

void cases_pad(suite *s) {
    for (size_t i = 0; i < COUNT(PADDINGS); i++) {
        operand x = activation(s, PADDINGS[i].x);
        s->nan_travels = PADDINGS[i].first;
        emit(s, GP_OP_PAD, &PADDINGS[i].pad, &x, 1);
    }
}

static const gp_upsample_attributes REPEATS[] = {{2, 2}, {1, 3}, {3, 1}, {4, 5}};

void cases_upsample(suite *s) {
    for (size_t i = 0; i < COUNT(REPEATS); i++) {
        operand x = activation(s, SHAPE(2, 3, 2, 1 + 11 * (int64_t)i));
        emit(s, GP_OP_UPSAMPLE, &REPEATS[i], &x, 1);
    }
}

void cases_upsample_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(REPEATS); i++) {
        operand dy = activation(s, SHAPE(2, 3 * REPEATS[i].rows, 2 * REPEATS[i].columns, 1 + 33 * (int64_t)i));
        emit(s, GP_OP_UPSAMPLE_GRADIENT, &REPEATS[i], &dy, 1);
    }
}

/* ---- paths and channels ---- */

static const gp_shape SAMPLES[] = {{1, {9}}, {2, {7, 3}}, {4, {3, 2, 5, 17}}, {2, {3, 20000}}, {4, {5, 9, 9, 64}}};

void cases_drop_path(suite *s) {
    for (size_t i = 0; i < 2 * COUNT(SAMPLES); i++) {
        gp_drop_path_attributes attributes = {.p = 0.5, .use = 769, .scheduled = i % 2};
        operand x = activation(s, SAMPLES[i / 2]);
        emit(s, GP_OP_DROP_PATH, &attributes, &x, 1);
    }
}

static const gp_shape SCALED[] = {{2, {3, 5}},        {3, {2, 7, 1}},    {4, {2, 3, 5, 17}},
                                  {4, {3, 7, 7, 64}}, {3, {2, 130, 33}}, {4, {1, 2, 2, 1100}}};

void cases_channel_scale(suite *s) {
    for (size_t i = 0; i < COUNT(SCALED); i++) {
        operand inputs[] = {activation(s, SCALED[i]),
                            activation(s, SHAPE(SCALED[i].dims[0], SCALED[i].dims[SCALED[i].rank - 1]))};
        emit(s, GP_OP_CHANNEL_SCALE, NULL, inputs, 2);
    }
}

void cases_channel_scale_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(SCALED); i++) {
        operand inputs[] = {activation(s, SCALED[i]), activation(s, SCALED[i])};
        emit(s, GP_OP_CHANNEL_SCALE_GRADIENT, NULL, inputs, 2);
    }
}
