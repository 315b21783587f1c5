/* AmoebaNet-D and -B (Real et al., arXiv 1802.01548), the networks of the GPipe paper: cells that evolution found, as
 * tables. A cell sees the outputs of the two cells before it. Both reach it: the last one along the chain, the one
 * before as a skip that every cell keeps for the next, so that a cut between two cells is crossed by these two and
 * nothing else. A cell is a layer.
 *
 * Two published forms differ in the stem and in what PyTorch and TensorFlow do without being asked: "tensorflow"
 * (github.com/tensorflow/tpu, models/official/amoeba_net) and "torchgpipe" (Kim et al., arXiv 2004.09910). Windows of
 * stride 2 are padded as TensorFlow pads, in every form. "cifar" is the TensorFlow form with a stem that leaves small
 * images their size. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "models/blocks.h"

enum { PAIRS = 5, STATES = 2 + PAIRS, MOST_STATES_OUT = 4, MOST_NAME = 32 };

typedef enum cell_operation {
    NONE,            /* the state itself; where the cell reduces, a factorised reduction */
    CONV_1X1,        /* relu, 1x1, norm */
    CONV_3X3,        /* through a quarter of the channels: relu, 1x1, norm, relu, 3x3, norm, relu, 1x1, norm */
    CONV_1X7_7X1,    /* the same with 1x7, norm, relu, 7x1 in the middle */
    SEPARABLE_3X3_2, /* twice: relu, depthwise 3x3, 1x1, norm */
    DILATED_5X5_2,   /* twice: relu, depthwise 5x5 of dilation 2, 1x1, norm */
    AVERAGE_3X3,
    MAX_3X3,
    MAX_2X2
} cell_operation;

typedef struct operand {
    int state; /* 0: output of the cell before, 1: of the one before that, 2..: sums of pairs */
    cell_operation operation;
} operand;

/* Pair i is added up to state 2 + i; the states of `out` side by side are the cell's output. */
typedef struct cell_plan {
    operand pairs[PAIRS][2];
    int out[MOST_STATES_OUT], out_count;
} cell_plan;

typedef struct network {
    const char *name;
    cell_plan normal, reduction;
} network;

static const network networks[] = {
    {"amoebanet_d",
     {{{{1, CONV_1X1}, {1, MAX_3X3}},
       {{1, NONE}, {0, CONV_1X7_7X1}},
       {{0, CONV_1X1}, {0, CONV_1X7_7X1}},
       {{2, MAX_3X3}, {2, NONE}},
       {{1, AVERAGE_3X3}, {5, CONV_1X1}}},
      {0, 3, 4, 6},
      4},
     {{{{0, MAX_2X2}, {0, MAX_3X3}},
       {{2, NONE}, {1, CONV_3X3}},
       {{2, CONV_1X7_7X1}, {2, MAX_3X3}},
       {{3, NONE}, {1, MAX_2X2}},
       {{2, AVERAGE_3X3}, {3, CONV_1X1}}},
      {4, 5, 6},
      3}},
    {"amoebanet_b",
     {{{{1, CONV_1X1}, {1, MAX_3X3}},
       {{1, NONE}, {0, SEPARABLE_3X3_2}},
       {{1, CONV_1X1}, {0, SEPARABLE_3X3_2}},
       {{2, CONV_1X1}, {2, NONE}},
       {{1, AVERAGE_3X3}, {5, CONV_1X1}}},
      {0, 3, 4, 6},
      4},
     {{{{0, MAX_2X2}, {0, MAX_3X3}},
       {{2, NONE}, {1, CONV_3X3}},
       {{2, DILATED_5X5_2}, {2, MAX_3X3}},
       {{3, NONE}, {1, SEPARABLE_3X3_2}},
       {{4, AVERAGE_3X3}, {3, CONV_1X1}}},
      {5, 6},
      2}},
};

/* ---- a cell ---- */

