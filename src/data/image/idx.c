/* IDX files, as MNIST and its kin are published (LeCun, Cortes & Burges): a magic number of four bytes (0, 0, type,
 * dimensions), each dimension as four bytes, highest first, then the elements. Images and labels are two files; either
 * may be compressed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/archive.h"
#include "data/image/collection.h"
#include "data/spool.h"
#include "gpipe/words.h"

enum { UNSIGNED_BYTE = 8, MOST_SIDE = 65535 };

static gp_status unpack(gp_archive *archive, gp_spool *spool) {
    const char *member;
    GP_TRY(gp_archive_next(archive, &member));
    while (member) {
        const void *data;
        size_t bytes;
        GP_TRY(gp_archive_piece(archive, &data, &bytes));
        if (bytes == 0) break;
        GP_TRY(gp_spool_write(spool, data, bytes));
    }
    return GP_OK;
}

/* Replaces the map of a compressed file by one of what is in it. */
static gp_status unpack_map(gp_file_map *map, const char *path) {
    gp_archive *archive = NULL;
    gp_spool spool = {.descriptor = -1};
    gp_file_map unpacked;
    gp_status status = gp_archive_open(&archive, map, path, false);
    if (status == GP_OK) status = gp_spool_open(&spool, "an unpacked file");
    if (status == GP_OK) status = unpack(archive, &spool);
    if (status == GP_OK) status = gp_spool_map(&spool, &unpacked);
    gp_archive_close(archive);
    gp_spool_close(&spool);
    if (status != GP_OK) return status;
    gp_file_map_close(map);
    *map = unpacked;
    return GP_OK;
}

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads the head and checks that the elements are there; dimensions that are not there are 1. */
static gp_status read_head(const gp_file_map *map, const char *path, int dimensions, uint32_t sizes[3]) {
    size_t head = 4 + 4 * (size_t)dimensions;
    sizes[0] = sizes[1] = sizes[2] = 1;
    if (map->bytes < 4 || map->data[0] != 0 || map->data[1] != 0)
        return gp_error(GP_INVALID, "'%s' is not an IDX file: it does not begin with two zero bytes", path);
    if (map->data[2] != UNSIGNED_BYTE || map->data[3] != dimensions || map->bytes < head)
        return gp_error(GP_INVALID,
                        "'%s' is an IDX file of type 0x%02X with %d dimensions: unsigned bytes (0x08) with "
                        "%d are needed here",
                        path, map->data[2], map->data[3], dimensions);
    uint64_t elements = 1;
    for (int i = 0; i < dimensions; i++) {
        sizes[i] = big_endian(map->data + 4 + 4 * i);
        if (i > 0 && (sizes[i] < 1 || sizes[i] > MOST_SIDE))
            return gp_error(GP_INVALID, "'%s' has images with a side of %" PRIu32 ": 1 to %d is accepted", path,
                            sizes[i], MOST_SIDE);
    }
    elements = (uint64_t)sizes[1] * sizes[2]; /* below 2^32, so the next product is below 2^64 */
    elements *= sizes[0];
    if (map->bytes - head != elements)
        return gp_error(GP_INVALID, "'%s' has %zu byte%s behind its head, which speaks of %" PRIu64, path,
                        map->bytes - head, gp_plural((int64_t)(map->bytes - head), "s"), elements);
    return GP_OK;
}

static gp_status open_map(gp_file_map *map, const char *path) {
    GP_TRY(gp_file_map_open(map, path));
    bool plain = map->bytes < 2 || (map->data[0] == 0 && map->data[1] == 0);
    if (plain) return GP_OK;
    gp_status status = unpack_map(map, path);
    if (status != GP_OK) gp_file_map_close(map);
    return status;
}

/* A label of each image. */
static gp_status add_items(gp_collection *collection, const char *path, uint32_t count, uint32_t bytes,
                           const gp_file_map *labels, const char *labels_path) {
    uint32_t sizes[3];
    int most = -1;
    GP_TRY(read_head(labels, labels_path, 1, sizes));
    if (sizes[0] != count)
        return gp_error(GP_INVALID, "'%s' has %" PRIu32 " labels, but '%s' %" PRIu32 " images", labels_path, sizes[0],
                        path, count);
    for (uint32_t i = 0; i < count; i++) {
        int label = labels->data[8 + i];
        if (label > most) most = label;
        gp_image_item item = {.at = 16 + (uint64_t)i * bytes, .name = i, .bytes = bytes, .label = label};
        GP_TRY(gp_collection_add(collection, item));
    }
    for (int i = (int)collection->class_count; i <= most; i++) {
        char name[16];
        int32_t number;
        snprintf(name, sizeof name, "%d", i);
        GP_TRY(gp_collection_class(collection, name, &number));
    }
    return GP_OK;
}

/* "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz"; NULL when it has no such name. */
static char *labels_beside(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *images = strstr(slash ? slash : path, "images"), *idx = images ? strstr(images, "idx3") : NULL;
    if (!idx) return NULL;
    return gp_format_text("%.*slabels%.*sidx1%s", (int)(images - path), path, (int)(idx - images) - 6, images + 6,
                          idx + 4);
}

static gp_status collect(gp_collection *collection, const char *path, const char *labels_path) {
    gp_file_map map, labels = {0};
    uint32_t sizes[3];
    GP_TRY(open_map(&map, path));
    GP_TRY(gp_collection_add_source(collection, GP_SOURCE_PLAIN, path, map));
    GP_TRY(read_head(&map, path, 3, sizes));
    gp_image_source *source = &collection->sources[collection->source_count - 1];
    source->height = (int)sizes[1];
    source->width = (int)sizes[2];
    source->channels = 1;
    gp_status status = open_map(&labels, labels_path);
    if (status == GP_OK) status = add_items(collection, path, sizes[0], sizes[1] * sizes[2], &labels, labels_path);
    gp_file_map_close(&labels);
    return status;
}

gp_status gp_collect_idx(gp_collection *collection, const char *path, const char *labels) {
    char *beside = labels ? gp_copy_text(labels) : labels_beside(path);
    collection->numbered = collection->nameless = true;
    if (!beside)
        return gp_error(GP_INVALID,
                        "the file of labels for '%s' is not known: its name has no \"images\" and \"idx3\", "
                        "so it must be given",
                        path);
    gp_status status = collect(collection, path, beside);
    gp_free(beside);
    return status;
}
