/* Losses of the reference device with their gradients. */
#include <inttypes.h>
#include <math.h>

#include "base/status.h"
#include "device/reference/reference.h"

/* ---- cross-entropy: (1 - s) (lse - z[target]) + s / n sum(lse - z), times the row's weight ---- */

typedef struct row {
    const double *logits;
    int64_t n, target;
    double weight;
    bool ignored; /* counts nothing; its lse is 0 */
} row;

static gp_status check_target(const gp_reference_call *call, int64_t r) {
    const gp_cross_entropy_options *options = call->attributes;
    int64_t n = gp_reference_columns(call->input_types[0].shape);
    int32_t target = ((const int32_t *)call->inputs[1])[r];
    if ((options->has_ignored && target == options->ignored) || (target >= 0 && target < n)) return GP_OK;
    return gp_error(GP_INVALID,
                    "target %" PRId32 " at position %" PRId64 " is outside the classes: 0 to %" PRId64 " are accepted",
                    target, r, n - 1);
}

static row row_of(const gp_reference_call *call, int64_t r) {
    const gp_cross_entropy_options *options = call->attributes;
    int64_t n = gp_reference_columns(call->input_types[0].shape);
    int32_t target = ((const int32_t *)call->inputs[1])[r];
    bool weighted = gp_reference_present(call->input_types[2]);
    return (row){.logits = gp_reference_in(call, 0) + r * n,
                 .n = n,
                 .target = target,
                 .weight = weighted ? gp_reference_in(call, 2)[r] : 1.0,
                 .ignored = options->has_ignored && target == options->ignored};
}

static double log_sum(const row *x) {
    double largest = -(double)INFINITY, sum = 0.0;
    for (int64_t i = 0; i < x->n; i++) {
        largest = fmax(largest, x->logits[i]);
    }
    for (int64_t i = 0; i < x->n; i++) {
        sum += exp(x->logits[i] - largest);
    }
    /* cppcheck-suppress invalidFunctionArg ; the largest one has added 1 */
    return largest + log(sum);
}

gp_status gp_reference_cross_entropy(const gp_reference_call *call) {
    double smoothing = ((const gp_cross_entropy_options *)call->attributes)->label_smoothing, total = 0.0;
    for (int64_t r = 0; r < gp_reference_rows(call->input_types[0].shape); r++) {
        GP_TRY(check_target(call, r));
        row x = row_of(call, r);
        double lse = x.ignored ? 0.0 : log_sum(&x), spread = 0.0;
        gp_reference_out(call, 1)[r] = lse;
        if (x.ignored) continue;
        for (int64_t i = 0; i < x.n; i++) {
            spread += (lse - x.logits[i]) / (double)x.n;
        }
        total += x.weight * ((1.0 - smoothing) * (lse - x.logits[x.target]) + smoothing * spread);
    }
    gp_reference_out(call, 0)[0] = total;
    return GP_OK;
}

gp_status gp_reference_cross_entropy_gradient(const gp_reference_call *call) {
    double smoothing = ((const gp_cross_entropy_options *)call->attributes)->label_smoothing;
    double dloss = gp_reference_in(call, 4)[0];
    for (int64_t r = 0; r < gp_reference_rows(call->input_types[0].shape); r++) {
        GP_TRY(check_target(call, r));
        row x = row_of(call, r);
        double lse = gp_reference_in(call, 3)[r];
        double *dlogits = gp_reference_out(call, 0) + r * x.n;
        for (int64_t i = 0; i < x.n; i++) {
            double wanted = (i == x.target ? 1.0 - smoothing : 0.0) + smoothing / (double)x.n;
            dlogits[i] = x.ignored ? 0.0 : dloss * x.weight * (exp(x.logits[i] - lse) - wanted);
        }
    }
    return GP_OK;
}

/* ---- squared error ---- */

/* Elements of a sample. */
static double sample_size(gp_shape shape) {
    int64_t samples = shape.rank > 0 ? shape.dims[0] : 1;
    int64_t size = samples > 0 ? gp_shape_elements(shape) / samples : 0;
    return (double)size;
}

gp_status gp_reference_squared_error(const gp_reference_call *call) {
    gp_shape shape = call->input_types[0].shape;
    const double *x = gp_reference_in(call, 0), *target = gp_reference_in(call, 1);
    double total = 0.0;
    for (int64_t i = 0; i < gp_shape_elements(shape); i++) {
        total += (x[i] - target[i]) * (x[i] - target[i]) / sample_size(shape);
    }
    gp_reference_out(call, 0)[0] = total;
    return GP_OK;
}

gp_status gp_reference_squared_error_gradient(const gp_reference_call *call) {
    gp_shape shape = call->input_types[0].shape;
    const double *x = gp_reference_in(call, 0), *target = gp_reference_in(call, 1);
    double dloss = gp_reference_in(call, 2)[0];
    for (int64_t i = 0; i < gp_shape_elements(shape); i++) {
        gp_reference_out(call, 0)[i] = 2.0 * dloss * (x[i] - target[i]) / sample_size(shape);
    }
    return GP_OK;
}
