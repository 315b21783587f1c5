/* How fast the CPU device's own loops move memory, beside what a plain copy reaches on the same machine: GB/s of bytes
 * read and written once each, on arrays larger than the second-level cache. Shapes are those of GPT-2 (width 768,
 * vocabulary 50,257); `--rows` sets how many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "device/cpu/loops.h"

enum { WIDTH = 768, VOCABULARY = 50257, MAX_REPEATS = 100 };

typedef struct measurement {
    gp_device *device;
    int repeats;
    bool json;
    int64_t rows;
    const char *only; /* measure loops whose name contains this; NULL: all */
    double copy;      /* bytes/s */
    int printed;
} measurement;

static gp_type type_of(gp_dtype dtype, int rank, int64_t a, int64_t b) {
    return (gp_type){dtype, gp_shape_of(rank, (int64_t[]){a, b})};
}

/* Device memory filled with small numbers, or with indices below `limit` for i32. */
static void *filled(measurement *bench, gp_type type, int32_t limit) {
    void *data = bench->device->class->allocate(bench->device, gp_type_bytes(type));
    if (!data) {
        fprintf(stderr, "bench-loops: %s\n", gp_error_message());
        exit(3);
    }
    uint32_t state = 12345;
    for (int64_t i = 0, count = gp_shape_elements(type.shape); i < count; i++) {
        state = state * 1664525u + 1013904223u;
        if (type.dtype == GP_I32) {
            ((int32_t *)data)[i] = (int32_t)((state >> 8) % (uint32_t)limit);
        } else if (type.dtype == GP_BF16) {
            ((uint16_t *)data)[i] = (uint16_t)(0x3F00u | (state >> 24)); /* 0.5 .. 1 */
        } else {
            ((float *)data)[i] = (float)(state >> 8) * (1.0f / 16777216.0f) + 0.5f;
        }
    }
    return data;
}

static bool wanted(const measurement *bench, const char *name) {
    return !bench->only || strstr(name, bench->only);
}

static void report(measurement *bench, const char *name, const char *dtype, double seconds, double bytes) {
    double rate = bytes / seconds;
    if (bench->json) {
        printf("%s{\"loop\": \"%s\", \"dtype\": \"%s\", \"seconds\": %.6g, \"bytes_per_second\": %.6g, "
               "\"share_of_copy\": %.3f}",
               bench->printed ? ", " : "", name, dtype, seconds, rate, rate / bench->copy);
    } else {
        printf("%-30s %-5s %9.3f ms %8.2f GB/s %6.0f %%\n", name, dtype, 1e3 * seconds, 1e-9 * rate,
               100 * rate / bench->copy);
    }
    bench->printed++;
}

/* ---- kernels ---- */

typedef struct loop_case {
    const char *name;
    gp_op_id id;
    const void *attributes;
    size_t attributes_size;
    gp_type inputs[GP_MAX_OPERANDS];
    int input_count;
    gp_type outputs[GP_MAX_OPERANDS];
    int output_count;
    uint32_t accumulate;
    int in_place;  /* output 0 lies over input in_place - 1 */
    int32_t limit; /* of indices */
    double bytes;  /* 0: the sum over operands */
} loop_case;

static double loop_bytes(const loop_case *loop) {
    double bytes = 0;
    if (loop->bytes > 0) return loop->bytes;
    for (int i = 0; i < loop->input_count; i++) {
        if (loop->inputs[i].shape.rank >= 0) bytes += (double)gp_type_bytes(loop->inputs[i]);
    }
    for (int i = 0; i < loop->output_count; i++) {
        bytes += (double)gp_type_bytes(loop->outputs[i]) * (loop->accumulate >> i & 1u ? 2 : 1);
    }
    return bytes;
}

static double median_run(measurement *bench, const gp_kernel *kernel, const void *const *inputs, void *const *outputs,
                         void *workspace) {
    double times[MAX_REPEATS];
    gp_run run = {.seed = 1, .step = 1};
    for (int r = -1; r < bench->repeats; r++) {
        double start = bench_seconds();
        bench_check(kernel->run(kernel, inputs, outputs, workspace, &run), "run");
        if (r >= 0) times[r] = bench_seconds() - start;
    }
    return bench_median(times, (size_t)bench->repeats);
}

