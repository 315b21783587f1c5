/* A stage alone, on a device that wants parameters packed: forms are kept by the stage, one for every key; they follow
 * every change of a weight; a micro-batch size that nobody foresaw adds a block of its own. The device is the reference
 * device, whose linear operation is made to want the weight negated, in a form that depends on the micro-batch's size:
 * whoever gives it a form that is missing, stale or another's gets wrong numbers. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "pipeline/stage.h"

enum { LAYERS = 3, WIDTH = 4, LARGE = 3, SMALL = 2 };

/* ---- the device ---- */

typedef struct packing_kernel {
    gp_kernel kernel;
    gp_kernel *inner;
    gp_form form;
} packing_kernel;

static const gp_device_class *plain_class;

static int64_t weight_elements(const gp_form *form) {
    return gp_shape_elements(form->type.shape);
}

static gp_status negate(const gp_form *form, const void *plain, void *packed) {
    for (int64_t i = 0; i < weight_elements(form); i++)
        ((double *)packed)[i] = -((const double *)plain)[i];
    return GP_OK;
}

static gp_status run_packed(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                            const gp_run *run) {
    const packing_kernel *self = (const packing_kernel *)kernel;
    const void *unpacked[GP_MAX_OPERANDS] = {inputs[0], workspace, inputs[2]};
    assert_int_equal(kernel->packed, 2);
    for (int64_t i = 0; i < weight_elements(&self->form); i++)
        ((double *)workspace)[i] = -((const double *)inputs[1])[i];
    void *behind = (char *)workspace + gp_align(self->form.bytes);
    return self->inner->run(self->inner, unpacked, outputs, behind, run);
}

static void destroy_packing(gp_kernel *kernel) {
    packing_kernel *self = (packing_kernel *)kernel;
    self->inner->destroy(self->inner);
    gp_free(self);
}

static gp_status create_packing(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_kernel *inner;
    gp_status status = plain_class->kernel_create(device, desc, &inner);
    if (status != GP_OK || desc->id != GP_OP_LINEAR) {
        *kernel = inner;
        return status;
    }
    packing_kernel *made = gp_allocate(sizeof *made);
    assert_non_null(made);
    made->inner = inner;
    made->form = (gp_form){.bytes = device->class->bytes(desc->inputs[1]), .type = desc->inputs[1], .pack = negate};
    snprintf(made->form.key, sizeof made->form.key, "for %d", (int)desc->inputs[0].shape.dims[0]);
    size_t workspace = inner->workspace + gp_align(made->form.bytes);
    made->kernel = (gp_kernel){.workspace = workspace,
                               .packed_workspace = workspace,
                               .forms = {NULL, &made->form},
                               .run = run_packed,
                               .destroy = destroy_packing};
    *kernel = &made->kernel;
    return GP_OK;
}

static gp_device *create_device(gp_device_class *packing) {
    gp_device *device;
    assert_ok(gp_device_create_reference(&device, NULL));
    if (!packing) return device;
    plain_class = device->class;
    *packing = *device->class;
    packing->kernel_create = create_packing;
    device->class = packing;
    return device;
}

/* ---- the stage ---- */

static gp_stage *create_stage(const gp_model *model, gp_device *device) {
    static const size_t bounds[] = {0, LAYERS};
    gp_stage *stage;
    gp_stage_options options = {.model = model, .device = device, .bounds = bounds, .stages = 1, .moments = 2};
    assert_ok(gp_stage_create(&stage, &options));
    assert_ok(gp_stage_prepare(stage, LARGE, 1u << GP_STAGE_EVALUATE));
    return stage;
}