typedef struct cell_settings {
    const cell_plan *plan;
    int64_t channels, stride; /* stride 2: a reduction cell */
    char recalls[MOST_NAME];  /* skip with the output of the cell before the last; "": the chain's value is both */
    char keeps[MOST_NAME];    /* skip for the next cell; "": nobody wants it */
    gp_convolution_init init;
    gp_batch_norm_settings norm;
    double drop_path;
} cell_settings;

/* The cell while its forward is written. */
typedef struct construction {
    const cell_settings *cell;
    gp_builder *builder;
    gp_value states[STATES];
    gp_value rectified[STATES]; /* max(0, state), made when the first operation wants it */
} construction;

static gp_value rectified(construction *c, int state) {
    if (!gp_value_valid(c->rectified[state])) c->rectified[state] = gp_relu(c->states[state]);
    return c->rectified[state];
}

/* A convolution with batch norm; `relu`: another operation with a relu of its own follows. */
static gp_value convolve(const construction *c, const char *scope, gp_value x, int64_t channels, int64_t height,
                         int64_t width, int64_t stride, bool relu) {
    gp_convolution_settings settings = {
        .channels = channels,
        .kernel = {height, width},
        .options = {.stride = {height > 1 ? stride : 1, width > 1 ? stride : 1}, .padding = GP_PADDING_SAME},
        .init = c->cell->init};
    if (height == 1 && width == 1) settings.options.stride[0] = settings.options.stride[1] = stride;
    gp_batch_norm_settings norm = c->cell->norm;
    norm.relu = relu;
    return gp_build_convolution_norm(c->builder, scope, x, &settings, &norm);
}

/* 1x1 to a quarter of the channels, the convolutions of the middle, 1x1 back. */
static gp_value bottleneck(construction *c, const operand *from, int64_t stride) {
    int64_t channels = c->cell->channels, quarter = channels / 4;
    gp_value x = convolve(c, "enter", rectified(c, from->state), quarter, 1, 1, 1, true);
    if (from->operation == CONV_3X3) {
        x = convolve(c, "middle", x, quarter, 3, 3, stride, true);
    } else {
        x = convolve(c, "middle1x7", x, quarter, 1, 7, stride, true);
        x = convolve(c, "middle7x1", x, quarter, 7, 1, stride, true);
    }
    return convolve(c, "leave", x, channels, 1, 1, 1, false);
}

static gp_value separable(construction *c, const operand *from, int64_t stride) {
    static const char *const depthwise[] = {"depthwise1", "depthwise2"}, *const pointwise[] = {"pointwise1",
                                                                                               "pointwise2"};
    int64_t channels = c->cell->channels, kernel = from->operation == DILATED_5X5_2 ? 5 : 3;
    int64_t dilation = from->operation == DILATED_5X5_2 ? 2 : 1;
    gp_value x = rectified(c, from->state);
    for (int i = 0; i < 2; i++) {
        int64_t step = i == 0 ? stride : 1;
        gp_convolution_settings settings = {.channels = channels,
                                            .kernel = {kernel, kernel},
                                            .options = {.stride = {step, step},
                                                        .dilation = {dilation, dilation},
                                                        .groups = channels,
                                                        .padding = GP_PADDING_SAME},
                                            .init = c->cell->init};
        x = gp_build_convolution(c->builder, depthwise[i], x, &settings);
        x = convolve(c, pointwise[i], x, channels, 1, 1, 1, i == 0);
    }
    return x;
}

static gp_value pool(gp_value x, cell_operation operation, int64_t stride) {
    int64_t kernel = operation == MAX_2X2 ? 2 : 3;
    gp_pool_options options = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = GP_PADDING_SAME};
    return operation == AVERAGE_3X3 ? gp_average_pool(x, &options) : gp_max_pool(x, &options);
}

