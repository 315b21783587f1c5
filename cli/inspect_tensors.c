/* The tensors of a file: types, norms, what is not finite; metadata; what a checkpoint says about itself. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpipe/words.h"
#include "inspect.h"
#include "json.h"

/* Of the elements that are finite, unless said otherwise. */
typedef struct statistics {
    double norm, least, most, mean;
    int64_t nan, infinite;
} statistics;

/* ---- order and texts ---- */

/* Runs of digits compare as numbers. */
static int compare_names(const char *a, const char *b) {
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t length = strspn(a, "0123456789"), other = strspn(b, "0123456789");
            if (length != other) return length < other ? -1 : 1;
            int order = strncmp(a, b, length);
            if (order != 0) return order;
            a += length;
            b += length;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static int compare_tensors(const void *a, const void *b, void *file) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = compare_names(gp_shards_name(file, x), gp_shards_name(file, y));
    return order != 0 ? order : (x > y) - (x < y);
}

size_t *cli_inspect_order(const gp_shards *file) {
    size_t count = gp_shards_count(file), *order = malloc((count + 1) * sizeof *order);
    if (!order) {
        gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, compare_tensors, (void *)file);
    return order;
}

void cli_inspect_print(const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putchar(c < ' ' || c == 127 ? '?' : c);
    }
}

/* ---- statistics ---- */

static gp_status measure(const gp_shards *file, size_t tensor, double *piece, statistics *found) {
    size_t count = (size_t)gp_shape_elements(gp_shards_type(file, tensor).shape);
    double sum = 0, squares = 0, finite = 0;
    *found = (statistics){.least = INFINITY, .most = -INFINITY};
    for (size_t first = 0; first < count; first += CLI_INSPECT_PIECE) {
        size_t here = count - first < CLI_INSPECT_PIECE ? count - first : CLI_INSPECT_PIECE;
        gp_status status = gp_shards_read(file, tensor, first, here, GP_F64, piece);
        if (status != GP_OK) return status;
        for (size_t i = 0; i < here; i++) {
            double value = piece[i];
            if (isnan(value)) found->nan++;
            if (isinf(value)) found->infinite++;
            if (!isfinite(value)) continue;
            sum += value;
            squares += value * value;
            finite++;
            if (value < found->least) found->least = value;
            if (value > found->most) found->most = value;
        }
    }
    found->norm = sqrt(squares);
    found->mean = finite > 0 ? sum / finite : 0;
    if (finite == 0) found->least = found->most = 0;
    return GP_OK;
}

/* ---- the table ---- */

static void print_metadata(const gp_shards *file) {
    const char *path;
    for (size_t f = 0; f < gp_shards_file_count(file); f++) {
        const gp_safetensors *one = gp_shards_file(file, f, &path);
        if (gp_shards_file_count(file) > 1)
            printf("%s: %zu tensor%s\n", path, gp_safetensors_count(one),
                   gp_plural((int64_t)gp_safetensors_count(one), "s"));
        for (size_t i = 0; f == 0 && i < gp_safetensors_metadata_count(one); i++) {
            gp_safetensors_pair pair = gp_safetensors_metadata(one, i);
            cli_inspect_print(pair.key);
            fputs(": ", stdout);
            cli_inspect_print(pair.value);
            putchar('\n');
        }
    }
}

static void print_state(const gp_checkpoint_state *state) {
    if (!state) return;
    printf("step %lld of %lld, %lld update%s, %lld sample%s seen, seed %llu, gpipe %s\n", (long long)state->step,
           (long long)state->steps, (long long)state->updates, gp_plural(state->updates, "s"),
           (long long)state->samples, gp_plural(state->samples, "s"), (unsigned long long)state->seed, state->version);
    printf("learning rate %g (%s), the next step's %g\n", state->lr, state->schedule, state->next_lr);
    if (state->best_step >= 0)
        printf("best validation loss %.6f at step %lld\n", state->best, (long long)state->best_step);
}

static void print_row(const gp_shards *file, size_t tensor, const statistics *found) {
    char type[96];
    int64_t odd = found->nan + found->infinite;
    printf("%-24s %12.6g %12.5g %12.5g %12.5g %6lld  ", gp_type_format(gp_shards_type(file, tensor), type, sizeof type),
           found->norm, found->mean, found->least, found->most, (long long)odd);
    cli_inspect_print(gp_shards_name(file, tensor));
    putchar('\n');
}

