/* ResNet-18 under torchvision's names, in and out: convolutions, norms with their moving averages, shortcuts,
 * classifier.
 */
#include "exchange/foreign_files.h"

#include <sys/stat.h>

enum { TENSORS = 200, CLASSES = 3 };

typedef struct made {
    gp_safetensors_entry entries[TENSORS];
    char names[TENSORS][80];
    size_t count;
} made;

/* What a tensor's elements are, without memory for them. */
static gp_status fill(void *user, size_t offset, void *buffer, size_t bytes) {
    float *to = buffer;
    for (size_t i = 0; i < bytes / sizeof *to; i++)
        to[i] = foreign_value(user, (int64_t)(offset / sizeof *to + i));
    return GP_OK;
}

static void add(made *m, const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    size_t i = m->count++;
    assert_true(i < TENSORS);
    snprintf(m->names[i], sizeof m->names[i], "%s", name);
    m->entries[i] = (gp_safetensors_entry){.name = m->names[i],
                                           .type = {GP_F32, gp_shape_of(rank, (int64_t[]){a, b, c, d})},
                                           .fill = fill,
                                           .user = m->names[i]};
}

static void add_named(made *m, const char *scope, const char *name, int rank, int64_t a, int64_t b, int64_t k) {
    char whole[80];
    snprintf(whole, sizeof whole, "%s%s", scope, name);
    add(m, whole, rank, a, b, k, k);
}

static void add_convolution(made *m, const char *scope, const char *conv, const char *norm, int64_t out, int64_t in,
                            int64_t kernel) {
    char name[80];
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    snprintf(name, sizeof name, "%s.weight", conv);
    add_named(m, scope, name, 4, out, in, kernel);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s", norm, parts[i]);
        add_named(m, scope, name, 1, out, 0, 0);
    }
    snprintf(name, sizeof name, "%s.num_batches_tracked", norm);
    add_named(m, scope, name, 1, 1, 0, 0);
}

static void describe_resnet18(made *m) {
    m->count = 0;
    add_convolution(m, "", "conv1", "bn1", 64, 3, 7);
    for (int stage = 0; stage < 4; stage++) {
        for (int block = 0; block < 2; block++) {
            char scope[20];
            int64_t out = (int64_t)64 << stage, in = block == 0 && stage > 0 ? out / 2 : out;
            snprintf(scope, sizeof scope, "layer%d.%d.", stage + 1, block);
            add_convolution(m, scope, "conv1", "bn1", out, in, 3);
            add_convolution(m, scope, "conv2", "bn2", out, out, 3);
            if (in != out) add_convolution(m, scope, "downsample.0", "downsample.1", out, in, 1);
        }
    }
    add(m, "fc.weight", 2, CLASSES, 512, 0, 0);
    add(m, "fc.bias", 1, CLASSES, 0, 0, 0);
}

static const char *write_made(temporary *t, const made *m, const char *name) {
    const char *path = temporary_path(t, name);
    if (gp_safetensors_write(path, m->entries, m->count, NULL, 0) != GP_OK) fail_msg("%s", gp_error_message());
    return path;
}

static void test_in_and_out(void **state) {
    temporary *t = *state;
    static made m;
    char path[300], folder[300], own[300], again[400];
    describe_resnet18(&m);
    snprintf(path, sizeof path, "%s", write_made(t, &m, "resnet.safetensors"));
    gp_foreign *foreign = foreign_open(path, NULL);
    assert_string_equal(gp_foreign_format(foreign), "torchvision");
    gp_family_options family = *gp_foreign_family(foreign);
    assert_int_equal(family.family, GP_FAMILY_RESNET);
    assert_string_equal(family.resnet.name, "resnet18");
    assert_int_equal(family.resnet.classes, CLASSES);
    assert_int_equal(gp_foreign_unused_count(foreign), 0);
    gp_foreign_close(foreign);
    gp_shards *file = foreign_import(t, path, "own.safetensors", NULL);
    assert_parameter(file, "layers.0.conv.weight", "conv1.weight", 64, 3 * 49, false);
    assert_parameter(file, "layers.0.norm.moving_variance", "bn1.running_var", 64, 1, false);
    assert_parameter(file, "layers.2.branch0.conv.weight", "layer1.0.conv1.weight", 64, 64 * 9, false);
    assert_parameter(file, "layers.3.branch1.norm.bias", "layer1.1.bn2.bias", 64, 1, false);
    assert_parameter(file, "layers.4.shortcut.conv.weight", "layer2.0.downsample.0.weight", 128, 64, false);
    assert_parameter(file, "layers.4.shortcut.norm.moving_mean", "layer2.0.downsample.1.running_mean", 128, 1, false);
    assert_parameter(file, "layers.9.branch0.norm.weight", "layer4.1.bn1.weight", 512, 1, false);
    assert_parameter(file, "layers.10.weight", "fc.weight", CLASSES, 512, false);
    gp_shards_close(file);
    snprintf(folder, sizeof folder, "%s/out", t->folder);
    snprintf(own, sizeof own, "%s", temporary_path(t, "own.safetensors"));
    snprintf(again, sizeof again, "%s", temporary_path(t, "again.safetensors"));
    mkdir(folder, 0777);
    if (gp_export_huggingface(&family, own, folder, NULL) != GP_OK) fail_msg("%s", gp_error_message());
    foreign = foreign_open(folder, NULL);
    assert_int_equal(gp_foreign_write(foreign, again), GP_OK);
    gp_foreign_close(foreign);
    assert_same_files(own, again);
    snprintf(again, sizeof again, "%s/model.safetensors", folder);
    assert_int_equal(unlink(again), 0);
    assert_int_equal(rmdir(folder), 0); /* there was nothing else in it */
}

static void test_refused(void **state) {
    temporary *t = *state;
    static made m;
    describe_resnet18(&m);
    char path[300];
    gp_safetensors_entry last = m.entries[m.count - 1];
    m.count--; /* fc.bias */
    snprintf(path, sizeof path, "%s", write_made(t, &m, "resnet.safetensors"));
    assert_refused(path, NULL, "has no tensor fc.bias, which the sizes in resnet18 ask for");
    m.entries[m.count++] = last;
    m.entries[0].type.shape.dims[2] = 3; /* conv1 */
    snprintf(path, sizeof path, "%s", write_made(t, &m, "resnet.safetensors"));
    assert_refused(path, NULL, "tensor conv1.weight is f32[64,3,3,7], but the sizes in resnet18 ask for f32[64,3,7,7]");
    assert_refused(path, &(gp_foreign_options){.choose_head = true}, "only a bert has heads");
    gp_family_options family = {.family = GP_FAMILY_RESNET, .resnet = {.name = "resnet20"}};
    assert_int_equal(gp_export_huggingface(&family, path, t->folder, NULL), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "there is no resnet of the name resnet20"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, temporary_destroy)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_in_and_out), TEST(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
