/* Folders in other programs' layouts, written by tests: every element is a number made of its tensor's name and its
 * place, exact in every dtype, so that whatever lands at the wrong place is seen. */
#ifndef GP_TESTS_EXCHANGE_FOREIGN_FILES_H
#define GP_TESTS_EXCHANGE_FOREIGN_FILES_H

#include "temporary.h"

#include "gpipe/exchange.h"

typedef struct foreign_tensor {
    const char *name;
    int rank;
    int64_t dims[4];
} foreign_tensor;

static inline float foreign_value(const char *name, int64_t index) {
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    hash = (hash ^ (uint32_t)index) * 2654435761u;
    return (float)((int)(hash >> 24) - 128) / 64.0f;
}

enum { FOREIGN_MOST = 64 };

/* Writes tensors as one safetensors file; `prefix` goes before names that do not start with '='. */
static inline void foreign_write(const char *path, const foreign_tensor *tensors, size_t count, const char *prefix,
                                 gp_dtype dtype) {
    static char names[FOREIGN_MOST][160];
    gp_safetensors_entry entries[FOREIGN_MOST];
    assert_true(count <= FOREIGN_MOST);
    for (size_t i = 0; i < count; i++) {
        const char *name = tensors[i].name;
        bool absolute = *name == '=';
        snprintf(names[i], sizeof names[i], "%s%s", absolute ? "" : prefix, name + absolute);
        gp_type type = {dtype, gp_shape_of(tensors[i].rank, tensors[i].dims)};
        size_t elements = (size_t)gp_shape_elements(type.shape);
        float *values = malloc(elements * sizeof *values);
        void *data = malloc(elements * 8);
        assert_true(values && data);
        for (size_t e = 0; e < elements; e++)
            values[e] = foreign_value(name + absolute, (int64_t)e);
        gp_convert(data, dtype, values, GP_F32, elements);
        free(values);
        entries[i] = (gp_safetensors_entry){.name = names[i], .type = type, .data = data};
    }
    if (gp_safetensors_write(path, entries, count, NULL, 0) != GP_OK) fail_msg("%s", gp_error_message());
    for (size_t i = 0; i < count; i++)
        free((void *)entries[i].data);
}

/* Writes a text with a '%s' replaced; returns nothing: the folder is the temporary one. */
static inline void foreign_write_config(temporary *t, const char *text) {
    FILE *file = fopen(temporary_path(t, "config.json"), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Element (row, column) of parameter `own` in an imported file is element `index` of the foreign tensor. */
static inline void assert_element(const gp_shards *file, const char *own, int64_t element, const char *foreign,
                                  int64_t index) {
    size_t tensor = 0;
    float value = 0;
    if (!gp_shards_find(file, own, &tensor)) fail_msg("%s is missing", own);
    assert_int_equal(gp_shards_read(file, tensor, (size_t)element, 1, GP_F32, &value), GP_OK);
    if (value != foreign_value(foreign, index))
        fail_msg("element %lld of %s is %g instead of %g", (long long)element, own, value,
                 foreign_value(foreign, index));
}

/* The whole parameter [rows, columns] is the foreign tensor, as it is or transposed. */
static inline void assert_parameter(const gp_shards *file, const char *own, const char *foreign, int64_t rows,
                                    int64_t columns, bool transposed) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            assert_element(file, own, r * columns + c, foreign, transposed ? c * rows + r : r * columns + c);
}

static inline void assert_refused(const char *path, const gp_foreign_options *options, const char *part) {
    gp_foreign *foreign = NULL;
    gp_status status = gp_foreign_open(&foreign, path, options);
    if (status != GP_INVALID) fail_msg("status %d instead of GP_INVALID for: %s", (int)status, part);
    assert_null(foreign);
    if (!strstr(gp_error_message(), part)) fail_msg("\"%s\" is not in: %s", part, gp_error_message());
}

static inline gp_foreign *foreign_open(const char *path, const gp_foreign_options *options) {
    gp_foreign *foreign = NULL;
    if (gp_foreign_open(&foreign, path, options) != GP_OK) fail_msg("%s", gp_error_message());
    return foreign;
}

/* Imports the folder into `name` beside it and opens what was written. */
static inline gp_shards *foreign_import(temporary *t, const char *path, const char *name,
                                        const gp_foreign_options *options) {
    gp_foreign *foreign = foreign_open(path, options);
    gp_shards *shards = NULL;
    const char *written = temporary_path(t, name);
    if (gp_foreign_write(foreign, written) != GP_OK) fail_msg("%s", gp_error_message());
    assert_int_equal(gp_shards_open(&shards, written), GP_OK);
    gp_foreign_close(foreign);
    return shards;
}

static inline void assert_same_files(const char *a, const char *b) {
    FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
    assert_true(one && other);
    for (int x = 0, y = 0; x != EOF;) {
        x = fgetc(one);
        y = fgetc(other);
        assert_int_equal(x, y);
    }
    fclose(one);
    fclose(other);
}

#endif
