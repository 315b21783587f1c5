/* What happens to a stage's parameters outside its programs: initial values, reading and writing, the update, and the
 * packed forms that follow every change. */
#include "base/memory.h"
#include "base/status.h"
#include "pipeline/stage.h"

static char *weight_of(const gp_stage *stage, const gp_stage_parameter *parameter) {
    return (char *)stage->weights + parameter->offset;
}

static char *shown_of(const gp_stage *stage, const gp_stage_parameter *parameter) {
    return (char *)stage->shown + parameter->offset;
}

static char *average_of(const gp_stage *stage, const gp_stage_parameter *parameter) {
    return (char *)stage->averages + parameter->offset;
}

size_t gp_stage_find_parameter(const gp_stage *stage, size_t parameter) {
    size_t low = 0, high = stage->parameter_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stage->parameters[middle].parameter < parameter) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < stage->parameter_count && stage->parameters[low].parameter == parameter ? low : SIZE_MAX;
}

static void *form_memory(const gp_stage *stage, const gp_stage_form *form) {
    size_t late = GP_REGION_PEERS + 2 * (stage->before_count + stage->after_count);
    char *base = form->region == GP_REGION_FORMS ? stage->packed : stage->late[(size_t)form->region - late].memory;
    return base + form->offset;
}

gp_status gp_stage_pack(gp_stage *stage, size_t index) {
    for (size_t f = 0; f < stage->form_count; f++) {
        const gp_stage_form *form = &stage->forms[f];
        if (index != SIZE_MAX && form->parameter != index) continue;
        const gp_stage_parameter *parameter = &stage->parameters[form->parameter];
        GP_TRY(form->form.pack(&form->form, shown_of(stage, parameter), form_memory(stage, form)));
    }
    return GP_OK;
}

gp_status gp_stage_write(gp_stage *stage, size_t index, const float *values) {
    const gp_stage_parameter *parameter = &stage->parameters[index];
    gp_device *device = stage->options.device;
    device->class->upload(device, weight_of(stage, parameter), values, parameter->type);
    if (stage->options.average) device->class->upload(device, average_of(stage, parameter), values, parameter->type);
    return gp_stage_pack(stage, index);
}

gp_status gp_stage_initialise(gp_stage *stage, uint64_t seed) {
    int64_t most = 0;
    for (size_t p = 0; p < stage->parameter_count; p++)
        if (stage->parameters[p].elements > most) most = stage->parameters[p].elements;
    float *values = gp_allocate_array((size_t)most, sizeof *values);
    if (!values) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    for (size_t p = 0; status == GP_OK && p < stage->parameter_count; p++) {
        gp_parameter_info info = gp_model_parameter(stage->options.model, stage->parameters[p].parameter);
        gp_parameter_initialise(&info, seed, values);
        status = gp_stage_write(stage, p, values);
    }
    gp_free(values);
    return status;
}

void gp_stage_read(const gp_stage *stage, size_t index, float *values) {
    const gp_stage_parameter *parameter = &stage->parameters[index];
    gp_device *device = stage->options.device;
    device->class->download(device, values, shown_of(stage, parameter), parameter->type);
}

void gp_stage_read_gradient(const gp_stage *stage, size_t index, float *values) {
    const gp_stage_parameter *parameter = &stage->parameters[index];
    gp_device *device = stage->options.device;
    device->class->download(device, values, gp_stage_accumulator(stage, parameter, 0), parameter->type);
}

void *gp_stage_accumulator(const gp_stage *stage, const gp_stage_parameter *parameter, size_t use) {
    size_t offset = use == 0 ? parameter->offset : stage->extra[parameter->first_extra + use - 1];
    return (char *)stage->gradients + offset;
}

void gp_stage_zero_gradients(gp_stage *stage) {
    gp_device *device = stage->options.device;
    if (stage->bytes.gradients) device->class->zero(device, stage->gradients, stage->bytes.gradients);
}

/* The accumulators of further uses, which the update does not zero, lie behind the first ones. */
void gp_stage_zero_further(gp_stage *stage) {
    gp_device *device = stage->options.device;
    if (stage->bytes.gradients <= stage->bytes.weights) return;
    device->class->zero(device, (char *)stage->gradients + stage->bytes.weights,
                        stage->bytes.gradients - stage->bytes.weights);
}

void *gp_stage_moment(const gp_stage *stage, const gp_stage_parameter *parameter, int which) {
    int arrays = stage->options.moments;
    if (which >= arrays || !stage->moments) return NULL;
    return (char *)stage->moments + stage->bytes.moments / (size_t)arrays * (size_t)which + parameter->moment_offset;
}

/* Where element number `index` behind a base lies. */
static void *element_at(const gp_stage *stage, void *base, int64_t index) {
    size_t element = stage->options.device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {1}}});
    return base ? (char *)base + (size_t)index * element : NULL;
}

void gp_stage_update_piece(gp_stage *stage, size_t index, int64_t first, int64_t count, const gp_update *update,
                           double weight_decay) {
    const gp_stage_parameter *parameter = &stage->parameters[index];
    gp_device *device = stage->options.device;
    gp_update own = *update;
    int64_t moment = first - parameter->own_first;
    own.weight_decay = parameter->no_decay ? 0 : weight_decay;
    if (count < 1) return;
    own.lr *= parameter->lr_factor;
    void *gradient = element_at(stage, gp_stage_accumulator(stage, parameter, 0), first);
    if (parameter->lr_factor <= 0) { /* frozen */
        device->class->zero(device, gradient, device->class->bytes((gp_type){GP_F32, {.rank = 1, .dims = {count}}}));
        return;
    }
    device->class->update(device, &own, element_at(stage, weight_of(stage, parameter), first), gradient,
                          element_at(stage, gp_stage_moment(stage, parameter, 0), moment),
                          element_at(stage, gp_stage_moment(stage, parameter, 1), moment), count);
}

gp_status gp_stage_update(gp_stage *stage, const gp_update *update, double weight_decay) {
    gp_device *device = stage->options.device;
    for (size_t p = 0; p < stage->parameter_count; p++)
        gp_stage_update_piece(stage, p, 0, stage->parameters[p].elements, update, weight_decay);
    gp_stage_zero_further(stage);
    GP_TRY(gp_stage_pack(stage, SIZE_MAX));
    return device->class->wait(device);
}

void gp_stage_update_averages(gp_stage *stage, double decay) {
    gp_device *device = stage->options.device;
    for (size_t p = 0; p < stage->parameter_count; p++) {
        const gp_stage_parameter *parameter = &stage->parameters[p];
        device->class->moving_average(device, average_of(stage, parameter), weight_of(stage, parameter), decay,
                                      parameter->elements);
    }
}

gp_status gp_stage_show_averages(gp_stage *stage, bool averages) {
    stage->shown = averages && stage->averages ? stage->averages : stage->weights;
    return gp_stage_pack(stage, SIZE_MAX);
}
