/* GPT-2 of transformers and of llm.c, in and out: every element at its place, with and without the prefix, in every
 * dtype, in shards; the way out and in again is the identity; what does not fit is refused by name. */
#include "exchange/foreign_files.h"

#include <sys/stat.h>

#include "checkpoint/llmc_file.h"

#define BLOCK(i)                                                                                                       \
    {"h." #i ".ln_1.weight", 1, {4}}, {"h." #i ".ln_1.bias", 1, {4}}, {"h." #i ".attn.c_attn.weight", 2, {4, 12}},     \
        {"h." #i ".attn.c_attn.bias", 1, {12}}, {"h." #i ".attn.c_proj.weight", 2, {4, 4}},                            \
        {"h." #i ".attn.c_proj.bias", 1, {4}}, {"h." #i ".ln_2.weight", 1, {4}}, {"h." #i ".ln_2.bias", 1, {4}},       \
        {"h." #i ".mlp.c_fc.weight", 2, {4, 16}}, {"h." #i ".mlp.c_fc.bias", 1, {16}},                                 \
        {"h." #i ".mlp.c_proj.weight", 2, {16, 4}}, {                                                                  \
        "h." #i ".mlp.c_proj.bias", 1, {                                                                               \
            4                                                                                                          \
        }                                                                                                              \
    }

static const foreign_tensor tensors[] = {
    {"wte.weight", 2, {5, 4}},      {"wpe.weight", 2, {3, 4}},          BLOCK(0), BLOCK(1), {"ln_f.weight", 1, {4}},
    {"ln_f.bias", 1, {4}},          {"h.0.attn.bias", 4, {1, 1, 3, 3}}, /* the mask, which is no parameter */
    {"=lm_head.weight", 2, {5, 4}},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static const char config[] = "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_layer\": 2, "
                             "\"n_head\": 2, \"n_embd\": 4, \"n_positions\": 3, \"vocab_size\": 5, \"n_inner\": null}";

static void write_folder(temporary *t, const char *prefix, gp_dtype dtype) {
    foreign_write_config(t, config);
    foreign_write(temporary_path(t, "model.safetensors"), tensors, TENSORS, prefix, dtype);
}

static void check_weights(const gp_shards *file) {
    assert_int_equal(gp_shards_count(file), 2 + 2 * 12 + 2);
    assert_parameter(file, "layers.0.token.weight", "wte.weight", 5, 4, false);
    assert_parameter(file, "layers.0.position.weight", "wpe.weight", 3, 4, false);
    assert_parameter(file, "layers.1.norm1.weight", "h.0.ln_1.weight", 4, 1, false);
    assert_parameter(file, "layers.1.attention.qkv.weight", "h.0.attn.c_attn.weight", 12, 4, true);
    assert_parameter(file, "layers.1.attention.qkv.bias", "h.0.attn.c_attn.bias", 12, 1, false);
    assert_parameter(file, "layers.2.attention.projection.weight", "h.1.attn.c_proj.weight", 4, 4, true);
    assert_parameter(file, "layers.2.norm2.bias", "h.1.ln_2.bias", 4, 1, false);
    assert_parameter(file, "layers.2.feed_forward.up.weight", "h.1.mlp.c_fc.weight", 16, 4, true);
    assert_parameter(file, "layers.2.feed_forward.down.weight", "h.1.mlp.c_proj.weight", 4, 16, true);
    assert_parameter(file, "layers.2.feed_forward.down.bias", "h.1.mlp.c_proj.bias", 4, 1, false);
    assert_parameter(file, "layers.3.weight", "ln_f.weight", 4, 1, false);
    assert_parameter(file, "layers.3.bias", "ln_f.bias", 4, 1, false);
}

static void test_names_and_dtypes(void **state) {
    temporary *t = *state;
    static const gp_dtype dtypes[] = {GP_F32, GP_BF16, GP_F16, GP_F64};
    for (int prefixed = 0; prefixed < 2; prefixed++) {
        for (size_t d = 0; d < 4; d++) {
            write_folder(t, prefixed ? "transformer." : "", dtypes[d]);
            gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
            check_weights(file);
            gp_shards_close(file);
        }
    }
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    assert_string_equal(gp_foreign_format(foreign), "Hugging Face");
    const gp_family_options *family = gp_foreign_family(foreign);
    assert_int_equal(family->family, GP_FAMILY_GPT2);
    assert_int_equal(family->gpt2.context, 3);
    assert_true(family->gpt2.dropout == 0.1);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    assert_int_equal(gp_model_parameter_count(gp_foreign_model(foreign)), 5 * 4 + 3 * 4 + 2 * 244 + 8);
    gp_foreign_close(foreign);
}

static void test_shards(void **state) {
    temporary *t = *state;
    foreign_write_config(t, config);
    size_t half = TENSORS / 2;
    foreign_write(temporary_path(t, "a.safetensors"), tensors, half, "", GP_F32);
    foreign_write(temporary_path(t, "b.safetensors"), tensors + half, TENSORS - half, "", GP_F32);
    FILE *index = fopen(temporary_path(t, "model.safetensors.index.json"), "w");
    assert_non_null(index);
    fputs("{\"weight_map\": {", index);
    for (size_t i = 0; i < TENSORS; i++)
        fprintf(index, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "", tensors[i].name + (*tensors[i].name == '='),
                i < half ? "a" : "b");
    fputs("}}", index);
    fclose(index);
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    check_weights(file);
    gp_shards_close(file);
}

static void test_an_untied_head(void **state) {
    temporary *t = *state;
    foreign_write_config(t, "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 4, \"n_ctx\": 3, "
                            "\"vocab_size\": 5, \"tie_word_embeddings\": false}");
    foreign_write(temporary_path(t, "model.safetensors"), tensors, TENSORS, "transformer.", GP_F32);
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    assert_parameter(file, "layers.4.weight", "lm_head.weight", 5, 4, false);
    gp_shards_close(file);
}

/* ---- out ---- */

static void out_and_in(temporary *t, const gp_family_options *family, const char *own) {
    char folder[300], again[340];
    snprintf(folder, sizeof folder, "%s/out", t->folder);
    snprintf(again, sizeof again, "%s/again", folder);
    mkdir(folder, 0777);
    if (gp_export_huggingface(family, own, folder, NULL) != GP_OK) fail_msg("%s", gp_error_message());
    gp_foreign *foreign = foreign_open(folder, NULL);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    assert_int_equal(gp_foreign_write(foreign, again), GP_OK);
    gp_foreign_close(foreign);
    assert_same_files(own, again);
    static const char *const left[] = {"model.safetensors", "config.json", "again"};
    for (int i = 0; i < 3; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void test_out_and_in_again(void **state) {
    temporary *t = *state;
    write_folder(t, "transformer.", GP_F32);
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    gp_family_options family = *gp_foreign_family(foreign);
    char own[300];
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    assert_int_equal(gp_foreign_write(foreign, own), GP_OK);
    gp_foreign_close(foreign);
    out_and_in(t, &family, own);
}

/* What was exported is byte for byte what transformers had: names, transposes and all. */
static void test_exported_tensors(void **state) {
    temporary *t = *state;
    write_folder(t, "transformer.", GP_F32);
    char own[300];
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    assert_int_equal(gp_foreign_write(foreign, own), GP_OK);
    unlink(temporary_path(t, "model.safetensors"));
    assert_int_equal(gp_export_huggingface(gp_foreign_family(foreign), own, t->folder,
                                           &(gp_export_options){.dtype = GP_BF16, .dropout = 0.25}),
                     GP_OK);
    gp_foreign_close(foreign);
    gp_shards *file = NULL;
    assert_int_equal(gp_shards_open(&file, temporary_path(t, "model.safetensors")), GP_OK);
    assert_int_equal(gp_shards_count(file), TENSORS - 2);
    for (size_t i = 0; i < TENSORS - 2; i++) {
        char name[80];
        snprintf(name, sizeof name, "transformer.%s", tensors[i].name);
        size_t tensor;
        assert_true(gp_shards_find(file, name, &tensor));
        assert_int_equal(gp_shards_type(file, tensor).dtype, GP_BF16);
        assert_true(gp_shape_equal(gp_shards_type(file, tensor).shape, gp_shape_of(tensors[i].rank, tensors[i].dims)));
        int64_t elements = gp_shape_elements(gp_shards_type(file, tensor).shape);
        for (int64_t e = 0; e < elements; e++)
            assert_element(file, name, e, tensors[i].name, e);
    }
    assert_string_equal(gp_safetensors_metadata_find(gp_shards_file(file, 0, NULL), "format"), "pt");
    gp_shards_close(file);
    foreign = foreign_open(t->folder, NULL);
    assert_true(gp_foreign_family(foreign)->gpt2.dropout == 0.25);
    gp_foreign_close(foreign);
}

/* A tensor larger than the pieces in which files are written. */
static void test_large_transposes(void **state) {
    temporary *t = *state;
    enum { WIDTH = 288 }; /* 288 * 1152 elements take more than a megabyte */
    foreign_tensor large[TENSORS];
    memcpy(large, tensors, sizeof large);
    for (size_t i = 0; i < TENSORS; i++)
        for (int d = 0; d < large[i].rank; d++)
            if (large[i].dims[d] % 4 == 0) large[i].dims[d] *= WIDTH / 4;
    foreign_write_config(t, "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 288, "
                            "\"n_positions\": 3, \"vocab_size\": 5}");
    foreign_write(temporary_path(t, "model.safetensors"), large, TENSORS, "", GP_F16);
    gp_shards *file = foreign_import(t, t->folder, "own.safetensors", NULL);
    assert_parameter(file, "layers.2.feed_forward.up.weight", "h.1.mlp.c_fc.weight", 4 * WIDTH, WIDTH, true);
    assert_parameter(file, "layers.2.feed_forward.down.weight", "h.1.mlp.c_proj.weight", WIDTH, 4 * WIDTH, true);
    gp_shards_close(file);
}

/* ---- what is refused ---- */

static void test_tensors_that_do_not_fit(void **state) {
    temporary *t = *state;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", t->folder);
    foreign_write_config(t, config);
    assert_refused(folder, NULL, "has neither model.safetensors nor model.safetensors.index.json");
    foreign_write(temporary_path(t, "model.safetensors"), tensors, TENSORS - 4, "transformer.", GP_F32);
    assert_refused(folder, NULL, "has no tensor transformer.ln_f.weight");
    foreign_write(temporary_path(t, "model.safetensors"), tensors + 1, TENSORS - 1, "", GP_F32);
    assert_refused(folder, NULL, "has neither a tensor transformer.wte.weight nor wte.weight: it is no gpt2");
    foreign_tensor wrong[TENSORS];
    memcpy(wrong, tensors, sizeof wrong);
    wrong[4].dims[0] = 12; /* as nn.Linear has it */
    wrong[4].dims[1] = 4;
    foreign_write(temporary_path(t, "model.safetensors"), wrong, TENSORS, "", GP_F32);
    assert_refused(folder, NULL, "tensor h.0.attn.c_attn.weight is f32[12,4], but the sizes in");
    assert_refused(folder, NULL, "config.json ask for f32[4,12]");
    foreign_write(temporary_path(t, "model.safetensors"), tensors, TENSORS, "", GP_I32);
    assert_refused(folder, NULL, "wte.weight is i32[5,4]: f32, bf16, f16 and f64 are accepted");
    assert_refused(temporary_path(t, "nothing"), NULL, "there is no such file or folder");
    unlink(temporary_path(t, "model.safetensors"));
    fclose(fopen(temporary_path(t, "pytorch_model.bin"), "w"));
    assert_refused(folder, NULL, "has pytorch_model.bin, which gpipe does not read");
    unlink(temporary_path(t, "config.json"));
    assert_refused(folder, NULL, "there is no config.json");
}

static void test_configurations_that_do_not_fit(void **state) {
    static const char *const cases[][2] = {
        {"{\"model_type\": \"gpt2\"", "it is not valid JSON: line 1"},
        {"[1]", "it is not a JSON object"},
        {"{}", "\"model_type\" is missing: gpt2 and bert are accepted"},
        {"{\"model_type\": \"llama\"}", "\"model_type\" is \"llama\": gpt2 and bert are accepted"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 0}", "\"n_layer\" is 0: an integer from 1 to"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": \"two\"}", "\"n_layer\" is \"two\""},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 2.5}", "\"n_layer\" is 2.5"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 1e30}", "\"n_embd\" is 1e30"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 9223372036854775807}", "\"n_embd\" is 9223372036854775807"},
        {"{\"model_type\": \"gpt2\", \"n_head\": 5}", "5 heads do not divide a width of 768"},
        {"{\"model_type\": \"gpt2\", \"n_inner\": 100}",
         "\"n_inner\" is 100: gpipe's GPT-2 has 4 * n_embd, which is 3072"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}", "\"activation_function\" is \"relu\""},
        {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 1e-6}", "\"layer_norm_epsilon\" is 1e-06"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", "\"scale_attn_weights\" is false"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}", "has only false"},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", "\"tie_word_embeddings\" is 1: true or false"},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 2}", "\"attn_pdrop\" is 2"},
        {"{\"model_type\": \"gpt2\", \"model_type\": \"bert\"}", "it is not valid JSON"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 2147483648}", "\"vocab_size\" is 2147483648"},
    };
    temporary *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_write_config(t, cases[i][0]);
        assert_refused(t->folder, NULL, cases[i][1]);
        assert_non_null(strstr(gp_error_message(), "config.json"));
    }
    foreign_write_config(t, config);
    assert_refused(t->folder, &(gp_foreign_options){.choose_head = true}, "only a bert has heads to choose from");
}

