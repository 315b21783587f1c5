/* Layers that cost the same: equal in all that takes time (kind, FLOPs, parameters, values exchanged), so that one of
 * them speaks for all. */
#include "pipeline/alike.h"

#include <string.h>

/* The next port of a layer from `at` on that is no mask (integers of a skip, perhaps from far away); masks that arrive
 * on the way are counted. */
static size_t next_port(const gp_port *ports, size_t count, size_t at, int32_t layer, int *masks) {
    for (; at < count; at++) {
        if (ports[at].source != layer && ports[at].destination != layer) continue;
        bool mask = ports[at].destination == layer && ports[at].skip && ports[at].indices;
        if (!mask) break;
        (*masks)++;
    }
    return at;
}

/* The ports of a layer as one side of it sees them, told apart by distance and by what flows. */
static bool same_ports(const gp_model *model, int32_t a, int32_t b) {
    const gp_port *ports;
    size_t count = gp_model_ports(model, &ports), at_a = 0, at_b = 0;
    int masks_a = 0, masks_b = 0;
    for (;; at_a++, at_b++) {
        at_a = next_port(ports, count, at_a, a, &masks_a);
        at_b = next_port(ports, count, at_b, b, &masks_b);
        if (at_a == count || at_b == count) return at_a == count && at_b == count && masks_a == masks_b;
        if (ports[at_a].source - a != ports[at_b].source - b || ports[at_a].indices != ports[at_b].indices ||
            ports[at_a].destination - a != ports[at_b].destination - b ||
            !gp_type_equal(gp_model_port_type(model, at_a, GP_F32), gp_model_port_type(model, at_b, GP_F32)))
            return false;
    }
}

static bool same_parameters(const gp_model *model, int32_t a, int32_t b) {
    const gp_parameter_use *uses;
    size_t count = gp_model_uses(model, &uses), at_a = 0, at_b = 0;
    while (at_a < count && uses[at_a].layer < a)
        at_a++;
    while (at_b < count && uses[at_b].layer < b)
        at_b++;
    for (; at_a < count && uses[at_a].layer == a; at_a++, at_b++) {
        if (at_b == count || uses[at_b].layer != b) return false;
        if (!gp_shape_equal(gp_model_parameter(model, uses[at_a].parameter).shape,
                            gp_model_parameter(model, uses[at_b].parameter).shape))
            return false;
    }
    return at_b == count || uses[at_b].layer != b;
}

static bool alike(const gp_model *model, size_t a, size_t b) {
    return gp_model_layer_flops(model, a) == gp_model_layer_flops(model, b) &&
           strcmp(gp_model_layer_kind(model, a), gp_model_layer_kind(model, b)) == 0 &&
           same_ports(model, (int32_t)a, (int32_t)b) && same_parameters(model, (int32_t)a, (int32_t)b);
}

/* Mostly the layer before. */
static size_t find(const gp_model *model, const size_t *first, size_t layer) {
    if (alike(model, layer, layer - 1)) return first[layer - 1];
    for (size_t i = 1; i + 1 < layer; i++) {
        if (first[i] == i && alike(model, layer, i)) return i;
    }
    return layer;
}

void gp_layers_alike(const gp_model *model, size_t *first) {
    size_t layers = gp_model_layer_count(model);
    for (size_t layer = 0; layer < layers; layer++) {
        bool own = layer < 2 || layer + 1 == layers;
        first[layer] = own ? layer : find(model, first, layer);
    }
}
