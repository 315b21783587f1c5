/* One case in all the ways that a kernel can be run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

enum { GUARD = 256 };

/* A way of running a kernel. */
typedef struct way {
    uint32_t accumulate;
    int in_place; /* output 0 lies over input in_place - 1; 0: nowhere */
    bool packed;  /* parameters in the forms that the kernel wants */
    bool nan;     /* the first element of input 0 is a NaN */
} way;

typedef struct tested {
    suite *s;
    gp_kernel_desc desc;
    const operand *inputs;
    gp_type input_types[GP_MAX_OPERANDS], output_types[GP_MAX_OPERANDS];
    operand before[GP_MAX_OPERANDS]; /* what outputs hold that are added to */
} tested;

/* One run on one device: device memory for every operand, with guards behind it where the device's memory can be looked
 * at. */
typedef struct one_run {
    gp_device *device;
    gp_kernel *kernel;
    void *inputs[GP_MAX_OPERANDS], *outputs[GP_MAX_OPERANDS], *forms[GP_MAX_OPERANDS], *workspace;
    size_t workspace_bytes;
} one_run;

static void describe(const tested *t, const way *w, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", t->desc.op->name);
    for (int i = 0; i < t->desc.input_count && used < size; i++) {
        char type[160] = "none";
        if (t->inputs[i].values) gp_type_format(t->input_types[i], type, sizeof type);
        used += (size_t)snprintf(text + used, size - used, " %s", type);
    }
    if (used < size) {
        snprintf(text + used, size - used, "%s%s%s%s on %s", w->accumulate ? ", accumulating" : "",
                 w->in_place ? ", in place" : "", w->packed ? ", packed" : "", w->nan ? ", with a NaN" : "",
                 t->s->device->class->name);
    }
}

static void upload(gp_device *device, void *memory, const operand *x, bool nan) {
    unsigned char *host = gp_allocate(gp_type_bytes(x->type));
    double *values = gp_allocate((size_t)elements(x) * sizeof *values);
    assert_true(host && values);
    memcpy(values, x->values, (size_t)elements(x) * sizeof *values);
    if (nan) values[0] = (double)NAN;
    gp_convert(host, x->type.dtype, values, GP_F64, (size_t)elements(x));
    device->class->upload(device, memory, host, x->type);
    gp_free(host);
    gp_free(values);
}

static double *download(gp_device *device, const void *memory, gp_type type) {
    gp_type wide = type;
    bool is_reference = gp_dtype_is_float(type.dtype) && !strcmp(device->class->name, "reference");
    if (is_reference) wide.dtype = GP_F64; /* without rounding */
    unsigned char *host = gp_allocate(gp_type_bytes(wide));
    double *values = gp_allocate((size_t)gp_shape_elements(type.shape) * sizeof *values);
    assert_true(host && values);
    device->class->download(device, host, memory, wide);
    gp_convert(values, GP_F64, host, wide.dtype, (size_t)gp_shape_elements(type.shape));
    gp_free(host);
    return values;
}

/* Memory of `bytes` and a guard, all of it NaN in every floating dtype. Both devices that there are keep their memory
 * on the host; one that does not needs another way of filling and looking here. */
static void *guarded(size_t bytes) {
    unsigned char *memory = gp_allocate(bytes + GUARD);
    assert_non_null(memory);
    memset(memory, 0xFF, bytes + GUARD);
    return memory;
}

static bool guard_is_whole(const void *memory, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++) {
        if (((const unsigned char *)memory)[bytes + i] != 0xFF) return false;
    }
    return true;
}

static void begin(one_run *r, const tested *t, gp_device *device, const way *w) {
    gp_kernel_desc desc = t->desc;
    *r = (one_run){.device = device};
    desc.accumulate = w->accumulate;
    if (device->class->kernel_create(device, &desc, &r->kernel) != GP_OK) {
        char text[1024];
        describe(t, w, text, sizeof text);
        fail_msg("%s: %s", text, gp_error_message());
    }
    for (int i = 0; i < desc.input_count; i++) {
        if (!t->inputs[i].values) continue;
        r->inputs[i] = guarded(device->class->bytes(t->input_types[i]));
        upload(device, r->inputs[i], &t->inputs[i], w->nan && i == 0);
    }
    for (int i = 0; i < desc.output_count; i++) {
        bool over = w->in_place && i == 0;
        r->outputs[i] = over ? r->inputs[w->in_place - 1] : guarded(device->class->bytes(t->output_types[i]));
        if (w->accumulate >> i & 1u) upload(device, r->outputs[i], &t->before[i], false);
    }
    r->workspace_bytes = r->kernel->workspace;
    r->workspace = guarded(r->workspace_bytes);
}

