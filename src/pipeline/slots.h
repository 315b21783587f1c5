/* Inside the room: equal pieces of one block of memory, taken and given back: the stash slots of micro-batches in
 * flight. */
#ifndef GP_PIPELINE_SLOTS_H
#define GP_PIPELINE_SLOTS_H

#include <stddef.h>

#include "gpipe/status.h"

typedef struct gp_slots {
    char *memory;
    size_t bytes; /* of one */
    int count;
    int *free; /* numbers of free slots, a stack */
    int free_count;
} gp_slots;

/* All free. `memory` is borrowed (device memory, never read here). */
gp_status gp_slots_create(gp_slots *slots, void *memory, size_t bytes, int count);
void gp_slots_destroy(gp_slots *slots); /* accepts a zeroed struct */
/* A free slot's number. GP_FAILED when there is none: the schedule holds more in flight than was planned. */
gp_status gp_slots_take(gp_slots *slots, int *slot);
void gp_slots_give(gp_slots *slots, int slot);
void *gp_slots_memory(const gp_slots *slots, int slot);

#endif
