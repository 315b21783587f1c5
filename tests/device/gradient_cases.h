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

extern const gradient_case gradient_cases[]; /* gradient_cases.c */
extern const size_t gradient_case_count;
extern const gradient_case image_gradient_cases[]; /* gradient_cases_image.c */
extern const size_t image_gradient_case_count;

/* ---- operands of cases ---- */

#define SHAPE(...) gp_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* An activation, a parameter, an activation whose elements are positive and far from zero, indices below a limit, and
 * weights. */
gp_value activation(fixture *f, gp_shape shape);
gp_value parameter(fixture *f, gp_shape shape);
gp_value divisor(fixture *f, gp_shape shape);
gp_value indices(fixture *f, gp_shape shape, int low, int limit);
gp_value weights(fixture *f, gp_shape shape);

#endif
