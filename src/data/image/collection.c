/* Building the list, and getting at what is in it. */
#include "data/image/collection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/words.h"

/* An encoded image; larger ones are not looked at. */
enum { MOST_FILE_BYTES = 1 << 28 };

void gp_collection_free(gp_collection *collection) {
    for (size_t i = 0; i < collection->source_count; i++) {
        gp_free(collection->sources[i].path);
        gp_file_map_close(&collection->sources[i].map);
    }
    gp_free(collection->sources);
    gp_free(collection->items);
    gp_free(collection->classes);
    gp_buffer_free(&collection->names);
    *collection = (gp_collection){0};
}

/* ---- building ---- */

gp_status gp_collection_add_source(gp_collection *collection, gp_image_source_kind kind, const char *path,
                                   gp_file_map map) {
    size_t count = collection->source_count;
    char *copy = gp_copy_text(path);
    gp_image_source *grown = gp_grow_array(collection->sources, count, count + 1, sizeof *grown);
    if (grown) collection->sources = grown;
    if (!copy || !grown) {
        gp_free(copy);
        gp_file_map_close(&map);
        return GP_OUT_OF_MEMORY;
    }
    grown[count] = (gp_image_source){.kind = kind, .path = copy, .map = map};
    collection->source_count++;
    return GP_OK;
}

gp_status gp_collection_name(gp_collection *collection, const char *text, uint64_t *name) {
    *name = collection->names.used;
    return gp_buffer_add(&collection->names, text, strlen(text) + 1);
}

/* The place of a name in the sorted list. */
static size_t place_of(const gp_collection *collection, const char *name, bool *found) {
    size_t low = 0, high = collection->class_count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(gp_collection_text(collection, collection->classes[middle].name), name);
        if (order == 0) *found = true;
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

gp_status gp_collection_class(gp_collection *collection, const char *name, int32_t *number) {
    bool found;
    size_t place = place_of(collection, name, &found), count = collection->class_count;
    if (found) {
        *number = collection->classes[place].number;
        return GP_OK;
    }
    if (count == GP_MOST_CLASSES)
        return gp_error(GP_INVALID, "there are more than %d classes: is every folder one?", GP_MOST_CLASSES);
    uint64_t text;
    GP_TRY(gp_collection_name(collection, name, &text));
    gp_found_class *grown = collection->classes;
    if ((count & (count - 1)) == 0) { /* it is full at powers of two */
        grown = gp_grow_array(collection->classes, count, count ? 2 * count : 1, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        collection->classes = grown;
    }
    memmove(grown + place + 1, grown + place, (count - place) * sizeof *grown);
    grown[place] = (gp_found_class){.name = text, .number = (int32_t)count};
    collection->class_count++;
    *number = (int32_t)count;
    return GP_OK;
}

gp_status gp_collection_add(gp_collection *collection, gp_image_item item) {
    if (collection->count == collection->capacity) {
        size_t capacity = collection->capacity ? 2 * collection->capacity : 1024;
        gp_image_item *grown = gp_grow_array(collection->items, collection->capacity, capacity, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        collection->items = grown;
        collection->capacity = capacity;
    }
    item.source = (uint32_t)(collection->source_count - 1);
    collection->items[collection->count++] = item;
    return GP_OK;
}

bool gp_image_named(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t length = strlen(name);
    if (name[0] == '.') return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcasecmp(name + length - ending, endings[i]) == 0) return true;
    }
    return false;
}

/* ---- classes ---- */

gp_status gp_collection_list_classes(const gp_collection *collection, gp_classes **classes) {
    size_t count = collection->class_count;
    const char **names = gp_allocate_array(count, sizeof *names);
    *classes = NULL;
    if (!names) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const gp_found_class *found = &collection->classes[i];
        names[collection->numbered ? (size_t)found->number : i] = gp_collection_text(collection, found->name);
    }
    gp_status status = gp_classes_create(classes, names, count);
    gp_free(names);
    return status;
}

