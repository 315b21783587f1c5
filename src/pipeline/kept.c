/* The list of what is kept, and where a stage has it. */
#include "pipeline/kept.h"

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/buckets.h"

/* ---- the list ---- */

/* Names of the arrays of moments: SGD has one, Adam two (Kingma & Ba call them so), RMSProp the second and perhaps a
 * momentum. */
static const char *moment_name(gp_update_kind kind, int which) {
    if (kind == GP_UPDATE_SGD) return "momentum";
    if (kind == GP_UPDATE_RMSPROP) return which == 0 ? "second_moment" : "momentum";
    return which == 0 ? "first_moment" : "second_moment";
}

/* `suffix` NULL: the name is the model's own. */
static gp_status add(gp_kept *kept, const char *group, const char *name, const char *suffix, gp_type type,
                     gp_kept_source source) {
    size_t i = kept->count;
    if (suffix) {
        kept->names[i] = gp_format_text("%s.%s", name, suffix);
        if (!kept->names[i]) return GP_OUT_OF_MEMORY;
        name = kept->names[i];
    }
    kept->tensors[i] = (gp_files_tensor){group, name, type};
    kept->sources[i] = source;
    kept->count++;
    return GP_OK;
}

static bool averages(const gp_engine_options *options) {
    return options->average && !options->inference;
}

static gp_status fill_states(gp_kept *kept, const gp_model *model, const char *group, gp_dtype dtype) {
    for (size_t s = 0; s < gp_model_states(model); s++) {
        gp_state_info info = gp_model_state(model, s);
        GP_TRY(add(kept, group, info.name, NULL, (gp_type){dtype, info.shape}, (gp_kept_source){GP_KEPT_STATE, s, 0}));
    }
    return GP_OK;
}

static gp_status fill(gp_kept *kept, const gp_engine_options *options, int moments, gp_dtype dtype) {
    const gp_model *model = options->model;
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        gp_parameter_info info = gp_model_parameter(model, p);
        gp_type type = {dtype, info.shape};
        GP_TRY(add(kept, GP_KEPT_MODEL, info.name, NULL, type, (gp_kept_source){GP_KEPT_PARAMETER, p, 0}));
        for (int m = 0; m < moments; m++)
            GP_TRY(add(kept, GP_KEPT_OPTIMIZER, info.name, moment_name(options->optimizer, m), type,
                       (gp_kept_source){GP_KEPT_MOMENT, p, m}));
    }
    GP_TRY(fill_states(kept, model, GP_KEPT_MODEL, dtype));
    if (!averages(options)) return GP_OK;
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        gp_parameter_info info = gp_model_parameter(model, p);
        GP_TRY(add(kept, GP_KEPT_AVERAGE, info.name, NULL, (gp_type){dtype, info.shape},
                   (gp_kept_source){GP_KEPT_AVERAGED, p, 0}));
    }
    return fill_states(kept, model, GP_KEPT_AVERAGE, dtype);
}

gp_status gp_kept_create(gp_kept *kept, const gp_engine_options *options, gp_dtype dtype) {
    int moments = options->inference ? 0 : gp_update_states(options->optimizer, options->momentum);
    size_t copies = averages(options) ? 2 : 1; /* of the model */
    size_t most =
        gp_model_parameters(options->model) * ((size_t)moments + copies) + gp_model_states(options->model) * copies;
    *kept = (gp_kept){.tensors = gp_allocate_array(most, sizeof *kept->tensors),
                      .sources = gp_allocate_array(most, sizeof *kept->sources),
                      .names = gp_allocate_array(most, sizeof *kept->names)};
    if (!kept->tensors || !kept->sources || !kept->names) return GP_OUT_OF_MEMORY;
    return fill(kept, options, moments, dtype);
}

void gp_kept_destroy(gp_kept *kept) {
    for (size_t i = 0; i < kept->count; i++)
        gp_free(kept->names[i]);
    gp_free(kept->tensors);
    gp_free(kept->sources);
    gp_free(kept->names);
    *kept = (gp_kept){0};
}

/* ---- places ---- */

static void *at(void *memory, size_t offset) {
    return memory ? (char *)memory + offset : NULL;
}

/* Replicas hold the same; the first one writes. Of moments each may have its own piece. */
static bool find_parameter(const gp_stage *stage, const gp_kept_source *source, gp_kept_place *place) {
    size_t index = gp_stage_find_parameter(stage, source->index);
    if (index == SIZE_MAX) return false;
    const gp_stage_parameter *parameter = &stage->parameters[index];
    const gp_stage_options *options = &stage->options;
    bool moment = source->kind == GP_KEPT_MOMENT;
    bool cut = moment && options->shard_optimizer && gp_parameter_is_cut(parameter->elements, options->replicas);
    void *model = source->kind == GP_KEPT_AVERAGED ? stage->averages : stage->weights;
    place->memory = moment ? gp_stage_moment(stage, parameter, source->which) : at(model, parameter->offset);
    place->first = moment ? parameter->own_first : 0;
    place->count = moment ? parameter->own_count : parameter->elements;
    place->writes = parameter->owner == options->index && (cut || options->replica == 0);
    return place->count > 0;
}

static bool find_state(const gp_stage *stage, const gp_kept_source *source, gp_kept_place *place) {
    if (!gp_stage_holds_state(stage, source->index)) return false;
    const gp_stage_state *own = &stage->states[source->index - stage->first_state];
    place->memory = at(stage->state_memory, own->offset);
    place->count = gp_shape_elements(own->type.shape);
    place->writes = stage->options.replica == 0;
    return true;
}

bool gp_stage_find_kept(const gp_stage *stage, const gp_kept_source *source, gp_kept_place *place) {
    *place = (gp_kept_place){0};
    return source->kind == GP_KEPT_STATE ? find_state(stage, source, place) : find_parameter(stage, source, place);
}
