/* Matrix products: linear layers, their gradients, and batched products. From a description to a kernel; how it runs is
 * explained in products.h. */
#include "device/cpu/products.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

/* ---- running ---- */

static gp_status run(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                     const gp_run *run_of_program) {
    (void)run_of_program;
    const gp_cpu_product *p = (const gp_cpu_product *)kernel;
    const float *bias = p->bias ? inputs[2] : NULL;
    bool packed = p->packed_input < 0 || (kernel->packed >> p->packed_input & 1);
    if (p->matmul && packed) {
        return gp_onednn_matmul_run(p->matmul, inputs[0], inputs[1], bias, outputs[0], workspace);
    }
    return gp_cpu_product_tiles_run(p, inputs[0], inputs[1], bias, outputs[0], workspace);
}

static void destroy(gp_kernel *kernel) {
    gp_cpu_product *p = (gp_cpu_product *)kernel;
    gp_onednn_matmul_destroy(p->matmul);
    gp_free(p);
}

static gp_status pack(const gp_form *form, const void *plain, void *packed) {
    return gp_onednn_matmul_pack(form->details, plain, packed);
}

/* ---- shapes ---- */

static bool is_matrix(gp_type type, gp_dtype dtype, int64_t rows, int64_t columns) {
    return type.dtype == dtype && type.shape.rank == 2 && type.shape.dims[0] == rows && type.shape.dims[1] == columns;
}

static bool has_rows(gp_type type, gp_dtype dtype, int64_t rows, int64_t columns) {
    return gp_cpu_is_float(type) && type.dtype == dtype && type.shape.rank > 0 && gp_cpu_rows(type.shape) == rows &&
           gp_cpu_columns(type.shape) == columns;
}

static gp_status read_linear(gp_cpu_product *p, const gp_kernel_desc *d) {
    const gp_type *x = &d->inputs[0], *y = &d->outputs[0];
    p->m = gp_cpu_rows(x->shape);
    p->n = gp_cpu_columns(y->shape);
    p->k = gp_cpu_columns(x->shape);
    p->bias = d->input_count > 2 && gp_cpu_is_present(d->inputs[2]);
    p->transpose_b = true;
    bool fits = gp_cpu_is_float(*x) && x->shape.rank > 0 && is_matrix(d->inputs[1], GP_F32, p->n, p->k) &&
                has_rows(*y, x->dtype, p->m, p->n);
    if (p->bias) fits = fits && d->inputs[2].dtype == GP_F32 && gp_shape_elements(d->inputs[2].shape) == p->n;
    return gp_cpu_check(fits, d);
}

static gp_status read_input_gradient(gp_cpu_product *p, const gp_kernel_desc *d) {
    const gp_type *dy = &d->inputs[0], *dx = &d->outputs[0];
    p->m = gp_cpu_rows(dy->shape);
    p->n = gp_cpu_columns(dx->shape);
    p->k = gp_cpu_columns(dy->shape);
    return gp_cpu_check(gp_cpu_is_float(*dy) && dy->shape.rank > 0 && is_matrix(d->inputs[1], GP_F32, p->k, p->n) &&
                            has_rows(*dx, dy->dtype, p->m, p->n),
                        d);
}

static gp_status read_weight_gradient(gp_cpu_product *p, const gp_kernel_desc *d) {
    const gp_type *dy = &d->inputs[0], *x = &d->inputs[1];
    p->m = gp_cpu_columns(dy->shape);
    p->n = gp_cpu_columns(x->shape);
    p->k = gp_cpu_rows(dy->shape);
    p->transpose_a = true;
    p->accumulate = d->accumulate & 1;
    return gp_cpu_check(gp_cpu_is_float(*dy) && dy->shape.rank > 0 && has_rows(*x, dy->dtype, p->k, p->n) &&
                            is_matrix(d->outputs[0], GP_F32, p->m, p->n),
                        d);
}

/* The dimensions before the last two. */
static gp_shape leading(gp_shape shape) {
    shape.rank -= 2;
    return shape;
}

static int64_t dim_from_end(gp_shape shape, bool swapped, int i) {
    return shape.dims[shape.rank - (swapped ? 3 - i : i)];
}

static gp_status read_matmul(gp_cpu_product *p, const gp_kernel_desc *d) {
    static const gp_matmul_options none;
    const gp_matmul_options *options = d->attributes ? d->attributes : &none;
    gp_shape a = d->inputs[0].shape, b = d->inputs[1].shape, c = d->outputs[0].shape;
    GP_TRY(gp_cpu_check(gp_cpu_is_float(d->inputs[0]) && d->inputs[1].dtype == d->inputs[0].dtype &&
                            d->outputs[0].dtype == d->inputs[0].dtype && a.rank >= 2 && b.rank >= 2 && c.rank >= 2,
                        d));
    p->transpose_a = options->transpose_a;
    p->transpose_b = options->transpose_b;
    p->m = c.dims[c.rank - 2];
    p->n = c.dims[c.rank - 1];
    p->k = dim_from_end(a, p->transpose_a, 1);
    GP_TRY(gp_cpu_check(dim_from_end(a, p->transpose_a, 2) == p->m && dim_from_end(b, p->transpose_b, 2) == p->k &&
                            dim_from_end(b, p->transpose_b, 1) == p->n,
                        d));
    p->batch = gp_shape_elements(leading(c));
    if (gp_shape_elements(leading(b)) == 1 && gp_shape_elements(leading(a)) == p->batch && !p->transpose_a) {
        p->m *= p->batch; /* one right operand for all: the left ones are one tall matrix */
        p->batch = 1;
    }
    gp_shape operands[2] = {leading(a), leading(b)};
    gp_cpu_walk_set(&p->walk, leading(c), operands, 2);
    return GP_OK;
}

