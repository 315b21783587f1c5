/* Images as training data: folders, archives and the usual files of benchmarks; augmentation; class lists. */
#ifndef GPIPE_IMAGES_H
#define GPIPE_IMAGES_H

#include "gpipe/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Class lists: the names behind the numbers. Immutable, for any number of threads. --- */

typedef struct gp_classes gp_classes;

/* Copies `count` names, whose places become their numbers. Errors: GP_INVALID for no name, an empty one, one that is
 * not UTF-8 or comes twice; GP_OUT_OF_MEMORY. */
GP_API gp_status gp_classes_create(gp_classes **classes, const char *const *names, size_t count);
GP_API void gp_classes_destroy(gp_classes *classes); /* accepts NULL */
GP_API size_t gp_classes_count(const gp_classes *classes);
/* "" for a number that there is not. */
GP_API const char *gp_classes_name(const gp_classes *classes, size_t number);
/* -1: there is none of that name. */
GP_API int64_t gp_classes_find(const gp_classes *classes, const char *name);

/* A small JSON file, kept with a run: {"format": "gpipe classes", "version": 1, "classes": [...]}. Saving replaces a
 * file as a whole. Errors: GP_INVALID (loading what is missing or malformed), GP_IO, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_classes_save(const gp_classes *classes, const char *path);
GP_API gp_status gp_classes_load(gp_classes **classes, const char *path);

/* --- Augmentation: what is done to the images of training. Random numbers are counted: they depend on the seed and on
 * the number of the sample in the training, on nothing else. --- */

/* Which part of an image becomes the sample. */
#define GP_CROPS(X)                                                                                                    \
    X(GP_CROP_CENTRE, "centre", "the largest part of the sample's shape, from the middle")                             \
    X(GP_CROP_PAD, "pad", "the same, shifted by up to `pad` pixels; what comes in has the mean colour")                \
    X(GP_CROP_RESIZED, "resized", "a part of random size and shape, resized (Szegedy et al., arXiv 1409.4842)")

typedef enum gp_crop {
#define GP_CROP_ENUM(name, word, meaning) name,
    GP_CROPS(GP_CROP_ENUM)
#undef GP_CROP_ENUM
} gp_crop;

/* All zero: nothing is changed. In this order: crop (but for the shift of pad), random operations, colours, flip,
 * shift, cutout, mixup. */
typedef struct gp_augmentation {
    gp_crop crop;
    int64_t pad;     /* pixels (crop pad); 0: an eighth of the shorter side */
    double scale[2]; /* share of the area (crop resized); zeros: 0.08 to 1 */
    double ratio[2]; /* width to height (crop resized); zeros: 3/4 to 4/3 */
    bool flip;       /* left and right change places half of the time: by chance, in every epoch anew */
    /* flip: by chance in the first epoch only, then in every other one, so that two epochs in a row show both sides of
     * every image (Jordan, arXiv 2404.00498). */
    bool alternate;
    /* RandAugment (Cubuk et al., arXiv 1909.13719): so many operations out of 14, each as strong as `magnitude` of 30.
     */
    int64_t operations; /* 0: none */
    double magnitude;
    /* Colour jitter: a factor from 1 - x to 1 + x of brightness, contrast and saturation; a turn of the colours by up
     * to x of a full one. 0 to 1, hue 0 to 0.5. */
    double brightness, contrast, saturation, hue;
    int64_t cutout; /* side of a square that takes the mean colour (DeVries & Taylor, arXiv 1708.04552); 0: none */
    /* Pairs of neighbours in the mini-batch are mixed by a share out of Beta(mixup, mixup) (Zhang et al., arXiv
     * 1710.09412). Samples then have two targets with a weight each. 0: none */
    double mixup;
} gp_augmentation;

/* --- The dataset. --- */

#define GP_IMAGE_FORMATS(X)                                                                                            \
    X(GP_IMAGES_AUTO, "auto", "found out by the path: see gp_image_options")                                           \
    X(GP_IMAGES_FOLDER, "folder", "a folder for every class with JPEG or PNG files")                                   \
    X(GP_IMAGES_TAR, "tar", "archives of such folders, plain or compressed")                                           \
    X(GP_IMAGES_CIFAR10, "cifar10", "CIFAR-10's binary files")                                                         \
    X(GP_IMAGES_CIFAR100, "cifar100", "CIFAR-100's binary files")                                                      \
    X(GP_IMAGES_IDX, "idx", "IDX files as MNIST's, plain or compressed")

