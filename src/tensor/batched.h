/* Types of one sample and of many: the batch is dimension 0. */
#ifndef GP_TENSOR_BATCHED_H
#define GP_TENSOR_BATCHED_H

#include "gpipe/tensor.h"

/* `batch` samples of a type. A sample's rank is below GP_MAX_RANK. */
gp_type gp_type_with_batch(gp_type sample, int64_t batch);
/* The type of one sample of them; a scalar stays one. */
gp_type gp_type_of_sample(gp_type batched);

#endif
