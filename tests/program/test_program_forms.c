/* Parameters in forms: a program asks the stage where the form is that a kernel wants a parameter in, and hands it in.
 * The device is the reference device whose linear wants its weight transposed. */
#include "bench.h"

#include <math.h>
#include <string.h>

typedef struct turning_kernel {
    gp_kernel kernel;
    gp_kernel *inner;
    gp_form form;
} turning_kernel;

static const gp_device_class *inner_class(void) {
    gp_device *device = NULL;
    assert_ok(gp_device_create_reference(&device, NULL));
    const gp_device_class *class = device->class;
    gp_device_destroy(device);
    return class;
}

static void turn(const double *from, double *to, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            to[c * rows + r] = from[r * columns + c];
        }
    }
}

static gp_status turning_pack(const gp_form *form, const void *from, void *packed) {
    turn(from, packed, form->type.shape.dims[0], form->type.shape.dims[1]);
    return GP_OK;
}

static gp_status turning_run(const gp_kernel *base, const void *const *inputs, void *const *outputs, void *workspace,
                             const gp_run *how) {
    const turning_kernel *kernel = (const turning_kernel *)base;
    const void *given[GP_MAX_OPERANDS] = {inputs[0], inputs[1], inputs[2]};
    if (base->packed >> 1 & 1u) {
        turn(inputs[1], workspace, kernel->form.type.shape.dims[1], kernel->form.type.shape.dims[0]);
        given[1] = workspace;
    }
    return kernel->inner->run(kernel->inner, given, outputs, NULL, how);
}

static void turning_destroy(gp_kernel *base) {
    turning_kernel *kernel = (turning_kernel *)base;
    kernel->inner->destroy(kernel->inner);
    gp_free(kernel);
}

static gp_status turning_create(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_kernel *inner = NULL;
    GP_TRY(inner_class()->kernel_create(device, desc, &inner));
    if (desc->id != GP_OP_LINEAR) {
        *kernel = inner;
        return GP_OK;
    }
    turning_kernel *made = gp_allocate(sizeof *made);
    assert_non_null(made);
    made->inner = inner;
    made->form = (gp_form){"turned", device->class->bytes(desc->inputs[1]), desc->inputs[1], turning_pack, NULL};
    made->kernel.forms[1] = &made->form;
    made->kernel.workspace = made->form.bytes;
    made->kernel.run = turning_run;
    made->kernel.destroy = turning_destroy;
    *kernel = &made->kernel;
    return GP_OK;
}

typedef struct forms {
    int calls;
    int32_t parameter;
    gp_form form;
    gp_status answer;
} forms;

static gp_status place_form(void *user, int32_t parameter, const gp_form *form, int *region, size_t *offset) {
    forms *f = user;
    f->calls++;
    f->parameter = parameter;
    f->form = *form;
    *region = 2;
    *offset = 64;
    return f->answer == GP_OK ? GP_OK : gp_error(f->answer, "no room for the form");
}

static void test_forms(void **state) {
    (void)state;
    bench b = bench_create();
    gp_device_class class = *b.device->class;
    class.kernel_create = turning_create;
    b.device->class = &class;
    gp_value x = gp_graph_input(b.graph, TYPE(1, 3)),
             w = gp_graph_parameter(b.graph, gp_shape_of(2, (int64_t[]){2, 3}));
    gp_value plain_w = gp_graph_input(b.graph, TYPE(2, 3));
    gp_value y = gp_linear(x, gp_graph_alias(w), gp_none()), z = gp_linear(x, plain_w, gp_none());
    available(&b, x);
    gp_placement *weight = available(&b, w);
    available(&b, plain_w);
    gp_placement *want_y = wanted(&b, y), *want_z = wanted(&b, z);
    forms f = {0};
    gp_program_desc desc = desc_of(&b);
    desc.place_form = place_form;
    desc.user = &f;
    create(&b, &desc);
    assert_int_equal(f.calls, 1); /* not for the weight that is no parameter */
    assert_int_equal(f.parameter, w.index);
    assert_string_equal(f.form.key, "turned");
    assert_false(gp_program_reads(b.program, w.index)); /* only its form */
    assert_true(gp_program_reads(b.program, plain_w.index));
    double packed[8 + 6];
    assert_ok(f.form.pack(&f.form, data_at(&b, weight), packed + 8));
    data_at(&b, weight)[0] = (double)NAN;
    void *regions[] = {b.workspace, b.memory, packed};
    assert_ok(gp_program_run(b.program, 0, regions, &(gp_run){0}, NULL));
    assert_true(data_at(&b, want_y)[0] == 14.0 && data_at(&b, want_y)[1] == 32.0);
    assert_true(data_at(&b, want_z)[0] == 14.0 && data_at(&b, want_z)[1] == 32.0);

    f.answer = GP_DOES_NOT_FIT;
    gp_program *refused = NULL;
    assert_int_equal(gp_program_create(&refused, &desc), GP_DOES_NOT_FIT);
    assert_null(refused);
    assert_string_equal(gp_error_message(), "layer 3, linear: no room for the form");
    bench_destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
