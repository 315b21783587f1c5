/* Layers without parameters that work element by element or on the last dimension: activations, softmax, dropout. */
#include "base/memory.h"
#include "base/status.h"
#include "layers/builtin.h"

gp_status gp_argument_activation(const gp_arguments *arguments, const char *key, gp_activation_name *name) {
    static const char *const known[] = {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}; /* as the enum */
    int choice = 0;
    GP_TRY(gp_argument_choice(arguments, key, known, sizeof known / sizeof *known, &choice));
    *name = (gp_activation_name)choice;
    return GP_OK;
}

gp_value gp_build_activation(gp_value x, gp_activation_name name) {
    switch (name) {
    case GP_NAME_RELU:
        return gp_relu(x);
    case GP_NAME_GELU:
        return gp_gelu_erf(x);
    case GP_NAME_GELU_TANH:
        return gp_gelu_tanh(x);
    case GP_NAME_SILU:
        return gp_silu(x);
    case GP_NAME_SIGMOID:
        return gp_sigmoid(x);
    case GP_NAME_TANH:
        return gp_tanh(x);
    }
    return gp_none();
}

static gp_value activation_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)builder;
    return gp_build_activation(input, *(const gp_activation_name *)self);
}

/* One class each, so that messages and tables show the kind that the user wrote. */
static const gp_layer_class relu_class = {
    .size = sizeof(gp_layer_class), .kind = "relu", .forward = activation_forward, .destroy = gp_free};
static const gp_layer_class gelu_class = {
    .size = sizeof(gp_layer_class), .kind = "gelu", .forward = activation_forward, .destroy = gp_free};
static const gp_layer_class silu_class = {
    .size = sizeof(gp_layer_class), .kind = "silu", .forward = activation_forward, .destroy = gp_free};
static const gp_layer_class sigmoid_class = {
    .size = sizeof(gp_layer_class), .kind = "sigmoid", .forward = activation_forward, .destroy = gp_free};
static const gp_layer_class tanh_class = {
    .size = sizeof(gp_layer_class), .kind = "tanh", .forward = activation_forward, .destroy = gp_free};

static gp_status create_activation(gp_layer **layer, const gp_layer_class *class, gp_activation_name name) {
    return gp_layer_create_copy(layer, class, &name, sizeof name);
}

gp_status gp_create_relu(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return create_activation(layer, &relu_class, GP_NAME_RELU);
}

gp_status gp_create_gelu(gp_arguments *arguments, gp_layer **layer) {
    static const char *const known[] = {"erf", "tanh"};
    int choice = 0;
    GP_TRY(gp_argument_choice(arguments, "approximate", known, 2, &choice));
    return create_activation(layer, &gelu_class, choice == 0 ? GP_NAME_GELU : GP_NAME_GELU_TANH);
}

gp_status gp_create_silu(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return create_activation(layer, &silu_class, GP_NAME_SILU);
}

gp_status gp_create_sigmoid(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return create_activation(layer, &sigmoid_class, GP_NAME_SIGMOID);
}

gp_status gp_create_tanh(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return create_activation(layer, &tanh_class, GP_NAME_TANH);
}

static gp_value softmax_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)self;
    (void)builder;
    return gp_softmax(input);
}

static gp_value dropout_forward(const void *self, gp_builder *builder, gp_value input) {
    (void)builder;
    return gp_dropout(input, *(const double *)self);
}

static const gp_layer_class softmax_class = {
    .size = sizeof(gp_layer_class), .kind = "softmax", .forward = softmax_forward};
static const gp_layer_class dropout_class = {
    .size = sizeof(gp_layer_class), .kind = "dropout", .forward = dropout_forward, .destroy = gp_free};

gp_status gp_create_softmax(gp_arguments *arguments, gp_layer **layer) {
    (void)arguments;
    return gp_layer_create(layer, &softmax_class, NULL);
}

gp_status gp_create_dropout(gp_arguments *arguments, gp_layer **layer) {
    double p = 0;
    GP_TRY(gp_argument_number(arguments, "p", 0, 1, &p));
    return gp_layer_create_copy(layer, &dropout_class, &p, sizeof p);
}