static gp_value operate(construction *c, const operand *from) {
    const cell_settings *cell = c->cell;
    int64_t stride = from->state < 2 ? cell->stride : 1;
    switch (from->operation) {
    case NONE:
        if (stride == 1) break;
        return gp_build_factorised_reduction(c->builder, NULL, rectified(c, from->state), cell->channels, cell->init,
                                             &cell->norm);
    case CONV_1X1:
        return convolve(c, NULL, rectified(c, from->state), cell->channels, 1, 1, stride, false);
    case CONV_3X3:
    case CONV_1X7_7X1:
        return bottleneck(c, from, stride);
    case SEPARABLE_3X3_2:
    case DILATED_5X5_2:
        return separable(c, from, stride);
    case AVERAGE_3X3:
    case MAX_3X3:
    case MAX_2X2:
        return pool(c->states[from->state], from->operation, stride);
    }
    return c->states[from->state];
}

static gp_value build_pair(construction *c, int pair) {
    static const char *const sides[] = {"left", "right"};
    gp_value sum[2];
    for (int side = 0; side < 2; side++) {
        const operand *from = &c->cell->plan->pairs[pair][side];
        char scope[MOST_NAME];
        snprintf(scope, sizeof scope, "pair%d.%s", pair, sides[side]);
        gp_builder_push(c->builder, scope);
        sum[side] = operate(c, from);
        gp_builder_pop(c->builder);
        if (from->operation != NONE && c->cell->drop_path > 0)
            sum[side] = gp_drop_path(sum[side], c->cell->drop_path, true);
    }
    return gp_add(sum[0], sum[1]);
}

/* Brings the output of the cell before the last one to the size of the last one's and to the cell's channels. */
static gp_value match(const construction *c, gp_value before, gp_value last) {
    gp_shape own = gp_value_type(before).shape, other = gp_value_type(last).shape;
    const cell_settings *cell = c->cell;
    if (!gp_value_valid(before)) return before;
    if (own.dims[1] != other.dims[1] || own.dims[2] != other.dims[2])
        return gp_build_factorised_reduction(c->builder, "previous", gp_relu(before), cell->channels, cell->init,
                                             &cell->norm);
    if (own.dims[3] == cell->channels) return before;
    return convolve(c, "previous", gp_relu(before), cell->channels, 1, 1, 1, false);
}

static gp_value cell_forward(const void *self, gp_builder *builder, gp_value input) {
    const cell_settings *cell = self;
    construction c = {.cell = cell, .builder = builder};
    gp_value before = *cell->recalls ? gp_builder_recall(builder, cell->recalls) : input, out[MOST_STATES_OUT];
    if (*cell->keeps) gp_builder_keep(builder, cell->keeps, input);
    for (int i = 0; i < STATES; i++)
        c.rectified[i] = gp_none();
    c.states[0] = convolve(&c, "last", gp_relu(input), cell->channels, 1, 1, 1, false);
    c.states[1] = match(&c, before, input);
    for (int pair = 0; pair < PAIRS; pair++)
        c.states[2 + pair] = build_pair(&c, pair);
    for (int i = 0; i < cell->plan->out_count; i++)
        out[i] = c.states[cell->plan->out[i]];
    return gp_concatenate(out, (size_t)cell->plan->out_count, 3);
}

static const gp_layer_class normal_class = {
    .size = sizeof(gp_layer_class), .kind = "normal_cell", .forward = cell_forward, .destroy = gp_free};
static const gp_layer_class reduction_class = {
    .size = sizeof(gp_layer_class), .kind = "reduction_cell", .forward = cell_forward, .destroy = gp_free};

/* ---- the auxiliary classifier ---- */

typedef struct auxiliary {
    int64_t classes;
    gp_convolution_init init;
    gp_batch_norm_settings norm;
    gp_weight_init classifier;
} auxiliary;

static const char auxiliary_skip[] = "auxiliary";

