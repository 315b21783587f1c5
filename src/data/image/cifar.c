/* CIFAR's binary files (Krizhevsky 2009): records of one label byte (CIFAR-100: coarse and fine) and 32 x 32 bytes for
 * each of red, green, blue. The names of the classes stand in a text file beside them, one a line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/collection.h"
#include "gpipe/words.h"

enum { SIDE = 32, PLAIN_BYTES = 3 * SIDE * SIDE, MOST_NAMES_BYTES = 1 << 16 };

/* The line that begins at `*at`, which moves behind it; false when it is empty or too long for a name. */
static bool read_line(const gp_file_map *map, size_t *at, char *name, size_t size) {
    const char *text = (const char *)map->data + *at;
    const char *end = memchr(text, '\n', map->bytes - *at);
    size_t length = end ? (size_t)(end - text) : map->bytes - *at;
    *at += length + (end != NULL);
    if (length > 0 && text[length - 1] == '\r') length--;
    snprintf(name, size, "%.*s", (int)(length < size ? length : size - 1), text);
    return length > 0 && length < size;
}

/* Takes the names of the file, or the numbers when there is no such file. */
static gp_status add_names(gp_collection *collection, const gp_file_map *map, const char *path, int classes) {
    size_t at = 0;
    for (int i = 0; i < classes; i++) {
        char name[128];
        if (!map->data) {
            snprintf(name, sizeof name, "%d", i);
        } else if (!read_line(map, &at, name, sizeof name)) {
            return gp_error(GP_INVALID, "'%s' does not have the names of %d classes, one a line", path, classes);
        }
        int32_t number;
        GP_TRY(gp_collection_class(collection, name, &number));
        if (number != i) return gp_error(GP_INVALID, "'%s' has the class '%s' twice", path, name);
    }
    return GP_OK;
}

static gp_status read_names(gp_collection *collection, const char *beside, int classes) {
    const char *slash = strrchr(beside, '/');
    char *path = gp_format_text("%.*s%s", slash ? (int)(slash - beside) + 1 : 0, beside,
                                classes == 10 ? "batches.meta.txt" : "fine_label_names.txt");
    gp_file_map map = {0};
    gp_status status = path ? GP_OK : GP_OUT_OF_MEMORY;
    collection->numbered = true;
    if (status == GP_OK && access(path, F_OK) == 0) status = gp_file_map_open(&map, path);
    collection->nameless = map.data == NULL;
    if (status == GP_OK && map.bytes > MOST_NAMES_BYTES)
        status = gp_error(GP_INVALID, "'%s' has %zu bytes, which are no names of classes", path, map.bytes);
    if (status == GP_OK) status = add_names(collection, &map, path, classes);
    gp_file_map_close(&map);
    gp_free(path);
    return status;
}

static gp_status add_records(gp_collection *collection, const gp_file_map *map, const char *path, int classes) {
    size_t labels = classes == 10 ? 1 : 2, record = labels + PLAIN_BYTES;
    if (map->bytes == 0 || map->bytes % record != 0)
        return gp_error(GP_INVALID, "'%s' has %zu byte%s: CIFAR-%d's records have %zu each", path, map->bytes,
                        gp_plural((int64_t)map->bytes, "s"), classes, record);
    for (size_t i = 0; i < map->bytes / record; i++) {
        int label = map->data[i * record + labels - 1];
        if (label >= classes)
            return gp_error(GP_INVALID, "'%s' has the label %d in record %zu: 0 to %d are accepted", path, label, i,
                            classes - 1);
        gp_image_item item = {.at = i * record + labels, .name = i, .bytes = PLAIN_BYTES, .label = label};
        GP_TRY(gp_collection_add(collection, item));
    }
    return GP_OK;
}

gp_status gp_collect_cifar(gp_collection *collection, const char *path, int classes) {
    gp_file_map map;
    if (collection->class_count == 0) GP_TRY(read_names(collection, path, classes));
    GP_TRY(gp_file_map_open(&map, path));
    GP_TRY(gp_collection_add_source(collection, GP_SOURCE_PLAIN, path, map));
    gp_image_source *source = &collection->sources[collection->source_count - 1];
    source->width = source->height = SIDE;
    source->channels = 3;
    return add_records(collection, &map, path, classes);
}