static gp_status read_desc(gp_cpu_product *p, const gp_kernel_desc *desc) {
    p->batch = 1;
    p->a = desc->inputs[0].dtype;
    p->b = desc->inputs[1].dtype;
    p->c = desc->outputs[0].dtype;
    switch (desc->id) {
    case GP_OP_LINEAR:
        return read_linear(p, desc);
    case GP_OP_LINEAR_INPUT_GRADIENT:
        return read_input_gradient(p, desc);
    case GP_OP_LINEAR_WEIGHT_GRADIENT:
        return read_weight_gradient(p, desc);
    case GP_OP_MATMUL:
        return read_matmul(p, desc);
    default:
        return gp_cpu_check(false, desc);
    }
}

/* ---- the primitive ---- */

/* The shape of an operand with `rank` dimensions, its last two as the product sees them. */
static void operand_dims(int64_t *dims, int rank, gp_shape shape, int64_t rows, int64_t columns) {
    for (int i = 0; i < rank - 2; i++) {
        int at = i - (rank - shape.rank);
        dims[i] = at >= 0 ? shape.dims[at] : 1;
    }
    dims[rank - 2] = rows;
    dims[rank - 1] = columns;
}

static gp_matmul_desc primitive_desc(const gp_cpu_product *p, const gp_kernel_desc *d) {
    bool batched = p->batch > 1, weights = d->id == GP_OP_LINEAR || d->id == GP_OP_LINEAR_INPUT_GRADIENT;
    gp_matmul_desc desc = {.rank = batched ? d->outputs[0].shape.rank : 2,
                           .transpose_a = p->transpose_a,
                           .transpose_b = p->transpose_b,
                           .a_dtype = GP_BF16,
                           .b_dtype = GP_BF16,
                           .c_dtype = p->c,
                           .bias = p->bias,
                           .accumulate = p->accumulate,
                           .packed = weights};
    operand_dims(desc.a, desc.rank, d->inputs[0].shape, p->m, p->k);
    operand_dims(desc.b, desc.rank, d->inputs[1].shape, p->k, p->n);
    operand_dims(desc.c, desc.rank, d->outputs[0].shape, p->m, p->n);
    return desc;
}

static gp_status add_primitive(gp_cpu_product *p, const gp_kernel_desc *d) {
    gp_matmul_desc desc = primitive_desc(p, d);
    gp_status status = gp_onednn_matmul_create(&p->matmul, &desc);
    if (status == GP_INVALID) { /* the tiles can do it */
        gp_log(GP_LOG_WARNING, "a bf16 product runs through f32 (slower): %s", gp_error_message());
        return GP_OK;
    }
    GP_TRY(status);
    if (!desc.packed) return GP_OK;
    p->packed_input = 1;
    p->form.bytes = gp_onednn_matmul_packed_bytes(p->matmul);
    p->form.type = d->inputs[1];
    p->form.pack = pack;
    p->form.details = p->matmul;
    gp_onednn_matmul_packed_key(p->matmul, p->form.key, sizeof p->form.key);
    p->kernel.forms[1] = &p->form;
    return GP_OK;
}

/* ---- creation ---- */

static gp_status set_up(gp_cpu_product *p, const gp_cpu_device *device, const gp_kernel_desc *desc) {
    p->kernel.run = run;
    p->kernel.destroy = destroy;
    p->loops = device->loops;
    p->threads = device->device.threads;
    p->packed_input = -1;
    GP_TRY(read_desc(p, desc));
    gp_cpu_product_tiles_plan(p);
    if (device->bf16_packed && p->a == GP_BF16) GP_TRY(add_primitive(p, desc));
    size_t tiles = p->tile_workspace * (size_t)p->workers;
    size_t primitive = p->matmul ? gp_onednn_matmul_workspace(p->matmul) : 0;
    p->kernel.workspace = tiles > primitive ? tiles : primitive;
    p->kernel.packed_workspace = primitive;
    /* Operands that are never parameters always reach the primitive. */
    if (p->matmul && p->packed_input < 0) p->kernel.workspace = primitive;
    return GP_OK;
}

gp_status gp_cpu_product_create(gp_cpu_device *device, const gp_kernel_desc *desc, gp_kernel **kernel) {
    gp_cpu_product *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = set_up(made, device, desc);
    if (status != GP_OK) {
        destroy(&made->kernel);
        return status;
    }
    *kernel = &made->kernel;
    return GP_OK;
}

bool gp_cpu_products_packed(void) {
    return gp_onednn_has_amx();
}
