/* Geometry of windows over images; see window.h. */
#include "graph/ops/window.h"

#include <inttypes.h>

bool gp_type_is_image(gp_type type) {
    return gp_type_is_activation(type) && type.shape.rank == 4;
}

int64_t gp_window_extent(const gp_window_attributes *window, int axis) {
    return (window->kernel[axis] - 1) * window->dilation[axis] + 1;
}

int64_t gp_window_count(const gp_window_attributes *window, int axis) {
    int64_t room = window->image[axis] + window->before[axis] + window->after[axis] - gp_window_extent(window, axis);
    return room < 0 ? 0 : room / window->stride[axis] + 1;
}

static bool within(int64_t value, int64_t least) {
    return value >= least && value <= GP_WINDOW_LIMIT;
}

/* Whether the numbers along an axis can be computed with. */
static bool is_sane(const gp_window_attributes *w, int axis) {
    return within(w->kernel[axis], 1) && within(w->stride[axis], 1) && within(w->dilation[axis], 1) &&
           within(w->before[axis], 0) && within(w->after[axis], 0) && within(w->image[axis], 0) &&
           (w->kernel[axis] - 1) * w->dilation[axis] <= GP_WINDOW_LIMIT;
}

/* TensorFlow's SAME: as much as ceil(size / stride) windows need, the odd one behind. */
static void pad_same(gp_window_attributes *w, int axis) {
    int64_t windows = (w->image[axis] + w->stride[axis] - 1) / w->stride[axis];
    int64_t needed = (windows - 1) * w->stride[axis] + gp_window_extent(w, axis) - w->image[axis];
    if (windows == 0 || needed < 0) needed = 0;
    w->before[axis] = needed / 2;
    w->after[axis] = needed - needed / 2;
}

/* Lengthens `after` so that the last window, which begins before the end of the image, is whole. */
static void pad_ceil(gp_window_attributes *w, int axis) {
    int64_t room = w->image[axis] + w->before[axis] + w->after[axis] - gp_window_extent(w, axis);
    if (room < 0) return;
    int64_t missing = (w->stride[axis] - room % w->stride[axis]) % w->stride[axis];
    int64_t begin = room + missing; /* of the window that would be added */
    if (missing > 0 && begin < w->image[axis] + w->before[axis]) w->after[axis] += missing;
}

void gp_window_resolve(gp_window_attributes *window, gp_type x, const gp_window_wish *wish) {
    for (int axis = 0; axis < 2; axis++) {
        window->before[axis] = window->after[axis] = 0;
        window->image[axis] = x.shape.rank == 4 ? x.shape.dims[1 + axis] : 0;
        if (wish->padding == GP_PADDING_EXPLICIT) {
            window->before[axis] = wish->before[axis];
            window->after[axis] = wish->after[axis];
        }
        if (!is_sane(window, axis)) continue;
        if (wish->padding == GP_PADDING_SAME) pad_same(window, axis);
        if (wish->ceil) pad_ceil(window, axis);
    }
}

static gp_status check_axis(const gp_op_call *call, const gp_window_attributes *w, int axis) {
    const char *along = axis == 0 ? "height" : "width";
    if (!is_sane(w, axis))
        return gp_op_refuse(call,
                            "along the %s: kernel %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
                            ", padding %" PRId64 " and %" PRId64
                            ": kernel, stride and dilation of 1 to %d and padding of 0 to %d are accepted",
                            along, w->kernel[axis], w->stride[axis], w->dilation[axis], w->before[axis], w->after[axis],
                            GP_WINDOW_LIMIT, GP_WINDOW_LIMIT);
    if (gp_window_count(w, axis) == 0)
        return gp_op_refuse(
            call, "a window of %" PRId64 " does not fit the %s of %" PRId64 " with padding %" PRId64 " and %" PRId64,
            gp_window_extent(w, axis), along, w->image[axis], w->before[axis], w->after[axis]);
    return GP_OK;
}

gp_status gp_window_check(const gp_op_call *call, size_t x, const gp_window_attributes *window) {
    gp_type type = call->inputs[x];
    if (!gp_type_is_image(type)) return gp_op_refuse(call, "x must be f32 or bf16 [batch, height, width, channels]");
    if (type.shape.dims[1] != window->image[0] || type.shape.dims[2] != window->image[1])
        return gp_op_refuse(call, "x must be an image of %" PRId64 " x %" PRId64 " pixels", window->image[0],
                            window->image[1]);
    GP_TRY(check_axis(call, window, 0));
    return check_axis(call, window, 1);
}