static void measure(measurement *bench, const loop_case *loop) {
    if (!wanted(bench, loop->name)) return;
    const gp_device_class *class = bench->device->class;
    gp_op_class op = {.name = loop->name, .attributes_size = loop->attributes_size};
    gp_kernel_desc desc = {
        loop->id,        &op, loop->attributes, loop->inputs, loop->outputs, loop->input_count, loop->output_count,
        loop->accumulate};
    gp_kernel *kernel = NULL;
    bench_check(class->kernel_create(bench->device, &desc, &kernel), loop->name);
    void *inputs[GP_MAX_OPERANDS] = {0}, *outputs[GP_MAX_OPERANDS] = {0};
    for (int i = 0; i < loop->input_count; i++) {
        if (loop->inputs[i].shape.rank >= 0) inputs[i] = filled(bench, loop->inputs[i], loop->limit);
    }
    for (int i = 0; i < loop->output_count; i++) {
        bool over = i == 0 && loop->in_place;
        outputs[i] = over ? inputs[loop->in_place - 1] : filled(bench, loop->outputs[i], 1);
    }
    void *workspace = class->allocate(bench->device, kernel->workspace);
    double seconds = median_run(bench, kernel, (const void *const *)inputs, outputs, workspace);
    report(bench, loop->name, gp_dtype_name(loop->inputs[0].dtype), seconds, loop_bytes(loop));
    class->release(bench->device, workspace, kernel->workspace);
    for (int i = 0; i < loop->output_count; i++) {
        if (!(i == 0 && loop->in_place)) class->release(bench->device, outputs[i], 0);
    }
    for (int i = 0; i < loop->input_count; i++) {
        class->release(bench->device, inputs[i], 0);
    }
    kernel->destroy(kernel);
}

static void measure_elementwise(measurement *bench, gp_dtype dtype) {
    gp_type x = type_of(dtype, 2, bench->rows, WIDTH), w = type_of(GP_F32, 1, WIDTH, 0);
    gp_type sum = type_of(GP_F32, 2, bench->rows, WIDTH);
    gp_activation_attributes gelu = {GP_GELU_TANH}, silu = {GP_SILU}, erf = {GP_GELU_ERF};
    gp_dropout_attributes dropout = {0.1, 7};
    gp_transpose_attributes order = {{1, 0}};
    gp_cast_attributes cast = {dtype == GP_F32 ? GP_BF16 : GP_F32};
    const loop_case loops[] = {
        {"add", GP_OP_ADD, NULL, 0, {x, x}, 2, {x}, 1, .in_place = 0},
        {"add, in place", GP_OP_ADD, NULL, 0, {x, x}, 2, {x}, 1, .in_place = 1},
        {"add of a bias, in place", GP_OP_ADD, NULL, 0, {x, w}, 2, {x}, 1, .in_place = 1},
        {"mul", GP_OP_MUL, NULL, 0, {x, x}, 2, {x}, 1, .in_place = 0},
        {"cast", GP_OP_CAST, &cast, sizeof cast, {x}, 1, {{cast.dtype, x.shape}}, 1, .in_place = 0},
        {"accumulate", GP_OP_ACCUMULATE, NULL, 0, {x}, 1, {sum}, 1, .accumulate = 1},
        {"GELU (tanh)", GP_OP_ACTIVATION, &gelu, sizeof gelu, {x}, 1, {x}, 1, .in_place = 0},
        {"GELU (tanh) gradient", GP_OP_ACTIVATION_GRADIENT, &gelu, sizeof gelu, {x, x}, 2, {x}, 1, .in_place = 1},
        {"GELU (erf)", GP_OP_ACTIVATION, &erf, sizeof erf, {x}, 1, {x}, 1, .in_place = 0},
        {"SiLU", GP_OP_ACTIVATION, &silu, sizeof silu, {x}, 1, {x}, 1, .in_place = 0},
        {"dropout", GP_OP_DROPOUT, &dropout, sizeof dropout, {x}, 1, {x}, 1, .in_place = 0},
        {"transpose",
         GP_OP_TRANSPOSE,
         &order,
         sizeof order,
         {x},
         1,
         {type_of(dtype, 2, WIDTH, bench->rows)},
         1,
         .in_place = 0},
        {"bias gradient", GP_OP_REDUCE_TO, NULL, 0, {x}, 1, {w}, 1, .accumulate = 1},
        {"sum over the last dimension",
         GP_OP_REDUCE_TO,
         NULL,
         0,
         {x},
         1,
         {type_of(GP_F32, 2, bench->rows, 1)},
         1,
         .in_place = 0},
    };
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        measure(bench, &loops[i]);
    }
}

