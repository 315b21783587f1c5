/* Padding, repeating pixels, drop-path and channel scaling of the reference device. */
#include <string.h>

#include "device/reference/reference.h"

static void clear(double *out, gp_type type) {
    memset(out, 0, (size_t)gp_shape_elements(type.shape) * sizeof *out);
}

/* ---- pad ---- */

/* Where element `index` of y comes from in x; -1: from nowhere. */
static int64_t padded_source(const gp_pad_attributes *attributes, gp_shape x, gp_shape y, int64_t index) {
    int64_t source = 0, stride = 1;
    for (int i = y.rank - 1; i >= 0; i--) {
        int64_t position = index % y.dims[i] - attributes->before[i];
        index /= y.dims[i];
        if (position < 0 || position >= x.dims[i]) return -1;
        source += position * stride;
        stride *= x.dims[i];
    }
    return source;
}

gp_status gp_reference_pad(const gp_reference_call *call) {
    gp_shape x = call->input_types[0].shape, y = call->output_types[0].shape;
    for (int64_t i = 0; i < gp_shape_elements(y); i++) {
        int64_t source = padded_source(call->attributes, x, y, i);
        gp_reference_out(call, 0)[i] = source < 0 ? 0.0 : gp_reference_in(call, 0)[source];
    }
    return GP_OK;
}

/* ---- upsample ---- */

/* Where element `index` of the large image lies in the small one. */
static int64_t repeated_source(const gp_upsample_attributes *attributes, gp_shape small, int64_t index) {
    int64_t height = small.dims[1] * attributes->rows, width = small.dims[2] * attributes->columns;
    int64_t channel = index % small.dims[3], column = index / small.dims[3] % width;
    int64_t row = index / small.dims[3] / width % height, n = index / small.dims[3] / width / height;
    int64_t pixel = (n * small.dims[1] + row / attributes->rows) * small.dims[2] + column / attributes->columns;
    return pixel * small.dims[3] + channel;
}

gp_status gp_reference_upsample(const gp_reference_call *call) {
    for (int64_t i = 0; i < gp_shape_elements(call->output_types[0].shape); i++) {
        int64_t source = repeated_source(call->attributes, call->input_types[0].shape, i);
        gp_reference_out(call, 0)[i] = gp_reference_in(call, 0)[source];
    }
    return GP_OK;
}

gp_status gp_reference_upsample_gradient(const gp_reference_call *call) {
    clear(gp_reference_out(call, 0), call->output_types[0]);
    for (int64_t i = 0; i < gp_shape_elements(call->input_types[0].shape); i++) {
        int64_t source = repeated_source(call->attributes, call->output_types[0].shape, i);
        gp_reference_out(call, 0)[source] += gp_reference_in(call, 0)[i];
    }
    return GP_OK;
}

/* ---- drop-path ---- */

gp_status gp_reference_drop_path(const gp_reference_call *call) {
    const gp_drop_path_attributes *attributes = call->attributes;
    double p = attributes->scheduled ? attributes->p * call->run->progress : attributes->p;
    gp_shape x = call->input_types[0].shape;
    int64_t samples = x.dims[0], elements = samples > 0 ? gp_shape_elements(x) / samples : 0;
    for (int64_t s = 0; s < samples; s++) {
        double keep = gp_reference_keep(call->run, p, attributes->use, s, 0);
        for (int64_t e = s * elements; e < (s + 1) * elements; e++) {
            gp_reference_out(call, 0)[e] = gp_reference_in(call, 0)[e] * keep;
        }
    }
    return GP_OK;
}

/* ---- channel scaling ---- */

/* Which element of s[n, c] element `index` of x[n, ..., c] meets. */
static int64_t scale_of(gp_shape x, int64_t index) {
    int64_t channels = gp_reference_columns(x), elements = gp_shape_elements(x) / x.dims[0];
    return index / elements * channels + index % channels;
}

gp_status gp_reference_channel_scale(const gp_reference_call *call) {
    gp_shape x = call->input_types[0].shape;
    for (int64_t i = 0; i < gp_shape_elements(x); i++) {
        gp_reference_out(call, 0)[i] = gp_reference_in(call, 0)[i] * gp_reference_in(call, 1)[scale_of(x, i)];
    }
    return GP_OK;
}

gp_status gp_reference_channel_scale_gradient(const gp_reference_call *call) {
    gp_shape x = call->input_types[0].shape;
    clear(gp_reference_out(call, 0), call->output_types[0]);
    for (int64_t i = 0; i < gp_shape_elements(x); i++) {
        gp_reference_out(call, 0)[scale_of(x, i)] += gp_reference_in(call, 0)[i] * gp_reference_in(call, 1)[i];
    }
    return GP_OK;
}