/* Sizes that the file does not have: found before anything of that size is allocated. */
static void test_sizes_that_lie(void **state) {
    temporary *t = *state;
    write_folder(t, "", GP_F32);
    foreign_write_config(t, "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, \"n_embd\": 4, "
                            "\"n_positions\": 3, \"vocab_size\": 5}");
    assert_refused(t->folder, NULL, "has no tensor h.2.ln_1.weight");
    foreign_write_config(t, "{\"model_type\": \"gpt2\", \"n_layer\": 100000, \"n_head\": 2, \"n_embd\": 4, "
                            "\"n_positions\": 3, \"vocab_size\": 5}");
    assert_refused(t->folder, NULL, "tells of 100000 layers, but ");
    foreign_write_config(t, "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 2147483646, "
                            "\"n_positions\": 3, \"vocab_size\": 2147483647}");
    gp_foreign *foreign = NULL;
    assert_int_equal(gp_foreign_open(&foreign, t->folder, NULL), GP_INVALID);
}

/* ---- llm.c ---- */

static void test_llmc(void **state) {
    temporary *t = *state;
    llmc_file f = llmc_good;
    for (int version = 3; version <= 5; version += 2) {
        f.version = version;
        char path[300];
        snprintf(path, sizeof path, "%s", llmc_write(t, "model.bin", &f));
        gp_foreign *foreign = foreign_open(path, NULL);
        assert_string_equal(gp_foreign_format(foreign), "llm.c");
        assert_int_equal(gp_foreign_family(foreign)->gpt2.vocabulary, 5);
        gp_foreign_close(foreign);
        gp_shards *file = foreign_import(t, path, "own.safetensors", NULL);
        size_t tensor = 0;
        float values[20];
        assert_true(gp_shards_find(file, "layers.0.token.weight", &tensor));
        assert_int_equal(gp_shape_elements(gp_shards_type(file, tensor).shape), 5 * 4); /* without the padding */
        assert_int_equal(gp_shards_read(file, tensor, 0, 20, GP_F32, values), GP_OK);
        assert_true(values[19] == 19);
        assert_true(gp_shards_find(file, "layers.2.attention.qkv.weight", &tensor));
        assert_int_equal(gp_shards_read(file, tensor, 0, 2, GP_F32, values), GP_OK);
        assert_true(values[0] == 112 && values[1] == 113); /* not transposed */
        assert_true(gp_shards_find(file, "layers.1.feed_forward.up.weight", &tensor));
        assert_int_equal(gp_shards_read(file, tensor, 0, 2, GP_F32, values), GP_OK);
        assert_true(values[1] == 241);
        gp_shards_close(file);
    }
    assert_refused(temporary_path(t, "model.bin"), &(gp_foreign_options){.choose_head = true}, "only a bert has heads");
}

