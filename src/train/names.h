/* Patterns of the names of parameters and states. */
#ifndef GP_TRAIN_NAMES_H
#define GP_TRAIN_NAMES_H

#include <stdbool.h>

#include "gpipe/layer.h"

/* As of the shell (`*` also stands for dots), or the beginning of the name up to a dot, or "head": all of the model's
 * last layer that has parameters (nothing when it shares some with another layer). */
bool gp_name_matches(const gp_model *model, const char *pattern, const char *name);
/* GP_INVALID when the pattern matches no parameter and no state of the model. */
gp_status gp_names_check(const gp_model *model, const char *pattern);

#endif