/* The kernel's forms of its parameters; false when it has none. */
static bool pack(one_run *r, const tested *t) {
    bool any = false;
    for (int i = 0; i < t->desc.input_count; i++) {
        const gp_form *form = r->kernel->forms[i];
        if (!form) continue;
        r->forms[i] = guarded(form->bytes);
        assert_true(strlen(form->key) > 0 && gp_type_equal(form->type, t->input_types[i]));
        assert_ok(form->pack(form, r->inputs[i], r->forms[i]));
        assert_true(guard_is_whole(r->forms[i], form->bytes));
        r->kernel->packed |= 1u << i;
        any = true;
    }
    if (any) { /* it may need less now */
        gp_free(r->workspace);
        r->workspace_bytes = r->kernel->packed_workspace;
        r->workspace = guarded(r->workspace_bytes);
    }
    return any;
}

static gp_status run_kernel(one_run *r) {
    const void *given[GP_MAX_OPERANDS];
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        given[i] = r->forms[i] ? r->forms[i] : r->inputs[i];
    }
    gp_run how = {.seed = 77, .step = 5, .first_sample = 6, .progress = 0.75};
    uint64_t allocations = gp_allocation_count();
    gp_status status = r->kernel->run(r->kernel, given, r->outputs, r->workspace, &how);
    assert_true(gp_allocation_count() == allocations);
    GP_TRY(status);
    return r->device->class->wait(r->device);
}

static void end(one_run *r, const tested *t, const way *w) {
    for (int i = 0; i < t->desc.output_count; i++) {
        if (i > 0 || !w->in_place) gp_free(r->outputs[i]);
    }
    for (int i = 0; i < t->desc.input_count; i++) {
        gp_free(r->inputs[i]);
        gp_free(r->forms[i]);
    }
    gp_free(r->workspace);
    r->kernel->destroy(r->kernel);
}

/* Nothing is written that is not an output. */
static void check_untouched(const one_run *r, const tested *t, const way *w) {
    char text[1024];
    describe(t, w, text, sizeof text);
    for (int i = 0; i < t->desc.output_count; i++) {
        if (!guard_is_whole(r->outputs[i], r->device->class->bytes(t->output_types[i]))) {
            fail_msg("%s: writes behind output %d", text, i);
        }
    }
    if (!guard_is_whole(r->workspace, r->workspace_bytes)) fail_msg("%s: writes behind its workspace", text);
    for (int i = 0; i < t->desc.input_count; i++) {
        if (!t->inputs[i].values || w->in_place == i + 1) continue;
        double *after = download(r->device, r->inputs[i], t->input_types[i]);
        for (int64_t e = w->nan && i == 0; e < elements(&t->inputs[i]); e++) {
            if (after[e] != t->inputs[i].values[e]) fail_msg("%s: changes input %d", text, i);
        }
        gp_free(after);
    }
}

static double distance(const double *got, const double *want, int64_t count) {
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < count; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return norm > 0.0 ? sqrt(error / norm) : sqrt(error);
}

static void compare(const one_run *r, const one_run *reference, const tested *t, const way *w) {
    for (int i = 0; i < t->desc.output_count; i++) {
        gp_type type = t->output_types[i];
        double *got = download(r->device, r->outputs[i], type);
        double *want = download(reference->device, reference->outputs[i], type);
        double tolerance = t->s->tolerance[type.dtype != GP_F32];
        double found = distance(got, want, gp_shape_elements(type.shape));
        if (!(found <= tolerance)) {
            char text[1024];
            describe(t, w, text, sizeof text);
            fail_msg("%s: output %d is %g away from the reference, %g is allowed", text, i, found, tolerance);
        }
        gp_free(got);
        gp_free(want);
    }
}

