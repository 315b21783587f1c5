/* Programs one property at a time: views cost nothing, memory is written over in place, products add straight into
 * gradients, segments, equal kernels shared, errors and faults, and running allocates nothing. */
#include "bench.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

static void test_views_have_no_kernel(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(2, 3));
    gp_value flat = gp_reshape(gp_graph_alias(x), gp_shape_of(1, (int64_t[]){6}));
    gp_value y = gp_graph_alias(gp_reshape(gp_scale(flat, 2.0), gp_shape_of(2, (int64_t[]){3, 2})));
    available(&b, x);
    gp_placement *want = wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_int_equal(gp_program_kernels(b.program), 1);
    assert_int_equal(gp_program_workspace(b.program), 0);
    assert_ok(run(&b, 0, false, NULL));
    assert_true(data_at(&b, want)[5] == 12.0);
    bench_destroy(&b);
}

/* Only the alias of a value is available, the value itself is asked for, and the other way round. */
static void test_alias_resolves(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_scale(gp_graph_input(b.graph, TYPE(4)), 3.0), alias = gp_graph_alias(x);
    gp_value y = gp_scale(x, 10.0);
    available(&b, alias);
    gp_placement *want_y = wanted(&b, y), *want_x = wanted(&b, x), *same = wanted(&b, alias);
    *same = b.available[0]; /* it is there already: nothing to do */
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_int_equal(gp_program_kernels(b.program), 2); /* the product and one copy */
    assert_true(gp_program_reads(b.program, alias.index));
    assert_ok(run(&b, 0, false, NULL));
    assert_true(data_at(&b, want_x)[3] == 4.0);
    assert_true(data_at(&b, want_y)[3] == 40.0);
    bench_destroy(&b);
}

/* A chain of activations takes the memory of one value, or none at all where the input may be consumed. */
static void test_chain_in_place(void **state) {
    (void)state;
    for (int consumable = 0; consumable < 2; consumable++) {
        bench b = bench_create();
        gp_value x = gp_graph_input(b.graph, TYPE(100)), y = x;
        for (int i = 0; i < 10; i++) {
            y = gp_relu(gp_scale(y, 2.0));
        }
        gp_value sum = gp_sum(y, 0, true);
        available(&b, x)->consumable = consumable;
        gp_placement *want = wanted(&b, sum);
        gp_program_desc desc = desc_of(&b);
        create(&b, &desc);
        assert_int_equal(gp_program_workspace(b.program), consumable ? 0 : 832); /* 100 doubles, padded */
        assert_ok(run(&b, 0, false, NULL));
        assert_true(data_at(&b, want)[0] == 1024.0 * 5050.0);
        assert_true(data_at(&b, &b.available[0])[99] == (consumable ? 102400.0 : 100.0));
        bench_destroy(&b);
    }
}

/* A value that is read again later is not written over. */
static void test_not_in_place(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(8)), a = gp_scale(x, 2.0);
    gp_value y = gp_add(gp_relu(gp_scale(a, -1.0)), a);
    available(&b, x);
    gp_placement *want = wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_ok(run(&b, 0, false, NULL));
    assert_true(data_at(&b, want)[7] == 16.0);
    bench_destroy(&b);
}

/* Both operands are one value: squares in place are right. */
static void test_square_in_place(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(8)), y = gp_scale(gp_mul(x, x), 1.0);
    available(&b, x)->consumable = true;
    gp_placement *want = wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_int_equal(gp_program_workspace(b.program), 0);
    assert_ok(run(&b, 0, false, NULL));
    assert_true(data_at(&b, want)[7] == 64.0);
    bench_destroy(&b);
}

