/* Layers that cost the same, for profiles. */
#ifndef GP_PIPELINE_ALIKE_H
#define GP_PIPELINE_ALIKE_H

#include "layers/model.h"

/* first[layer], of every layer of a finished model: the first one that costs what it costs, perhaps itself. The model's
 * first layer takes the input and its last one makes the loss: they are like no other. */
void gp_layers_alike(const gp_model *model, size_t *first);

#endif
