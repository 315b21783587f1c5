/* Writing and reading back: bytes, alignment, metadata, conversion; a failed write leaves the old file as it was. */
#include "temporary.h"

#include "base/memory.h"
#include "gpipe/checkpoint.h"

static gp_type type_of(gp_dtype dtype, int rank, const int64_t *dims) {
    return (gp_type){.dtype = dtype, .shape = gp_shape_of(rank, dims)};
}

static const float weights[6] = {1, -2, 3.5f, 0, 1e-30f, -0.0f};
static const uint8_t pixels[3] = {7, 0, 255};
static const int64_t step[1] = {1LL << 40};
static const uint16_t halves[2] = {0x3F80, 0xC000}; /* 1, -2 in bf16 */

/* Bytes that depend on their place, for a tensor of many pieces. */
static gp_status fill_pattern(void *user, size_t offset, void *buffer, size_t bytes) {
    size_t *expected = user;
    if (offset != *expected) return gp_error(GP_FAILED, "piece at %zu instead of %zu", offset, *expected);
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)((offset + i) * 2654435761u >> 13);
    *expected += bytes;
    return GP_OK;
}

enum { BIG = 3 * 1024 * 1024 + 5 };

static gp_status write_sample(const char *path, size_t *filled) {
    const gp_safetensors_entry entries[] = {
        {.name = "image", .type = type_of(GP_U8, 1, (int64_t[]){3}), .data = pixels},
        {.name = "h.0.weight", .type = type_of(GP_F32, 2, (int64_t[]){2, 3}), .data = weights},
        {.name = "big", .type = type_of(GP_U8, 1, (int64_t[]){BIG}), .fill = fill_pattern, .user = filled},
        {.name = "step", .type = type_of(GP_I64, 0, NULL), .data = step},
        {.name = "naïve \"name\"", .type = type_of(GP_BF16, 2, (int64_t[]){1, 2}), .data = halves},
        {.name = "empty", .type = type_of(GP_F64, 2, (int64_t[]){0, 5})},
    };
    const gp_safetensors_pair metadata[] = {{"format", "gpipe"}, {"config", "{\"a\": 1}\nline two"}};
    return gp_safetensors_write(path, entries, 6, metadata, 2);
}

static void check_tensor(gp_safetensors *file, const char *name, gp_type type, const void *data) {
    size_t index = 999;
    assert_true(gp_safetensors_find(file, name, &index));
    assert_string_equal(gp_safetensors_name(file, index), name);
    assert_true(gp_type_equal(gp_safetensors_type(file, index), type));
    assert_memory_equal(gp_safetensors_data(file, index), data, gp_type_bytes(type));
    assert_int_equal((uintptr_t)gp_safetensors_data(file, index) % gp_dtype_bytes(type.dtype), 0);
}

static void test_round_trip(void **state) {
    size_t filled = 0;
    const char *path = temporary_path(*state, "model.safetensors");
    assert_int_equal(write_sample(path, &filled), GP_OK);
    assert_int_equal(filled, BIG);
    assert_int_equal(temporary_count(*state), 1);
    gp_safetensors *file;
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 6);
    check_tensor(file, "image", type_of(GP_U8, 1, (int64_t[]){3}), pixels);
    check_tensor(file, "h.0.weight", type_of(GP_F32, 2, (int64_t[]){2, 3}), weights);
    check_tensor(file, "step", type_of(GP_I64, 0, NULL), step);
    check_tensor(file, "naïve \"name\"", type_of(GP_BF16, 2, (int64_t[]){1, 2}), halves);
    check_tensor(file, "empty", type_of(GP_F64, 2, (int64_t[]){0, 5}), "");
    unsigned char *big = gp_allocate(BIG);
    size_t from = 0;
    fill_pattern(&from, 0, big, BIG);
    check_tensor(file, "big", type_of(GP_U8, 1, (int64_t[]){BIG}), big);
    gp_free(big);
    assert_false(gp_safetensors_find(file, "h.0.weigh", NULL));
    assert_false(gp_safetensors_find(file, "__metadata__", NULL));
    assert_int_equal(gp_safetensors_metadata_count(file), 2);
    assert_string_equal(gp_safetensors_metadata(file, 0).key, "format");
    assert_string_equal(gp_safetensors_metadata_find(file, "config"), "{\"a\": 1}\nline two");
    assert_null(gp_safetensors_metadata_find(file, "none"));
    gp_safetensors_close(file);
    gp_safetensors_close(NULL);
}

