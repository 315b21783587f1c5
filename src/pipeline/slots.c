/* A stack of free numbers; nothing is allocated after the creation. */
#include "pipeline/slots.h"

#include "base/memory.h"
#include "base/status.h"

gp_status gp_slots_create(gp_slots *slots, void *memory, size_t bytes, int count) {
    *slots = (gp_slots){.memory = memory, .bytes = bytes, .count = count};
    slots->free = gp_allocate_array((size_t)count, sizeof *slots->free);
    if (!slots->free) return GP_OUT_OF_MEMORY;
    while (slots->free_count < count) {
        slots->free[slots->free_count] = count - 1 - slots->free_count; /* number 0 is taken first */
        slots->free_count++;
    }
    return GP_OK;
}

void gp_slots_destroy(gp_slots *slots) {
    gp_free(slots->free);
    *slots = (gp_slots){0};
}

gp_status gp_slots_take(gp_slots *slots, int *slot) {
    if (slots->free_count == 0)
        return gp_error(GP_FAILED, "all %d stash slots are taken: more micro-batches are in flight than were planned",
                        slots->count);
    *slot = slots->free[--slots->free_count];
    return GP_OK;
}

void gp_slots_give(gp_slots *slots, int slot) {
    slots->free[slots->free_count++] = slot;
}

void *gp_slots_memory(const gp_slots *slots, int slot) {
    return slots->memory ? slots->memory + (size_t)slot * slots->bytes : NULL;
}
