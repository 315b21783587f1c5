/* The data of a configuration when it is images. */
#include <string.h>

#include "config.h"
#include "config_keys.h"
#include "gpipe/images.h"
#include "gpipe/words.h"

/* Keys that mean something for images only. */
static const char *const image_keys[] = {
    "data.images",  "data.format", "data.labels", "data.validation_labels", "data.mean",
    "data.std",     "data.resize", "data.window", "data.corrupt",           "data.most_pixels",
    "data.threads", "data.mirror", "data.shift",  "data.augment",
};

bool cli_key_is_of_images(const cli_key *key) {
    for (size_t i = 0; i < sizeof image_keys / sizeof *image_keys; i++) {
        size_t length = strlen(image_keys[i]);
        if (strncmp(key->path, image_keys[i], length) == 0 && (key->path[length] == '\0' || key->path[length] == '.'))
            return true;
    }
    return false;
}

gp_status cli_config_check_images(const cli_config *config) {
    const cli_settings *s = &config->settings;
    if (s->data.images && (s->data.text || s->data.tokens))
        return cli_config_error(config, "data.images", "data.images and data.%s are both given: one is accepted",
                                s->data.text ? "text" : "tokens");
    for (size_t i = 0; !s->data.images && i < sizeof image_keys / sizeof *image_keys; i++) {
        if (cli_config_node(config, image_keys[i]))
            return cli_config_error(config, image_keys[i], "%s is for data.images, which is not given", image_keys[i]);
    }
    if (!s->data.images && !s->data.examples && s->data.validation.path)
        return cli_config_error(
            config, "data.validation",
            "data.validation is a path, which only data.images and data.examples take: a share of at least 0 and "
            "less than 1 is accepted here");
    return GP_OK;
}

/* One number for all channels, or one for each. */
static gp_status fill_channels(const cli_config *config, const char *path, const cli_numbers *numbers, int64_t channels,
                               double values[3]) {
    if (numbers->count != 0 && numbers->count != 1 && (int64_t)numbers->count != channels)
        return cli_config_error(config, path, "%s has %zu numbers: one, or one for each of %lld channels, is accepted",
                                path, numbers->count, (long long)channels);
    for (size_t c = 0; c < 3 && numbers->count > 0; c++)
        values[c] = numbers->values[numbers->count == 1 ? 0 : c < numbers->count ? c : 0];
    return GP_OK;
}

static gp_status fill_mean_and_deviation(const cli_config *config, gp_image_options *options) {
    const cli_numbers *mean = &config->settings.data.mean, *deviation = &config->settings.data.deviation;
    gp_status status = fill_channels(config, "data.mean", mean, options->channels, options->mean);
    if (status == GP_OK) status = fill_channels(config, "data.std", deviation, options->channels, options->deviation);
    if (status != GP_OK) return status;
    if (mean->count > 0 && deviation->count == 0)
        return cli_config_error(config, "data.mean",
                                "data.mean is given without data.std: both or neither are accepted");
    if (mean->count == 0 && deviation->count > 0)
        return cli_config_error(config, "data.std",
                                "data.std is given without data.mean: both or neither are accepted");
    return GP_OK;
}

static gp_augmentation augmentation_of(const cli_settings *s) {
    return (gp_augmentation){
        .crop = (gp_crop)s->data.augment.crop,
        .pad = s->data.augment.pad,
        .scale = {s->data.augment.scale[0], s->data.augment.scale[1]},
        .ratio = {s->data.augment.ratio[0], s->data.augment.ratio[1]},
        .flip = s->data.augment.flip,
        .alternate = s->data.augment.alternate,
        .operations = s->data.augment.operations,
        .magnitude = s->data.augment.magnitude,
        .brightness = s->data.augment.brightness,
        .contrast = s->data.augment.contrast,
        .saturation = s->data.augment.saturation,
        .hue = s->data.augment.hue,
        .cutout = s->data.augment.cutout,
        .mixup = s->data.augment.mixup,
    };
}

