/* The blocks of residual networks: a branch of convolutions added to its input, with squeeze-and-excitation or without.
 * ResNet, SENet and the networks for CIFAR are lists of these. */
#ifndef GP_MODELS_RESIDUAL_H
#define GP_MODELS_RESIDUAL_H

#include "models/blocks.h"

enum { GP_BRANCH_MOST = 3 };

typedef enum gp_shortcut {
    GP_SHORTCUT_CONVOLUTION, /* where shapes differ, a convolution and batch norm */
    GP_SHORTCUT_PADDING      /* where shapes differ, every stride-th pixel and channels of zeros (He et al., arXiv
                                1512.03385, option A): no parameters */
} gp_shortcut;

/* Convolutions one behind the other, each with batch norm, and a rectifier between two and behind the sum. */
typedef struct gp_residual_block {
    gp_convolution_settings branch[GP_BRANCH_MOST];
    int count;
    gp_shortcut shortcut;
    int64_t shortcut_kernel;
    int64_t reduction; /* of squeeze-and-excitation at the branch's end; 0: none */
    gp_convolution_init init;
    gp_batch_norm_settings norm;
} gp_residual_block;

/* A layer "residual_block". */
gp_status gp_zoo_add_residual(gp_model *model, const gp_residual_block *block);

#endif
