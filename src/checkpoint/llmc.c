/* Reading llm.c's checkpoints. The header is checked and the file must have exactly the bytes that it asks for, before
 * anything of that size is allocated. */
#include "checkpoint/llmc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"

enum { MAGIC = 20240326, HEADER_INTEGERS = 256, HEADER_BYTES = 4 * HEADER_INTEGERS, MOST_LAYERS = 10000 };

struct gp_llmc {
    gp_file_map map;
    gp_llmc_sizes sizes;
    gp_llmc_tensor *tensors;
    size_t count;
};

/* A kind of parameter: for every layer, or once. Dimensions are factors of the width, or one of these. */
enum { NONE = 0, PADDED = -1, CONTEXT = -2 };

typedef struct kind {
    const char *name;
    bool layered;
    int rows, columns; /* columns NONE: a vector */
} kind;

static const kind kinds[] = {
    {"wte", false, PADDED, 1}, {"wpe", false, CONTEXT, 1}, {"ln1w", true, 1, NONE},  {"ln1b", true, 1, NONE},
    {"qkvw", true, 3, 1},      {"qkvb", true, 3, NONE},    {"attprojw", true, 1, 1}, {"attprojb", true, 1, NONE},
    {"ln2w", true, 1, NONE},   {"ln2b", true, 1, NONE},    {"fcw", true, 4, 1},      {"fcb", true, 4, NONE},
    {"fcprojw", true, 1, 4},   {"fcprojb", true, 1, NONE}, {"lnfw", false, 1, NONE}, {"lnfb", false, 1, NONE},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static uint32_t read_integer(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

bool gp_llmc_is(const char *path) {
    unsigned char bytes[4];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    bool whole = read(descriptor, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    close(descriptor);
    return whole && read_integer(bytes) == MAGIC;
}

/* ---- the header ---- */

static gp_status read_size(const gp_llmc *file, int place, const char *what, int32_t most, int32_t *size) {
    *size = (int32_t)read_integer(file->map.data + 4 * place);
    if (*size >= 1 && *size <= most) return GP_OK;
    return gp_error(GP_INVALID, "its header says %" PRId32 " for the %s: 1 to %" PRId32 " is accepted", *size, what,
                    most);
}

static gp_status read_header(gp_llmc *file) {
    gp_llmc_sizes *sizes = &file->sizes;
    if (file->map.bytes < HEADER_BYTES)
        return gp_error(GP_INVALID, "it has %zu byte%s, fewer than the %d of a header", file->map.bytes,
                        gp_plural((int64_t)file->map.bytes, "s"), HEADER_BYTES);
    if (read_integer(file->map.data) != MAGIC)
        return gp_error(GP_INVALID, "its magic number is %" PRIu32 ": %d is accepted", read_integer(file->map.data),
                        MAGIC);
    sizes->version = (int32_t)read_integer(file->map.data + 4);
    if (sizes->version != 3 && sizes->version != 5)
        return gp_error(GP_INVALID, "its version is %" PRId32 ": 3 (f32) and 5 (bf16) are accepted", sizes->version);
    GP_TRY(read_size(file, 2, "longest sequence", 1 << 24, &sizes->context));
    GP_TRY(read_size(file, 3, "vocabulary", 1 << 28, &sizes->vocabulary));
    GP_TRY(read_size(file, 4, "layers", MOST_LAYERS, &sizes->layers));
    GP_TRY(read_size(file, 5, "heads", 1 << 20, &sizes->heads));
    GP_TRY(read_size(file, 6, "width", 1 << 20, &sizes->width));
    GP_TRY(read_size(file, 7, "padded vocabulary", 1 << 28, &sizes->padded_vocabulary));
    if (sizes->width % sizes->heads != 0)
        return gp_error(GP_INVALID, "its %" PRId32 " heads do not divide its width of %" PRId32, sizes->heads,
                        sizes->width);
    if (sizes->padded_vocabulary < sizes->vocabulary)
        return gp_error(GP_INVALID, "its padded vocabulary of %" PRId32 " is smaller than the vocabulary of %" PRId32,
                        sizes->padded_vocabulary, sizes->vocabulary);
    return GP_OK;
}

/* ---- the tensors ---- */

static int64_t dimension(const gp_llmc_sizes *sizes, int rows) {
    if (rows == PADDED) return sizes->padded_vocabulary;
    return rows == CONTEXT ? sizes->context : (int64_t)rows * sizes->width;
}

static gp_type type_of(const gp_llmc_sizes *sizes, const kind *of) {
    gp_dtype dtype = sizes->version == 3 ? GP_F32 : GP_BF16;
    int64_t dims[] = {dimension(sizes, of->rows), (int64_t)of->columns * sizes->width};
    return (gp_type){dtype, gp_shape_of(of->columns == NONE ? 1 : 2, dims)};
}

/* With the limits of read_header no product leaves 64 bits: 2^28 * 2^20 * 4 for the table, 10^4 * 12 * 2^40 * 4 for the
 * layers. */
static gp_status check_bytes(const gp_llmc *file) {
    uint64_t bytes = HEADER_BYTES;
    for (size_t k = 0; k < KINDS; k++)
        bytes +=
            (kinds[k].layered ? (uint64_t)file->sizes.layers : 1) * gp_type_bytes(type_of(&file->sizes, &kinds[k]));
    if (bytes == file->map.bytes) return GP_OK;
    return gp_error(GP_INVALID, "it has %zu bytes, but its header asks for %" PRIu64, file->map.bytes, bytes);
}

static gp_status add_tensors(gp_llmc *file) {
    const unsigned char *next = file->map.data + HEADER_BYTES;
    file->tensors = gp_allocate_array((size_t)file->sizes.layers * KINDS, sizeof *file->tensors);
    if (!file->tensors) return GP_OUT_OF_MEMORY;
    for (size_t k = 0; k < KINDS; k++) {
        gp_type type = type_of(&file->sizes, &kinds[k]);
        for (int32_t layer = 0; layer < (kinds[k].layered ? file->sizes.layers : 1); layer++) {
            char *name = kinds[k].layered ? gp_format_text("h.%" PRId32 ".%s", layer, kinds[k].name)
                                          : gp_copy_text(kinds[k].name);
            if (!name) return GP_OUT_OF_MEMORY;
            file->tensors[file->count++] = (gp_llmc_tensor){name, type, next};
            next += gp_type_bytes(type);
        }
    }
    return GP_OK;
}

gp_status gp_llmc_open(gp_llmc **file, const char *path) {
    *file = NULL;
    gp_llmc *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = gp_file_map_open(&made->map, path);
    if (status == GP_OK) {
        status = read_header(made);
        if (status == GP_OK) status = check_bytes(made);
        if (status == GP_OK) status = add_tensors(made);
        gp_error_within(status, "'%s' is not a checkpoint of llm.c that can be read", path);
    }
    if (status != GP_OK) {
        gp_llmc_close(made);
        return status;
    }
    *file = made;
    return GP_OK;
}

void gp_llmc_close(gp_llmc *file) {
    if (!file) return;
    for (size_t i = 0; i < file->count; i++)
        gp_free(file->tensors[i].name);
    gp_free(file->tensors);
    gp_file_map_close(&file->map);
    gp_free(file);
}

const gp_llmc_sizes *gp_llmc_sizes_of(const gp_llmc *file) {
    return &file->sizes;
}

const gp_llmc_tensor *gp_llmc_tensors(const gp_llmc *file, size_t *count) {
    *count = file->count;
    return file->tensors;
}