static gp_status refuse_classes(const gp_collection *collection, const gp_classes *classes, const int32_t *numbers,
                                const char *what) {
    char names[300] = "";
    size_t unknown = 0, used = 0;
    for (size_t i = 0; i < collection->class_count; i++) {
        if (numbers[collection->classes[i].number] >= 0) continue;
        if (unknown++ >= 5 || used >= sizeof names) continue;
        int length = snprintf(names + used, sizeof names - used, "%s'%.40s'", used ? ", " : "",
                              gp_collection_text(collection, collection->classes[i].name));
        used += length > 0 ? (size_t)length : 0;
    }
    return gp_error(GP_INVALID, "%s have %zu class%s that %s not among the %zu known: %s%s", what, unknown,
                    gp_plural((int64_t)unknown, "es"), unknown == 1 ? "is" : "are", gp_classes_count(classes), names,
                    unknown > 5 ? ", ..." : "");
}

gp_status gp_collection_settle(gp_collection *collection, const gp_classes *classes, const char *what) {
    int32_t *numbers = gp_allocate_array(collection->class_count, sizeof *numbers);
    bool *used = gp_allocate_array(collection->class_count, sizeof *used);
    gp_status status = numbers && used ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i < collection->count; i++)
        used[collection->items[i].label] = true;
    for (size_t i = 0; status == GP_OK && i < collection->class_count; i++) {
        const gp_found_class *found = &collection->classes[i];
        numbers[found->number] = (int32_t)gp_classes_find(classes, gp_collection_text(collection, found->name));
        if (collection->nameless && (size_t)found->number < gp_classes_count(classes))
            numbers[found->number] = found->number;
        if (!used[found->number]) numbers[found->number] = 0;
    }
    for (size_t i = 0; status == GP_OK && i < collection->class_count; i++)
        if (numbers[i] < 0) status = refuse_classes(collection, classes, numbers, what);
    for (size_t i = 0; status == GP_OK && i < collection->count; i++)
        collection->items[i].label = numbers[collection->items[i].label];
    gp_free(numbers);
    gp_free(used);
    return status;
}

/* ---- reading ---- */

static gp_status read_descriptor(int descriptor, gp_buffer *buffer) {
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return gp_error(GP_INVALID, "it is not a regular file");
    if (info.st_size > MOST_FILE_BYTES)
        return gp_error(GP_INVALID, "it has %jd bytes: at most %d are accepted", (intmax_t)info.st_size,
                        MOST_FILE_BYTES);
    buffer->used = 0;
    GP_TRY(gp_buffer_reserve(buffer, (size_t)info.st_size));
    while (buffer->used < (size_t)info.st_size) {
        ssize_t got = read(descriptor, buffer->bytes + buffer->used, (size_t)info.st_size - buffer->used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gp_error(GP_INVALID, "it could not be read: %s", strerror(errno));
        if (got == 0) break; /* it became shorter */
        buffer->used += (size_t)got;
    }
    return GP_OK;
}

static gp_status read_file(const char *folder, const char *name, gp_buffer *buffer) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return gp_error(GP_INVALID, "its path is too long");
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return gp_error(GP_INVALID, "it could not be opened: %s", strerror(errno));
    gp_status status = read_descriptor(descriptor, buffer);
    close(descriptor);
    return status;
}

gp_status gp_collection_open(const gp_collection *collection, size_t item, gp_buffer *buffer, gp_stored_image *image) {
    const gp_image_item *it = &collection->items[item];
    const gp_image_source *source = &collection->sources[it->source];
    *image = (gp_stored_image){.plain = source->kind == GP_SOURCE_PLAIN,
                               .width = source->width,
                               .height = source->height,
                               .channels = source->channels};
    if (source->kind == GP_SOURCE_FILES) {
        GP_TRY(read_file(source->path, gp_collection_text(collection, it->name), buffer));
        image->bytes = buffer->bytes;
        image->size = buffer->used;
        return GP_OK;
    }
    image->bytes = source->map.data + it->at;
    image->size = it->bytes;
    return GP_OK;
}

const char *gp_collection_describe(const gp_collection *collection, size_t item, char *text, size_t size) {
    const gp_image_item *it = &collection->items[item];
    const gp_image_source *source = &collection->sources[it->source];
    if (source->kind == GP_SOURCE_PLAIN) {
        snprintf(text, size, "image %" PRIu64 " of '%s'", it->name, source->path);
    } else {
        snprintf(text, size, "'%s%s%s'", source->path, source->kind == GP_SOURCE_FILES ? "/" : "' -> '",
                 gp_collection_text(collection, it->name));
    }
    return text;
}
