/* A stage's states: tensors that no gradient reaches, and the moments of the mini-batch that they follow.
 *
 * The forward of every micro-batch writes its moments (means and variances of its samples) into the region of
 * statistics, where they are merged with those of the micro-batches before it; recomputation writes nothing there, so
 * nothing is counted twice. After the update of the parameters each state takes one step towards the merged moments.
 *
 * Memory of statistics: means and variances of the last micro-batch, then means and variances of all so far; four
 * blocks, in each of which a pair of states has the same offset. */
#include "base/memory.h"
#include "base/status.h"
#include "pipeline/stage.h"

/* ---- tables ---- */

static gp_status list_states(gp_stage *stage) {
    const gp_model *model = stage->options.model;
    size_t total = gp_model_states(model), first = 0, end = 0, at = 0;
    while (first < total && gp_model_state(model, first).layer < (size_t)stage->first_layer)
        first++;
    for (end = first; end < total && gp_model_state(model, end).layer <= (size_t)stage->last_layer;)
        end++;
    stage->first_state = first;
    stage->state_count = end - first;
    stage->states = gp_allocate_array(stage->state_count, sizeof *stage->states);
    if (!stage->states) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < stage->state_count; i++) {
        gp_type type = {GP_F32, gp_model_state(model, first + i).shape};
        stage->states[i] = (gp_stage_state){type, at};
        at += gp_stage_value_bytes(stage, type);
    }
    stage->bytes.states = at;
    return GP_OK;
}

static gp_status list_statistics(gp_stage *stage) {
    const gp_moments *all;
    size_t total = gp_model_moments(stage->options.model, &all), at = 0;
    if (stage->options.inference) return GP_OK;
    for (size_t i = 0; i < total; i++)
        stage->statistic_count += all[i].layer >= stage->first_layer && all[i].layer <= stage->last_layer;
    stage->statistics = gp_allocate_array(stage->statistic_count, sizeof *stage->statistics);
    if (!stage->statistics) return GP_OUT_OF_MEMORY;
    for (size_t i = 0, next = 0; i < total && next < stage->statistic_count; i++) {
        if (all[i].layer < stage->first_layer) continue;
        if (next == 0) stage->first_statistic = i;
        const gp_stage_state *mean = &stage->states[all[i].mean - stage->first_state];
        const gp_stage_state *variance = &stage->states[all[i].variance - stage->first_state];
        stage->statistics[next++] = (gp_stage_statistic){.offset = at,
                                                         .elements = gp_shape_elements(mean->type.shape),
                                                         .mean = mean->offset,
                                                         .variance = variance->offset,
                                                         .decay = all[i].decay};
        at += gp_stage_value_bytes(stage, mean->type);
    }
    stage->bytes.statistics = 4 * at;
    return GP_OK;
}

gp_status gp_stage_list_states(gp_stage *stage) {
    GP_TRY(list_states(stage));
    return list_statistics(stage);
}

/* ---- initial values, reading and writing ---- */

static char *state_memory(const gp_stage *stage, size_t offset) {
    return (char *)stage->state_memory + offset;
}

bool gp_stage_holds_state(const gp_stage *stage, size_t state) {
    return state >= stage->first_state && state - stage->first_state < stage->state_count;
}

void gp_stage_write_state(gp_stage *stage, size_t state, const float *values) {
    const gp_stage_state *own = &stage->states[state - stage->first_state];
    gp_device *device = stage->options.device;
    device->class->upload(device, state_memory(stage, own->offset), values, own->type);
}

void gp_stage_read_state(const gp_stage *stage, size_t state, float *values) {
    const gp_stage_state *own = &stage->states[state - stage->first_state];
    gp_device *device = stage->options.device;
    device->class->download(device, values, state_memory(stage, own->offset), own->type);
}

gp_status gp_stage_initialise_states(gp_stage *stage, uint64_t seed) {
    int64_t most = 0;
    for (size_t i = 0; i < stage->state_count; i++) {
        int64_t elements = gp_shape_elements(stage->states[i].type.shape);
        if (elements > most) most = elements;
    }
    float *values = gp_allocate_array((size_t)most, sizeof *values);
    if (!values) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < stage->state_count; i++) {
        gp_state_info info = gp_model_state(stage->options.model, stage->first_state + i);
        gp_state_initialise(&info, seed, values);
        gp_stage_write_state(stage, stage->first_state + i, values);
    }
    gp_free(values);
    return GP_OK;
}

/* ---- moments of a mini-batch ---- */

void *gp_stage_statistic_block(const gp_stage *stage, gp_statistic_block block) {
    return (char *)stage->statistic_memory + stage->bytes.statistics / 4 * (size_t)block;
}

/* Where a pair's moments lie in a block. */
static void *moment(const gp_stage *stage, const gp_stage_statistic *statistic, gp_statistic_block block) {
    return (char *)gp_stage_statistic_block(stage, block) + statistic->offset;
}

void gp_stage_begin_statistics(gp_stage *stage) {
    stage->samples_merged = 0;
}

void gp_stage_merge_statistics(gp_stage *stage, int64_t samples) {
    gp_device *device = stage->options.device;
    for (size_t i = 0; i < stage->statistic_count; i++) {
        const gp_stage_statistic *s = &stage->statistics[i];
        device->class->merge_moments(device, moment(stage, s, GP_MERGED_MEANS), moment(stage, s, GP_MERGED_VARIANCES),
                                     (double)stage->samples_merged, moment(stage, s, GP_MICRO_BATCH_MEANS),
                                     moment(stage, s, GP_MICRO_BATCH_VARIANCES), (double)samples, s->elements);
    }
    stage->samples_merged += samples;
}

void gp_stage_update_states(gp_stage *stage) {
    gp_device *device = stage->options.device;
    if (stage->samples_merged == 0) return;
    for (size_t i = 0; i < stage->statistic_count; i++) {
        const gp_stage_statistic *s = &stage->statistics[i];
        device->class->moving_average(device, state_memory(stage, s->mean), moment(stage, s, GP_MERGED_MEANS), s->decay,
                                      s->elements);
        device->class->moving_average(device, state_memory(stage, s->variance), moment(stage, s, GP_MERGED_VARIANCES),
                                      s->decay, s->elements);
    }
}
