/* What passes between workers: sums over the steps for the report, figures of one step for metrics.jsonl. */
#ifndef GP_TRAIN_TRAFFIC_H
#define GP_TRAIN_TRAFFIC_H

#include <jansson.h>

#include "gpipe/train.h"
#include "pipeline/engine.h"
#include "train/page.h"

/* Part of a trainer. */
typedef struct gp_traffic {
    gp_link_times *sums; /* over the measured steps, of each link */
    size_t count, room;
    bool stepped;
    gp_step_result last; /* its links and workers are the engine's, until the next step */
} gp_traffic;

/* Room for all links of an engine. Errors: GP_OUT_OF_MEMORY. */
gp_status gp_traffic_create(gp_traffic *traffic, const gp_engine *engine);
void gp_traffic_destroy(gp_traffic *traffic); /* accepts a zeroed struct */
/* After a step; `measured`: it counts in the sums. */
void gp_traffic_add(gp_traffic *traffic, const gp_step_result *result, bool measured);

/* Adds the fields of the last step to a line of metrics.jsonl: nothing for a single worker. */
void gp_traffic_step_json(const gp_traffic *traffic, const gp_plan *plan, json_t *line);
/* The links as an array, means over `steps` (a new reference; NULL: no memory). */
json_t *gp_traffic_json(const gp_traffic *traffic, double steps);
/* The same as a table; nothing without links. */
void gp_traffic_table(const gp_traffic *traffic, const gp_plan *plan, double steps, gp_page *page);

#endif
