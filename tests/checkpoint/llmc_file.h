/* A checkpoint of llm.c, byte by byte, for tests: every parameter is its number in the file. */
#ifndef GP_TESTS_CHECKPOINT_LLMC_FILE_H
#define GP_TESTS_CHECKPOINT_LLMC_FILE_H

#include "temporary.h"

#include "gpipe/tensor.h"

typedef struct llmc_file {
    int32_t magic, version, context, vocabulary, layers, heads, width, padded;
    long missing; /* bytes at the end that are not written; negative: more than there should be */
} llmc_file;

static const llmc_file llmc_good = {20240326, 3, 4, 5, 2, 2, 4, 8, 0};

static inline int64_t llmc_parameters(const llmc_file *f) {
    int64_t c = f->width, block = 2 * c + 3 * c * c + 3 * c + c * c + c + 2 * c + 4 * c * c + 4 * c + 4 * c * c + c;
    return (f->padded + f->context) * c + f->layers * block + 2 * c;
}

static inline const char *llmc_write(temporary *t, const char *name, const llmc_file *f) {
    int32_t header[256] = {f->magic, f->version, f->context, f->vocabulary, f->layers, f->heads, f->width, f->padded};
    const char *path = temporary_path(t, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(header, sizeof header, 1, file); /* the test machine is little-endian, as the library's */
    gp_dtype dtype = f->version == 5 ? GP_BF16 : GP_F32;
    int64_t count = llmc_parameters(f);
    for (int64_t i = 0; i < count; i++) {
        float number = (float)i;
        unsigned char bytes[4];
        gp_convert(bytes, dtype, &number, GP_F32, 1);
        fwrite(bytes, gp_dtype_bytes(dtype), 1, file);
    }
    for (long i = f->missing; i < 0; i++)
        fputc(0, file);
    assert_int_equal(fclose(file), 0);
    if (f->missing > 0)
        assert_int_equal(truncate(path, (off_t)((size_t)count * gp_dtype_bytes(dtype)) + 1024 - f->missing), 0);
    return path;
}

#endif