static void test_same_bytes_twice(void **state) {
    size_t filled = 0, bytes[2];
    assert_int_equal(write_sample(temporary_path(*state, "a"), &filled), GP_OK);
    filled = 0;
    assert_int_equal(write_sample(temporary_path(*state, "b"), &filled), GP_OK);
    char *a = temporary_read(temporary_path(*state, "a"), &bytes[0]);
    char *b = temporary_read(temporary_path(*state, "b"), &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(a, b, bytes[0]);
    uint64_t length;
    memcpy(&length, a, sizeof length);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(a[8], '{');
    free(a);
    free(b);
}

static void test_no_tensors(void **state) {
    const char *path = temporary_path(*state, "none");
    assert_int_equal(gp_safetensors_write(path, NULL, 0, NULL, 0), GP_OK);
    gp_safetensors *file;
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 0);
    assert_int_equal(gp_safetensors_metadata_count(file), 0);
    assert_null(gp_safetensors_metadata_find(file, "x"));
    assert_false(gp_safetensors_find(file, "x", NULL));
    gp_safetensors_close(file);
}

/* A file of another writer, with floats at an odd address. */
static void test_unaligned_and_converted(void **state) {
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"f\":{\"dtype\":\"F32\",\"shape\":[1000],\"data_offsets\":[1,4001]}}";
    uint64_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + 4001);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    snprintf((char *)bytes + 8, length + 1, "%s", header);
    for (int i = 0; i < 1000; i++)
        memcpy(bytes + 8 + length + 1 + 4 * i, &(float){(float)i}, 4);
    const char *path = temporary_write(*state, "odd", bytes, 8 + length + 4001);
    free(bytes);
    gp_safetensors *file;
    assert_int_equal(gp_safetensors_open(&file, path), GP_OK);
    size_t index;
    assert_true(gp_safetensors_find(file, "f", &index));
    int32_t whole[1000] = {0};
    double wide[1000];
    assert_int_equal(gp_safetensors_read(file, index, 0, 1000, GP_F64, wide), GP_OK);
    assert_int_equal(gp_safetensors_read(file, index, 10, 5, GP_I32, whole), GP_OK);
    for (int i = 0; i < 1000; i++)
        assert_true(wide[i] == i);
    assert_int_equal(whole[0], 10);
    assert_int_equal(whole[4], 14);
    assert_int_equal(whole[5], 0);
    assert_int_equal(gp_safetensors_read(file, index, 1000, 0, GP_I32, whole), GP_OK);
    assert_int_equal(gp_safetensors_read(file, index, 1000, 1, GP_I32, whole), GP_INVALID);
    assert_int_equal(gp_safetensors_read(file, index, 5, SIZE_MAX, GP_I32, whole), GP_INVALID);
    gp_safetensors_close(file);
}

static gp_status fill_then_fail(void *user, size_t offset, void *buffer, size_t bytes) {
    (void)user;
    memset(buffer, 1, bytes);
    return offset == 0 ? GP_OK : gp_error(GP_PEER_LOST, "worker 3 is gone");
}

