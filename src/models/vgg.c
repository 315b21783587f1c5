/* VGG-16 (Simonyan & Zisserman, arXiv 1409.1556), configuration D, without batch norm. Convolutions start as normal(0,
 * sqrt(2 / fan out)), linear maps as normal(0, 0.01), biases as 0, as in torchvision. The first linear map sees the
 * whole last image: 7x7 for images of 224. */
#include "base/status.h"
#include "models/blocks.h"

static gp_status add_linear(gp_model *model, int64_t features) {
    gp_option options[] = {gp_zoo_integer("features", features), gp_zoo_number("init", 0.01)};
    return gp_zoo_add(model, "linear", options, 2);
}

gp_status gp_zoo_vgg(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model) {
    enum { HIDDEN = 4096, GROUPS = 5 };
    static const int64_t convolutions[GROUPS] = {2, 2, 3, 3, 3}, channels[GROUPS] = {64, 128, 256, 512, 512};
    double dropout = 0;
    GP_TRY(gp_argument_number(arguments, "dropout", 0, 1, &dropout));
    for (int group = 0; group < GROUPS; group++) {
        gp_convolution_settings convolution = gp_zoo_square(channels[group], 3, 1, GP_CONVOLUTION_HE);
        convolution.bias = true;
        for (int64_t i = 0; i < convolutions[group]; i++)
            GP_TRY(gp_zoo_add_convolution(model, &convolution, NULL, true));
        GP_TRY(gp_zoo_add_max_pool(model, 2, 2, "valid", false));
    }
    GP_TRY(gp_zoo_add(model, "flatten", NULL, 0));
    gp_option drop[] = {gp_zoo_number("p", dropout)};
    for (int i = 0; i < 2; i++) {
        GP_TRY(add_linear(model, HIDDEN));
        GP_TRY(gp_zoo_add(model, "relu", NULL, 0));
        GP_TRY(gp_zoo_add(model, "dropout", drop, 1));
    }
    return add_linear(model, task->classes);
}
