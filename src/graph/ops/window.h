/* Geometry of windows over images, shared by convolution and pooling: options become resolved attributes, and shape
 * rules count windows. */
#ifndef GP_GRAPH_OPS_WINDOW_H
#define GP_GRAPH_OPS_WINDOW_H

#include "graph/ops/ops_internal.h"

/* What a user asked for along both axes; zeros are defaults resolved by the caller. */
typedef struct gp_window_wish {
    gp_padding padding;
    const int64_t *before, *after; /* pairs, with GP_PADDING_EXPLICIT */
    bool ceil;
} gp_window_wish;

enum { GP_WINDOW_LIMIT = 1 << 20 }; /* of sizes, strides, dilations and padding: no product of them overflows */

/* Fills before, after and image of a window whose kernel, stride and dilation are set, for an image x[n, h, w, c].
 * Nothing is refused here: what does not fit is, by gp_window_check. */
void gp_window_resolve(gp_window_attributes *window, gp_type x, const gp_window_wish *wish);

/* Whether `x` is f32 or bf16 [n, h, w, c] of the window's image, and the window fits. The message names x and the
 * window. */
gp_status gp_window_check(const gp_op_call *call, size_t x, const gp_window_attributes *window);

/* (kernel - 1) dilation + 1 along an axis, and how many windows there are. */
int64_t gp_window_extent(const gp_window_attributes *window, int axis);
int64_t gp_window_count(const gp_window_attributes *window, int axis);

/* f32 or bf16, of rank 4. */
bool gp_type_is_image(gp_type type);

#endif