/* Two convolutions over a pooled image, the second as large as what is left of it; the image itself goes on. */
static gp_value auxiliary_forward(const void *self, gp_builder *builder, gp_value input) {
    enum { POOL = 5, STRIDE = 3, FIRST = 51, SECOND = 307 }; /* 128 and 768 times 0.4, as published */
    const auxiliary *layer = self;
    gp_batch_norm_settings norm = layer->norm;
    gp_shape shape = gp_value_type(input).shape;
    gp_pool_options pool = {.stride = {STRIDE, STRIDE}};
    for (int axis = 0; axis < 2; axis++)
        pool.kernel[axis] = shape.dims[1 + axis] < POOL ? shape.dims[1 + axis] : POOL;
    norm.relu = true;
    gp_value x = gp_average_pool(gp_relu(input), &pool);
    if (!gp_value_valid(x)) return gp_none();
    shape = gp_value_type(x).shape;
    gp_convolution_settings first = {.channels = FIRST, .kernel = {1, 1}, .init = layer->init};
    gp_convolution_settings second = {
        .channels = SECOND, .kernel = {shape.dims[1], shape.dims[2]}, .init = layer->init};
    x = gp_build_convolution_norm(builder, "projection", x, &first, &norm);
    x = gp_build_convolution_norm(builder, "whole", x, &second, &norm);
    x = gp_build_linear(builder, "classifier", gp_global_average_pool(x), layer->classes, true, layer->classifier,
                        NULL);
    gp_builder_keep(builder, auxiliary_skip, x);
    return input;
}

static const gp_layer_class auxiliary_class = {
    .size = sizeof(gp_layer_class), .kind = "auxiliary_classifier", .forward = auxiliary_forward, .destroy = gp_free};

/* ---- the network ---- */

typedef enum stem { STEM_TENSORFLOW, STEM_TORCHGPIPE, STEM_CIFAR } stem;

typedef struct settings {
    const network *network;
    int64_t layers, filters;
    stem stem;
    double auxiliary, dropout, drop_path;
    gp_batch_norm_settings norm;
    gp_convolution_init init;
    gp_weight_init classifier;
} settings;

static gp_status read_settings(const gp_arguments *arguments, const gp_zoo_task *task, settings *s) {
    static const char *const stems[] = {"tensorflow", "torchgpipe", "cifar"};
    int choice = 0;
    gp_weight_init decay;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        if (strcmp(networks[i].name, arguments->info->kind) == 0) s->network = &networks[i];
    }
    GP_TRY(gp_argument_integer(arguments, "layers", 1, &s->layers));
    GP_TRY(gp_argument_integer(arguments, "filters", 16, &s->filters));
    GP_TRY(gp_argument_choice(arguments, "stem", stems, 3, &choice));
    GP_TRY(gp_argument_number(arguments, "auxiliary", 0, 1e6, &s->auxiliary));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &s->dropout));
    GP_TRY(gp_argument_number(arguments, "drop_path", 0, 1, &s->drop_path));
    s->stem = (stem)choice;
    bool torch = s->stem == STEM_TORCHGPIPE;
    /* 0.9997 needs ten thousand steps and more, which trainings on small images do not have. */
    s->norm = (gp_batch_norm_settings){
        .epsilon = torch ? 1e-5 : 1e-3, .decay = s->stem == STEM_TENSORFLOW ? 0.9997 : 0.9, .weight = 1};
    GP_TRY(gp_argument_init(arguments, "batch_norm_decay", &decay));
    if (decay.given) GP_TRY(gp_argument_number(arguments, "batch_norm_decay", 0, 1, &s->norm.decay));
    s->init = torch ? GP_CONVOLUTION_UNIFORM : GP_CONVOLUTION_TRUNCATED;
    /* As published for the 1000 classes of ImageNet; by the same rule a few classes would start with a loss of 22. */
    double outputs = task->classes > 1000 ? (double)task->classes : 1000;
    s->classifier = (gp_weight_init){!torch, sqrt(2.6 / outputs), true};
    if (s->filters % 8 != 0)
        return gp_error(GP_INVALID, "%s: filters is %" PRId64 ", but multiples of 8 are accepted",
                        arguments->info->kind, s->filters);
    if (s->auxiliary > 0 && s->layers < 2)
        return gp_error(GP_INVALID, "%s: the auxiliary classifier needs 2 layers or more", arguments->info->kind);
    return GP_OK;
}

