/* gpipe inspect: what is in a safetensors file, tensor by tensor. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "gpipe/checkpoint.h"
#include "message.h"
#include "session.h"

enum { PIECE = 16384 };

/* Of the elements that are finite, unless said otherwise. */
typedef struct statistics {
    double norm, least, most, mean;
    int64_t nan, infinite;
} statistics;

static gp_status measure(const gp_safetensors *file, size_t tensor, double *piece, statistics *found) {
    size_t count = (size_t)gp_shape_elements(gp_safetensors_type(file, tensor).shape);
    double sum = 0, squares = 0, finite = 0;
    *found = (statistics){.least = INFINITY, .most = -INFINITY};
    for (size_t first = 0; first < count; first += PIECE) {
        size_t here = count - first < PIECE ? count - first : PIECE;
        gp_status status = gp_safetensors_read(file, tensor, first, here, GP_F64, piece);
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

/* Names and metadata come from a file: nothing in them may move the cursor. */
static void print_safely(const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putchar(c < ' ' || c == 127 ? '?' : c);
    }
}

static void print_row(const gp_safetensors *file, size_t tensor, const statistics *found) {
    char type[96];
    int64_t odd = found->nan + found->infinite;
    printf("%-24s %12.6g %12.5g %12.5g %12.5g %6lld  ",
           gp_type_format(gp_safetensors_type(file, tensor), type, sizeof type), found->norm, found->mean, found->least,
           found->most, (long long)odd);
    print_safely(gp_safetensors_name(file, tensor));
    putchar('\n');
}

static json_t *row_json(const gp_safetensors *file, size_t tensor, const statistics *found) {
    gp_type type = gp_safetensors_type(file, tensor);
    json_t *shape = json_array();
    for (int d = 0; d < type.shape.rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)type.shape.dims[d]));
    return json_pack("{s:s, s:s, s:o, s:f, s:f, s:f, s:f, s:I, s:I}", "name", gp_safetensors_name(file, tensor),
                     "dtype", gp_dtype_name(type.dtype), "shape", shape, "norm", found->norm, "mean", found->mean,
                     "min", found->least, "max", found->most, "nan", (json_int_t)found->nan, "infinite",
                     (json_int_t)found->infinite);
}

static void print_metadata(const gp_safetensors *file) {
    for (size_t i = 0; i < gp_safetensors_metadata_count(file); i++) {
        gp_safetensors_pair pair = gp_safetensors_metadata(file, i);
        print_safely(pair.key);
        fputs(": ", stdout);
        print_safely(pair.value);
        putchar('\n');
    }
}

static gp_status print_table(const gp_safetensors *file, const char *path, double *piece) {
    size_t count = gp_safetensors_count(file), bytes = 0;
    int64_t elements = 0, odd = 0;
    char size[16];
    print_metadata(file);
    printf("%-24s %12s %12s %12s %12s %6s  %s\n", "type", "norm", "mean", "min", "max", "NaN", "name");
    for (size_t i = 0; i < count; i++) {
        statistics found;
        gp_status status = measure(file, i, piece, &found);
        if (status != GP_OK) return status;
        print_row(file, i, &found);
        elements += gp_shape_elements(gp_safetensors_type(file, i).shape);
        bytes += gp_type_bytes(gp_safetensors_type(file, i));
        odd += found.nan + found.infinite;
    }
    printf("%s: %zu tensors, %lld elements, %s, %lld not finite\n", path, count, (long long)elements,
           gp_bytes_format(bytes, size, sizeof size), (long long)odd);
    return GP_OK;
}

static gp_status print_json(const gp_safetensors *file, const char *path, double *piece) {
    json_t *tensors = json_array(), *metadata = json_object();
    gp_status status = GP_OK;
    for (size_t i = 0; status == GP_OK && i < gp_safetensors_count(file); i++) {
        statistics found;
        status = measure(file, i, piece, &found);
        if (status == GP_OK) json_array_append_new(tensors, row_json(file, i, &found));
    }
    for (size_t i = 0; i < gp_safetensors_metadata_count(file); i++) {
        gp_safetensors_pair pair = gp_safetensors_metadata(file, i);
        json_object_set_new(metadata, pair.key, json_string(pair.value));
    }
    json_t *object = json_pack("{s:s, s:o, s:o}", "file", path, "metadata", metadata, "tensors", tensors);
    bool written = status == GP_OK && object &&
                   json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && puts("") >= 0;
    json_decref(object);
    if (status != GP_OK) return status;
    return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
}

/* A folder stands for the weights in it: of a run (the latest), or of a checkpoint. */
static gp_status resolve(const char *path, char *file, size_t size) {
    static const char *const places[] = {"", "/checkpoints/latest/model.safetensors", "/model.safetensors"};
    struct stat information;
    if (stat(path, &information) != 0) return gp_error(GP_INVALID, "%s: there is no such file", path);
    for (size_t i = S_ISDIR(information.st_mode) ? 1 : 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(file, size, "%s%s", path, places[i]);
        if (length > 0 && (size_t)length < size && stat(file, &information) == 0 && S_ISREG(information.st_mode))
            return GP_OK;
    }
    return gp_error(GP_INVALID, "%s holds no weights: a safetensors file, a run directory or a checkpoint is accepted",
                    path);
}

static gp_status inspect(const char *path, bool json) {
    gp_safetensors *file = NULL;
    char place[4096];
    gp_status status = resolve(path, place, sizeof place);
    if (status == GP_OK) status = gp_safetensors_open(&file, place);
    if (status != GP_OK) return status;
    double *piece = malloc(PIECE * sizeof *piece);
    if (!piece) {
        status = gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    } else {
        status = json ? print_json(file, place, piece) : print_table(file, place, piece);
    }
    free(piece);
    gp_safetensors_close(file);
    return status;
}

static int run(const cli_arguments *arguments) {
    gp_status status = inspect(arguments->words[0], cli_given_flag(arguments, "json"));
    return status == GP_OK ? 0 : cli_fail(status);
}

static const cli_option options[] = {CLI_OPTION_JSON};

const cli_command cli_inspect = {
    .name = "inspect",
    .arguments = "FILE|DIR",
    .least = 1,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "what is in a safetensors file",
    .description = "Prints the tensors of a safetensors file (of a run directory: its latest weights): type, norm, "
                   "mean, smallest and "
                   "largest element, how many are NaN or infinite; and the file's metadata. A broken file is refused "
                   "with a sentence.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
