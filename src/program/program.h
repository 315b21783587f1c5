/* Programs: a slice of a graph compiled for one device, a list of kernel calls over memory that is planned beforehand.
 *
 * A value lives in a region at an offset. Region 0 is the program's own workspace, laid out by liveness; the others
 * belong to the caller (parameters, gradients, a stash slot, a link's buffer ...), who says which value lives where and
 * hands in the base addresses at each run. Planning needs no device memory; running allocates none.
 *
 * A value shares memory with its reshapes and aliases: placing one of them makes all of them available. Placements of
 * different values must not overlap, wanted ones neither with each other nor with available ones. */
#ifndef GP_PROGRAM_PROGRAM_H
#define GP_PROGRAM_PROGRAM_H

#include "device/device.h"
#include "graph/graph.h"

enum { GP_REGION_WORKSPACE = 0 };

typedef struct gp_placement {
    int32_t value;   /* index in the graph */
    int region;      /* > 0 */
    size_t offset;   /* bytes, multiple of 64 */
    bool consumable; /* available ones: the memory may be overwritten once the value is dead */
    bool accumulate; /* wanted ones: add into the memory instead of overwriting it (f32) */
} gp_placement;

typedef struct gp_program_desc {
    const gp_graph *graph;
    gp_device *device;
    const gp_placement *available; /* values that are there (parameters too) */
    size_t available_count;
    const gp_placement *wanted; /* values to compute; one that is available already, or is placed twice, is copied */
    size_t wanted_count;

    /* Two segments: when late_count > 0, every node that depends on one of these available values (gradients of
     * outputs), and everything after the first such node, is in segment 1; the rest, which can run while they are still
     * on their way, in segment 0. With `early_all`, all forward nodes are in segment 0 (recomputation of a whole
     * stage). The workspace must stay untouched between the two. */
    const int32_t *late;
    size_t late_count;
    bool early_all;

    /* Called while planning when a kernel wants a parameter in a form: returns where the stage keeps it. May be called
     * several times for one parameter and key and then answers the same. NULL: parameters are always given plain. */
    gp_status (*place_form)(void *user, int32_t parameter, const gp_form *form, int *region, size_t *offset);
    void *user;
} gp_program_desc;

typedef struct gp_program gp_program;

/* Plans. The program owns its kernels; graph may be destroyed afterwards, the device not. Errors name layer and
 * operation. */
gp_status gp_program_create(gp_program **program, const gp_program_desc *desc);
void gp_program_destroy(gp_program *program); /* accepts NULL */

size_t gp_program_workspace(const gp_program *program); /* bytes of region 0 */
int gp_program_segments(const gp_program *program);     /* 1 or 2 */
double gp_program_flops(const gp_program *program, int segment);
size_t gp_program_kernels(const gp_program *program);
/* Whether the program reads the value's placement (so that the caller need not keep what nobody reads). */
bool gp_program_reads(const gp_program *program, int32_t value);

/* Calls `visit` for every output of a step that lies in a region, in running order: its offset, and the number of the
 * step (from 0 over both segments). */
void gp_program_writes(const gp_program *program, int region, void (*visit)(void *user, size_t offset, size_t step),
                       void *user);

/* Where a run failed or (gp_run.check) the first NaN or infinity appeared. */
typedef struct gp_program_fault {
    int32_t layer; /* -1: none */
    const char *op;
    bool backward;
    bool not_finite;
} gp_program_fault;

/* Runs a segment. regions[r] is the base of region r (every region that a placement names; workspace of at least
 * gp_program_workspace bytes). `fault` may be NULL. Errors: what a kernel returns, with layer and operation put before
 * its message; GP_DIVERGED with gp_run.check. */
gp_status gp_program_run(const gp_program *program, int segment, void *const *regions, const gp_run *run,
                         gp_program_fault *fault);

#endif
