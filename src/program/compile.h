/* Inside the program: the program itself, and what the files that plan it hand on to each other.
 *
 * order.c: the slice, in running order, cut into segments. place.c: steps, and where each operand lives. compile.c:
 * kernels, layout of the workspace, and the finished list. program.c: running it. */
#ifndef GP_PROGRAM_COMPILE_H
#define GP_PROGRAM_COMPILE_H

#include "program/kernels.h"
#include "program/program.h"

/* Where an operand is at a run. region < 0: an absent operand. */
typedef struct gp_location {
    int32_t region;
    size_t offset;
} gp_location;

/* One call: of a kernel, or (kernel NULL) of the device's copy. */
typedef struct gp_step {
    const gp_kernel *kernel;
    size_t workspace;     /* offset in region 0 */
    size_t bytes;         /* of a copy */
    uint32_t operands;    /* the first of its locations: inputs, then outputs */
    uint32_t output_type; /* the first of its output types */
    uint8_t input_count, output_count;
    bool backward;
    int32_t layer;
    const char *op;
} gp_step;

struct gp_program {
    gp_device *device;
    gp_step *steps;
    size_t step_count;
    size_t segment_begin[3]; /* segment s: steps segment_begin[s] .. segment_begin[s + 1] - 1 */
    int segments;
    gp_location *locations;
    gp_type *output_types;
    gp_kernels kernels;
    size_t workspace;
    double flops[2];
    bool *reads; /* per value of the graph */
    int32_t value_count;
};

/* ---- while planning ---- */

/* A piece of memory that one or (in place) several values live in, one after the other. */
typedef struct gp_storage {
    int32_t region; /* GP_REGION_WORKSPACE: the layout says where */
    size_t offset, bytes;
    int32_t first, last; /* steps */
    int32_t available;   /* the value whose placement this is; -1: none */
    bool consumable;     /* may be overwritten by the step that reads it last */
} gp_storage;

typedef enum gp_draft_kind { GP_DRAFT_NODE, GP_DRAFT_COPY, GP_DRAFT_ACCUMULATE } gp_draft_kind;

/* A step before its operands have addresses. A copy and an accumulation have one input and write to a wanted placement.
 */
typedef struct gp_draft {
    gp_draft_kind kind;
    int32_t node;   /* of a copy or an accumulation: the node that made the value, -1: it was available */
    int32_t value;  /* of a copy or an accumulation */
    int32_t wanted; /* of a copy or an accumulation: index of the wanted placement */
    uint32_t accumulate;
    int32_t inputs[GP_MAX_OPERANDS], outputs[GP_MAX_OPERANDS]; /* storages; -1: absent */
    int32_t scratch;                                           /* storage of the kernel's workspace; -1: none */
    gp_kernel *kernel;
    gp_location forms[GP_MAX_OPERANDS]; /* where kernel->packed says so */
} gp_draft;

typedef struct gp_compiler {
    const gp_program_desc *desc;
    const gp_graph *graph;
    gp_program *program;

    int32_t *root;      /* per value: the value whose memory it shares (reshapes and aliases); itself where none */
    int32_t *storage;   /* per root: index of its storage; -1: none yet */
    int32_t *last_read; /* per root: the last draft that reads it; -1: none */
    int32_t *reads;     /* per root: how many nodes of the slice read it */
    int32_t *wanted;    /* per root: first wanted placement; -1: none. Several are chained: */
    int32_t *next_wanted;
    bool *late; /* per root: is or depends on one of the late values */

    int32_t *nodes; /* in running order */
    size_t node_count;
    size_t late_begin; /* nodes before are in segment 0 */
    int segments;

    gp_draft *drafts;
    size_t draft_count, draft_capacity;
    size_t late_draft; /* first draft of segment 1 */
    gp_storage *storages;
    size_t storage_count, storage_capacity;
} gp_compiler;

/* Fills root, nodes, late, late_begin, segments. */
gp_status gp_compile_order(gp_compiler *compiler);
/* Fills drafts and storages. */
gp_status gp_compile_place(gp_compiler *compiler);
/* A new storage; its index, or -1 without memory. */
int32_t gp_compile_storage(gp_compiler *compiler, gp_storage storage);

#endif