/* ---- export ---- */

static void test_exports_that_do_not_fit(void **state) {
    temporary *t = *state;
    write_folder(t, "", GP_F32);
    char own[300];
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    gp_family_options family = *gp_foreign_family(foreign);
    assert_int_equal(gp_foreign_write(foreign, own), GP_OK);
    gp_foreign_close(foreign);
    gp_export_options integers = {.dtype = GP_I32};
    assert_int_equal(gp_export_huggingface(&family, own, t->folder, &integers), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "f32, bf16 and f16 are accepted"));
    family.gpt2.layers = 3;
    assert_int_equal(gp_export_huggingface(&family, own, t->folder, NULL), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "tensor layers.3.norm1.weight"));
    family.gpt2.layers = 2;
    family.gpt2.vocabulary = 6;
    assert_int_equal(gp_export_huggingface(&family, own, t->folder, NULL), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "layers.0.token.weight is f32[5,4], but the model needs f32[6,4]"));
    family.gpt2.no_bias = true;
    assert_int_equal(gp_export_huggingface(&family, own, t->folder, NULL), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "no biases"));
}

static int count_files(const char *folder, const char *pattern) {
    char command[600];
    int count = -1;
    snprintf(command, sizeof command, "ls %s/%s 2>/dev/null | wc -l", folder, pattern);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%d", &count), 1);
    pclose(list);
    return count;
}

