/* Models of images: parameter counts as published, without a byte of them allocated. */
#include "layers/build_models.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amoebanet),
        cmocka_unit_test(test_imagenet),
        cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
