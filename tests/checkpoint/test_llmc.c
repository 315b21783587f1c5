/* llm.c's checkpoints: where each tensor lies, both versions, and headers that lie. */
#include "checkpoint/llmc_file.h"

#include "gpipe/checkpoint.h"

static void assert_at(const gp_shards *shards, const char *name, const char *type, float first) {
    size_t index = 0;
    char text[64];
    float value = -1;
    if (!gp_shards_find(shards, name, &index)) fail_msg("%s is missing", name);
    assert_string_equal(gp_type_format(gp_shards_type(shards, index), text, sizeof text), type);
    assert_int_equal(gp_shards_read(shards, index, 0, 1, GP_F32, &value), GP_OK);
    if (value != first) fail_msg("%s begins with %g instead of %g", name, value, first);
}

static void test_every_tensor_has_its_place(void **state) {
    gp_shards *shards = NULL;
    assert_int_equal(gp_shards_open(&shards, llmc_write(*state, "model.bin", &llmc_good)), GP_OK);
    assert_string_equal(gp_shards_kind(shards), "llm.c");
    assert_int_equal(gp_shards_count(shards), 4 + 2 * 12);
    assert_int_equal(gp_shards_file_count(shards), 0);
    /* width 4: kinds one after the other, the two layers of each side by side */
    assert_at(shards, "wte", "f32[8,4]", 0);
    assert_at(shards, "wpe", "f32[4,4]", 32);
    assert_at(shards, "h.0.ln1w", "f32[4]", 48);
    assert_at(shards, "h.1.ln1w", "f32[4]", 52);
    assert_at(shards, "h.0.ln1b", "f32[4]", 56);
    assert_at(shards, "h.0.qkvw", "f32[12,4]", 64);
    assert_at(shards, "h.1.qkvw", "f32[12,4]", 112);
    assert_at(shards, "h.0.qkvb", "f32[12]", 160);
    assert_at(shards, "h.0.attprojw", "f32[4,4]", 184);
    assert_at(shards, "h.1.attprojb", "f32[4]", 220);
    assert_at(shards, "h.0.ln2w", "f32[4]", 224);
    assert_at(shards, "h.1.ln2b", "f32[4]", 236);
    assert_at(shards, "h.0.fcw", "f32[16,4]", 240);
    assert_at(shards, "h.1.fcb", "f32[16]", 384);
    assert_at(shards, "h.0.fcprojw", "f32[4,16]", 400);
    assert_at(shards, "h.1.fcprojb", "f32[4]", 532);
    assert_at(shards, "lnfw", "f32[4]", 536);
    assert_at(shards, "lnfb", "f32[4]", 540);
    assert_int_equal(llmc_parameters(&llmc_good), 544);
    gp_shards_close(shards);
}

static void test_bf16(void **state) {
    llmc_file f = llmc_good;
    gp_shards *shards = NULL;
    f.version = 5;
    assert_int_equal(gp_shards_open(&shards, llmc_write(*state, "model.bin", &f)), GP_OK);
    assert_at(shards, "wpe", "bf16[4,4]", 32);
    assert_at(shards, "h.1.qkvw", "bf16[12,4]", 112);
    gp_shards_close(shards);
}

static void test_lies(void **state) {
    static const struct {
        llmc_file file;
        const char *part;
    } cases[] = {
        {{20240326, 1, 4, 5, 2, 2, 4, 8, 0}, "its version is 1: 3 (f32) and 5 (bf16) are accepted"},
        {{20240326, 3, 0, 5, 2, 2, 4, 8, 0}, "0 for the longest sequence"},
        {{20240326, 3, 4, 5, 2, 3, 4, 8, 0}, "3 heads do not divide its width of 4"},
        {{20240326, 3, 4, 9, 2, 2, 4, 8, 0}, "padded vocabulary of 8 is smaller than the vocabulary of 9"},
        {{20240326, 3, 4, 5, 2, 2, 4, 8, 4}, "it has 3196 bytes, but its header asks for 3200"},
        {{20240326, 3, 4, 5, 2, 2, 4, 8, -1}, "it has 3201 bytes, but its header asks for 3200"},
        {{20240326, 3, 4, 5, 2, 2, 4, 8, 2500}, "fewer than the 1024 of a header"},
        {{1, 3, 4, 5, 2, 2, 4, 8, 0}, "not a safetensors file"},
    };
    gp_shards *shards;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_shards_open(&shards, llmc_write(*state, "model.bin", &cases[i].file)), GP_INVALID);
        assert_null(shards);
        if (!strstr(gp_error_message(), cases[i].part))
            fail_msg("\"%s\" is not in: %s", cases[i].part, gp_error_message());
    }
    /* Sizes that no file has: the bytes asked for are counted, not allocated. */
    int32_t header[256] = {20240326, 3, 1 << 24, 1 << 28, 10000, 1, 1 << 20, 1 << 28};
    const char *path = temporary_path(*state, "huge.bin");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(header, sizeof header, 1, file);
    fclose(file);
    assert_int_equal(gp_shards_open(&shards, path), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "it has 1024 bytes, but its header asks for 52"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_tensor_has_its_place, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(test_bf16, temporary_create, temporary_destroy),
        cmocka_unit_test_setup_teardown(test_lies, temporary_create, temporary_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