static void measure_rows(measurement *bench, gp_dtype dtype) {
    gp_type x = type_of(dtype, 2, bench->rows, WIDTH), w = type_of(GP_F32, 1, WIDTH, 0);
    gp_type s = type_of(GP_F32, 1, bench->rows, 0), indices = type_of(GP_I32, 1, bench->rows, 0);
    gp_type table = type_of(GP_F32, 2, VOCABULARY, WIDTH);
    gp_norm_attributes norm = {1e-5};
    gp_cast_attributes cast = {dtype};
    double moved = (double)gp_type_bytes(x), gathered = 4.0 * (double)bench->rows * WIDTH;
    const loop_case loops[] = {
        {"layer norm", GP_OP_LAYER_NORM, &norm, sizeof norm, {x, w, w}, 3, {x, s, s}, 3, .in_place = 0},
        {"layer norm gradient", GP_OP_LAYER_NORM_GRADIENT, NULL, 0, {x, x, w, s, s}, 5, {x}, 1, .in_place = 0},
        {"layer norm weight gradient",
         GP_OP_LAYER_NORM_WEIGHT_GRADIENT,
         NULL,
         0,
         {x, x, s, s},
         4,
         {w, w},
         2,
         .accumulate = 3},
        {"RMS norm", GP_OP_RMS_NORM, &norm, sizeof norm, {x, w}, 2, {x, s}, 2, .in_place = 0},
        {"softmax", GP_OP_SOFTMAX, NULL, 0, {x}, 1, {x}, 1, .in_place = 0},
        {"softmax gradient", GP_OP_SOFTMAX_GRADIENT, NULL, 0, {x, x}, 2, {x}, 1, .in_place = 0},
        {"embedding",
         GP_OP_EMBEDDING,
         &cast,
         sizeof cast,
         {table, indices},
         2,
         {x},
         1,
         .limit = VOCABULARY,
         .bytes = gathered + moved},
        {"embedding gradient",
         GP_OP_EMBEDDING_GRADIENT,
         NULL,
         0,
         {x, indices},
         2,
         {table},
         1,
         .accumulate = 1,
         .limit = VOCABULARY,
         .bytes = 2 * gathered + moved},
    };
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        measure(bench, &loops[i]);
    }
}

static void measure_losses(measurement *bench, gp_dtype dtype) {
    int64_t rows = bench->rows / 32 > 0 ? bench->rows / 32 : 1;
    gp_type x = type_of(dtype, 2, rows, VOCABULARY), s = type_of(GP_F32, 1, rows, 0);
    gp_type targets = type_of(GP_I32, 1, rows, 0), one = type_of(GP_F32, 0, 0, 0), none = type_of(GP_F32, -1, 0, 0);
    gp_cross_entropy_options options = {0};
    const loop_case loops[] = {
        {"cross-entropy",
         GP_OP_CROSS_ENTROPY,
         &options,
         sizeof options,
         {x, targets, none},
         3,
         {one, s},
         2,
         .limit = VOCABULARY},
        {"cross-entropy gradient, in place",
         GP_OP_CROSS_ENTROPY_GRADIENT,
         &options,
         sizeof options,
         {x, targets, none, s, one},
         5,
         {x},
         1,
         .in_place = 1,
         .limit = VOCABULARY},
    };
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        measure(bench, &loops[i]);
    }
}

/* ---- whole arrays ---- */

typedef void array_function(measurement *bench, float **arrays, int64_t count);

static void run_copy(measurement *bench, float **arrays, int64_t count) {
    bench->device->class->copy(bench->device, arrays[0], arrays[1], (size_t)count * sizeof(float));
}

static void run_adamw(measurement *bench, float **arrays, int64_t count) {
    gp_update update = {.kind = GP_UPDATE_ADAMW,
                        .lr = 1e-4,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .weight_decay = 0.1,
                        .correction1 = 1,
                        .correction2 = 1,
                        .gradient_scale = 1};
    bench->device->class->update(bench->device, &update, arrays[0], arrays[1], arrays[2], arrays[3], count);
}

static void run_sgd(measurement *bench, float **arrays, int64_t count) {
    gp_update update = {.kind = GP_UPDATE_SGD, .lr = 1e-4, .momentum = 0.9, .gradient_scale = 1};
    bench->device->class->update(bench->device, &update, arrays[0], arrays[1], arrays[2], NULL, count);
}

