/* Pieces of forward for layers and models of images: convolutions with their initial values, and what is made of them.
 * Images are [batch, height, width, channels]. Every piece returns gp_none() for an invalid input; parameters are
 * declared in `scope` (NULL: none). */
#ifndef GP_LAYERS_IMAGE_H
#define GP_LAYERS_IMAGE_H

#include "layers/builtin.h"

/* How weights start. Fan in: kh * kw * inputs of a group; fan out: kh * kw * outputs. */
typedef enum gp_convolution_init {
    GP_CONVOLUTION_UNIFORM,   /* uniform(+-1 / sqrt(fan in)), bias too: PyTorch's nn.Conv2d */
    GP_CONVOLUTION_HE,        /* normal(0, sqrt(2 / fan out)), bias 0 (He et al., arXiv 1502.01852; torchvision) */
    GP_CONVOLUTION_TRUNCATED, /* truncated normal(0, sqrt(2.6 / fan out of a group)), bias 0: TensorFlow's variance
                                 scaling, which the published AmoebaNet uses */
    GP_CONVOLUTION_NORMAL,    /* normal(0, deviation), bias 0 */
    GP_CONVOLUTION_IDENTITY   /* as uniform, but outputs begin as the inputs of their numbers */
} gp_convolution_init;

typedef struct gp_convolution_settings {
    int64_t channels, kernel[2];
    gp_convolution_options options;
    bool bias;
    gp_convolution_init init;
    double deviation; /* GP_CONVOLUTION_NORMAL */
} gp_convolution_settings;

gp_value gp_build_convolution(gp_builder *builder, const char *scope, gp_value x,
                              const gp_convolution_settings *settings);
/* Convolution ("conv") and batch norm ("norm"). */
gp_value gp_build_convolution_norm(gp_builder *builder, const char *scope, gp_value x,
                                   const gp_convolution_settings *settings, const gp_batch_norm_settings *norm);
/* Half the pixels each way without losing any: two 1x1 convolutions of stride 2 ("path1", "path2") side by side, the
 * second of the image shifted by one pixel, then batch norm ("norm"). `channels` is even. */
gp_value gp_build_factorised_reduction(gp_builder *builder, const char *scope, gp_value x, int64_t channels,
                                       gp_convolution_init init, const gp_batch_norm_settings *norm);
/* x scaled by channel: mean over pixels, linear ("reduce") to channels / reduction, relu, linear ("expand"), sigmoid
 * (Hu et al., arXiv 1709.01507). */
gp_value gp_build_squeeze_excitation(gp_builder *builder, const char *scope, gp_value x, int64_t reduction,
                                     gp_convolution_init init);

#endif