/* y[i] = a[i] + b[n - 1 - i]: may be written over a, but not when b is there too. */
static gp_status mirror_infer(const gp_op_call *call, gp_type *outputs) {
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status mirror_reference(const gp_op_call *call, const gp_op_data *data) {
    int64_t count = gp_shape_elements(call->inputs[0].shape);
    const double *a = data->inputs[0], *b = data->inputs[1];
    double *y = data->outputs[0];
    for (int64_t i = 0; i < count; i++) {
        y[i] = a[i] + b[count - 1 - i];
    }
    return GP_OK;
}

static gp_status mirror_kernel(const gp_op_call *call, const gp_op_data *data) {
    (void)call;
    (void)data;
    return gp_error(GP_FAILED, "only the reference device runs this operation");
}

static const gp_op_class mirror_class = {.size = sizeof(gp_op_class),
                                         .name = "mirror",
                                         .infer = mirror_infer,
                                         .kernel = mirror_kernel,
                                         .reference = mirror_reference,
                                         .in_place = 1};

static void test_other_input_not_written_over(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        bench b = bench_create();
        gp_value x = gp_graph_input(b.graph, TYPE(8)), other = gp_graph_input(b.graph, TYPE(8)), y;
        gp_value inputs[] = {x, itself ? gp_graph_alias(x) : other};
        gp_op_apply(&mirror_class, NULL, inputs, 2, &y, 1);
        available(&b, x)->consumable = true;
        available(&b, other);
        gp_placement *want = wanted(&b, gp_scale(y, 1.0));
        gp_program_desc desc = desc_of(&b);
        create(&b, &desc);
        assert_int_equal(gp_program_workspace(b.program), itself ? 64 : 0);
        assert_ok(run(&b, 0, false, NULL));
        for (int i = 0; i < 8; i++) {
            assert_true(data_at(&b, want)[i] == 9.0);
        }
        bench_destroy(&b);
    }
}

/* ---- accumulation ---- */

/* A weight's gradient is added by the kernel itself; a value without such a kernel is added by one more step. */
static void test_accumulate(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(2, 2)),
             w = gp_graph_parameter(b.graph, gp_shape_of(2, (int64_t[]){1, 2}));
    gp_value y = gp_linear(x, w, gp_none()), dy = gp_graph_input(b.graph, gp_value_type(y));
    gp_value gradients[2];
    assert_ok(gp_graph_gradients(b.graph, &y, &dy, 1, (gp_value[]){w, x}, gradients, 2));
    available(&b, x);
    available(&b, w);
    available(&b, dy);
    gp_placement *dw = wanted(&b, gradients[0]), *dx = wanted(&b, gradients[1]);
    dw->accumulate = dx->accumulate = true;
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_int_equal(gp_program_kernels(b.program), 3);
    assert_ok(run(&b, 0, false, NULL));
    assert_ok(run(&b, 0, false, NULL));
    assert_true(data_at(&b, dw)[0] == 2.0 * 7.0 && data_at(&b, dw)[1] == 2.0 * 10.0); /* 1 1 + 2 3, 1 2 + 2 4 */
    assert_true(data_at(&b, dx)[2] == 2.0 * 2.0 && data_at(&b, dx)[3] == 2.0 * 4.0);
    bench_destroy(&b);
}

/* A gradient that is read by another node, or wanted once more, is computed first and added afterwards. */
static void test_accumulate_and_read(void **state) {
    (void)state;
    for (int once_more = 0; once_more < 2; once_more++) {
        bench b = bench_create();
        gp_value x = gp_graph_input(b.graph, TYPE(2, 3)), sum = gp_sum(x, 0, false), twice = gp_scale(sum, 2.0);
        available(&b, x);
        gp_placement *total = wanted(&b, sum), *other = wanted(&b, once_more ? sum : twice);
        total->accumulate = true;
        gp_program_desc desc = desc_of(&b);
        create(&b, &desc);
        data_at(&b, total)[0] = 100.0;
        assert_ok(run(&b, 0, false, NULL));
        assert_true(data_at(&b, total)[0] == 105.0);
        assert_true(data_at(&b, other)[0] == (once_more ? 5.0 : 10.0));
        bench_destroy(&b);
    }
}

/* ---- segments ---- */