static void test_failed_write_leaves_the_old_file(void **state) {
    const char *path = temporary_write_text(*state, "model.safetensors", "the old one");
    const gp_safetensors_entry fails[] = {
        {.name = "w", .type = type_of(GP_U8, 1, (int64_t[]){BIG}), .fill = fill_then_fail}};
    assert_int_equal(gp_safetensors_write(path, fails, 1, NULL, 0), GP_PEER_LOST);
    assert_message_has(gp_error_message(), "model.safetensors' was not written: tensor 'w': worker 3 is gone");
    /* Every allocation failing in turn, until the write succeeds. */
    const gp_safetensors_entry good[] = {{.name = "w", .type = type_of(GP_U8, 1, (int64_t[]){3}), .data = pixels}};
    size_t bytes;
    for (uint64_t n = 1;; n++) {
        gp_allocation_fail_at(n);
        gp_status status = gp_safetensors_write(path, good, 1, NULL, 0);
        gp_allocation_fail_at(0);
        assert_int_equal(temporary_count(*state), 1);
        if (status == GP_OK) break;
        assert_int_equal(status, GP_OUT_OF_MEMORY);
        char *old = temporary_read(path, &bytes);
        assert_string_equal(old, "the old one");
        free(old);
        assert_true(n < 20);
    }
    for (uint64_t n = 1; n < 6; n++) {
        gp_safetensors *file;
        gp_allocation_fail_at(n);
        gp_status status = gp_safetensors_open(&file, path);
        gp_allocation_fail_at(0);
        assert_true(status == GP_OK || (status == GP_OUT_OF_MEMORY && !file));
        gp_safetensors_close(file);
    }
}

static void test_unwritable_places(void **state) {
    const gp_safetensors_entry good[] = {{.name = "w", .type = type_of(GP_U8, 1, (int64_t[]){3}), .data = pixels}};
    assert_int_equal(gp_safetensors_write(temporary_path(*state, "no/such/folder"), good, 1, NULL, 0), GP_IO);
    assert_message_has(gp_error_message(), "No such file or directory");
    assert_int_equal(gp_safetensors_write(((temporary *)*state)->folder, good, 1, NULL, 0), GP_INVALID);
    assert_message_has(gp_error_message(), "a folder");
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(gp_safetensors_write("/dev/full/x", good, 1, NULL, 0), GP_IO);
        assert_int_equal(gp_safetensors_write("/dev/full", good, 1, NULL, 0), GP_INVALID); /* stays a device */
    }
}

static void test_refused_entries(void **state) {
    const gp_type one = type_of(GP_U8, 1, (int64_t[]){1});
    const struct {
        gp_safetensors_entry entry;
        const char *message;
    } cases[] = {
        {{.type = one, .data = pixels}, "no name"},
        {{.name = "a", .type = one}, "neither data nor"},
        {{.name = "__metadata__", .type = one, .data = pixels}, "cannot be named"},
        {{.name = "a\nb", .type = one, .data = pixels}, "cannot be named"},
        {{.name = "b", .type = one, .data = pixels}, "twice"},
        {{.name = "\xff", .type = one, .data = pixels}, "UTF-8"},
        {{.name = "a", .type = type_of((gp_dtype)42, 0, NULL), .data = pixels}, "dtype"},
        {{.name = "a", .type = type_of(GP_U8, 1, (int64_t[]){-1}), .data = pixels}, "-1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const gp_safetensors_entry entries[] = {{.name = "b", .type = one, .data = pixels}, cases[i].entry};
        assert_int_equal(gp_safetensors_write(temporary_path(*state, "x"), entries, 2, NULL, 0), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].message);
        assert_int_equal(temporary_count(*state), 0);
    }
    const gp_safetensors_pair twice[] = {{"k", "1"}, {"k", "2"}}, broken[] = {{"k", "\xc3"}};
    assert_int_equal(gp_safetensors_write(temporary_path(*state, "x"), NULL, 0, twice, 2), GP_INVALID);
    assert_int_equal(gp_safetensors_write(temporary_path(*state, "x"), NULL, 0, broken, 1), GP_INVALID);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_round_trip),
        WITH_FOLDER(test_same_bytes_twice),
        WITH_FOLDER(test_no_tensors),
        WITH_FOLDER(test_unaligned_and_converted),
        WITH_FOLDER(test_failed_write_leaves_the_old_file),
        WITH_FOLDER(test_unwritable_places),
        WITH_FOLDER(test_refused_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
