/* For the test of gradient rules: graphs that use every differentiable operation, with what their inputs are filled
 * with. */
#ifndef GP_TESTS_DEVICE_GRADIENT_CASES_H
#define GP_TESTS_DEVICE_GRADIENT_CASES_H

#include "graph/graph.h"

enum { MOST = 8 };

typedef struct fixture {
    gp_graph *graph;
    gp_dtype dtype; /* of activations */
    gp_value inputs[MOST];
    double low[MOST], high[MOST]; /* of the numbers drawn for them */
    bool constant[MOST];          /* has no gradient */
    size_t count;
} fixture;

typedef struct gradient_case {
    const char *name;
    gp_value (*build)(fixture *f);
} gradient_case;

extern const gradient_case gradient_cases[];
extern const size_t gradient_case_count;

#endif