/* The loss of a micro-batch of uniform numbers. */
static float loss_of(gp_stage *stage, int64_t samples) {
    void *regions[GP_REGION_PEERS + 8] = {0};
    float values[LARGE * WIDTH], loss;
    gp_device *device = stage->options.device;
    const gp_stage_size *size = gp_stage_find_size(stage, samples);
    void *memory;
    assert_true(gp_stage_regions(stage) <= GP_REGION_PEERS + 8);
    assert_ok(gp_device_allocate(device, stage->bytes.base + 64, &memory));
    gp_stage_bind(stage, regions);
    regions[GP_REGION_STASH] = memory;
    regions[GP_REGION_LOSS] = (char *)memory + stage->bytes.base;
    gp_random_fill_uniform(values, samples * WIDTH, 3, "inputs");
    device->class->upload(device, (char *)memory + size->inputs.offset, values, size->inputs.type);
    gp_random_fill_uniform(values, samples * WIDTH, 3, "targets");
    device->class->upload(device, (char *)memory + size->targets.offset, values, size->targets.type);
    assert_ok(gp_program_run(size->programs[GP_STAGE_EVALUATE], 0, regions, &(gp_run){0}, NULL));
    device->class->download(device, &loss, regions[GP_REGION_LOSS], (gp_type){.dtype = GP_F32});
    gp_device_release(device, memory, stage->bytes.base + 64);
    return loss;
}

static void assert_equal_losses(gp_stage *a, gp_stage *b, int64_t samples) {
    float one = loss_of(a, samples), other = loss_of(b, samples);
    assert_true(one > 0);
    test_assert_same(&one, &other, 1, "loss");
}

static void forms_follow_the_weights(void **state) {
    (void)state;
    gp_model *model = test_skips(LAYERS, WIDTH, (int[]){2, -1});
    gp_device_class class;
    gp_device *devices[2] = {create_device(NULL), create_device(&class)};
    gp_stage *stages[2];
    float weight[WIDTH * WIDTH] = {0.5f, -1.0f, 0.25f};
    gp_update update = {
        .kind = GP_UPDATE_ADAMW, .lr = 0.1, .epsilon = 1e-8, .correction1 = 1, .correction2 = 1, .gradient_scale = 1};
    for (int i = 0; i < 2; i++) {
        stages[i] = create_stage(model, devices[i]);
        assert_ok(gp_stage_allocate(stages[i]));
        assert_ok(gp_stage_initialise(stages[i], 5));
    }
    assert_int_equal(stages[0]->form_count, 0);
    assert_int_equal(stages[1]->form_count, 2); /* layers 0 and 1 have a weight */
    assert_equal_losses(stages[0], stages[1], LARGE);
    for (int i = 0; i < 2; i++)
        assert_ok(gp_stage_write(stages[i], 0, weight));
    assert_equal_losses(stages[0], stages[1], LARGE);

    size_t planned = devices[1]->used;
    for (int i = 0; i < 2; i++)
        assert_ok(gp_stage_prepare(stages[i], SMALL, 1u << GP_STAGE_EVALUATE));
    assert_int_equal(stages[1]->form_count, 4);
    assert_int_equal(stages[1]->late_count, 1);
    assert_true(devices[1]->used > planned);
    assert_equal_losses(stages[0], stages[1], SMALL);
    assert_equal_losses(stages[0], stages[1], LARGE);
    for (int i = 0; i < 2; i++)
        assert_ok(gp_stage_update(stages[i], &update, 0.5)); /* decay alone changes the weights */
    assert_equal_losses(stages[0], stages[1], SMALL);
    assert_equal_losses(stages[0], stages[1], LARGE);
    for (int i = 0; i < 2; i++) {
        gp_stage_destroy(stages[i]);
        assert_int_equal(devices[i]->used, 0);
        gp_device_destroy(devices[i]);
    }
    gp_model_destroy(model);
}

/* A size whose forms do not fit the device is refused. */
static void forms_that_do_not_fit_are_refused(void **state) {
    (void)state;
    gp_model *model = test_skips(LAYERS, WIDTH, (int[]){2, -1});
    gp_device_class class;
    gp_device *device = create_device(&class);
    gp_stage *stage = create_stage(model, device);
    assert_ok(gp_stage_allocate(stage));
    assert_ok(gp_stage_initialise(stage, 5));
    device->limit = device->used;
    assert_int_equal(gp_stage_prepare(stage, SMALL, 1u << GP_STAGE_EVALUATE), GP_DOES_NOT_FIT);
    gp_stage_destroy(stage);
    gp_device_destroy(device);
    gp_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_follow_the_weights),
        cmocka_unit_test(forms_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
