/* A list of images: where each one lies and of which class it is. Nothing is decoded or loaded for it. */
#ifndef GP_DATA_IMAGE_COLLECTION_H
#define GP_DATA_IMAGE_COLLECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "data/buffer.h"
#include "data/image/render.h"

enum { GP_MOST_CLASSES = 65536 };

typedef enum gp_image_source_kind {
    GP_SOURCE_FILES, /* every image is a file: <path>/<name> */
    GP_SOURCE_MAP,   /* files one behind the other in the map: an archive, or what was unpacked from one */
    GP_SOURCE_PLAIN  /* plain bytes of one size in the map */
} gp_image_source_kind;

typedef struct gp_image_source {
    gp_image_source_kind kind;
    char *path; /* of the folder, archive or file */
    gp_file_map map;
    int width, height, channels; /* plain */
} gp_image_source;

typedef struct gp_image_item {
    uint64_t at;   /* in the map */
    uint64_t name; /* in the names; plain: the number in the file */
    uint32_t bytes;
    int32_t label; /* number of the class: as found, until gp_collection_settle */
    uint32_t source;
} gp_image_item;

/* A class as it was found. */
typedef struct gp_found_class {
    uint64_t name; /* in the names */
    int32_t number;
} gp_found_class;

/* Starts zeroed. */
typedef struct gp_collection {
    gp_image_item *items;
    size_t count, capacity;
    gp_image_source *sources;
    size_t source_count;
    gp_buffer names;         /* texts with their zeros */
    gp_found_class *classes; /* sorted by name */
    size_t class_count;
    bool numbered;  /* the labels are the file's own numbers */
    bool nameless;  /* and nothing says what they are called */
    size_t ignored; /* files that are no images by their names */
} gp_collection;

void gp_collection_free(gp_collection *collection);

static inline const char *gp_collection_text(const gp_collection *collection, uint64_t name) {
    return (const char *)collection->names.bytes + name;
}

/* A source of its own, of which the map becomes the collection's. Errors: GP_OUT_OF_MEMORY; the map is closed then. */
gp_status gp_collection_add_source(gp_collection *collection, gp_image_source_kind kind, const char *path,
                                   gp_file_map map);
/* The class of that name, a new one if need be. Errors: GP_INVALID when there are too many; GP_OUT_OF_MEMORY. */
gp_status gp_collection_class(gp_collection *collection, const char *name, int32_t *number);
gp_status gp_collection_name(gp_collection *collection, const char *text, uint64_t *name);
gp_status gp_collection_add(gp_collection *collection, gp_image_item item);

/* Whether a file's name ends as those of JPEG or PNG do, and is not hidden. */
bool gp_image_named(const char *name);

/* Adds the images of a path or pattern. Errors: GP_INVALID for what is not there or not of the format, holds no image,
 * or has images without a class; GP_IO, GP_OUT_OF_MEMORY. `labels` is for IDX, may be NULL. */
gp_status gp_collect(gp_collection *collection, const char *pattern, gp_image_format format, const char *labels);

/* The formats, for gp_collect; each adds one path. */
gp_status gp_collect_folder(gp_collection *collection, const char *path);
gp_status gp_collect_tar(gp_collection *collection, const char *path);
gp_status gp_collect_cifar(gp_collection *collection, const char *path, int classes);
gp_status gp_collect_idx(gp_collection *collection, const char *path, const char *labels);

/* The list of the classes that were found: sorted by name, or the file's own numbers. The caller destroys it. */
gp_status gp_collection_list_classes(const gp_collection *collection, gp_classes **classes);
/* Turns the labels into numbers of `classes`. Errors: GP_INVALID naming classes that are not among them; `what` is for
 * the message ("the validation images"). */
gp_status gp_collection_settle(gp_collection *collection, const gp_classes *classes, const char *what);

/* The bytes of one image, of which a file is read into `buffer`. Errors: GP_INVALID for a file that cannot be read or
 * is too large (the message names none); GP_OUT_OF_MEMORY. */
gp_status gp_collection_open(const gp_collection *collection, size_t item, gp_buffer *buffer, gp_stored_image *image);
/* "'folder/class/name'", or "image 17 of 'file'"; returns `text`. */
const char *gp_collection_describe(const gp_collection *collection, size_t item, char *text, size_t size);

#endif
