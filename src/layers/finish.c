/* Finishing a model: after the first walk (declare.c) every layer is built alone, from the last to the first, with its
 * gradients. That checks that shapes follow the batch, finds where gradients flow, and counts FLOPs. No memory of the
 * size of parameters or activations is touched, so a model of any size is finished in milliseconds. */
#include <inttypes.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builder.h"

/* Gradients flow back over a port only when somebody before it has parameters. */
static gp_status mark_dead_ports(gp_model *model) {
    bool *needs = gp_allocate_array(model->layer_count, sizeof *needs);
    if (!needs) return GP_OUT_OF_MEMORY;
    for (size_t layer = 0; layer < model->layer_count; layer++) {
        const gp_layer_range *range = &model->ranges[layer];
        needs[layer] = range[1].use > range->use;
        for (size_t i = range->incoming; i < range[1].incoming; i++) {
            gp_port *port = &model->ports[model->incoming[i]];
            bool wanted = port->source >= 0 && needs[port->source];
            port->indices = port->indices || !wanted;
            needs[layer] = needs[layer] || wanted;
        }
    }
    gp_free(needs);
    return GP_OK;
}

static double count_flops(const gp_model *model, size_t layer, const gp_graph *graph) {
    const gp_layer *own = model->layers[layer];
    if (own->class->cost) {
        gp_type type = gp_type_with_batch(model->sample, 1);
        for (size_t i = model->ranges[layer].incoming; i < model->ranges[layer + 1].incoming; i++) {
            if (!model->ports[model->incoming[i]].skip) type = model->port_types[0][model->incoming[i]];
        }
        type.shape.dims[0] = 1;
        return own->class->cost(own->self, type);
    }
    double flops = 0;
    for (int32_t node = 0; node < graph->node_count; node++)
        flops += gp_node_flops(graph, node);
    return flops;
}

/* Later layers are done already: it is known which leaving ports bring a gradient back. */
static gp_status study_layer(gp_model *model, size_t layer) {
    gp_build_options options = {.first_layer = (int32_t)layer,
                                .last_layer = (int32_t)layer,
                                .batch = 1,
                                .dtype = GP_F32,
                                .training = true,
                                .gradients = true,
                                .loss = true};
    gp_built built;
    GP_TRY(gp_model_build(model, &options, &built));
    for (size_t i = 0; i < built.arriving_count; i++) {
        if (!gp_value_valid(built.arriving[i].gradient)) model->ports[built.arriving[i].port].indices = true;
    }
    model->flops[layer] = count_flops(model, layer, built.graph);
    gp_built_destroy(&built);
    return GP_OK;
}

/* Types with bf16 activations: a layer may return f32 all the same. */
static gp_status study_bf16(gp_model *model) {
    for (size_t layer = 0; layer < model->layer_count; layer++) {
        gp_build_options options = {.first_layer = (int32_t)layer,
                                    .last_layer = (int32_t)layer,
                                    .batch = 1,
                                    .dtype = GP_BF16,
                                    .training = true,
                                    .gradients = true,
                                    .loss = true};
        gp_built built;
        GP_TRY(gp_model_build(model, &options, &built));
        for (size_t i = 0; i < built.leaving_count; i++)
            model->port_types[1][built.leaving[i].port] = gp_value_type(built.leaving[i].value);
        gp_built_destroy(&built);
    }
    return GP_OK;
}

gp_status gp_model_finish(gp_model *model) {
    if (model->finished) return gp_error(GP_INVALID, "the model is finished already");
    if (model->ranges) return gp_error(GP_INVALID, "the model could not be finished before: make a new one");
    if (model->layer_count == 0) return gp_error(GP_INVALID, "the model has no layers");
    model->flops = gp_allocate_array(model->layer_count, sizeof *model->flops);
    if (!model->flops) return GP_OUT_OF_MEMORY;
    GP_TRY(gp_model_declare(model));
    GP_TRY(gp_model_check_loss(model));
    GP_TRY(mark_dead_ports(model));
    for (size_t layer = model->layer_count; layer-- > 0;)
        GP_TRY(study_layer(model, layer));
    if (model->ports[0].source == -1) model->port_types[1][0] = model->port_types[0][0];
    gp_status status = study_bf16(model);
    if (status == GP_OUT_OF_MEMORY) return status;
    if (status != GP_OK) {
        model->bf16_error = gp_format_text("with bf16 activations: %s", gp_error_message());
        if (!model->bf16_error) return GP_OUT_OF_MEMORY;
    }
    model->finished = true;
    return GP_OK;
}
