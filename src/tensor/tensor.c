/* Tensors in host memory: what datasets, checkpoints and tests hand around. Devices have their own memory. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/tensor.h"

gp_status gp_tensor_create(gp_tensor *tensor, gp_type type) {
    *tensor = (gp_tensor){.type = type};
    if (gp_dtype_bytes(type.dtype) == 0) {
        return gp_error(GP_INVALID, "a tensor cannot be made of dtype number %d", (int)type.dtype);
    }
    GP_TRY(gp_shape_check(type.shape));
    tensor->data = gp_allocate(gp_type_bytes(type));
    return tensor->data ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_tensor_destroy(gp_tensor *tensor) {
    if (!tensor) return;
    gp_free(tensor->data);
    tensor->data = NULL;
}
