/* The table of one instruction set, made of all the loops: included once by each of loops_portable.c, loops_avx2.c and
 * loops_avx512.c, which name the table and are compiled for their instruction set (src/device/CMakeLists.txt). */
#include "device/cpu/loops.h"

#include "device/cpu/loops_average.h"
#include "device/cpu/loops_batch_norm.h"
#include "device/cpu/loops_elementwise.h"
#include "device/cpu/loops_images.h"
#include "device/cpu/loops_norm.h"
#include "device/cpu/loops_peak.h"
#include "device/cpu/loops_random.h"
#include "device/cpu/loops_softmax.h"
#include "device/cpu/loops_sum.h"
#include "device/cpu/loops_update.h"

#include "device/cpu/loops_attention.h" /* after loops_random.h and loops_softmax.h, whose functions it uses */

const gp_cpu_loops GP_CPU_LOOPS = {
    .name = GP_CPU_LOOPS_NAME,
    .binary = binary,
    .scale = scale,
    .cast = cast,
    .activation = activation,
    .activation_gradient = activation_gradient,
    .accumulate = accumulate,
    .dropout = dropout,
    .layer_norm = layer_norm,
    .layer_norm_gradient = layer_norm_gradient,
    .rms_norm = rms_norm,
    .rms_norm_gradient = rms_norm_gradient,
    .norm_weight_gradient = norm_weight_gradient,
    .softmax = softmax,
    .softmax_gradient = softmax_gradient,
    .attention_softmax = attention_softmax,
    .attention_delta = attention_delta,
    .attention_gradient = attention_gradient,
    .cross_entropy = cross_entropy,
    .cross_entropy_gradient = cross_entropy_gradient,
    .squared_error = squared_error,
    .squared_error_gradient = squared_error_gradient,
    .sum = sum,
    .column_sum = column_sum,
    .sum_squares = sum_squares,
    .ordered_sum = ordered_sum,
    .all_finite = all_finite,
    .batch_moments = batch_moments,
    .batch_norm = batch_norm,
    .batch_norm_sums = batch_norm_sums,
    .batch_norm_gradient = batch_norm_gradient,
    .max_pool = max_pool,
    .max_pool_gradient = max_pool_gradient,
    .window_sum = window_sum,
    .depthwise = depthwise,
    .channel_dot = channel_dot,
    .channel_scale = channel_scale,
    .moving_average = moving_average,
    .merge_moments = merge_moments,
    .peak = peak,
    .update = update_run,
};
