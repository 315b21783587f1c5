#include "common.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_check(gp_status status, const char *what) {
    if (status == GP_OK) return;
    fprintf(stderr, "bench: %s: %s\n", what, gp_error_message());
    exit(gp_status_exit(status));
}

/* Whether the usage has the option up to its '=', with a value if there is one. */
static bool names(const char *usage, const char *option) {
    size_t length = strcspn(option, "=");
    if (length < 3) return false;
    bool valued = option[length] == '=';
    for (const char *at = usage; (at = strstr(at, "--")); at += 2)
        if (strncmp(at, option, length) == 0 && at[length] && strchr(valued ? "=" : " ]", at[length])) return true;
    return false;
}

static _Noreturn void refuse(const char *program, const char *usage, const char *argument) {
    fprintf(stderr, "%s: '%s' is not known.\nUsage: %s %s\n", program, argument, program, usage);
    exit(2);
}

void bench_usage(int count, char **arguments, const char *program, const char *usage) {
    int accepted = strstr(usage, "[PATH SIDE]") ? 2 : 0, words = 0;
    const char *last = "";
    if (bench_text(count, arguments, "serve")) return; /* started by itself */
    if (bench_flag(count, arguments, "help")) {
        printf("Usage: %s %s\n", program, usage);
        exit(0);
    }
    for (int i = 1; i < count; i++) {
        bool word = arguments[i][0] && arguments[i][0] != '-';
        if (word ? words >= accepted : !names(usage, arguments[i])) refuse(program, usage, arguments[i]);
        if (!word) continue;
        words++;
        last = arguments[i];
    }
    if (words > 0 && words < accepted) refuse(program, usage, last);
}

const char *bench_text(int count, char **arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++) {
        if (strncmp(arguments[i], "--", 2) == 0 && strncmp(arguments[i] + 2, name, length) == 0 &&
            arguments[i][2 + length] == '=')
            return arguments[i] + 3 + length;
    }
    return NULL;
}

/* The number that the option has; NAN: none. */
static double number_of(const char *text) {
    char *end;
    double value = strtod(text, &end);
    return end != text && !*end ? value : NAN;
}

double bench_option(int count, char **arguments, const char *name, double fallback) {
    const char *text = bench_text(count, arguments, name);
    if (!text) return fallback;
    double value = number_of(text);
    if (value >= 0 && value <= 1e9) return value;
    fprintf(stderr, "--%s is '%s', but a number from 0 to 1e9 is accepted\n", name, text);
    exit(2);
}

int bench_count_to(int count, char **arguments, const char *name, int fallback, int most) {
    const char *text = bench_text(count, arguments, name);
    if (!text) return fallback;
    double value = number_of(text);
    if (value >= 1 && value <= most && value == floor(value)) return (int)value;
    fprintf(stderr, "--%s is '%s', but a whole number from 1 to %d is accepted\n", name, text, most);
    exit(2);
}

int bench_count(int count, char **arguments, const char *name, int fallback) {
    return bench_count_to(count, arguments, name, fallback, 1000000000);
}

int bench_found(const char *only, int measured) {
    if (!only || measured > 0) return 0;
    fprintf(stderr, "--only is '%s', but nothing that is measured has that in its name\n", only);
    return 2;
}

int bench_choice(int count, char **arguments, const char *name, const char *first, const char *second) {
    const char *text = bench_text(count, arguments, name);
    if (!text) return -1;
    if (strcmp(text, first) == 0) return 0;
    if (strcmp(text, second) == 0) return 1;
    fprintf(stderr, "--%s is '%s'; accepted: %s, %s\n", name, text, first, second);
    exit(2);
}

bool bench_flag(int count, char **arguments, const char *name) {
    for (int i = 1; i < count; i++) {
        if (strncmp(arguments[i], "--", 2) == 0 && strcmp(arguments[i] + 2, name) == 0) return true;
    }
    return false;
}

double bench_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *values, size_t count) {
    if (count == 0) return 0;
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

gp_tensor bench_tokens(int64_t samples, int64_t context, int64_t vocabulary, unsigned seed) {
    gp_tensor tokens;
    uint32_t state = seed * 2654435761u + 1;
    bench_check(gp_tensor_create(&tokens, (gp_type){GP_I32, gp_shape_of(2, (int64_t[]){samples, context})}), "tokens");
    for (int64_t i = 0; i < samples * context; i++) {
        state = state * 1664525u + 1013904223u;
        ((int32_t *)tokens.data)[i] = (int32_t)((state >> 8) % (uint32_t)vocabulary);
    }
    return tokens;
}

void bench_print_machine(void) {
    gp_machine machine;
    if (gp_machine_describe(&machine) != GP_OK) return;
    printf("%s, %d cores, own kernels %s, products %s, bf16 by %s\n", machine.processor, machine.cores, machine.kernels,
           machine.products, machine.bf16_route);
}

double bench_processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void bench_pin(int core) {
    cpu_set_t allowed, wanted;
    int seen = 0;
    if (core < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &allowed) || seen++ != core) continue;
        CPU_ZERO(&wanted);
        CPU_SET(c, &wanted);
        sched_setaffinity(0, sizeof wanted, &wanted);
        return;
    }
}
