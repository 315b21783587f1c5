/* Two files side by side: which tensors are the same bit for bit, how far apart the others are, which one lacks. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "json.h"

typedef struct difference {
    int64_t elements;         /* that are different */
    double largest, relative; /* |a - b| at most; norm(a - b) / norm(a) */
} difference;

/* What is known of one name. */
typedef enum verdict { SAME, DIFFERENT, OTHER_TYPE, ONLY_A, ONLY_B, VERDICTS } verdict;
static const char *const words[VERDICTS] = {"same", "different", "other_type", "only_first", "only_second"};

typedef struct comparison {
    const gp_shards *a, *b;
    double *pieces; /* two of them */
    size_t counts[VERDICTS];
    json_t *list; /* NULL: a table is printed */
} comparison;

static bool same_bits(const comparison *c, size_t a, size_t b) {
    gp_type type = gp_shards_type(c->a, a);
    return gp_type_equal(type, gp_shards_type(c->b, b)) &&
           memcmp(gp_shards_data(c->a, a), gp_shards_data(c->b, b), gp_type_bytes(type)) == 0;
}

/* NaN beside NaN is no difference, beside a number an infinite one. */
static double distance(double x, double y) {
    if (x == y || (isnan(x) && isnan(y))) return 0;
    return isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
}

static gp_status measure(const comparison *c, size_t a, size_t b, difference *found) {
    size_t count = (size_t)gp_shape_elements(gp_shards_type(c->a, a).shape);
    double squares = 0, norm = 0, *x = c->pieces, *y = c->pieces + CLI_INSPECT_PIECE;
    *found = (difference){0};
    for (size_t first = 0; first < count; first += CLI_INSPECT_PIECE) {
        size_t here = count - first < CLI_INSPECT_PIECE ? count - first : CLI_INSPECT_PIECE;
        gp_status status = gp_shards_read(c->a, a, first, here, GP_F64, x);
        if (status == GP_OK) status = gp_shards_read(c->b, b, first, here, GP_F64, y);
        if (status != GP_OK) return status;
        for (size_t i = 0; i < here; i++) {
            double apart = distance(x[i], y[i]);
            if (apart > 0) found->elements++;
            if (apart > found->largest) found->largest = apart;
            squares += apart * apart;
            if (isfinite(x[i])) norm += x[i] * x[i];
        }
    }
    found->relative = squares == 0 ? 0 : sqrt(squares / norm);
    return GP_OK;
}

/* ---- one name ---- */

static void print_difference(gp_type type, const difference *found, const char *name) {
    char text[96];
    printf("%-24s %12.5g %12.5g %12lld  ", gp_type_format(type, text, sizeof text), found->largest, found->relative,
           (long long)found->elements);
    cli_inspect_print(name);
    putchar('\n');
}

static void print_other(const comparison *c, verdict v, size_t a, size_t b, const char *name) {
    char one[96], other[96];
    if (v == ONLY_A) printf("%-24s only in the first  ", gp_type_format(gp_shards_type(c->a, a), one, sizeof one));
    if (v == ONLY_B) printf("%-24s only in the second  ", gp_type_format(gp_shards_type(c->b, b), one, sizeof one));
    if (v == OTHER_TYPE)
        printf("%-24s %s in the second  ", gp_type_format(gp_shards_type(c->a, a), one, sizeof one),
               gp_type_format(gp_shards_type(c->b, b), other, sizeof other));
    cli_inspect_print(name);
    putchar('\n');
}

static void add_json(const comparison *c, verdict v, const difference *found, const char *name) {
    json_t *row = json_pack("{s:s, s:s}", "name", name, "verdict", words[v]);
    if (v == DIFFERENT) {
        json_object_set_new(row, "largest", cli_json_number(found->largest));
        json_object_set_new(row, "relative", cli_json_number(found->relative));
        json_object_set_new(row, "elements", json_integer(found->elements));
    }
    json_array_append_new(c->list, row);
}

/* Tensors of other dtypes but the same shape are compared by their values; what differs is the type all the same. */
static gp_status compare(comparison *c, size_t a, size_t b, const char *name) {
    gp_type x = gp_shards_type(c->a, a), y = gp_shards_type(c->b, b);
    difference found = {0};
    verdict v = SAME;
    if (!gp_shape_equal(x.shape, y.shape)) {
        v = OTHER_TYPE;
    } else if (!same_bits(c, a, b)) {
        gp_status status = measure(c, a, b, &found);
        if (status != GP_OK) return status;
        v = x.dtype == y.dtype ? DIFFERENT : OTHER_TYPE;
    }
    c->counts[v]++;
    if (c->list) {
        add_json(c, v, &found, name);
    } else if (v == DIFFERENT) {
        print_difference(x, &found, name);
    } else if (v == OTHER_TYPE) {
        print_other(c, v, a, b, name);
    }
    return GP_OK;
}

static void one_sided(comparison *c, verdict v, size_t tensor, const char *name) {
    c->counts[v]++;
    if (c->list) {
        add_json(c, v, NULL, name);
    } else {
        print_other(c, v, tensor, tensor, name);
    }
}

static gp_status compare_all(comparison *c, const size_t *order_a, const size_t *order_b) {
    gp_status status = GP_OK;
    for (size_t i = 0; status == GP_OK && i < gp_shards_count(c->a); i++) {
        const char *name = gp_shards_name(c->a, order_a[i]);
        size_t other;
        if (gp_shards_find(c->b, name, &other)) {
            status = compare(c, order_a[i], other, name);
        } else {
            one_sided(c, ONLY_A, order_a[i], name);
        }
    }
    for (size_t i = 0; status == GP_OK && i < gp_shards_count(c->b); i++) {
        const char *name = gp_shards_name(c->b, order_b[i]);
        if (!gp_shards_find(c->a, name, NULL)) one_sided(c, ONLY_B, order_b[i], name);
    }
    return status;
}

/* ---- both ---- */

static gp_status finish(comparison *c, const char *path_a, const char *path_b, bool differ) {
    if (!c->list) {
        printf("%s and %s: tensors: %zu the same, %zu different, %zu of other types, %zu and %zu in one only\n", path_a,
               path_b, c->counts[SAME], c->counts[DIFFERENT], c->counts[OTHER_TYPE], c->counts[ONLY_A],
               c->counts[ONLY_B]);
        return GP_OK;
    }
    json_t *object = json_pack("{s:o, s:o, s:b, s:O}", "first", cli_json_text(path_a), "second", cli_json_text(path_b),
                               "same", !differ, "tensors", c->list);
    return cli_json_print(object);
}

gp_status cli_inspect_diff(const gp_shards *a, const gp_shards *b, const char *path_a, const char *path_b, bool json,
                           bool *differ) {
    comparison c = {.a = a, .b = b, .pieces = malloc(2 * CLI_INSPECT_PIECE * sizeof *c.pieces)};
    size_t *order_a = cli_inspect_order(a), *order_b = cli_inspect_order(b);
    gp_status status = GP_OUT_OF_MEMORY;
    if (json) c.list = json_array();
    if (c.pieces && order_a && order_b) {
        if (!json) printf("%-24s %12s %12s %12s  %s\n", "type", "largest", "relative", "elements", "name");
        status = compare_all(&c, order_a, order_b);
    }
    *differ = c.counts[DIFFERENT] + c.counts[OTHER_TYPE] + c.counts[ONLY_A] + c.counts[ONLY_B] > 0;
    if (status == GP_OK) status = finish(&c, path_a, path_b, *differ);
    json_decref(c.list);
    free(c.pieces);
    free(order_a);
    free(order_b);
    return status;
}
