/* The linear layer, and the linear map that other layers are made of. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

typedef struct linear {
    int64_t features;
    bool bias;
    gp_weight_init init;
    char *tie; /* NULL: a weight of its own */
} linear;

int64_t gp_last_dim(gp_value x) {
    gp_shape shape = gp_value_type(x).shape;
    return shape.rank > 0 ? shape.dims[shape.rank - 1] : 0;
}

/* Without `init` as PyTorch's nn.Linear.reset_parameters: weight and bias are uniform(-1/sqrt(k), 1/sqrt(k)), k inputs.
 */
static gp_init weight_init(gp_weight_init init, int64_t inputs) {
    if (init.given) return (gp_init){init.truncated ? GP_INIT_TRUNCATED_NORMAL : GP_INIT_NORMAL, init.deviation};
    return (gp_init){GP_INIT_UNIFORM, 1 / sqrt((double)inputs)};
}

gp_value gp_build_linear(gp_builder *builder, const char *scope, gp_value x, int64_t features, bool bias,
                         gp_weight_init init, const char *tie) {
    if (!gp_value_valid(x)) return gp_none();
    int64_t inputs = gp_last_dim(x);
    if (inputs < 1) return gp_builder_error(builder, "linear: the input has no last dimension to work on");
    gp_parameter_options weight_options = {.init = weight_init(init, inputs), .tie = tie};
    gp_parameter_options bias_options = {.init = init.given ? (gp_init){GP_INIT_ZEROS, 0} : weight_options.init};
    if (scope) gp_builder_push(builder, scope);
    gp_value weight =
        gp_builder_parameter(builder, "weight", gp_shape_of(2, (int64_t[]){features, inputs}), &weight_options);
    gp_value shift = gp_none();
    if (bias) shift = gp_builder_parameter(builder, "bias", gp_shape_of(1, &features), &bias_options);
    if (scope) gp_builder_pop(builder);
    if (!gp_value_valid(weight) || (bias && !gp_value_valid(shift))) return gp_none();
    return gp_linear(x, weight, shift);
}

static gp_value forward(const void *self, gp_builder *builder, gp_value input) {
    const linear *layer = self;
    return gp_build_linear(builder, NULL, input, layer->features, layer->bias, layer->init, layer->tie);
}

static void destroy(void *self) {
    linear *layer = self;
    if (layer) gp_free(layer->tie);
    gp_free(layer);
}

static const gp_layer_class linear_class = {
    .size = sizeof(gp_layer_class), .kind = "linear", .forward = forward, .destroy = destroy};

gp_status gp_create_linear(gp_arguments *arguments, gp_layer **layer) {
    linear given = {.bias = gp_argument_boolean(arguments, "bias")};
    GP_TRY(gp_argument_integer(arguments, "features", 1, &given.features));
    GP_TRY(gp_argument_init(arguments, "init", &given.init));
    const char *tie = gp_argument_text(arguments, "tie");
    linear *self = gp_allocate(sizeof *self);
    if (!self) return GP_OUT_OF_MEMORY;
    *self = given;
    if (*tie && !(self->tie = gp_copy_text(tie))) {
        destroy(self);
        return GP_OUT_OF_MEMORY;
    }
    return gp_layer_create(layer, &linear_class, self);
}
