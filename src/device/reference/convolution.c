/* Convolution of the reference device, with its gradients. All three walk over the same terms, y(i) += x(j) w(k): one
 * loop finds them and hands their places to the operation. */
#include "device/reference/reference.h"

/* A term of a convolution: elements of x, w and y. */
typedef void take_term(const gp_reference_call *call, int64_t x, int64_t w, int64_t y);

/* Channels-last images x[n, h, w, in] and y[n, oh, ow, out]. */
typedef struct convolution {
    const gp_convolution_attributes *attributes;
    gp_shape x, y;
} convolution;

/* The terms of one window: result (n, i, j, o). */
static void walk_window(const gp_reference_call *call, const convolution *c, const int64_t at[4], take_term *take) {
    const gp_window_attributes *w = &c->attributes->window;
    int64_t per_group = c->x.dims[3] / c->attributes->groups;
    int64_t first = at[3] / (c->y.dims[3] / c->attributes->groups) * per_group;
    int64_t y = ((at[0] * c->y.dims[1] + at[1]) * c->y.dims[2] + at[2]) * c->y.dims[3] + at[3];
    for (int64_t r = 0; r < w->kernel[0]; r++) {
        int64_t row = at[1] * w->stride[0] - w->before[0] + r * w->dilation[0];
        for (int64_t s = 0; s < w->kernel[1]; s++) {
            int64_t column = at[2] * w->stride[1] - w->before[1] + s * w->dilation[1];
            if (row < 0 || row >= w->image[0] || column < 0 || column >= w->image[1]) continue;
            int64_t pixel = (at[0] * w->image[0] + row) * w->image[1] + column;
            for (int64_t k = 0; k < per_group; k++) {
                int64_t weight = ((at[3] * per_group + k) * w->kernel[0] + r) * w->kernel[1] + s;
                take(call, pixel * c->x.dims[3] + first + k, weight, y);
            }
        }
    }
}

static void walk(const gp_reference_call *call, gp_shape x, gp_shape y, take_term *take) {
    convolution c = {call->attributes, x, y};
    int64_t at[4];
    for (at[0] = 0; at[0] < y.dims[0]; at[0]++) {
        for (at[1] = 0; at[1] < y.dims[1]; at[1]++) {
            for (at[2] = 0; at[2] < y.dims[2]; at[2]++) {
                for (at[3] = 0; at[3] < y.dims[3]; at[3]++) {
                    walk_window(call, &c, at, take);
                }
            }
        }
    }
}

static void clear(double *out, gp_type type) {
    for (int64_t i = 0; i < gp_shape_elements(type.shape); i++) {
        out[i] = 0.0;
    }
}

static void take_result(const gp_reference_call *call, int64_t x, int64_t w, int64_t y) {
    gp_reference_out(call, 0)[y] += gp_reference_in(call, 0)[x] * gp_reference_in(call, 1)[w];
}

gp_status gp_reference_convolution(const gp_reference_call *call) {
    gp_shape y = call->output_types[0].shape;
    bool biased = call->input_count > 2 && gp_reference_present(call->input_types[2]);
    for (int64_t i = 0; i < gp_shape_elements(y); i++) {
        gp_reference_out(call, 0)[i] = biased ? gp_reference_in(call, 2)[i % y.dims[3]] : 0.0;
    }
    walk(call, call->input_types[0].shape, y, take_result);
    return GP_OK;
}

static void take_input_gradient(const gp_reference_call *call, int64_t x, int64_t w, int64_t y) {
    gp_reference_out(call, 0)[x] += gp_reference_in(call, 0)[y] * gp_reference_in(call, 1)[w];
}

gp_status gp_reference_convolution_input_gradient(const gp_reference_call *call) {
    clear(gp_reference_out(call, 0), call->output_types[0]);
    walk(call, call->output_types[0].shape, call->input_types[0].shape, take_input_gradient);
    return GP_OK;
}

static void take_weight_gradient(const gp_reference_call *call, int64_t x, int64_t w, int64_t y) {
    gp_reference_out(call, 0)[w] += gp_reference_in(call, 0)[y] * gp_reference_in(call, 1)[x];
}

gp_status gp_reference_convolution_weight_gradient(const gp_reference_call *call) {
    clear(gp_reference_out(call, 0), call->output_types[0]);
    walk(call, call->input_types[1].shape, call->input_types[0].shape, take_weight_gradient);
    return GP_OK;
}
