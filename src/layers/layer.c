/* Instances of layer classes. */
#include "base/memory.h"
#include "base/status.h"
#include "layers/structure.h"

gp_status gp_layer_create(gp_layer **layer, const gp_layer_class *layer_class, void *self) {
    *layer = NULL;
    if (!layer_class || layer_class->size < sizeof(gp_layer_class) || !layer_class->forward || !layer_class->kind) {
        if (layer_class && layer_class->size >= sizeof(gp_layer_class) && layer_class->destroy)
            layer_class->destroy(self);
        return gp_error(GP_INVALID, "a class of layers needs its size, a kind and a forward");
    }
    gp_layer *created = gp_allocate(sizeof *created);
    if (!created) {
        if (layer_class->destroy) layer_class->destroy(self);
        return GP_OUT_OF_MEMORY;
    }
    *created = (gp_layer){.class = layer_class, .self = self};
    *layer = created;
    return GP_OK;
}

void gp_layer_destroy(gp_layer *layer) {
    if (!layer) return;
    if (layer->class->destroy) layer->class->destroy(layer->self);
    gp_free(layer);
}

const char *gp_layer_kind(const gp_layer *layer) {
    return layer->class->kind;
}