static void test_segments(void **state) {
    (void)state;
    for (int early_all = 0; early_all < 2; early_all++) {
        bench b = bench_create();
        gp_value x = gp_graph_input(b.graph, TYPE(4)), h = gp_tanh(x), y = gp_tanh(gp_scale(h, 2.0));
        gp_value dy = gp_graph_input(b.graph, gp_value_type(y)), dx;
        assert_ok(gp_graph_gradients(b.graph, &y, &dy, 1, &x, &dx, 1));
        available(&b, x);
        gp_placement *late = available(&b, dy), *want = wanted(&b, dx);
        gp_program_desc desc = desc_of(&b);
        desc.late = &dy.index;
        desc.late_count = 1;
        desc.early_all = early_all;
        create(&b, &desc);
        assert_int_equal(gp_program_segments(b.program), 2);
        /* All three forward nodes come before; without early_all the same here, as the first backward node needs them.
         */
        assert_int_equal(b.program->segment_begin[1], 3);
        assert_true(gp_program_flops(b.program, 0) > 0.0 && gp_program_flops(b.program, 1) > 0.0);
        data_at(&b, late)[3] = (double)NAN;
        assert_ok(run(&b, 0, false, NULL));
        data_at(&b, late)[3] = 4.0;
        assert_ok(run(&b, 1, false, NULL));
        double t = tanh(4.0), u = tanh(2.0 * t);
        assert_true(fabs(data_at(&b, want)[3] - 4.0 * (1 - u * u) * 2.0 * (1 - t * t)) < 1e-12);
        assert_int_equal(run(&b, 2, false, NULL), GP_INVALID);
        bench_destroy(&b);
    }
}

/* Layer by layer: what the second backward node needs is computed again after the first has run, unless early_all. */
static void test_early_all_moves_forward_nodes(void **state) {
    (void)state;
    size_t early[2];
    for (int early_all = 0; early_all < 2; early_all++) {
        bench b = bench_create();
        gp_value x = gp_graph_input(b.graph, TYPE(4)), middle = gp_silu(gp_scale(x, 0.5));
        gp_value y = gp_silu(gp_scale(middle, 0.5)), dy = gp_graph_input(b.graph, gp_value_type(y)), dx;
        assert_ok(gp_graph_gradients(b.graph, &y, &dy, 1, &x, &dx, 1));
        available(&b, x);
        available(&b, middle); /* stashed between the layers */
        available(&b, dy);
        wanted(&b, dx);
        gp_program_desc desc = desc_of(&b);
        desc.late = &dy.index;
        desc.late_count = 1;
        desc.early_all = early_all;
        create(&b, &desc);
        early[early_all] = b.program->segment_begin[1];
        bench_destroy(&b);
    }
    assert_int_equal(early[0], 1);
    assert_int_equal(early[1], 2);
}

/* ---- kernels ---- */

static void test_equal_kernels_are_shared(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(2, 6)), y = x;
    for (int i = 0; i < 20; i++) {
        gp_graph_begin_layer(b.graph, i);
        y = gp_dropout(gp_gelu_tanh(gp_scale(y, i % 2 ? 0.5 : 0.25)), 0.5);
    }
    available(&b, x);
    wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    assert_int_equal(gp_program_kernels(b.program), 60);
    assert_int_equal(b.program->kernels.count, 1 + 2 + 20); /* gelu, two factors, dropouts with their own numbers */
    uint64_t allocations = gp_allocation_count();
    assert_ok(run(&b, 0, true, NULL));
    assert_true(gp_allocation_count() == allocations);
    bench_destroy(&b);
}

/* ---- errors ---- */

static void test_fault_of_a_kernel(void **state) {
    (void)state;
    bench b = bench_create();
    gp_type indices_type = {GP_I32, gp_shape_of(1, (int64_t[]){2})};
    gp_value table = gp_graph_parameter(b.graph, gp_shape_of(2, (int64_t[]){5, 2}));
    gp_value indices = gp_graph_input(b.graph, indices_type), y = gp_embedding(table, indices, GP_F32);
    gp_placement *where = available(&b, indices);
    available(&b, table);
    wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    int32_t *given = (int32_t *)(void *)data_at(&b, where);
    given[0] = 4;
    given[1] = 5;
    gp_program_fault fault;
    assert_int_equal(run(&b, 0, false, &fault), GP_INVALID);
    assert_int_equal(fault.layer, 3);
    assert_string_equal(fault.op, "embedding");
    assert_false(fault.backward || fault.not_finite);
    assert_non_null(strstr(gp_error_message(), "layer 3, embedding: index 5 at position 1 "));
    given[1] = -1;
    assert_int_equal(run(&b, 0, false, NULL), GP_INVALID);
    given[1] = 0;
    assert_ok(run(&b, 0, false, &fault));
    assert_int_equal(fault.layer, -1);
    bench_destroy(&b);
}

