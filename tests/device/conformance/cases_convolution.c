/* Cases of convolutions: odd sizes, single pixels, strides beyond the kernel, dilation, groups, one channel a group. */
#include "suite.h"

typedef struct convolution {
    int64_t n, image[2], in, out, groups;
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2];
} convolution;

static const convolution CONVOLUTIONS[] = {
    /* single pixels: products */
    {2, {3, 4}, 5, 7, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, {1, 1}, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {3, {8, 8}, 16, 32, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    /* not quite: a stride, padding, groups */
    {2, {5, 7}, 16, 24, 1, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {1, {4, 6}, 6, 3, 1, {1, 1}, {3, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, {3, 3}, 4, 5, 1, {1, 1}, {1, 1}, {1, 1}, {1, 0}, {0, 1}},
    {2, {3, 3}, 6, 4, 2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    /* the usual ones */
    {2, {8, 8}, 16, 16, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, {9, 7}, 32, 48, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, {8, 8}, 16, 32, 1, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {2, {9, 9}, 16, 16, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {1, {23, 23}, 3, 64, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {2, {10, 11}, 3, 32, 1, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, {6, 9}, 16, 16, 1, {1, 7}, {1, 1}, {1, 1}, {0, 3}, {0, 3}},
    {2, {9, 6}, 16, 16, 1, {7, 1}, {1, 1}, {1, 1}, {3, 0}, {3, 0}},
    {1, {8, 6}, 8, 8, 1, {1, 7}, {1, 2}, {1, 1}, {0, 2}, {0, 3}},
    {4, {4, 4}, 64, 64, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    /* where Winograd's algorithm is used, and where padding or parts of tiles forbid it; more than is done at a time:
     * chunks of samples, the last of which overlaps the one before it, many weights */
    {2, {8, 12}, 32, 48, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, {7, 8}, 48, 32, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, {15, 16}, 32, 32, 1, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {1, 0}},
    {2, {10, 18}, 32, 64, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, {6, 6}, 64, 32, 1, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {66, {16, 15}, 32, 32, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, {9, 9}, 32, 32, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, {4, 4}, 256, 272, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    /* channels enough for gradients of weights to be products of gathered rows: more of these than one chunk has,
     * windows that reach over every edge, dilation; single pixels with many weights */
    {5, {16, 15}, 32, 8, 1, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 1}},
    {2, {9, 6}, 33, 20, 1, {3, 2}, {2, 3}, {2, 1}, {1, 1}, {3, 2}},
    {1, {8, 11}, 40, 3, 1, {2, 3}, {1, 2}, {1, 3}, {2, 4}, {0, 5}},
    {3, {1, 2}, 32, 16, 1, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}},
    {2, {3, 3}, 1024, 512, 1, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    /* odd ones: no channel count fits a vector, everything uneven */
    {3, {5, 4}, 13, 17, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, {6, 5}, 2, 3, 1, {2, 3}, {3, 1}, {1, 2}, {0, 2}, {1, 0}},
    {2, {7, 7}, 5, 3, 1, {4, 2}, {2, 3}, {1, 1}, {2, 0}, {1, 1}},
    {7, {3, 5}, 1, 1, 1, {3, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    /* images of one pixel under larger kernels */
    {2, {1, 1}, 3, 5, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, {1, 1}, 16, 16, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {3, {1, 5}, 4, 4, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    /* strides beyond the kernel: pixels that no window sees */
    {2, {9, 10}, 16, 16, 1, {2, 2}, {4, 3}, {1, 1}, {0, 0}, {0, 0}},
    {1, {11, 8}, 3, 6, 1, {3, 1}, {5, 4}, {1, 1}, {0, 0}, {0, 0}},
    /* dilation */
    {2, {9, 9}, 16, 16, 1, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
    {1, {10, 12}, 6, 5, 1, {3, 2}, {2, 1}, {3, 4}, {0, 2}, {1, 1}},
    /* groups */
    {2, {6, 6}, 32, 32, 2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, {5, 5}, 15, 9, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, {6, 5}, 32, 64, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    /* depthwise, and two results a channel */
    {2, {8, 8}, 32, 32, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, {9, 7}, 16, 16, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, {11, 12}, 16, 16, 16, {5, 5}, {1, 1}, {2, 2}, {4, 4}, {4, 4}},
    {2, {12, 11}, 20, 20, 20, {5, 5}, {2, 2}, {2, 2}, {3, 3}, {4, 4}},
    {2, {6, 5}, 7, 7, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, {1, 1}, 16, 16, 16, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, {5, 5}, 6, 12, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

static gp_convolution_attributes attributes_of(const convolution *c) {
    gp_convolution_attributes a = {.groups = c->groups};
    for (int axis = 0; axis < 2; axis++) {
        a.window.kernel[axis] = c->kernel[axis];
        a.window.stride[axis] = c->stride[axis];
        a.window.dilation[axis] = c->dilation[axis];
        a.window.before[axis] = c->before[axis];
        a.window.after[axis] = c->after[axis];
        a.window.image[axis] = c->image[axis];
    }
    return a;
}

static int64_t windows(const convolution *c, int axis) {
    int64_t extent = (c->kernel[axis] - 1) * c->dilation[axis] + 1;
    return (c->image[axis] + c->before[axis] + c->after[axis] - extent) / c->stride[axis] + 1;
}

/* Whether a window sees the first pixel, and the first result sees any. */
static bool first_counts(const convolution *c, bool result) {
    bool counts = true;
    for (int axis = 0; axis < 2; axis++) {
        bool covered = false;
        for (int64_t i = 0; i < (result ? 1 : windows(c, axis)); i++) {
            for (int64_t k = 0; k < c->kernel[axis]; k++) {
                int64_t at = i * c->stride[axis] - c->before[axis] + k * c->dilation[axis];
                covered |= result ? at >= 0 && at < c->image[axis] : at == 0;
            }
        }
        counts = counts && covered;
    }
    return counts;
}

typedef struct made {
    gp_convolution_attributes attributes;
    operand x, w, dy;
} made;

static made make(suite *s, const convolution *c) {
    return (made){attributes_of(c), activation(s, SHAPE(c->n, c->image[0], c->image[1], c->in)),
                  parameter(s, SHAPE(c->out, c->in / c->groups, c->kernel[0], c->kernel[1])),
                  activation(s, SHAPE(c->n, windows(c, 0), windows(c, 1), c->out))};
}

void cases_convolution(suite *s) {
    for (size_t i = 0; i < COUNT(CONVOLUTIONS); i++) {
        made m = make(s, &CONVOLUTIONS[i]);
        s->nan_travels = first_counts(&CONVOLUTIONS[i], false);
        operand inputs[] = {m.x, m.w, i % 2 ? parameter(s, SHAPE(CONVOLUTIONS[i].out)) : absent()};
        emit(s, GP_OP_CONVOLUTION, &m.attributes, inputs, 3);
    }
}

void cases_convolution_input_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(CONVOLUTIONS); i++) {
        made m = make(s, &CONVOLUTIONS[i]);
        s->nan_travels = first_counts(&CONVOLUTIONS[i], true);
        operand inputs[] = {m.dy, m.w};
        emit(s, GP_OP_CONVOLUTION_INPUT_GRADIENT, &m.attributes, inputs, 2);
    }
}

void cases_convolution_weight_gradient(suite *s) {
    for (size_t i = 0; i < COUNT(CONVOLUTIONS); i++) {
        made m = make(s, &CONVOLUTIONS[i]);
        s->nan_travels = first_counts(&CONVOLUTIONS[i], true);
        operand inputs[] = {m.dy, m.x};
        emit(s, GP_OP_CONVOLUTION_WEIGHT_GRADIENT, &m.attributes, inputs, 2);
    }
}
