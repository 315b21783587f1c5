/* Inside the room: the schedule of a step of M micro-batches as workers run it: computations only (each awaits its
 * inputs and sends its outputs itself), and for every micro-batch whether it is recomputed. */
#ifndef GP_PIPELINE_AGENDA_H
#define GP_PIPELINE_AGENDA_H

#include "pipeline/engine.h"

typedef struct gp_agenda {
    struct gp_agenda *next; /* for lists of them */
    int micro_batches;
    gp_schedule *schedule;
    bool *recomputed; /* [worker * micro_batches + micro-batch] */
} gp_agenda;

/* The agenda of a step of `micro_batches`, at most options->micro_batches: generated, or the first micro-batches of
 * options->custom. Checked. Errors: GP_INVALID. */
gp_status gp_agenda_create(gp_agenda **agenda, const gp_engine_options *options, int micro_batches);
void gp_agenda_destroy(gp_agenda *agenda); /* accepts NULL */

#endif
