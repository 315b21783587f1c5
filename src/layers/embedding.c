/* Embeddings of indices and of positions. */
#include <inttypes.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct embedding {
    int64_t vocabulary, width;
    double deviation;
} embedding;

typedef struct positions {
    int64_t context; /* 0: as many as the input has */
    bool sinusoidal;
    double deviation;
} positions;

typedef struct text_embedding {
    embedding token;
    int64_t context;
    double dropout;
} text_embedding;

static gp_value build_embedding(gp_builder *builder, const char *scope, gp_value indices, const embedding *self) {
    gp_parameter_options options = {.init = {GP_INIT_NORMAL, self->deviation}};
    if (scope) gp_builder_push(builder, scope);
    gp_value table =
        gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){self->vocabulary, self->width}), &options);
    if (scope) gp_builder_pop(builder);
    return gp_embedding(table, indices, gp_builder_dtype(builder));
}

/* x plus learned rows table[context, width] in `scope` (NULL: none), one for each position. */
static gp_value build_positions(gp_builder *builder, const char *scope, gp_value x, int64_t context, double deviation) {
    if (!gp_value_valid(x)) return gp_none();
    gp_shape shape = gp_value_type(x).shape;
    if (shape.rank != 3)
        return gp_builder_error(builder, "positions: the input has rank %d, but [batch, time, width] is needed",
                                shape.rank);
    if (context == 0) context = shape.dims[1];
    if (shape.dims[1] > context)
        return gp_builder_error(builder, "positions: the input has %" PRId64 " positions, the context is %" PRId64,
                                shape.dims[1], context);
    gp_parameter_options options = {.init = {GP_INIT_NORMAL, deviation}};
    if (scope) gp_builder_push(builder, scope);
    gp_value table =
        gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){context, shape.dims[2]}), &options);
    if (scope) gp_builder_pop(builder);
    if (shape.dims[1] < context) table = gp_slice(table, 0, 0, shape.dims[1]);
    return gp_add(x, table);
}

static gp_value embedding_forward(const void *self, gp_builder *builder, gp_value input) {
    return build_embedding(builder, NULL, input, self);
}

static gp_value positions_forward(const void *self, gp_builder *builder, gp_value input) {
    const positions *layer = self;
    if (layer->sinusoidal) return gp_build_sinusoid(input);
    return build_positions(builder, NULL, input, layer->context, layer->deviation);
}

static gp_value text_embedding_forward(const void *self, gp_builder *builder, gp_value input) {
    const text_embedding *layer = self;
    gp_value x = build_embedding(builder, "token", input, &layer->token);
    x = build_positions(builder, "position", x, layer->context, layer->token.deviation);
    return layer->dropout > 0 ? gp_dropout(x, layer->dropout) : x;
}

static const gp_layer_class embedding_class = {
    .size = sizeof(gp_layer_class), .kind = "embedding", .forward = embedding_forward, .destroy = gp_free};
static const gp_layer_class positions_class = {
    .size = sizeof(gp_layer_class), .kind = "positions", .forward = positions_forward, .destroy = gp_free};
static const gp_layer_class text_embedding_class = {
    .size = sizeof(gp_layer_class), .kind = "text_embedding", .forward = text_embedding_forward, .destroy = gp_free};

static gp_status read_embedding(const gp_arguments *arguments, embedding *self) {
    GP_TRY(gp_argument_integer(arguments, "vocabulary", 1, &self->vocabulary));
    GP_TRY(gp_argument_integer(arguments, "width", 1, &self->width));
    return gp_argument_number(arguments, "init", 0, 1e6, &self->deviation);
}

gp_status gp_create_embedding(gp_arguments *arguments, gp_layer **layer) {
    embedding self = {0};
    GP_TRY(read_embedding(arguments, &self));
    return gp_layer_create_copy(layer, &embedding_class, &self, sizeof self);
}

gp_status gp_create_positions(gp_arguments *arguments, gp_layer **layer) {
    static const char *const known[] = {"learned", "sinusoidal"};
    positions self = {0};
    int kind = 0;
    GP_TRY(gp_argument_integer(arguments, "context", 0, &self.context));
    GP_TRY(gp_argument_number(arguments, "init", 0, 1e6, &self.deviation));
    GP_TRY(gp_argument_choice(arguments, "kind", known, 2, &kind));
    self.sinusoidal = kind == 1;
    return gp_layer_create_copy(layer, &positions_class, &self, sizeof self);
}

gp_status gp_create_text_embedding(gp_arguments *arguments, gp_layer **layer) {
    text_embedding self = {0};
    GP_TRY(read_embedding(arguments, &self.token));
    GP_TRY(gp_argument_integer(arguments, "context", 0, &self.context));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &self.dropout));
    return gp_layer_create_copy(layer, &text_embedding_class, &self, sizeof self);
}
