/* A perceptron with hidden layers: the image as a row, linear maps with rectifiers between. Initial values as PyTorch's
 * nn.Linear. */
#include "base/status.h"
#include "models/blocks.h"

static gp_status add_linear(gp_model *model, int64_t features) {
    gp_option options[] = {gp_zoo_integer("features", features)};
    return gp_zoo_add(model, "linear", options, 1);
}

gp_status gp_zoo_mlp(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    int64_t layers = 0, width = 0;
    double dropout = 0;
    GP_TRY(gp_argument_integer(arguments, "layers", 0, &layers));
    GP_TRY(gp_argument_integer(arguments, "width", 1, &width));
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &dropout));
    gp_option drop[] = {gp_zoo_number("p", dropout)};
    GP_TRY(gp_zoo_add(model, "flatten", NULL, 0));
    for (int64_t i = 0; i < layers; i++) {
        GP_TRY(add_linear(model, width));
        GP_TRY(gp_zoo_add(model, "relu", NULL, 0));
        if (dropout > 0) GP_TRY(gp_zoo_add(model, "dropout", drop, 1));
    }
    return add_linear(model, task->classes);
}