typedef enum gp_image_format {
#define GP_IMAGE_FORMAT_ENUM(name, word, meaning) name,
    GP_IMAGE_FORMATS(GP_IMAGE_FORMAT_ENUM)
#undef GP_IMAGE_FORMAT_ENUM
} gp_image_format;

typedef struct gp_image_options {
    size_t size; /* sizeof, or 0 */
    /* A path, or a glob pattern of files, which are sorted by name. A folder: its folders are the classes, the files in
     * and below them the images. .tar, .tar.gz and so on: the folder that an image lies in is its class. .bin: CIFAR,
     * 10 or 100 by the length of the files. "...images-idx3-ubyte", also with .gz: IDX. NULL: no training split (then
     * `classes` must be given). */
    const char *images;
    gp_image_format format;
    const char *labels; /* IDX: the file of labels; NULL: the images' name with "labels-idx1" in it */
    /* The validation split: other images in the same form, or a share of `images`, the same share of each class, always
     * the same images. Their classes must be among those of training. */
    const char *validation;
    const char *validation_labels;
    double validation_share;   /* 0 <= share < 1 */
    const gp_classes *classes; /* the list of a run, which the data must keep to; NULL: the data's; copied */

    int64_t height, width, channels; /* of a sample; channels: 1 (grey) or 3 (red, green, blue) */
    double mean[3], deviation[3]; /* a byte b becomes (b / 255 - mean) / deviation; all zero: ImageNet's figures (mean
                                     0.485, 0.456, 0.406; deviation 0.229, 0.224, 0.225), grey 0.5 and 0.25 */
    int64_t resize; /* evaluation: the shorter side becomes so long before the middle is cut out; 0: the sample's, but
                       8/7 of it when training crops are resized */
    gp_augmentation augmentation;
    bool skip_corrupt;    /* what cannot be decoded is named through the log, counted, and replaced by the next image of
                             the split (in evaluation it is not counted in); false: an error */
    int64_t most_pixels;  /* larger images count as corrupt; 0: 2^26, which take 192 MiB */
    gp_sampling sampling; /* random: a new order every epoch; sequential: as they are stored */
    int64_t window;       /* of random sampling: images stay within a window of so many, so that slow storage is read
                             mostly forward; 0: all are shuffled */
    int64_t batch;        /* samples of a mini-batch: mini-batch t has samples t * batch and so on of the training */
    int threads;          /* of loaders that are not told how many; 0: as many as there are cores */
    bool mirror;          /* evaluations judge every image together with its mirror image: gp_trainer_evaluate_split
                             takes the mean of the model's outputs for both, and of their losses */
    int64_t shift; /* evaluations judge every image (with mirror also its mirror image) also moved by so many pixels,
                      once up and left, once down and right, zeros moving in: the mean over three views, or
                      six; less than the shorter side; 0: they do not */
} gp_image_options;

/* A dataset for classifiers: a sample is f32[height, width, channels], its target i32[] (the class), or with mixup
 * i32[2] with weights f32[2] that add up to one.
 *
 * Every epoch has every image once, in an order that is computed from seed and epoch. Files and archives are read when
 * a sample is asked for; a compressed archive is unpacked once to an unnamed temporary file in $TMPDIR, or /var/tmp. An
 * image is enlarged when it is smaller than the sample; the orientation that a camera notes is not looked at.
 *
 * Errors: GP_INVALID with a sentence for what is missing, empty, of one class only, or names things by absolute paths
 * or ".."; for classes that differ between the splits or from `classes`; for an option out of range; GP_IO;
 * GP_OUT_OF_MEMORY. */
GP_API gp_status gp_dataset_create_images(gp_dataset **dataset, const gp_image_options *options);

/* The classes of a dataset, owned by it; NULL for data without. */
GP_API const gp_classes *gp_dataset_classes(const gp_dataset *dataset);
/* Images that were found corrupt so far. 0 for other data. */
GP_API int64_t gp_dataset_corrupt(const gp_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
