/* The public profile: what each layer costs by itself, measured on the device that a run would use. */
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "train/plan.h"

static gp_status measure(gp_profile *profile, const gp_layout *layout) {
    const gp_model *model = layout->engine.model;
    gp_status status = GP_OUT_OF_MEMORY;
    gp_stage_times *times = gp_allocate_array(profile->layer_count, sizeof *times);
    int64_t *sizes = gp_allocate_array((size_t)layout->engine.micro_batches, sizeof *sizes);
    if (!times || !sizes) goto done;
    status = gp_engine_profile(&layout->engine, times);
    if (status != GP_OK) goto done;
    gp_micro_batch_sizes(layout->engine.batch, layout->engine.micro_batches, sizes);
    profile->micro_batch = sizes[0];
    for (size_t i = 0; i < profile->layer_count; i++) {
        profile->layers[i] = (gp_profile_layer){.forward = times[i].forward,
                                                .recompute = times[i].recompute,
                                                .backward = times[i].backward,
                                                .flops = gp_model_layer_flops(model, i) * (double)sizes[0],
                                                .parameters = gp_model_layer_parameter_count(model, i)};
    }
done:
    gp_free(times);
    gp_free(sizes);
    return status;
}

gp_status gp_profile_create(gp_profile **profile, const gp_model *model, const gp_pipeline_options *pipeline) {
    gp_optimizer_options optimizer;
    gp_pipeline_options unbalanced;
    gp_layout layout = {0};
    *profile = NULL;
    GP_TRY(gp_options_read(&unbalanced, sizeof unbalanced, pipeline, "gp_pipeline_options"));
    unbalanced.balance = GP_BALANCE_PARAMETERS; /* the cut does not matter here: layers are measured one by one */
    GP_TRY(gp_optimizer_resolve(NULL, &optimizer));
    GP_TRY(gp_layout_create(&layout, model, &unbalanced, &optimizer));
    gp_profile *made = gp_allocate(sizeof *made);
    gp_status status = made ? GP_OK : GP_OUT_OF_MEMORY;
    if (made) {
        made->layer_count = gp_model_layer_count(model);
        made->layers = gp_allocate_array(made->layer_count, sizeof *made->layers);
        status = made->layers ? measure(made, &layout) : GP_OUT_OF_MEMORY;
    }
    gp_layout_destroy(&layout);
    if (status != GP_OK) {
        gp_profile_destroy(made);
        return status;
    }
    *profile = made;
    return GP_OK;
}

void gp_profile_destroy(gp_profile *profile) {
    if (!profile) return;
    gp_free(profile->layers);
    gp_free(profile);
}
