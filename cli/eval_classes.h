/* What gpipe eval prints of a classifier. */
#ifndef CLI_EVAL_CLASSES_H
#define CLI_EVAL_CLASSES_H

#include <stdbool.h>

#include "gpipe/gpipe.h"

/* Room for the counts of gp_evaluation.confusion, freed with free(). Errors: GP_INVALID when the model is no classifier
 * or the data has no classes; GP_OUT_OF_MEMORY. */
gp_status cli_confusion_create(const gp_model *model, const gp_dataset *dataset, int64_t **confusion);
/* Whether it says anything how often the label is among the first five: of five classes it always is. */
bool cli_top5_tells(const gp_evaluation *found);
/* Loss and accuracy, and the confusion when it was counted. Errors: GP_IO. */
gp_status cli_print_classes(const char *what, const gp_evaluation *found, const gp_dataset *dataset, bool json);

#endif
