/* Kernels by what they are made for: a hash table from a description, written out as bytes, to a kernel. */
#include "program/kernels.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* A description as bytes: without pointers that live for the call only, and without unused dimensions. */
typedef struct description {
    unsigned char *bytes;
    size_t size, capacity;
} description;

typedef struct slot {
    uint64_t hash;
    description description;
    gp_kernel *kernel; /* NULL: the slot is free */
} slot;

struct gp_kernels_index {
    slot *slots;
    size_t count, capacity; /* capacity: a power of two */
};

static gp_status append(description *d, const void *bytes, size_t size) {
    if (d->size + size > d->capacity) {
        size_t capacity = 2 * (d->size + size);
        unsigned char *grown = gp_grow_array(d->bytes, d->capacity, capacity, 1);
        if (!grown) return GP_OUT_OF_MEMORY;
        d->bytes = grown;
        d->capacity = capacity;
    }
    if (size) memcpy(d->bytes + d->size, bytes, size);
    d->size += size;
    return GP_OK;
}

static gp_status append_types(description *d, const gp_type *types, int count) {
    GP_TRY(append(d, &count, sizeof count));
    for (int i = 0; i < count; i++) {
        int rank = types[i].shape.rank;
        GP_TRY(append(d, &types[i].dtype, sizeof types[i].dtype));
        GP_TRY(append(d, &rank, sizeof rank));
        GP_TRY(append(d, types[i].shape.dims, rank > 0 ? (size_t)rank * sizeof(int64_t) : 0));
    }
    return GP_OK;
}

static gp_status describe(description *d, const gp_kernel_desc *desc, uint32_t parameters) {
    GP_TRY(append(d, &desc->op, sizeof(void *)));
    GP_TRY(append(d, &desc->accumulate, sizeof desc->accumulate));
    GP_TRY(append(d, &parameters, sizeof parameters));
    GP_TRY(append_types(d, desc->inputs, desc->input_count));
    GP_TRY(append_types(d, desc->outputs, desc->output_count));
    return append(d, desc->attributes, desc->attributes ? desc->op->attributes_size : 0);
}

static uint64_t hash_of(const description *d) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < d->size; i++) {
        hash = (hash ^ d->bytes[i]) * 1099511628211u;
    }
    return hash;
}

/* The slot that holds the description, or the free one where it belongs. */
static slot *find(const struct gp_kernels_index *index, const description *d, uint64_t hash) {
    for (size_t i = hash & (index->capacity - 1);; i = (i + 1) & (index->capacity - 1)) {
        slot *s = &index->slots[i];
        if (!s->kernel) return s;
        if (s->hash == hash && s->description.size == d->size && !memcmp(s->description.bytes, d->bytes, d->size)) {
            return s;
        }
    }
}

static gp_status grow(struct gp_kernels_index *index) {
    if (2 * index->count < index->capacity) return GP_OK;
    struct gp_kernels_index larger = {.count = index->count, .capacity = index->capacity ? 2 * index->capacity : 64};
    larger.slots = gp_allocate_array(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < index->capacity; i++) {
        const slot *s = &index->slots[i];
        if (s->kernel) *find(&larger, &s->description, s->hash) = *s;
    }
    gp_free(index->slots);
    *index = larger;
    return GP_OK;
}

/* Makes the kernel; the list owns it from then on. */
static gp_status make(gp_kernels *kernels, gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    if (kernels->count == kernels->capacity) {
        size_t capacity = kernels->capacity ? 2 * kernels->capacity : 64;
        gp_kernel **grown = gp_grow_array(kernels->kernels, kernels->capacity, capacity, sizeof(gp_kernel *));
        if (!grown) return GP_OUT_OF_MEMORY;
        kernels->kernels = grown;
        kernels->capacity = capacity;
    }
    GP_TRY(device->class->kernel_create(device, desc, kernel));
    kernels->kernels[kernels->count++] = *kernel;
    return GP_OK;
}

gp_status gp_kernels_get(gp_kernels *kernels, gp_device *device, const gp_kernel_desc *desc, uint32_t parameters,
                         gp_kernel **kernel) {
    description d = {0};
    *kernel = NULL;
    if (!kernels->index) kernels->index = gp_allocate(sizeof *kernels->index);
    gp_status status = kernels->index ? grow(kernels->index) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = describe(&d, desc, parameters);
    if (status == GP_OK) {
        uint64_t hash = hash_of(&d);
        slot *s = find(kernels->index, &d, hash);
        *kernel = s->kernel;
        if (!s->kernel) status = make(kernels, device, desc, kernel);
        if (!s->kernel && status == GP_OK) {
            *s = (slot){hash, d, *kernel};
            kernels->index->count++;
            return GP_OK; /* the slot owns the description now */
        }
    }
    gp_free(d.bytes);
    return status;
}

void gp_kernels_seal(gp_kernels *kernels) {
    if (!kernels->index) return;
    for (size_t i = 0; i < kernels->index->capacity; i++) {
        gp_free(kernels->index->slots[i].description.bytes);
    }
    gp_free(kernels->index->slots);
    gp_free(kernels->index);
    kernels->index = NULL;
}

void gp_kernels_destroy(gp_kernels *kernels) {
    gp_kernels_seal(kernels);
    for (size_t i = 0; i < kernels->count; i++) {
        kernels->kernels[i]->destroy(kernels->kernels[i]);
    }
    gp_free(kernels->kernels);
    *kernels = (gp_kernels){0};
}
