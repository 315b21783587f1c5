/* One file, an index with two, a folder: the same tensors come out. An index that lies is refused with a sentence. */
#include "temporary.h"

#include "gpipe/checkpoint.h"

static const float one[4] = {1, 2, 3, 4}, two[2] = {-1, 0.5f};

static gp_type row(int64_t elements) {
    return (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){elements})};
}

static void write_one(temporary *t, const char *file, const char *name, const float *data, int64_t elements) {
    gp_safetensors_entry entry = {.name = name, .type = row(elements), .data = data};
    assert_int_equal(gp_safetensors_write(temporary_path(t, file), &entry, 1, NULL, 0), GP_OK);
}

static void write_shards(temporary *t) {
    write_one(t, "model-00001-of-00002.safetensors", "b.one", one, 4);
    write_one(t, "model-00002-of-00002.safetensors", "a.two", two, 2);
}

static const char good[] = "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {"
                           "\"b.one\": \"model-00001-of-00002.safetensors\", "
                           "\"a.two\": \"model-00002-of-00002.safetensors\"}}";

static void check(gp_shards *shards) {
    size_t index = 99;
    float read[2];
    assert_int_equal(gp_shards_count(shards), 2);
    assert_string_equal(gp_shards_name(shards, 0), "a.two");
    assert_string_equal(gp_shards_name(shards, 1), "b.one");
    assert_true(gp_shards_find(shards, "b.one", &index));
    assert_int_equal(index, 1);
    assert_false(gp_shards_find(shards, "b", NULL));
    assert_true(gp_type_equal(gp_shards_type(shards, 1), row(4)));
    assert_memory_equal(gp_shards_data(shards, 1), one, sizeof one);
    assert_int_equal(gp_shards_read(shards, 1, 2, 2, GP_F32, read), GP_OK);
    assert_memory_equal(read, one + 2, sizeof read);
    assert_int_equal(gp_shards_read(shards, 1, 3, 2, GP_F32, read), GP_INVALID);
}

static void test_an_index_joins_its_files(void **state) {
    temporary *t = *state;
    gp_shards *shards;
    const char *path;
    write_shards(t);
    const char *index = temporary_write_text(t, "model.safetensors.index.json", good);
    assert_int_equal(gp_shards_open(&shards, index), GP_OK);
    check(shards);
    assert_int_equal(gp_shards_file_count(shards), 2);
    assert_non_null(gp_shards_file(shards, 1, &path));
    assert_non_null(strstr(path, "/model-00002-of-00002.safetensors"));
    gp_shards_close(shards);
    assert_int_equal(gp_shards_open(&shards, t->folder), GP_OK); /* the folder stands for its index */
    check(shards);
    gp_shards_close(shards);
}

static void test_a_single_file_is_a_set_of_one(void **state) {
    temporary *t = *state;
    gp_safetensors_entry entries[] = {{.name = "b.one", .type = row(4), .data = one},
                                      {.name = "a.two", .type = row(2), .data = two}};
    const char *path = temporary_path(t, "model.safetensors");
    gp_shards *shards;
    assert_int_equal(gp_safetensors_write(path, entries, 2, NULL, 0), GP_OK);
    assert_int_equal(gp_shards_open(&shards, path), GP_OK);
    check(shards);
    gp_shards_close(shards);
    temporary_write_text(t, "model.safetensors.index.json", "{"); /* the file itself comes first */
    assert_int_equal(gp_shards_open(&shards, t->folder), GP_OK);
    check(shards);
    gp_shards_close(shards);
}

static void test_an_index_that_lies_is_refused(void **state) {
    temporary *t = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "does not start with '{'"},
        {"{\"weight_map\": 3}", "no \"weight_map\" object"},
        {"{\"weight_map\": {\"a.two\": 3}}", "tensor 'a.two' has no file name"},
        {"{\"weight_map\": {\"a.two\": \"../model.safetensors\"}}", "in the same folder"},
        {"{\"weight_map\": {\"a.two\": \"/etc/passwd\"}}", "in the same folder"},
        {"{\"weight_map\": {\"a.two\": \"model\\n.safetensors\"}}", "control characters"},
        {"{\"weight_map\": {\"a\\u0007\": \"model-00001-of-00002.safetensors\"}}", "control characters"},
        {"{\"weight_map\": {\"a.two\": \"model-00001-of-00002.safetensors\"}}", "'a.two' is not in model-00001"},
        {"{\"weight_map\": {\"a.two\": \"model-00003-of-00002.safetensors\"}}", "could not be opened"},
        {"{\"weight_map\": {\"a\": \"m.safetensors\", \"a\": \"m.safetensors\"}}", "not valid JSON"},
        {"{\"weight_map\": {\"a\": [[[[1]]]]}}", "nested deeper"},
    };
    write_shards(t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_shards *shards;
        const char *path = temporary_write_text(t, "model.safetensors.index.json", cases[i].text);
        assert_int_equal(gp_shards_open(&shards, path), GP_INVALID);
        assert_null(shards);
        assert_message_has(gp_error_message(), cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_index_joins_its_files, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(test_a_single_file_is_a_set_of_one, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(test_an_index_that_lies_is_refused, temporary_create, temporary_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
