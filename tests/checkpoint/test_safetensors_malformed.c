/* Files that must be refused, each with a sentence; and every cut and every changed byte of a good file. */
#include "temporary.h"

#include "gpipe/checkpoint.h"

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

/* Opens a file made of a header and `data` bytes after it; `said` is the length in the file, -1 for the true one. */
static gp_status open_file(void **state, const char *header, int64_t said, size_t data, gp_safetensors **file) {
    size_t text = strlen(header);
    uint64_t length = said < 0 ? text : (uint64_t)said;
    unsigned char *bytes = calloc(1, 8 + text + data + 1);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    snprintf((char *)bytes + 8, text + 1, "%s", header);
    const char *path = temporary_write(*state, "file", bytes, 8 + text + data);
    free(bytes);
    return gp_safetensors_open(file, path);
}

static void test_table(void **state) {
    static const struct {
        const char *header;
        int64_t said;
        size_t data;
        const char *message;
    } cases[] = {
        {"{}", 100000001, 0, "100000001 bytes: up to 100000000 are accepted"},
        {"{}", INT64_MAX, 0, "are accepted"},
        {"{}", 3, 0, "3 bytes, but only 2 follow"},
        {"{}", 0, 0, "does not start with '{'"},
        {" {}", -1, 0, "does not start with '{'"},
        {"[]", -1, 0, "does not start with '{'"},
        {"{", -1, 0, "not valid JSON"},
        {"{}{}", -1, 0, "not valid JSON"},
        {"{\"a", -1, 0, "not valid JSON"},
        {"{\"a\\", -1, 0, "not valid JSON"},
        {"{\"\xff\":1}", -1, 0, "not valid JSON"},
        {"{\"a\\u0000b\":1}", -1, 0, "not valid JSON"},
        {"{" T("a", "U8", "1", 0, 1) "," T("a", "U8", "1", 0, 1) "}", -1, 1, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", -1, 1, "duplicate"},
        {"{\"a\":[[[[[[[[]]]]]]]]}", -1, 0, "nested deeper"},
        {"{\"a\":1}", -1, 0, "'a' is not described by an object"},
        {"{\"a\":{}}", -1, 0, "no \"dtype\""},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", -1, 1, "no \"dtype\""},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", -1, 1, "no \"shape\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", -1, 1, "no \"data_offsets\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}", -1, 1, "besides"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", -1, 1, "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.0]}}", -1, 1, "data_offsets"},
        {"{" T("a", "U16", "1", 0, 2) "}", -1, 2, "dtype 'U16': F32"},
        {"{" T("a", "f32", "1", 0, 4) "}", -1, 4, "dtype 'f32'"},
        {"{" T("a", "U8", "1,1,1,1,1,1,1", 0, 1) "}", -1, 1, "7 dimensions: up to 6"},
        {"{" T("a", "U8", "-1", 0, 1) "}", -1, 1, "dimension 0"},
        {"{" T("a", "U8", "1,1.5", 0, 1) "}", -1, 1, "dimension 1"},
        {"{" T("a", "U8", "\\\"1\\\"", 0, 1) "}", -1, 1, "not valid JSON"},
        {"{" T("a", "U8", "18446744073709551617", 0, 1) "}", -1, 1, "not valid JSON"},
        {"{" T("a", "U8", "4294967296,4294967296", 0, 0) "}", -1, 0, "too many elements"},
        {"{" T("a", "F64", "2305843009213693952", 0, 0) "}", -1, 0, "too many elements"},
        {"{" T("a", "U8", "0,4294967296,4294967296", 0, 0) "}", -1, 0, "too many elements"},
        {"{" T("a", "F32", "2", 0, 4) "}", -1, 4, "f32[2], which takes 8 bytes, but its data_offsets hold 4"},
        {"{" T("a", "U8", "1", 1, 0) "}", -1, 1, "0 <= begin <= end"},
        {"{" T("a", "U8", "2", -1, 1) "}", -1, 2, "0 <= begin <= end"},
        {"{" T("a", "U8", "2", 0, 2) "}", -1, 1, "has only 1"},
        {"{" T("a", "U8", "2", 0, 2) "}", -1, 3, "the file has 3"},
        {"{" T("a", "U8", "1", 1, 2) "}", -1, 2, "starts at byte 1"},
        {"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "2", 1, 3) "}", -1, 3, "'b' starts at byte 1"},
        {"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "1", 3, 4) "}", -1, 4, "ends at 2"},
        {"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "2", 0, 2) "}", -1, 2, "'b' starts at byte 0"},
        {"{}", -1, 1, "the file has 1"},
        {"{\"__metadata__\":7}", -1, 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":7}}", -1, 0, "not a text"},
        {"{\"__metadata__\":{\"a\\n\":\"b\"}}", -1, 0, "control characters"},
        {"{" T("a\\u001b[31m", "U8", "1", 0, 1) "}", -1, 1, "control characters"},
        {"{" T("a\\u009b31m", "U8", "1", 0, 1) "}", -1, 1, "control characters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gp_safetensors *file = (gp_safetensors *)state;
        gp_status status = open_file(state, cases[i].header, cases[i].said, cases[i].data, &file);
        if (status != GP_INVALID) print_error("case %zu: %s\n", i, cases[i].header);
        assert_int_equal(status, GP_INVALID);
        assert_null(file);
        assert_message_has(gp_error_message(), cases[i].message);
        assert_message_has(gp_error_message(), "/file'");
    }
}

