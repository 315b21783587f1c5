/* reduce_to: sums over the dimensions that the result lacks.
 *
 * Nearly always x can be seen as [outer, sum, columns], summed over the middle: the gradient of a bias is [1, rows, n],
 * a sum over the last dimension [rows, n, 1], a mean over time [batch, time, width]. What cannot (summed and kept
 * dimensions alternate more often) is walked element by element in double precision. */
#include "base/status.h"
#include "device/cpu/kernel.h"

/* Runs of dimensions that are all kept or all summed. */
typedef struct groups {
    int count;
    int64_t size[GP_MAX_RANK];
    bool kept[GP_MAX_RANK];
} groups;

static groups groups_of(gp_shape x, gp_shape y) {
    groups found = {.count = 0};
    int missing = x.rank - y.rank;
    for (int i = 0; i < x.rank; i++) {
        if (x.dims[i] == 1) continue;
        bool kept = i >= missing && y.dims[i - missing] == x.dims[i];
        if (found.count > 0 && found.kept[found.count - 1] == kept) {
            found.size[found.count - 1] *= x.dims[i];
        } else {
            found.size[found.count] = x.dims[i];
            found.kept[found.count++] = kept;
        }
    }
    return found;
}

static void store_sum(const gp_cpu_call *call, int64_t i, double sum) {
    gp_dtype dtype = call->kernel->outputs[0].dtype;
    gp_cpu_operand y = {gp_cpu_from(dtype, call->outputs[0], i), dtype, 1};
    float value = (float)sum;
    if (call->kernel->accumulate & 1u) {
        float old;
        call->kernel->loops->cast(y, &old, GP_F32, 1);
        value += old;
    }
    call->kernel->loops->cast((gp_cpu_operand){&value, GP_F32, 1}, gp_cpu_to(dtype, call->outputs[0], i), dtype, 1);
}

/* [outer, sum]: an item is a row. */
static void row_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype;
    int64_t n = kernel->plan.reduce.sum;
    for (int64_t r = begin; r < end; r++) {
        store_sum(call, r, kernel->loops->sum(dtype, gp_cpu_from(dtype, call->inputs[0], r * n), n));
    }
}

/* [1, sum, columns]: an item is a column. */
static void column_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    kernel->loops->column_sum(kernel->inputs[0].dtype, call->inputs[0], kernel->plan.reduce.sum, kernel->columns, begin,
                              end, call->outputs[0], kernel->outputs[0].dtype, kernel->accumulate & 1u);
}

/* [outer, sum, columns]: an item is one of the outer. */
static void outer_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    gp_dtype dtype = kernel->inputs[0].dtype, ydtype = kernel->outputs[0].dtype;
    int64_t n = kernel->columns, sum = kernel->plan.reduce.sum;
    for (int64_t i = begin; i < end; i++) {
        kernel->loops->column_sum(dtype, gp_cpu_from(dtype, call->inputs[0], i * sum * n), sum, n, 0, n,
                                  gp_cpu_to(ydtype, call->outputs[0], i * n), ydtype, kernel->accumulate & 1u);
    }
}

/* Anything: an item is an element of the result. */
static void general_part(const gp_cpu_call *call, int64_t begin, int64_t end) {
    const gp_cpu_kernel *kernel = call->kernel;
    const gp_cpu_walk *kept = &kernel->plan.reduce.kept, *summed = &kernel->plan.reduce.summed;
    gp_dtype dtype = kernel->inputs[0].dtype;
    gp_cpu_cursor outer, inner;
    gp_cpu_cursor_set(&outer, kept, begin);
    for (int64_t i = begin; i < end; i++) {
        double sum = 0.0;
        gp_cpu_cursor_set(&inner, summed, 0);
        for (int64_t s = 0; s < kernel->plan.reduce.sum; s++) {
            const void *x = gp_cpu_from(dtype, call->inputs[0], outer.offset[0] + inner.offset[0]);
            float value;
            kernel->loops->cast((gp_cpu_operand){x, dtype, 1}, &value, GP_F32, 1);
            sum += (double)value;
            gp_cpu_cursor_next(&inner, summed);
        }
        store_sum(call, i, sum);
        gp_cpu_cursor_next(&outer, kept);
    }
}

/* Walks of single elements: a last dimension of 1 makes every row of a walk one element. */
static void setup_general(gp_cpu_kernel *kernel, const groups *found) {
    gp_cpu_walk *walks[2] = {&kernel->plan.reduce.summed, &kernel->plan.reduce.kept};
    int64_t stride = 1, sum = 1, elements = 1, strides[GP_MAX_RANK] = {0};
    for (int i = found->count - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= found->size[i];
    }
    for (int i = 0; i < found->count; i++) {
        gp_cpu_walk *walk = walks[found->kept[i]];
        walk->dims[walk->rank] = found->size[i];
        walk->strides[0][walk->rank++] = strides[i];
        *(found->kept[i] ? &elements : &sum) *= found->size[i];
    }
    for (int w = 0; w < 2; w++) {
        walks[w]->dims[walks[w]->rank++] = 1; /* groups alternate, so neither walk is full */
    }
    kernel->plan.reduce.sum = sum;
    gp_cpu_kernel_cut(kernel, general_part, elements, sum);
}

gp_status gp_cpu_setup_reduce(gp_cpu_kernel *kernel, const gp_kernel_desc *desc) {
    GP_TRY(gp_cpu_check(gp_cpu_is_float(desc->inputs[0]) && gp_cpu_is_float(desc->outputs[0]), desc));
    groups found = groups_of(desc->inputs[0].shape, desc->outputs[0].shape);
    int at = 0;
    int64_t outer = at < found.count && found.kept[at] ? found.size[at++] : 1;
    int64_t sum = at < found.count ? found.size[at++] : 1;
    int64_t columns = at < found.count ? found.size[at++] : 1;
    if (at < found.count) {
        setup_general(kernel, &found);
        return GP_OK;
    }
    if (sum == 1) { /* nothing is summed: a copy, or an addition, of one row */
        columns *= outer;
        outer = 1;
    }
    kernel->columns = columns;
    kernel->plan.reduce.sum = sum;
    if (columns == 1) {
        gp_cpu_kernel_cut(kernel, row_part, outer, sum);
    } else if (outer == 1) {
        gp_cpu_kernel_cut_columns(kernel, column_part, columns, sum);
    } else {
        gp_cpu_kernel_cut(kernel, outer_part, outer, sum * columns);
    }
    return GP_OK;
}