static gp_status open_images(const cli_config *config, gp_type sample, const gp_classes *classes, bool only_validation,
                             gp_dataset **dataset) {
    const cli_settings *s = &config->settings;
    const int64_t *sides = sample.shape.dims;
    bool no_training = only_validation && classes && s->data.validation.path;
    gp_image_options options = {
        .size = sizeof options,
        .images = no_training ? NULL : s->data.images,
        .format = (gp_image_format)s->data.format,
        .labels = s->data.labels,
        .validation = s->data.validation.path,
        .validation_labels = s->data.validation_labels,
        .validation_share = s->data.validation.share,
        .classes = classes,
        .height = sides[0],
        .width = sides[1],
        .channels = sides[2],
        .resize = s->data.resize,
        .augmentation = augmentation_of(s),
        .skip_corrupt = s->data.corrupt == 1,
        .most_pixels = s->data.most_pixels,
        .sampling = (gp_sampling)s->data.sampling,
        .window = s->data.window,
        .batch = s->train.batch,
        .threads = (int)s->data.threads,
        .mirror = s->data.mirror,
        .shift = s->data.shift,
    };
    gp_status status = fill_mean_and_deviation(config, &options);
    if (status != GP_OK) return status;
    status = gp_dataset_create_images(dataset, &options);
    return cli_config_within(config, "data.images", gp_error_within(status, "data"));
}

gp_status cli_config_images(const cli_config *config, gp_type sample, const gp_classes *classes, bool only_validation,
                            gp_dataset **dataset) {
    char found[96];
    *dataset = NULL;
    int64_t channels = sample.shape.rank == 3 ? sample.shape.dims[2] : 0;
    if (sample.dtype != GP_F32 || (channels != 1 && channels != 3))
        return cli_config_error(config, config->custom ? "model.input" : "data.images",
                                "a sample of the model is %s, but data.images gives f32[height, width, 1 or 3]%s",
                                gp_type_format(sample, found, sizeof found),
                                config->custom ? ": model.input: {shape: [32, 32, 3], dtype: f32} takes them" : "");
    return open_images(config, sample, classes, only_validation, dataset);
}

bool cli_config_mixes(const cli_config *config) {
    return config->settings.data.images && config->settings.data.augment.mixup > 0;
}

/* ---- the model's number of classes ---- */

static int64_t *model_classes(cli_config *config) {
    if (config->custom) return &config->settings.model.input_classes;
    bool classifies = config->use == CLI_USE_BERT && config->settings.model.head == GP_BERT_CLASSIFY;
    return classifies || config->use & CLI_USE_IMAGES ? &config->settings.model.classes : NULL;
}

bool cli_config_needs_classes(const cli_config *config) {
    const int64_t *classes = model_classes((cli_config *)(uintptr_t)config);
    return classes && *classes == 0;
}

gp_status cli_config_classes(cli_config *config, const gp_dataset *dataset) {
    const char *path = config->custom ? "model.input.classes" : "model.classes";
    const gp_classes *list = gp_dataset_classes(dataset);
    int64_t *classes = model_classes(config), count = list ? (int64_t)gp_classes_count(list) : 0;
    if (!classes || count == 0) return GP_OK;
    if (*classes == 0) *classes = count;
    if (*classes < count)
        return cli_config_error(config, path,
                                "%s is %lld, but the data has %lld class%s: that many or more are "
                                "accepted",
                                path, (long long)*classes, (long long)count, gp_plural(count, "es"));
    return GP_OK;
}

/* ---- the shape of a sample ---- */

gp_status cli_config_sample(const cli_config *config, gp_type *sample) {
    const cli_settings *s = &config->settings;
    gp_model *probe = NULL;
    if (config->custom) {
        *sample = (gp_type){s->model.dtype == 0 ? GP_I32 : GP_F32, {0}};
        if (s->model.shape.count > 0 && s->model.shape.count < GP_MAX_RANK)
            sample->shape = gp_shape_of((int)s->model.shape.count, s->model.shape.values);
        return GP_OK;
    }
    gp_status status = cli_config_model(config, &probe); /* which knows the defaults of its family */
    if (status == GP_OK) *sample = gp_model_input_type(probe);
    gp_model_destroy(probe);
    return status;
}
