/* gpipe doctor: what the machine offers, what gpipe makes of it, and what would run slowly. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "commands.h"
#include "gpipe/cluster.h"
#include "gpipe/device.h"
#include "json.h"
#include "message.h"
#include "session.h"

enum { MOST_WARNINGS = 8 };

typedef struct diagnosis {
    gp_machine machine;
    gp_machine_speed speed;
    char warnings[MOST_WARNINGS][200];
    size_t warning_count;
} diagnosis;

static void warn(diagnosis *d, const char *format, ...) GP_PRINTF(2, 3);
static void warn(diagnosis *d, const char *format, ...) {
    va_list arguments;
    if (d->warning_count == MOST_WARNINGS) return;
    va_start(arguments, format);
    vsnprintf(d->warnings[d->warning_count], sizeof d->warnings[0], format, arguments);
    va_end(arguments);
    d->warning_count++;
}

/* Every path that is slower than the processor could be. Thresholds are shares of what was measured in the same second.
 */
static void diagnose(diagnosis *d) {
    const gp_machine *m = &d->machine;
    const gp_machine_speed *s = &d->speed;
    if (!m->avx2) {
        warn(d, "no AVX2: own kernels are the portable ones, several times slower");
    } else if (!m->avx512) {
        warn(d, "no AVX-512: own kernels are those for AVX2");
    }
    if (!m->amx_bf16) warn(d, "no AMX: device.precision bf16 saves memory, not time; its products: %s", m->bf16_route);
    if (m->amx_bf16 && s->product_bf16 < 1.5 * s->product_f32)
        warn(d, "bf16 products run at %.2f times the speed of f32; AMX should give 3 times or more",
             s->product_bf16 / s->product_f32);
    if (s->product_f32 < 0.5 * s->peak_f32)
        warn(d, "f32 products reach %.0f%% of the processor's peak; 75%% or more is normal on an idle machine",
             100 * s->product_f32 / s->peak_f32);
    if (m->cores < 2) warn(d, "one core: partitions take turns, a pipeline gains memory and no time");
    if (s->copy > 0 && s->copy < 4e9) warn(d, "memory is slow: %.1f GB/s", 1e-9 * s->copy);
}

static void print_table(const diagnosis *d) {
    const gp_machine *m = &d->machine;
    const gp_machine_speed *s = &d->speed;
    char memory[16];
    printf("processor      %s\ncores          %d\nmemory         %s\n", m->processor, m->cores,
           gp_bytes_format(m->memory, memory, sizeof memory));
    printf("features      %s%s%s%s%s\n", m->avx2 ? " AVX2" : "", m->avx512 ? " AVX-512" : "",
           m->avx512_bf16 ? " AVX-512-BF16" : "", m->amx_bf16 ? " AMX-BF16" : "",
           m->avx2 ? "" : " none that gpipe uses");
    printf("own kernels    %s\nproducts       %s\nbf16 products  %s\n", m->kernels, m->products, m->bf16_route);
    const char *mpi = gp_cluster_implementations();
    printf("MPI            %s\nGPUs           not built in\n\nmeasured on one core\n",
           *mpi ? mpi : "not built in: workers are threads of one process");
    printf("f32 peak       %.1f GFLOP/s\nf32 products   %.1f GFLOP/s (%.0f%% of the peak)\n", 1e-9 * s->peak_f32,
           1e-9 * s->product_f32, s->peak_f32 > 0 ? 100 * s->product_f32 / s->peak_f32 : 0);
    printf("bf16 products  %.1f GFLOP/s (%.2f times f32)\nmemory copy    %.1f GB/s read and written\n\n",
           1e-9 * s->product_bf16, s->product_f32 > 0 ? s->product_bf16 / s->product_f32 : 0, 1e-9 * s->copy);
    for (size_t i = 0; i < d->warning_count; i++)
        printf("slow: %s\n", d->warnings[i]);
    if (d->warning_count == 0) printf("nothing runs slowly here\n");
}

static gp_status print_json(const diagnosis *d) {
    const gp_machine *m = &d->machine;
    const gp_machine_speed *s = &d->speed;
    json_t *warnings = json_array();
    for (size_t i = 0; i < d->warning_count; i++)
        json_array_append_new(warnings, json_string(d->warnings[i]));
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:I, s:b, s:b, s:b, s:b, s:s, s:s, s:s, s:b, s:b, s:f, s:f, s:f, s:f, s:o}", "version",
        gp_version(), "processor", m->processor, "cores", m->cores, "memory", (json_int_t)m->memory, "avx2",
        (int)m->avx2, "avx512", (int)m->avx512, "avx512_bf16", (int)m->avx512_bf16, "amx_bf16", (int)m->amx_bf16,
        "kernels", m->kernels, "products", m->products, "bf16_route", m->bf16_route, "mpi",
        (int)(*gp_cluster_implementations() != 0), "gpus", 0, "peak_f32", s->peak_f32, "product_f32", s->product_f32,
        "product_bf16", s->product_bf16, "copy", s->copy, "warnings", warnings);
    return cli_json_print(object);
}

static int run(const cli_arguments *arguments) {
    diagnosis d = {0};
    double seconds = 1;
    gp_status status = cli_given_number(arguments, "seconds", 0.05, 60, &seconds);
    if (status == GP_OK) status = gp_machine_describe(&d.machine);
    if (status == GP_OK) status = gp_machine_measure(&d.speed, seconds);
    if (status == GP_OK) {
        diagnose(&d);
        if (cli_given_flag(arguments, "json")) {
            status = print_json(&d);
        } else {
            print_table(&d);
        }
    }
    return status == GP_OK ? 0 : cli_fail(status);
}

static const cli_option options[] = {
    {"seconds", 0, "S", CLI_ANY, "how long to measure (default: 1)"},
    CLI_OPTION_JSON,
};

const cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .kind = CLI_NO_VALUE,
    .summary = "what the machine offers, what gpipe makes of it, what would run slowly",
    .description = "Names the processor's features and the kernels chosen for it, measures products and memory on one "
                   "core, and warns of "
                   "every slow path.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
