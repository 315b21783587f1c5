/* What is measured before a plan or a training: that takes seconds for large layers. */
#ifndef CLI_MEASURING_H
#define CLI_MEASURING_H

#include "gpipe/train.h"

typedef struct cli_measuring {
    int64_t samples;  /* of a micro-batch */
    double last_line; /* when a line was last written, or measuring began; 0: it has not */
} cli_measuring;

/* Has a pipeline with these options tell what it measures: a live line on a terminal, elsewhere a plain one about every
 * five seconds. `measuring` outlives the use of the options. */
void cli_measuring_start(cli_measuring *measuring, gp_pipeline_options *options);

#endif
