/* A model: the list of its layers and what is known about them once it is finished. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "layers/structure.h"

gp_status gp_model_reserve(void **array, size_t count, size_t *capacity, size_t bytes) {
    if (count < *capacity) return GP_OK;
    size_t larger = *capacity ? *capacity * 2 : 8;
    void *grown = gp_grow_array(*array, *capacity, larger, bytes);
    if (!grown) return GP_OUT_OF_MEMORY;
    *array = grown;
    *capacity = larger;
    return GP_OK;
}

size_t gp_activation_index(gp_dtype dtype) {
    return dtype == GP_BF16 ? 1 : 0;
}

/* What evaluation fills the last windows of a split with: such a target is no token of any vocabulary. */
static void ignore_padding(gp_loss *loss) {
    loss->cross_entropy.has_ignored = true;
    loss->cross_entropy.ignored = -1;
}

gp_status gp_model_create(gp_model **model, gp_type sample) {
    *model = NULL;
    char text[160];
    GP_TRY(gp_shape_check(sample.shape));
    if (sample.dtype != GP_F32 && sample.dtype != GP_I32)
        return gp_error(GP_INVALID, "samples are %s, but f32 (numbers) or i32 (indices) is accepted",
                        gp_type_format(sample, text, sizeof text));
    if (sample.shape.rank >= GP_MAX_RANK || gp_shape_elements(sample.shape) == 0)
        return gp_error(GP_INVALID, "samples are %s, but 0 to %d dimensions of 1 or more are accepted",
                        gp_type_format(sample, text, sizeof text), GP_MAX_RANK - 1);
    gp_model *created = gp_allocate(sizeof *created);
    if (!created) return GP_OUT_OF_MEMORY;
    created->sample = sample;
    ignore_padding(&created->loss);
    *model = created;
    return GP_OK;
}

void gp_model_destroy(gp_model *model) {
    if (!model) return;
    for (size_t i = 0; i < model->layer_count; i++)
        gp_layer_destroy(model->layers[i]);
    for (size_t i = 0; i < model->parameter_count; i++)
        gp_free(model->parameters[i].name);
    for (size_t i = 0; i < model->declaration_count; i++)
        gp_free(model->declarations[i].name);
    for (size_t i = 0; i < model->state_count; i++)
        gp_free(model->states[i].name);
    for (size_t i = 0; i < model->skip_count; i++)
        gp_free(model->skips[i].name);
    void *arrays[] = {model->layers,   model->parameters,    model->declarations,  model->uses,   model->skips,
                      model->ports,    model->port_types[0], model->port_types[1], model->ranges, model->incoming,
                      model->arrivals, model->flops,         model->bf16_error,    model->states, model->moments};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        gp_free(arrays[i]);
    gp_free(model);
}

gp_status gp_model_add(gp_model *model, gp_layer *layer) {
    gp_status status = GP_OK;
    if (!layer) return gp_error(GP_INVALID, "there is no layer to add to the model");
    if (model->finished) {
        status = gp_error(GP_INVALID, "layer %s comes too late: the model is finished", gp_layer_kind(layer));
    } else {
        status =
            gp_model_reserve((void **)&model->layers, model->layer_count, &model->layer_capacity, sizeof(gp_layer *));
    }
    if (status == GP_OK) {
        model->layers[model->layer_count++] = layer;
    } else {
        gp_layer_destroy(layer);
    }
    return status;
}

gp_status gp_model_set_loss(gp_model *model, const gp_loss *loss) {
    gp_loss known;
    if (model->finished) return gp_error(GP_INVALID, "the loss comes too late: the model is finished");
    GP_TRY(gp_options_read(&known, sizeof known, loss, "gp_loss"));
    if (known.kind != GP_LOSS_CROSS_ENTROPY && known.kind != GP_LOSS_SQUARED_ERROR)
        return gp_error(GP_INVALID, "loss number %d: cross_entropy (0) and squared_error (1) are known",
                        (int)known.kind);
    double smoothing = known.cross_entropy.label_smoothing;
    if (!(smoothing >= 0 && smoothing < 1))
        return gp_error(GP_INVALID, "label smoothing is %g: 0 or more and less than 1 is accepted", smoothing);
    if (!known.cross_entropy.has_ignored) ignore_padding(&known);
    model->loss = known;
    return GP_OK;
}

size_t gp_model_layer_count(const gp_model *model) {
    return model->layer_count;
}

const char *gp_model_layer_kind(const gp_model *model, size_t layer) {
    return gp_layer_kind(model->layers[layer]);
}

int64_t gp_model_parameter_count(const gp_model *model) {
    int64_t count = 0;
    for (size_t i = 0; i < model->parameter_count; i++)
        count += gp_shape_elements(model->parameters[i].info.shape);
    return count;
}

int64_t gp_model_layer_parameter_count(const gp_model *model, size_t layer) {
    /* A layer's own parameters are among its uses: nobody can use them before. */
    int64_t count = 0;
    for (size_t i = model->ranges[layer].use; i < model->ranges[layer + 1].use; i++) {
        const gp_parameter_info *info = &model->parameters[model->uses[i].parameter].info;
        if (info->layer == layer) count += gp_shape_elements(info->shape);
    }
    return count;
}

gp_type gp_model_input_type(const gp_model *model) {
    return model->sample;
}

gp_type gp_model_output_type(const gp_model *model) {
    return model->output;
}

double gp_model_layer_flops(const gp_model *model, size_t layer) {
    return model->flops[layer];
}

size_t gp_model_parameters(const gp_model *model) {
    return model->parameter_count;
}

gp_parameter_info gp_model_parameter(const gp_model *model, size_t index) {
    return model->parameters[index].info;
}

size_t gp_model_ports(const gp_model *model, const gp_port **ports) {
    if (ports) *ports = model->ports;
    return model->port_count;
}

gp_type gp_model_port_type(const gp_model *model, size_t port, gp_dtype dtype) {
    return model->port_types[gp_activation_index(dtype)][port];
}

size_t gp_model_uses(const gp_model *model, const gp_parameter_use **uses) {
    if (uses) *uses = model->uses;
    return model->use_count;
}

size_t gp_model_states(const gp_model *model) {
    return model->state_count;
}

gp_state_info gp_model_state(const gp_model *model, size_t index) {
    return model->states[index].info;
}

size_t gp_model_moments(const gp_model *model, const gp_moments **moments) {
    *moments = model->moments;
    return model->moment_count;
}