static void test_strange_but_valid(void **state) {
    static const struct {
        const char *header;
        size_t data;
        size_t count;
    } cases[] = {
        {"{}", 0, 0},
        {"{}      ", 0, 0},
        {"{ \"a\" : {\"data_offsets\":[0,1],\n\"shape\":[],\"dtype\":\"U8\"}}", 1, 1},
        {"{" T("b", "U8", "2", 1, 3) "," T("a", "U8", "1", 0, 1) "}", 3, 2},
        {"{" T("a", "F64", "0", 0, 0) "," T("b", "U8", "1", 0, 1) "," T("c", "U8", "0", 1, 1) "}", 1, 3},
        {"{" T("", "U8", "1", 0, 1) "}", 1, 1},
        {"{" T("[{[{[{", "U8", "1", 0, 1) "}", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gp_safetensors *file = NULL;
        gp_status status = open_file(state, cases[i].header, -1, cases[i].data, &file);
        if (status != GP_OK) print_error("case %zu: %s\n", i, gp_error_message());
        assert_int_equal(status, GP_OK);
        assert_int_equal(gp_safetensors_count(file), cases[i].count);
        gp_safetensors_close(file);
    }
}

static void test_paths(void **state) {
    gp_safetensors *file;
    assert_int_equal(gp_safetensors_open(&file, temporary_path(*state, "missing")), GP_INVALID);
    assert_message_has(gp_error_message(), "No such file");
    assert_int_equal(gp_safetensors_open(&file, ((temporary *)*state)->folder), GP_INVALID);
    assert_message_has(gp_error_message(), "is a folder");
    assert_int_equal(gp_safetensors_open(&file, temporary_write(*state, "empty", "", 0)), GP_INVALID);
    assert_message_has(gp_error_message(), "0 bytes");
    assert_int_equal(gp_safetensors_open(&file, temporary_write(*state, "short", "\2\0\0\0\0\0\0", 7)), GP_INVALID);
    assert_null(file);
}

/* A header that would become a tree many times its size is refused before it does. */
static void test_bomb(void **state) {
    enum { VALUES = 5000000 };
    char *header = malloc(2 * VALUES + 16);
    assert_non_null(header);
    memcpy(header, "{\"a\":[0", 8);
    for (size_t i = 0, at = 7; i < VALUES; i++, at += 2)
        memcpy(header + at, ",0", 3);
    memcpy(header + 7 + (size_t)2 * VALUES, "]}", 3);
    gp_safetensors *file;
    assert_int_equal(open_file(state, header, -1, 0, &file), GP_INVALID);
    assert_message_has(gp_error_message(), "more than");
    free(header);
}

/* Whatever is cut off or changed, opening ends in a status, and what opens can be read to the last byte. */
static void open_and_look(const char *path) {
    gp_safetensors *file;
    gp_status status = gp_safetensors_open(&file, path);
    assert_true((status == GP_OK) == (file != NULL));
    for (size_t i = 0; file && i < gp_safetensors_count(file); i++) {
        double values[64];
        size_t elements = (size_t)gp_shape_elements(gp_safetensors_type(file, i).shape);
        assert_true(elements <= 64);
        assert_int_equal(gp_safetensors_read(file, i, 0, elements, GP_F64, values), GP_OK);
    }
    gp_safetensors_close(file);
}

static void test_every_cut_and_change(void **state) {
    const float f[3] = {1, 2, 3};
    const gp_safetensors_entry entries[] = {
        {.name = "w", .type = {GP_F32, {.rank = 1, .dims = {3}}}, .data = f},
        {.name = "b", .type = {GP_U8, {.rank = 2, .dims = {2, 2}}}, .data = f},
    };
    const gp_safetensors_pair metadata[] = {{"k", "v"}};
    const char *good = temporary_path(*state, "good");
    assert_int_equal(gp_safetensors_write(good, entries, 2, metadata, 1), GP_OK);
    size_t bytes;
    char *data = temporary_read(good, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        gp_safetensors *file;
        assert_int_equal(gp_safetensors_open(&file, temporary_write(*state, "cut", data, cut)), GP_INVALID);
    }
    static const unsigned char changes[] = {0x01, 0x10, 0x80, 0xFF};
    for (size_t at = 0; at < bytes; at++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            data[at] = (char)(data[at] ^ changes[c]);
            open_and_look(temporary_write(*state, "changed", data, bytes));
            data[at] = (char)(data[at] ^ changes[c]);
        }
    }
    free(data);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_table), WITH_FOLDER(test_strange_but_valid),    WITH_FOLDER(test_paths),
        WITH_FOLDER(test_bomb),  WITH_FOLDER(test_every_cut_and_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
