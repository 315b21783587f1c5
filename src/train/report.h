/* Plan and measurement as tables for people and as JSON. */
#ifndef GP_TRAIN_REPORT_H
#define GP_TRAIN_REPORT_H

#include <jansson.h>

#include "gpipe/train.h"

/* The plan as a JSON object (a new reference); `reports` (NULL: none) adds "measured" beside each figure. NULL: no
 * memory. */
json_t *gp_plan_json(const gp_plan *plan, const gp_worker_report *reports, double bubble, double step_seconds);
/* The object as indented text; GP_OUT_OF_MEMORY when it is NULL. Takes the reference. */
gp_status gp_json_text(json_t *object, char **text);

#endif