static void assert_comes_back(const char *folder, const char *own) {
    char again[400];
    snprintf(again, sizeof again, "%s/again", folder);
    gp_foreign *foreign = foreign_open(folder, NULL);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    assert_int_equal(gp_foreign_write(foreign, again), GP_OK);
    gp_foreign_close(foreign);
    assert_same_files(own, again);
    unlink(again);
}

/* In shards of any size the same weights come back; and what another division left is gone. */
static void test_export_in_shards(void **state) {
    temporary *t = *state;
    static const struct {
        uint64_t bytes;
        bool sharded; /* else one file and no index */
    } cases[] = {{1, true},  {600, true},  {1500, true},        {300, true},
                 {0, false}, {1000, true}, {UINT64_MAX, false}, {1000, true}};
    char own[300], folder[300], command[400];
    write_folder(t, "", GP_F32);
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    snprintf(folder, sizeof folder, "%s", temporary_path(t, "out"));
    assert_int_equal(mkdir(folder, 0777), 0);
    gp_foreign *foreign = foreign_open(t->folder, NULL);
    gp_family_options family = *gp_foreign_family(foreign);
    assert_int_equal(gp_foreign_write(foreign, own), GP_OK);
    gp_foreign_close(foreign);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_export_options options = {.shard_bytes = cases[i].bytes};
        if (gp_export_huggingface(&family, own, folder, &options) != GP_OK) fail_msg("%s", gp_error_message());
        int shards = count_files(folder, "model-*-of-*.safetensors");
        assert_int_equal(count_files(folder, "model.safetensors"), !cases[i].sharded);
        assert_int_equal(count_files(folder, "model.safetensors.index.json"), cases[i].sharded);
        if (cases[i].bytes == 1) assert_int_equal(shards, 28); /* a tensor in each */
        assert_true(cases[i].sharded ? shards >= 2 : shards == 0);
        assert_comes_back(folder, own);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, temporary_destroy)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_names_and_dtypes),        TEST(test_shards),
        TEST(test_an_untied_head),          TEST(test_out_and_in_again),
        TEST(test_exported_tensors),        TEST(test_large_transposes),
        TEST(test_tensors_that_do_not_fit), TEST(test_configurations_that_do_not_fit),
        TEST(test_sizes_that_lie),          TEST(test_llmc),
        TEST(test_exports_that_do_not_fit), TEST(test_export_in_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