static void test_check_finds_the_first_nan(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(4)), y = gp_tanh(gp_scale(x, 2.0));
    gp_value dy = gp_graph_input(b.graph, gp_value_type(y)), dx;
    assert_ok(gp_graph_gradients(b.graph, &y, &dy, 1, &x, &dx, 1));
    available(&b, x);
    gp_placement *gradient = available(&b, dy);
    wanted(&b, dx);
    gp_program_desc desc = desc_of(&b);
    create(&b, &desc);
    data_at(&b, gradient)[2] = (double)INFINITY;
    gp_program_fault fault;
    assert_ok(run(&b, 0, false, NULL)); /* nobody looks */
    assert_int_equal(run(&b, 0, true, &fault), GP_DIVERGED);
    assert_int_equal(fault.layer, 3);
    assert_string_equal(fault.op, "activation_gradient");
    assert_true(fault.backward && fault.not_finite);
    assert_string_equal(gp_error_message(),
                        "layer 3, activation_gradient (backward): output 0 has a NaN or an infinity");
    bench_destroy(&b);
}

static void test_wrong_descriptions(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(4)), y = gp_tanh(x);
    gp_value indices = gp_graph_input(b.graph, (gp_type){GP_I32, gp_shape_of(1, (int64_t[]){4})});
    gp_placement *p = wanted(&b, y);
    gp_program_desc desc = desc_of(&b);
    gp_program *program = NULL;
    assert_int_equal(gp_program_create(&program, &desc), GP_FAILED); /* x is not available */
    p->region = GP_REGION_WORKSPACE;
    assert_int_equal(gp_program_create(&program, &desc), GP_INVALID);
    p->region = 1;
    p->offset = 8;
    assert_int_equal(gp_program_create(&program, &desc), GP_INVALID);
    p->offset = 0;
    p->value = 99;
    assert_int_equal(gp_program_create(&program, &desc), GP_INVALID);
    *p = (gp_placement){.value = indices.index, .region = 1, .accumulate = true};
    assert_int_equal(gp_program_create(&program, &desc), GP_INVALID);
    assert_null(program);
    gp_program_destroy(NULL);
    bench_destroy(&b);
}

static void test_no_memory(void **state) {
    (void)state;
    bench b = bench_create();
    gp_value x = gp_graph_input(b.graph, TYPE(4, 4)),
             w = gp_graph_parameter(b.graph, gp_shape_of(2, (int64_t[]){4, 4}));
    gp_value y = gp_softmax(gp_linear(gp_gelu_erf(x), w, gp_none()));
    gp_value dy = gp_graph_input(b.graph, gp_value_type(y)), dw;
    assert_ok(gp_graph_gradients(b.graph, &y, &dy, 1, &w, &dw, 1));
    available(&b, x);
    available(&b, w);
    available(&b, dy);
    wanted(&b, dw)->accumulate = true;
    gp_program_desc desc = desc_of(&b);
    desc.late = &dy.index;
    desc.late_count = 1;
    desc.early_all = true;
    gp_status status = GP_OUT_OF_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != GP_OK && n < 1000; n++, failures++) {
        gp_allocation_fail_at(n);
        status = gp_program_create(&b.program, &desc);
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || (status == GP_OUT_OF_MEMORY && !b.program));
    }
    assert_int_equal(status, GP_OK);
    assert_true(failures > 20);
    bench_destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_have_no_kernel),
        cmocka_unit_test(test_alias_resolves),
        cmocka_unit_test(test_chain_in_place),
        cmocka_unit_test(test_not_in_place),
        cmocka_unit_test(test_square_in_place),
        cmocka_unit_test(test_other_input_not_written_over),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_accumulate_and_read),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_early_all_moves_forward_nodes),
        cmocka_unit_test(test_equal_kernels_are_shared),
        cmocka_unit_test(test_fault_of_a_kernel),
        cmocka_unit_test(test_check_finds_the_first_nan),
        cmocka_unit_test(test_wrong_descriptions),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