static gp_status print_table(const gp_shards *file, const char *path, const gp_checkpoint_state *state,
                             const size_t *order, double *piece) {
    size_t count = gp_shards_count(file), bytes = 0;
    int64_t elements = 0, odd = 0;
    char size[16];
    print_metadata(file);
    print_state(state);
    printf("%-24s %12s %12s %12s %12s %6s  %s\n", "type", "norm", "mean", "min", "max", "NaN", "name");
    for (size_t i = 0; i < count; i++) {
        statistics found;
        gp_status status = measure(file, order[i], piece, &found);
        if (status != GP_OK) return status;
        print_row(file, order[i], &found);
        elements += gp_shape_elements(gp_shards_type(file, order[i]).shape);
        bytes += gp_type_bytes(gp_shards_type(file, order[i]));
        odd += found.nan + found.infinite;
    }
    printf("%s (%s): %zu tensor%s, %lld element%s, %s, %lld not finite\n", path, gp_shards_kind(file), count,
           gp_plural((int64_t)count, "s"), (long long)elements, gp_plural(elements, "s"),
           gp_bytes_format(bytes, size, sizeof size), (long long)odd);
    return GP_OK;
}

/* ---- JSON ---- */

static json_t *row_json(const gp_shards *file, size_t tensor, const statistics *found) {
    gp_type type = gp_shards_type(file, tensor);
    json_t *shape = json_array();
    for (int d = 0; d < type.shape.rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)type.shape.dims[d]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "name", gp_shards_name(file, tensor), "dtype",
                     gp_dtype_name(type.dtype), "shape", shape, "norm", cli_json_number(found->norm), "mean",
                     cli_json_number(found->mean), "min", cli_json_number(found->least), "max",
                     cli_json_number(found->most), "nan", (json_int_t)found->nan, "infinite",
                     (json_int_t)found->infinite);
}

/* Texts by file: shards may say different things, the first one wins. */
static json_t *metadata_json(const gp_shards *file) {
    json_t *metadata = json_object();
    for (size_t f = gp_shards_file_count(file); f-- > 0;) {
        const gp_safetensors *one = gp_shards_file(file, f, NULL);
        for (size_t i = 0; i < gp_safetensors_metadata_count(one); i++) {
            gp_safetensors_pair pair = gp_safetensors_metadata(one, i);
            json_object_set_new(metadata, pair.key, json_string(pair.value));
        }
    }
    return metadata;
}

static json_t *state_json(const gp_checkpoint_state *state) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s}", "step", (json_int_t)state->step, "steps",
                     (json_int_t)state->steps, "updates", (json_int_t)state->updates, "samples",
                     (json_int_t)state->samples, "seed", (json_int_t)state->seed, "lr", state->lr, "schedule",
                     state->schedule, "version", state->version);
}

static gp_status print_json(const gp_shards *file, const char *path, const gp_checkpoint_state *state,
                            const size_t *order, double *piece) {
    json_t *tensors = json_array();
    gp_status status = GP_OK;
    for (size_t i = 0; status == GP_OK && i < gp_shards_count(file); i++) {
        statistics found;
        status = measure(file, order[i], piece, &found);
        if (status == GP_OK) json_array_append_new(tensors, row_json(file, order[i], &found));
    }
    json_t *object = json_pack("{s:o, s:s, s:o, s:o}", "file", cli_json_text(path), "kind", gp_shards_kind(file),
                               "metadata", metadata_json(file), "tensors", tensors);
    if (object && state) json_object_set_new(object, "state", state_json(state));
    if (status == GP_OK) return cli_json_print(object);
    json_decref(object);
    return status;
}

gp_status cli_inspect_tensors(const gp_shards *file, const char *path, const gp_checkpoint_state *state, bool json) {
    double *piece = malloc(CLI_INSPECT_PIECE * sizeof *piece);
    size_t *order = cli_inspect_order(file);
    gp_status status = GP_OUT_OF_MEMORY;
    if (piece && order)
        status = json ? print_json(file, path, state, order, piece) : print_table(file, path, state, order, piece);
    free(piece);
    free(order);
    return status;
}
