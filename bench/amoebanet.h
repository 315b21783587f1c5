/* What the benchmarks of AmoebaNet share: the model by its sizes, and a batch of random images. */
#ifndef GP_BENCH_AMOEBANET_H
#define GP_BENCH_AMOEBANET_H

#include "common.h"

typedef struct bench_amoebanet {
    int64_t layers, filters, image, classes;
    const char *stem; /* as option stem of the model */
} bench_amoebanet;

/* AmoebaNet-D; ends the benchmark when there is none of these sizes. The caller destroys it. */
gp_model *bench_amoebanet_create(const bench_amoebanet *sizes);
/* Random images and classes, which gp_batch_destroy frees. */
gp_batch bench_images(const gp_model *model, int64_t samples);

#endif