static gp_status add_stem(const settings *s, gp_model *model) {
    if (s->stem == STEM_TORCHGPIPE) GP_TRY(gp_zoo_add(model, "relu", NULL, 0));
    int64_t channels = s->stem == STEM_TORCHGPIPE ? s->filters / 4 : 32;
    gp_convolution_settings convolution = gp_zoo_square(channels, 3, s->stem == STEM_CIFAR ? 1 : 2, s->init);
    if (s->stem == STEM_TENSORFLOW) convolution.options = (gp_convolution_options){.stride = {2, 2}};
    return gp_zoo_add_convolution(model, &convolution, &s->norm, false);
}

/* How many cells there are, and the number of the one that is added. */
typedef struct cell_count {
    int64_t added, all;
} cell_count;

static gp_status add_cell(const settings *s, gp_model *model, cell_count *count, bool reduction, int64_t channels) {
    cell_settings one = {.plan = reduction ? &s->network->reduction : &s->network->normal,
                         .channels = channels,
                         .stride = reduction ? 2 : 1,
                         .init = s->init,
                         .norm = s->norm,
                         .drop_path = s->drop_path};
    int64_t number = count->added++;
    if (number > 0) snprintf(one.recalls, sizeof one.recalls, "before.%" PRId64, number);
    if (number + 1 < count->all) snprintf(one.keeps, sizeof one.keeps, "before.%" PRId64, number + 1);
    return gp_zoo_add_copy(model, reduction ? &reduction_class : &normal_class, &one, sizeof one);
}

/* Reductions come before normal cells number layers / 3 and 2 layers / 3. */
static bool reduces(const settings *s, int64_t layer) {
    return layer == s->layers / 3 || layer == 2 * s->layers / 3;
}

static gp_status add_cells(const settings *s, const gp_zoo_task *task, gp_model *model) {
    int64_t stem_cells = s->stem == STEM_CIFAR ? 0 : 2, filters = s->filters;
    int64_t first = s->stem == STEM_TENSORFLOW ? filters / 4 : filters / 2;
    cell_count count = {0, stem_cells + s->layers};
    for (int64_t layer = 0; layer < s->layers; layer++)
        count.all += reduces(s, layer);
    for (int64_t i = 0; i < stem_cells; i++)
        GP_TRY(add_cell(s, model, &count, true, first << i));
    for (int64_t layer = 0; layer < s->layers; layer++) {
        if (reduces(s, layer)) {
            filters *= 2;
            GP_TRY(add_cell(s, model, &count, true, filters));
        }
        GP_TRY(add_cell(s, model, &count, false, filters));
        if (s->auxiliary > 0 && layer + 1 == 2 * s->layers / 3) {
            auxiliary head = {task->classes, s->init, s->norm, s->classifier};
            GP_TRY(gp_zoo_add_copy(model, &auxiliary_class, &head, sizeof head));
        }
    }
    return GP_OK;
}

gp_status gp_zoo_amoebanet(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    settings s = {0};
    GP_TRY(read_settings(arguments, task, &s));
    GP_TRY(add_stem(&s, model));
    GP_TRY(add_cells(&s, task, model));
    gp_zoo_classifier classifier = {.classes = task->classes,
                                    .relu = s.stem != STEM_TORCHGPIPE,
                                    .dropout = s.dropout,
                                    .init = s.classifier,
                                    .auxiliary = s.auxiliary > 0 ? auxiliary_skip : NULL,
                                    .auxiliary_weight = s.auxiliary};
    return gp_zoo_add_classifier(model, &classifier);
}
