/* What image models of the zoo share: the task, the table's functions, and layers that several families have. */
#ifndef GP_MODELS_BLOCKS_H
#define GP_MODELS_BLOCKS_H

#include "layers/image.h"
#include "models/zoo.h"

/* What every image model is asked: images in, classes out. */
typedef struct gp_zoo_task {
    int64_t height, width, channels; /* of a sample */
    int64_t classes;
} gp_zoo_task;

/* Appends the layers of a family to an empty model whose samples are the task's images. The arguments' kind is the
 * model's name. One file each. */
typedef gp_status gp_zoo_family(const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model);
gp_zoo_family gp_zoo_amoebanet, gp_zoo_resnet, gp_zoo_resnet_cifar, gp_zoo_senet, gp_zoo_googlenet, gp_zoo_vgg,
    gp_zoo_unet, gp_zoo_mlp;

/* A layer "convolution": convolution, then batch norm when `norm` is given, then max(x, 0) when `relu`. Without norm
 * its parameters are "weight" and "bias", with it "conv.weight" and so on. */
gp_status gp_zoo_add_convolution(gp_model *model, const gp_convolution_settings *settings,
                                 const gp_batch_norm_settings *norm, bool relu);

/* A layer "classifier": max(x, 0) when `relu`, mean over pixels, dropout, linear map to the classes. `auxiliary`: name
 * of a skip with other logits that count that much in the loss of training; NULL: none. */
typedef struct gp_zoo_classifier {
    int64_t classes;
    bool relu;
    double dropout;
    gp_weight_init init;
    const char *auxiliary;
    double auxiliary_weight;
} gp_zoo_classifier;

gp_status gp_zoo_add_classifier(gp_model *model, const gp_zoo_classifier *classifier);

/* The built-in max_pool with a square window. */
gp_status gp_zoo_add_max_pool(gp_model *model, int64_t kernel, int64_t stride, const char *padding, bool ceil);

/* A layer of the models' own whose data is copied. */
gp_status gp_zoo_add_copy(gp_model *model, const gp_layer_class *layer_class, const void *self, size_t bytes);

/* Settings of a square convolution without bias: `channels` outputs, padding of kernel / 2 on all sides. */
gp_convolution_settings gp_zoo_square(int64_t channels, int64_t kernel, int64_t stride, gp_convolution_init init);

#endif
