/* Models of images: parameter counts as published, without a byte of them allocated. */
#include <math.h>

#include "layers/build_models.h"

#define INTEGERS(name, value)                                                                                          \
    { .key = name, .type = GP_OPTION_INTEGERS, .text = value }

static gp_model *named(const char *name, const gp_option *options, size_t count) {
    gp_model *model = NULL;
    assert_ok(gp_model_create_named(&model, name, options, count, NULL));
    return model;
}

static void check_count(const char *name, const gp_option *options, size_t count, int64_t parameters) {
    gp_model *model = named(name, options, count);
    if (gp_model_parameter_count(model) != parameters)
        fail_msg("%s has %lld parameters instead of %lld", name, (long long)gp_model_parameter_count(model),
                 (long long)parameters);
    gp_model_destroy(model);
}

/* The torchgpipe form: its own figures (benchmarks/amoebanetd-memory and -speed). The TensorFlow form: the GPipe paper
 * and the published code. */
static void test_amoebanet(void **state) {
    (void)state;
    static const int64_t torch[][3] = {{18, 208, 81505540},  {18, 256, 122470120},  {18, 416, 319024120},
                                       {18, 544, 542734840}, {36, 544, 1055832376}, {72, 512, 1844858344}};
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        check_count(
            "amoebanet_d",
            OPTIONS(INTEGER("layers", torch[i][0]), INTEGER("filters", torch[i][1]), TEXT("stem", "torchgpipe")),
            torch[i][2]);
    check_count("amoebanet_d", OPTIONS(INTEGER("filters", 208)), 81137697);
    check_count("amoebanet_b", OPTIONS(INTEGER("filters", 512)), 557298440);
}

/* ResNets, GoogLeNet and VGG-16: torchvision's table of weights; SENet-154 and SE-ResNet-50: the counts of the
 * Caffe models as pretrainedmodels and timm give them. */
static void test_imagenet(void **state) {
    (void)state;
    check_count("resnet18", NO_OPTIONS, 11689512);
    check_count("resnet34", NO_OPTIONS, 21797672);
    check_count("resnet50", NO_OPTIONS, 25557032);
    check_count("resnet101", NO_OPTIONS, 44549160);
    check_count("resnet152", NO_OPTIONS, 60192808);
    check_count("senet154", NO_OPTIONS, 115088984);
    check_count("se_resnet50", NO_OPTIONS, 28088024);
    check_count("googlenet", NO_OPTIONS, 6624904);
    check_count("vgg16", NO_OPTIONS, 138357544);
}

