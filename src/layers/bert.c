/* What BERT (Devlin et al., arXiv 1810.04805) has and GPT-2 has not: an embedding of three rows (tokens, token types,
 * mask) that keeps the mask for the attention layers, and the pooler. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

/* Rows of a sample. */
enum { TOKENS, TYPES, MASK, ROWS };

typedef struct bert_embedding {
    int64_t vocabulary, width, context, types;
    double dropout, deviation, epsilon;
    char mask[]; /* name of the skip, as long as it is; "": none */
} bert_embedding;

static gp_value row_of(gp_value input, int row) {
    gp_shape shape = gp_value_type(input).shape;
    gp_value slice = gp_slice(input, 1, row, row + 1);
    return gp_reshape(slice, gp_shape_of(2, (int64_t[]){shape.dims[0], shape.dims[2]}));
}

/* A table of rows in a scope. */
static gp_value declare_table(const bert_embedding *self, gp_builder *builder, const char *scope, int64_t rows) {
    gp_parameter_options options = {.init = {GP_INIT_NORMAL, self->deviation}};
    gp_builder_push(builder, scope);
    gp_value value = gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){rows, self->width}), &options);
    gp_builder_pop(builder);
    return value;
}

static gp_value norm(const bert_embedding *self, gp_builder *builder, gp_value x) {
    gp_parameter_options ones = {.init = {GP_INIT_CONSTANT, 1}};
    gp_builder_push(builder, "norm");
    gp_value weight = gp_builder_parameter(builder, "weight", gp_shape_of(1, &self->width), &ones);
    gp_value bias = gp_builder_parameter(builder, "bias", gp_shape_of(1, &self->width), NULL);
    gp_builder_pop(builder);
    if (!gp_value_valid(weight) || !gp_value_valid(bias)) return gp_none();
    return gp_layer_norm(x, weight, bias, self->epsilon);
}

static gp_value embedding_forward(const void *self, gp_builder *builder, gp_value input) {
    const bert_embedding *layer = self;
    gp_type type = gp_value_type(input);
    char text[128];
    if (type.dtype != GP_I32 || type.shape.rank != 3 || type.shape.dims[1] != ROWS)
        return gp_builder_error(builder,
                                "bert_embedding: the input is %s, but i32[batch, 3, time] is needed: tokens, token "
                                "types, mask",
                                gp_type_format(type, text, sizeof text));
    int64_t time = type.shape.dims[2], context = layer->context ? layer->context : time;
    if (time > context)
        return gp_builder_error(builder, "bert_embedding: the input has %" PRId64 " positions, the context is %" PRId64,
                                time, context);
    gp_value tokens = declare_table(layer, builder, "token", layer->vocabulary);
    gp_value positions = declare_table(layer, builder, "position", context);
    gp_value types = declare_table(layer, builder, "type", layer->types);
    if (!gp_value_valid(tokens) || !gp_value_valid(positions) || !gp_value_valid(types)) return gp_none();
    gp_dtype dtype = gp_builder_dtype(builder);
    if (time < context) positions = gp_slice(positions, 0, 0, time);
    gp_value x =
        gp_add(gp_embedding(tokens, row_of(input, TOKENS), dtype), gp_embedding(types, row_of(input, TYPES), dtype));
    x = norm(layer, builder, gp_add(x, positions));
    if (*layer->mask) gp_builder_keep(builder, layer->mask, row_of(input, MASK));
    return layer->dropout > 0 ? gp_dropout(x, layer->dropout) : x;
}

static gp_value pooler_forward(const void *self, gp_builder *builder, gp_value input) {
    gp_shape shape = gp_value_type(input).shape;
    if (shape.rank != 3)
        return gp_builder_error(builder, "pooler: the input has rank %d, but [batch, time, width] is needed",
                                shape.rank);
    gp_value first = gp_slice(input, 1, 0, 1);
    first = gp_reshape(first, gp_shape_of(2, (int64_t[]){shape.dims[0], shape.dims[2]}));
    return gp_tanh(gp_build_linear(builder, NULL, first, shape.dims[2], true, *(const gp_weight_init *)self, NULL));
}

static const gp_layer_class embedding_class = {
    .size = sizeof(gp_layer_class), .kind = "bert_embedding", .forward = embedding_forward, .destroy = gp_free};
static const gp_layer_class pooler_class = {
    .size = sizeof(gp_layer_class), .kind = "pooler", .forward = pooler_forward, .destroy = gp_free};

gp_status gp_create_bert_embedding(gp_arguments *arguments, gp_layer **layer) {
    bert_embedding self = {0};
    GP_TRY(gp_argument_integer(arguments, "vocabulary", 1, &self.vocabulary));
    GP_TRY(gp_argument_integer(arguments, "width", 1, &self.width));
    GP_TRY(gp_argument_integer(arguments, "context", 0, &self.context));
    GP_TRY(gp_argument_integer(arguments, "types", 1, &self.types));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &self.dropout));
    GP_TRY(gp_argument_number(arguments, "init", 0, 1e6, &self.deviation));
    GP_TRY(gp_argument_number(arguments, "epsilon", 0, 1, &self.epsilon));
    const char *mask = gp_argument_text(arguments, "mask");
    bert_embedding *copy = gp_allocate(sizeof self + strlen(mask) + 1);
    if (!copy) return GP_OUT_OF_MEMORY;
    *copy = self;
    memcpy(copy->mask, mask, strlen(mask) + 1);
    return gp_layer_create(layer, &embedding_class, copy);
}

gp_status gp_create_pooler(gp_arguments *arguments, gp_layer **layer) {
    gp_weight_init init = {0};
    GP_TRY(gp_argument_init(arguments, "init", &init));
    return gp_layer_create_copy(layer, &pooler_class, &init, sizeof init);
}
