/* Inside the room: everything that a run keeps from one step to the next, as a list of named tensors. This list is what
 * checkpoints hold: saving, loading and the plan of the copy's memory go through it, so a new kind of thing to keep is
 * a new kind here and nothing else. Names and types depend on the model and the options alone, never on the cut. */
#ifndef GP_PIPELINE_KEPT_H
#define GP_PIPELINE_KEPT_H

#include "checkpoint/files.h"
#include "pipeline/stage.h"

#define GP_KEPT_MODEL     "model"
#define GP_KEPT_OPTIMIZER "optimizer"
#define GP_KEPT_AVERAGE                                                                                                \
    "average" /* averages of the weights, with the states: a model of its own under the same names */

typedef enum gp_kept_kind {
    GP_KEPT_PARAMETER,
    GP_KEPT_STATE,
    GP_KEPT_MOMENT,  /* of a parameter */
    GP_KEPT_AVERAGED /* a parameter */
} gp_kept_kind;

typedef struct gp_kept_source {
    gp_kept_kind kind;
    size_t index; /* for gp_model_parameter or gp_model_state */
    int which;    /* array of moments */
} gp_kept_source;

typedef struct gp_kept {
    gp_files_tensor *tensors; /* group, name, type as it lies in files */
    gp_kept_source *sources;
    char **names; /* those made here; NULL entries for the model's own */
    size_t count;
} gp_kept;

/* `dtype`: in which the device keeps parameters and moments. */
gp_status gp_kept_create(gp_kept *kept, const gp_engine_options *options, gp_dtype dtype);
void gp_kept_destroy(gp_kept *kept); /* accepts a zeroed struct */

/* What a stage holds of a tensor. */
typedef struct gp_kept_place {
    void *memory;         /* on the device, of element `first`; NULL before gp_stage_allocate */
    int64_t first, count; /* elements */
    bool writes;          /* this stage writes it to files; others that hold it have the same bits */
} gp_kept_place;

/* False when it holds nothing of it. */
bool gp_stage_find_kept(const gp_stage *stage, const gp_kept_source *source, gp_kept_place *place);

#endif
