/* What all devices share: choosing one, counting its memory against a limit, and what an update keeps. */
#include "device/device.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static size_t padded(size_t bytes) {
    return bytes > SIZE_MAX - 63 ? SIZE_MAX : (bytes + 63) / 64 * 64;
}

gp_status gp_device_create(gp_device **device, const gp_device_options *options) {
    gp_device_type type = options ? options->type : GP_DEVICE_CPU;
    *device = NULL;
    switch (type) {
    case GP_DEVICE_CPU:
        return gp_device_create_cpu(device, options);
    case GP_DEVICE_REFERENCE:
        return gp_device_create_reference(device, options);
    }
    return gp_error(GP_INVALID, "unknown type of device: %d (cpu is %d, reference is %d)", (int)type,
                    (int)GP_DEVICE_CPU, (int)GP_DEVICE_REFERENCE);
}

gp_status gp_kernel_copy_attributes(const gp_kernel_desc *desc, void **attributes) {
    size_t size = desc->op->attributes_size;
    *attributes = NULL;
    if (size == 0 || !desc->attributes) return GP_OK;
    *attributes = gp_allocate(size);
    if (!*attributes) return GP_OUT_OF_MEMORY;
    memcpy(*attributes, desc->attributes, size);
    return GP_OK;
}

void gp_device_destroy(gp_device *device) {
    if (device) device->class->destroy(device);
}

static gp_status does_not_fit(const gp_device *device, size_t bytes) {
    char asked[32], used[32], limit[32];
    gp_bytes_format(bytes, asked, sizeof asked);
    gp_bytes_format(device->used, used, sizeof used);
    gp_bytes_format(device->limit, limit, sizeof limit);
    return gp_error(GP_DOES_NOT_FIT, "device memory is full: %s more were asked for, %s of %s are used", asked, used,
                    limit);
}

/* Counts bytes that are about to be taken. */
static gp_status count_bytes(gp_device *device, size_t bytes) {
    size_t size = padded(bytes);
    size_t room = (device->limit ? device->limit : SIZE_MAX);
    room = room > device->used ? room - device->used : 0;
    if (size > room) return does_not_fit(device, bytes);
    device->used += size;
    return GP_OK;
}

static void note_high_water(gp_device *device) {
    if (device->used > device->high_water) device->high_water = device->used;
}

gp_status gp_device_allocate(gp_device *device, size_t bytes, void **memory) {
    *memory = NULL;
    GP_TRY(count_bytes(device, bytes));
    *memory = device->class->allocate(device, padded(bytes));
    if (*memory) {
        note_high_water(device);
        return GP_OK;
    }
    device->used -= padded(bytes);
    return GP_OUT_OF_MEMORY;
}

gp_status gp_device_allocate_host(gp_device *device, size_t bytes, void **memory) {
    bool counts = device->class->in_host_memory;
    *memory = NULL;
    if (counts) GP_TRY(count_bytes(device, bytes));
    *memory = gp_allocate(padded(bytes));
    if (*memory) {
        note_high_water(device);
        return GP_OK;
    }
    if (counts) device->used -= padded(bytes);
    return GP_OUT_OF_MEMORY;
}

void gp_device_release_host(gp_device *device, void *memory, size_t bytes) {
    if (!memory) return;
    gp_free(memory);
    if (device->class->in_host_memory) device->used -= padded(bytes);
}

void gp_device_release(gp_device *device, void *memory, size_t bytes) {
    if (!memory) return;
    size_t size = padded(bytes);
    device->class->release(device, memory, size);
    device->used -= size;
}

int gp_update_states(gp_update_kind kind, double momentum) {
    switch (kind) {
    case GP_UPDATE_SGD:
        return momentum > 0.0 ? 1 : 0;
    case GP_UPDATE_RMSPROP:
        return momentum > 0.0 ? 2 : 1;
    case GP_UPDATE_ADAM:
    case GP_UPDATE_ADAMW:
        return 2;
    }
    return 0;
}