static void test_small(void **state) {
    (void)state;
    /* 0.27, 0.46, 0.66, 0.85 and 1.7 million in He et al., table 6. */
    static const int64_t cifar[][2] = {{20, 269722}, {32, 464154}, {44, 658586}, {56, 853018}, {110, 1727962}};
    for (size_t i = 0; i < sizeof cifar / sizeof *cifar; i++)
        check_count("resnet_cifar", OPTIONS(INTEGER("depth", cifar[i][0])), cifar[i][1]);
    check_count("mlp", NO_OPTIONS, 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
    check_count("mlp", OPTIONS(INTEGER("layers", 0), INTEGER("image", 8)), 8 * 8 * 3 * 10 + 10);
}

/* torchgpipe's table of U-Nets (B, C): 362.2 million to 15.82 thousand million, of convolutions alone, 1 class. */
static void test_unet(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{6, 72, 362157516},
                                       {11, 128, 2213834176},
                                       {24, 128, 4993859008},
                                       {24, 160, 7802903600},
                                       {48, 160, 15822206000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gp_model *model = named(
            "unet", OPTIONS(INTEGER("depth", sizes[i][0]), INTEGER("channels", sizes[i][1]), INTEGER("classes", 1)));
        int64_t weights = 0;
        for (size_t p = 0; p < gp_model_parameters(model); p++) {
            gp_shape shape = gp_model_parameter(model, p).shape;
            weights += shape.rank == 4 ? gp_shape_elements(shape) : 0;
        }
        assert_int_equal(weights, sizes[i][2]);
        assert_type(gp_model_output_type(model), "f32[192,192,1]");
        gp_model_destroy(model);
    }
    /* An odd row and column are lost on the way down and come back as zeros. */
    gp_model *model = named("unet", OPTIONS(INTEGERS("image", "23, 37, 1"), INTEGER("levels", 3), INTEGER("depth", 1)));
    assert_type(gp_model_output_type(model), "f32[23,37,2]");
    assert_type(gp_model_target_type(model), "i32[23,37]");
    gp_model_destroy(model);
}

static size_t ports_across(const gp_model *model, int32_t cut) {
    const gp_port *ports = NULL;
    size_t count = gp_model_ports(model, &ports), across = 0;
    for (size_t i = 0; i < count; i++)
        across += ports[i].source < cut && ports[i].destination >= cut;
    return across;
}

/* Between two cells flow the outputs of the last two layers, and nothing else. */
static void test_cells(void **state) {
    (void)state;
    static const char kinds[] = "crrnnrnnrnnC"; /* convolution, reduction and normal cells, classifier */
    gp_model *model = named("amoebanet_d", OPTIONS(INTEGER("layers", 6), INTEGER("filters", 32), INTEGER("image", 32),
                                                   INTEGER("classes", 10)));
    size_t layers = strlen(kinds);
    assert_int_equal(gp_model_layer_count(model), layers);
    for (size_t i = 0; i < layers; i++) {
        const char *kind = gp_model_layer_kind(model, i);
        assert_string_equal(kind, kinds[i] == 'c'   ? "convolution"
                                  : kinds[i] == 'r' ? "reduction_cell"
                                  : kinds[i] == 'n' ? "normal_cell"
                                                    : "classifier");
    }
    for (int32_t cut = 1; cut < (int32_t)layers; cut++)
        assert_int_equal(ports_across(model, cut), cut == 1 || cut + 1 == (int32_t)layers ? 1 : 2);
    gp_model_destroy(model);
}

/* The auxiliary classifier stands behind two thirds of the cells; its logits pass over the rest. */
static void test_auxiliary(void **state) {
    (void)state;
    gp_model *plain = named("amoebanet_d", OPTIONS(INTEGER("layers", 6), INTEGER("filters", 32)));
    gp_model *model =
        named("amoebanet_d", OPTIONS(INTEGER("layers", 6), INTEGER("filters", 32), NUMBER("auxiliary", 0.4)));
    assert_string_equal(gp_model_layer_kind(model, 8), "auxiliary_classifier");
    assert_int_equal(gp_model_layer_count(model), gp_model_layer_count(plain) + 1);
    /* 5x5 of stride 3 makes 4x4 of 14x14 pixels; the cell has 4 * 64 channels. */
    int64_t head = 256 * 51 + 2 * 51 + 51 * 16 * 307 + 2 * 307 + 307 * 1000 + 1000;
    assert_int_equal(gp_model_layer_parameter_count(model, 8), head);
    assert_int_equal(gp_model_parameter_count(model), gp_model_parameter_count(plain) + head);
    assert_int_equal(ports_across(model, 9), 3);
    gp_model_destroy(plain);
    gp_model_destroy(model);
}

static gp_parameter_info parameter_named(const gp_model *model, const char *name) {
    for (size_t i = 0; i < gp_model_parameters(model); i++) {
        gp_parameter_info info = gp_model_parameter(model, i);
        if (strcmp(info.name, name) == 0) return info;
    }
    fail_msg("there is no parameter %s", name);
    return (gp_parameter_info){0};
}

static void check_start(const gp_model *model, const char *name, gp_init_kind kind, double value) {
    gp_parameter_info info = parameter_named(model, name);
    if (info.init.kind != kind || fabs(info.init.value - value) > 1e-12)
        fail_msg("%s starts as kind %d with %g", name, (int)info.init.kind, info.init.value);
}

static void test_initial_values(void **state) {
    (void)state;
    gp_model *model = named("amoebanet_b", OPTIONS(INTEGER("layers", 3), INTEGER("filters", 64)));
    check_start(model, "layers.0.conv.weight", GP_INIT_TRUNCATED_NORMAL, sqrt(2.6 / (9 * 32)));
    check_start(model, "layers.1.pair1.right.middle.conv.weight", GP_INIT_TRUNCATED_NORMAL, sqrt(2.6 / (9 * 4)));
    check_start(model, "layers.1.pair2.left.depthwise1.weight", GP_INIT_TRUNCATED_NORMAL, sqrt(2.6 / 25));
    check_start(model, "layers.1.pair2.left.pointwise2.norm.weight", GP_INIT_CONSTANT, 1);
    check_start(model, "layers.8.weight", GP_INIT_TRUNCATED_NORMAL, sqrt(2.6 / 1000));
    gp_model_destroy(model);
    model = named("resnet50", NO_OPTIONS);
    check_start(model, "layers.0.conv.weight", GP_INIT_NORMAL, sqrt(2.0 / (49 * 64)));
    check_start(model, "layers.2.branch2.conv.weight", GP_INIT_NORMAL, sqrt(2.0 / 256));
    check_start(model, "layers.2.shortcut.norm.bias", GP_INIT_ZEROS, 0);
    check_start(model, "layers.18.weight", GP_INIT_UNIFORM, 1 / sqrt(2048));
    gp_model_destroy(model);
    model = named("vgg16", NO_OPTIONS);
    check_start(model, "layers.0.weight", GP_INIT_NORMAL, sqrt(2.0 / (9 * 64)));
    check_start(model, "layers.0.bias", GP_INIT_ZEROS, 0);
    check_start(model, "layers.19.weight", GP_INIT_NORMAL, 0.01);
    gp_model_destroy(model);
}

/* Multiplications and additions of a forward pass as published: 3.8 thousand million for ResNet-50 in He et al. (4.1 in
 * the form of torchvision), 15.5 for VGG-16, 1.5 for GoogLeNet; forward and backward are three times that, two FLOPs
 * each. */
static void test_flops(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double products;
    } models[] = {{"resnet50", 4.09e9}, {"vgg16", 15.47e9}, {"googlenet", 1.50e9}, {"senet154", 20.7e9}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        gp_model *model = named(models[i].name, NO_OPTIONS);
        double flops = 0;
        for (size_t layer = 0; layer < gp_model_layer_count(model); layer++)
            flops += gp_model_layer_flops(model, layer);
        double ratio = flops / (6 * models[i].products);
        if (!(ratio > 0.95 && ratio < 1.15)) fail_msg("%s: %g FLOPs, %g of the expected", models[i].name, flops, ratio);
        gp_model_destroy(model);
    }
}