/* The same once more: the same bits. */
static void check_repeats(const one_run *r, const tested *t, const way *w) {
    one_run again;
    begin(&again, t, r->device, w);
    if (w->packed) pack(&again, t);
    assert_ok(run_kernel(&again));
    for (int i = 0; i < t->desc.output_count; i++) {
        assert_memory_equal(again.outputs[i], r->outputs[i], r->device->class->bytes(t->output_types[i]));
    }
    end(&again, t, w);
}

static void check_way(const tested *t, const way *w) {
    one_run r, reference;
    way plainly = *w;
    plainly.in_place = 0;
    plainly.packed = false;
    begin(&r, t, t->s->device, w);
    if (!w->packed || pack(&r, t)) {
        begin(&reference, t, t->s->reference, &plainly);
        gp_status status = run_kernel(&r);
        if (status != GP_OK) fail_msg("%s: %s", t->desc.op->name, gp_error_message());
        assert_ok(run_kernel(&reference));
        check_untouched(&r, t, w);
        compare(&r, &reference, t, w);
        check_repeats(&r, t, w);
        end(&reference, t, &plainly);
    }
    end(&r, t, w);
}

/* A NaN that goes in must come out: that is how divergence is found. */
static void check_nan(const tested *t) {
    one_run r;
    way w = {.nan = true};
    begin(&r, t, t->s->device, &w);
    assert_ok(run_kernel(&r));
    if (t->s->device->class->all_finite(t->s->device, r.outputs[0], t->output_types[0])) {
        fail_msg("%s: a NaN in input 0 is lost", t->desc.op->name);
    }
    end(&r, t, &w);
}

static void prepare(tested *t, suite *s, gp_op_id id, const gp_op_class *op, const void *attributes,
                    const operand *inputs, int input_count) {
    int output_count = output_count_of(id);
    *t = (tested){.s = s, .inputs = inputs};
    for (int i = 0; i < input_count; i++) {
        t->input_types[i] = inputs[i].type;
    }
    gp_op_call call = {attributes, t->input_types, (size_t)input_count, NULL, (size_t)output_count};
    if (op->infer(&call, t->output_types) != GP_OK) fail_msg("%s: %s", op->name, gp_error_message());
    for (int i = 0; i < output_count; i++) {
        t->before[i] = uniform(s, t->output_types[i].dtype, t->output_types[i].shape, -1.0, 1.0);
    }
    t->desc = (gp_kernel_desc){id, op, attributes, t->input_types, t->output_types, input_count, output_count, 0};
}

static bool may_lie_over(const tested *t, int input) {
    return (t->desc.op->in_place >> input & 1u) && t->inputs[input].values &&
           t->input_types[input].dtype == t->output_types[0].dtype &&
           gp_shape_elements(t->input_types[input].shape) == gp_shape_elements(t->output_types[0].shape);
}

static void check_case(suite *s, gp_op_id id, const gp_op_class *op, const void *attributes, const operand *inputs,
                       int input_count) {
    tested t;
    prepare(&t, s, id, op, attributes, inputs, input_count);
    uint32_t accumulates = gp_op_accumulates(id);
    bool always = id == GP_OP_ACCUMULATE;
    if (!always) check_way(&t, &(way){0});
    for (uint32_t mask = 1; mask <= accumulates; mask++) {
        if ((mask & ~accumulates) == 0) check_way(&t, &(way){.accumulate = mask});
    }
    for (int i = 0; i < input_count; i++) {
        if (may_lie_over(&t, i)) check_way(&t, &(way){.in_place = i + 1});
    }
    if (!always) check_way(&t, &(way){.packed = true});
    if (s->nan_travels && elements(&inputs[0]) && gp_dtype_is_float(inputs[0].type.dtype)) check_nan(&t);
    s->emitted[id]++;
}

void emit(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count) {
    check_case(s, id, gp_op_class_of(id), attributes, inputs, input_count);
}

void emit_custom(suite *s, const gp_op_class *op, const void *attributes, const operand *inputs, int input_count) {
    check_case(s, GP_OP_CUSTOM, op, attributes, inputs, input_count);
}

gp_status run_status(suite *s, gp_op_id id, const void *attributes, const operand *inputs, int input_count) {
    tested t;
    one_run r;
    way w = {0};
    prepare(&t, s, id, gp_op_class_of(id), attributes, inputs, input_count);
    begin(&r, &t, s->device, &w);
    gp_status status = run_kernel(&r);
    end(&r, &t, &w);
    return status;
}
