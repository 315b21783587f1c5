/* The dataset of images, shared by the files that create it and read from it. */
#ifndef GP_DATA_IMAGE_IMAGES_H
#define GP_DATA_IMAGE_IMAGES_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/dataset.h"
#include "data/image/collection.h"
#include "data/image/render.h"

/* What a thread works with while it makes samples; kept for the next one that comes. */
typedef struct gp_desk {
    gp_renderer renderer;
    gp_buffer file;
    float *other; /* a sample that is mixed with another */
    struct gp_desk *next;
} gp_desk;

/* The images of a split: a run of a collection. */
typedef struct gp_image_split {
    const gp_collection *collection;
    size_t first, count;
    _Atomic uint8_t *corrupt; /* of each image: whether it was named already */
} gp_image_split;

typedef struct gp_image_dataset {
    gp_dataset dataset;
    gp_collection train, validation; /* the second is empty when a share of the first is taken */
    gp_image_split splits[2];
    gp_classes *classes;
    gp_recipe recipe;
    bool skip_corrupt;
    gp_sampling sampling;
    int64_t window, batch, most_pixels;
    uint64_t order_use, draws_use, turn_use,
        mixup_use;        /* keep these random numbers apart from others of the same seed */
    pthread_mutex_t lock; /* of `desks` */
    gp_desk *desks;       /* that nobody works at */
    _Atomic int64_t corrupt_count;
} gp_image_dataset;

/* gp_dataset_class.read of images. */
gp_status gp_images_read(const gp_dataset *dataset, const gp_request *request, gp_batch *batch);
void gp_desk_destroy(gp_desk *desk);

#endif