static void test_table(void **state) {
    (void)state;
    size_t count = 0;
    const gp_model_info *kinds = gp_model_kinds(&count);
    for (size_t i = 0; i < count; i++) {
        gp_model *model = named(kinds[i].kind, OPTIONS(INTEGER("classes", 7)));
        assert_true(strlen(kinds[i].help) > 0);
        assert_int_equal(gp_model_input_type(model).shape.rank, 3);
        gp_type output = gp_model_output_type(model);
        assert_int_equal(output.shape.dims[output.shape.rank - 1], 7);
        gp_build_options options = {.last_layer = (int32_t)gp_model_layer_count(model) - 1,
                                    .batch = 1,
                                    .dtype = GP_BF16,
                                    .training = true,
                                    .gradients = true,
                                    .loss = true};
        gp_built built;
        assert_ok(gp_model_build(model, &options, &built));
        gp_built_destroy(&built);
        gp_model_destroy(model);
    }
}

static void check_refused(const char *name, const gp_option *options, size_t count, const char *message) {
    gp_model *model = NULL;
    assert_message(gp_model_create_named(&model, name, options, count, NULL), GP_INVALID, message);
    assert_null(model);
}

static void test_refused(void **state) {
    (void)state;
    check_refused("resnet51", NO_OPTIONS, "there is no model \"resnet51\"; the nearest one is \"resnet");
    check_refused("resnet50", OPTIONS(INTEGER("depth", 3)), "model resnet50 has no option \"depth\"");
    check_refused("resnet50", OPTIONS(INTEGER("classes", 0)), "option \"classes\" of model resnet50 is 0");
    check_refused("resnet50", OPTIONS(TEXT("classes", "many")), "is a text, but an integer is accepted");
    check_refused("resnet50", OPTIONS(INTEGERS("image", "0, 1")), "1 to 3 integers of 1 or more");
    check_refused("resnet_cifar", OPTIONS(INTEGER("depth", 19)), "depth is 19, but 6n + 2");
    check_refused("amoebanet_d", OPTIONS(INTEGER("filters", 20)), "multiples of 8");
    check_refused("amoebanet_d", OPTIONS(TEXT("stem", "torch")), "\"torchgpipe\"");
    check_refused("amoebanet_d", OPTIONS(INTEGER("layers", 1), NUMBER("auxiliary", 1)), "2 layers or more");
    check_refused("amoebanet_d", OPTIONS(NUMBER("batch_norm_decay", 1)), "batch_norm_decay");
    check_refused("vgg16", OPTIONS(INTEGER("image", 16)), "model vgg16: layer");
    check_refused("unet", OPTIONS(INTEGER("image", 16)), "5 levels halve an image of 16x16 to nothing");
    check_refused("unet", OPTIONS(INTEGER("channels", 2147483647)), "are too many");
    check_refused("resnet_cifar", OPTIONS(INTEGER("width", 2147483647)), "resnet_cifar");
    check_refused("mlp", OPTIONS(INTEGERS("image", "2147483647, 2147483647, 2147483647")), "mlp");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amoebanet),      cmocka_unit_test(test_imagenet), cmocka_unit_test(test_small),
        cmocka_unit_test(test_unet),           cmocka_unit_test(test_cells),    cmocka_unit_test(test_auxiliary),
        cmocka_unit_test(test_initial_values), cmocka_unit_test(test_flops),    cmocka_unit_test(test_table),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
