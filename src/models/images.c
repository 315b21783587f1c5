/* The table of image models: names, help and options; what `gpipe help models` and error messages are made of. To add a
 * model: its options here, a row in MODELS, its family in blocks.h. */
#include <inttypes.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"
#include "models/blocks.h"

#define INTEGER(key, standard, help)                                                                                   \
    { key, GP_OPTION_INTEGER, standard, help }
#define NUMBER(key, standard, help)                                                                                    \
    { key, GP_OPTION_NUMBER, standard, help }
#define TEXT(key, standard, help)                                                                                      \
    { key, GP_OPTION_TEXT, standard, help }
/* What every model has. */
#define TASK(classes, image)                                                                                           \
    {"classes", GP_OPTION_INTEGER, classes, "number of classes"}, {                                                    \
        "image", GP_OPTION_INTEGERS, image,                                                                            \
            "size of the images; or height and width: [224, 192]; or with channels: [28, 28, 1]"                       \
    }

static const gp_option_info amoebanet_options[] = {
    TASK("1000", "224"),
    INTEGER("layers", "18", "L: normal cells; reductions come before cells L/3 and 2L/3"),
    INTEGER("filters", "256", "D: channels inside a normal cell before the first reduction, a multiple of 8"),
    TEXT("stem", "tensorflow",
         "tensorflow: 3x3 of stride 2 to 32 channels and two reduction cells; torchgpipe: its form, twice as wide and "
         "without the last rectifier; cifar: 3x3 to 32 channels, the image keeps its size"),
    NUMBER("auxiliary", "0",
           "weight of an auxiliary classifier's loss in training, behind cell 2L/3 - 1; 0: there is none; published: "
           "0.4"),
    NUMBER("dropout", "0.5", "before the classifier"),
    NUMBER("drop_path", "0", "probability of dropping an operation's result at the end of training; it grows from 0"),
    NUMBER("batch_norm_decay", "",
           "of the moving averages; without it 0.9997 as published (0.9 in the other forms): short runs want less"),
};
static const gp_option_info resnet_options[] = {
    TASK("1000", "224"),
};
static const gp_option_info resnet_cifar_options[] = {
    TASK("10", "32"),
    INTEGER("depth", "20", "6n + 2 layers with weights: 20, 32, 44, 56, 110"),
    INTEGER("width", "16", "channels of the first of the three stages"),
};
static const gp_option_info senet154_options[] = {
    TASK("1000", "224"),
    NUMBER("dropout", "0.2", "before the classifier"),
};
static const gp_option_info googlenet_options[] = {
    TASK("1000", "224"),
    NUMBER("dropout", "0.2", "before the classifier"),
};
static const gp_option_info vgg_options[] = {
    TASK("1000", "224"),
    NUMBER("dropout", "0.5", "behind both hidden linear maps"),
};
static const gp_option_info unet_options[] = {
    TASK("2", "192"),
    INTEGER("depth", "5", "B: convolutions on each level"),
    INTEGER("channels", "64", "C: channels on the first level, doubled on each further one"),
    INTEGER("levels", "5", "times that the image is halved"),
};
static const gp_option_info mlp_options[] = {
    TASK("10", "28, 28, 1"),
    INTEGER("layers", "2", "hidden layers"),
    INTEGER("width", "256", "features of a hidden layer"),
    NUMBER("dropout", "0", "behind each hidden layer"),
};

/* name, options, family, help */
#define MODELS(X)                                                                                                      \
    X(amoebanet_d, amoebanet_options, gp_zoo_amoebanet, "AmoebaNet-D, the network of the GPipe paper")                 \
    X(amoebanet_b, amoebanet_options, gp_zoo_amoebanet, "AmoebaNet-B")                                                 \
    X(resnet18, resnet_options, gp_zoo_resnet, "ResNet of 18 layers")                                                  \
    X(resnet34, resnet_options, gp_zoo_resnet, "ResNet of 34 layers")                                                  \
    X(resnet50, resnet_options, gp_zoo_resnet, "ResNet of 50 layers")                                                  \
    X(resnet101, resnet_options, gp_zoo_resnet, "ResNet of 101 layers")                                                \
    X(resnet152, resnet_options, gp_zoo_resnet, "ResNet of 152 layers")                                                \
    X(resnet_cifar, resnet_cifar_options, gp_zoo_resnet_cifar, "ResNet for small images, of any depth and width")      \
    X(senet154, senet154_options, gp_zoo_senet, "SENet-154")                                                           \
    X(se_resnet50, resnet_options, gp_zoo_senet, "ResNet of 50 layers with squeeze-and-excitation")                    \
    X(googlenet, googlenet_options, gp_zoo_googlenet, "GoogLeNet with batch norm")                                     \
    X(vgg16, vgg_options, gp_zoo_vgg, "VGG of 16 layers")                                                              \
    X(unet, unet_options, gp_zoo_unet, "U-Net: a class for every pixel, by skips from first layers to last ones")      \
    X(mlp, mlp_options, gp_zoo_mlp, "perceptron with hidden layers")

#define COUNT(options) (sizeof(options) / sizeof *(options))

static const gp_model_info kinds[] = {
#define INFO(name, options, family, help) {#name, help, options, COUNT(options), false},
    MODELS(INFO)
#undef INFO
};

static gp_zoo_family *const families[] = {
#define FAMILY(name, options, family, help) family,
    MODELS(FAMILY)
#undef FAMILY
};

const gp_model_info *gp_model_kinds(size_t *count) {
    *count = COUNT(kinds);
    return kinds;
}

static gp_status find_kind(const char *name, size_t *place) {
    gp_nearest nearest = {0};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        *place = i;
        if (strcmp(kinds[i].kind, name) == 0) return GP_OK;
        gp_nearest_consider(&nearest, name, kinds[i].kind);
    }
    return gp_error(GP_INVALID, "there is no model \"%s\"; the nearest one is \"%s\"", name, nearest.word);
}

static gp_status read_task(const gp_arguments *arguments, gp_zoo_task *task) {
    enum { CHANNELS = 3 };
    int64_t image[3];
    size_t count;
    GP_TRY(gp_argument_integer(arguments, "classes", 1, &task->classes));
    GP_TRY(gp_argument_integers(arguments, "image", 1, 3, image, &count));
    task->height = image[0];
    task->width = count > 1 ? image[1] : image[0];
    task->channels = count > 2 ? image[2] : CHANNELS;
    return GP_OK;
}

static gp_status add_layers(size_t kind, const gp_arguments *arguments, const gp_zoo_task *task, gp_model *model,
                            const gp_loss *loss) {
    GP_TRY(gp_model_set_loss(model, loss));
    return families[kind](arguments, task, model);
}

gp_status gp_model_create_named(gp_model **model, const char *name, const gp_option *options, size_t option_count,
                                const gp_loss *loss) {
    size_t kind = 0;
    gp_zoo_task task;
    gp_model *created = NULL;
    *model = NULL;
    GP_TRY(find_kind(name, &kind));
    gp_arguments arguments = {.info = &kinds[kind], .is_model = true};
    GP_TRY(gp_arguments_resolve(&arguments, options, option_count));
    GP_TRY(read_task(&arguments, &task));
    int64_t dims[] = {task.height, task.width, task.channels};
    gp_status status = gp_model_create(&created, (gp_type){GP_F32, gp_shape_of(3, dims)});
    if (status != GP_OK) return gp_error_within(status, "model %s", name);
    status = gp_zoo_finish(model, created, add_layers(kind, &arguments, &task, created, loss));
    return gp_error_within(status, "model %s", name);
}