static void run_squares(measurement *bench, float **arrays, int64_t count) {
    arrays[0][0] = (float)bench->device->class->sum_squares(bench->device, arrays[0], count);
}

static void run_sum(measurement *bench, float **arrays, int64_t count) {
    const void *sources[2] = {arrays[0], arrays[1]};
    bench->device->class->ordered_sum(bench->device, arrays[0], sources, 2, count);
}

static void run_finite(measurement *bench, float **arrays, int64_t count) {
    gp_type type = type_of(GP_F32, 1, count, 0);
    if (!bench->device->class->all_finite(bench->device, arrays[1], type)) arrays[0][0] = 0;
}

static double measure_array(measurement *bench, array_function *function, int arrays_used, int64_t count) {
    float *arrays[4] = {0};
    double times[MAX_REPEATS];
    for (int i = 0; i < arrays_used; i++) {
        arrays[i] = filled(bench, type_of(GP_F32, 1, count, 0), 0);
    }
    for (int r = -1; r < bench->repeats; r++) {
        double start = bench_seconds();
        function(bench, arrays, count);
        if (r >= 0) times[r] = bench_seconds() - start;
    }
    for (int i = 0; i < arrays_used; i++) {
        bench->device->class->release(bench->device, arrays[i], 0);
    }
    return bench_median(times, (size_t)bench->repeats);
}

static void measure_arrays(measurement *bench, int64_t count) {
    static const struct {
        const char *name;
        array_function *function;
        int arrays, moved; /* arrays that it needs; reads and writes of one */
    } LOOPS[] = {
        {"AdamW", run_adamw, 4, 8},
        {"SGD with momentum", run_sgd, 3, 6},
        {"sum of squares", run_squares, 1, 1},
        {"ordered sum of 2, in place", run_sum, 2, 3},
        {"all finite", run_finite, 2, 1},
    };
    for (size_t i = 0; i < sizeof LOOPS / sizeof *LOOPS; i++) {
        if (!wanted(bench, LOOPS[i].name)) continue;
        double seconds = measure_array(bench, LOOPS[i].function, LOOPS[i].arrays, count);
        report(bench, LOOPS[i].name, "f32", seconds, 4.0 * (double)count * LOOPS[i].moved);
    }
}

static const char usage[] = "[--rows=32768] [--threads=1] [--repeats=5] [--table=avx512] [--only=NAME] [--json]";

int main(int count, char **arguments) {
    bench_usage(count, arguments, "bench-loops", usage);
    measurement bench = {.json = bench_flag(count, arguments, "json"),
                         .rows = bench_count(count, arguments, "rows", 32768),
                         .only = bench_text(count, arguments, "only"),
                         .repeats = bench_count_to(count, arguments, "repeats", 5, MAX_REPEATS)};
    gp_device_options options = {.threads = bench_count_to(count, arguments, "threads", 1, 256)};
    bench_check(gp_device_create_cpu(&bench.device, &options), "device");
    const char *name = bench_text(count, arguments, "table");
    const gp_cpu_loops *table = gp_cpu_loops_table(name);
    if (!table) {
        fprintf(stderr, "bench-loops: this processor has no \"%s\": avx512, avx2 or portable\n", name);
        return 2;
    }
    ((gp_cpu_device *)bench.device)->loops = table;
    bench_check(bench.device->class->enter(bench.device), "device");
    int64_t elements = bench.rows * WIDTH;
    bench.copy = 8.0 * (double)elements / measure_array(&bench, run_copy, 2, elements);
    if (bench.json) {
        printf(
            "{\"bench\": \"loops\", \"table\": \"%s\", \"threads\": %d, \"copy_bytes_per_second\": %.6g, \"loops\": [",
            table->name, bench.device->threads, bench.copy);
    } else {
        printf("loops %s, %d threads; a copy moves %.2f GB/s\n", table->name, bench.device->threads, 1e-9 * bench.copy);
    }
    for (int d = 0; d < 2; d++) {
        gp_dtype dtype = d ? GP_BF16 : GP_F32;
        measure_elementwise(&bench, dtype);
        measure_rows(&bench, dtype);
        measure_losses(&bench, dtype);
    }
    measure_arrays(&bench, elements);
    if (bench.json) printf("]}\n");
    gp_device_destroy(bench.device);
    return bench_found(bench.only, bench.printed);
}
