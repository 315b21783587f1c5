/* Class lists and their file. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/buffer.h"
#include "data/image/collection.h"

#define FORMAT "gpipe classes"

enum { VERSION = 1 };

struct gp_classes {
    char **names;
    size_t *sorted; /* numbers in the order of their names */
    size_t count;
};

/* ---- lists ---- */

static int compare(const void *a, const void *b, void *names) {
    char *const *list = names;
    return strcmp(list[*(const size_t *)a], list[*(const size_t *)b]);
}

static gp_status fill(gp_classes *classes, const char *const *names, size_t count) {
    classes->names = gp_allocate_array(count, sizeof *classes->names);
    classes->sorted = gp_allocate_array(count, sizeof *classes->sorted);
    if (!classes->names || !classes->sorted) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        size_t length = names[i] ? strlen(names[i]) : 0;
        if (length == 0) return gp_error(GP_INVALID, "class %zu has no name", i);
        if (gp_utf8_valid((const unsigned char *)names[i], length) != length)
            return gp_error(GP_INVALID, "the name of class %zu, '%s', is not UTF-8", i, names[i]);
        classes->names[i] = gp_copy_text(names[i]);
        if (!classes->names[i]) return GP_OUT_OF_MEMORY;
        classes->sorted[i] = i;
        classes->count++;
    }
    qsort_r(classes->sorted, count, sizeof *classes->sorted, compare, classes->names);
    for (size_t i = 1; i < count; i++) {
        const char *name = classes->names[classes->sorted[i]];
        if (strcmp(name, classes->names[classes->sorted[i - 1]]) == 0)
            return gp_error(GP_INVALID, "there are two classes of the name '%s'", name);
    }
    return GP_OK;
}

gp_status gp_classes_create(gp_classes **classes, const char *const *names, size_t count) {
    *classes = NULL;
    if (count == 0 || count > GP_MOST_CLASSES)
        return gp_error(GP_INVALID, "%zu classes are given: 1 to %d are accepted", count, GP_MOST_CLASSES);
    gp_classes *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status = fill(made, names, count);
    if (status != GP_OK) {
        gp_classes_destroy(made);
        return status;
    }
    *classes = made;
    return GP_OK;
}

void gp_classes_destroy(gp_classes *classes) {
    if (!classes) return;
    for (size_t i = 0; i < classes->count; i++)
        gp_free(classes->names[i]);
    gp_free(classes->names);
    gp_free(classes->sorted);
    gp_free(classes);
}

size_t gp_classes_count(const gp_classes *classes) {
    return classes->count;
}

const char *gp_classes_name(const gp_classes *classes, size_t number) {
    return number < classes->count ? classes->names[number] : "";
}

int64_t gp_classes_find(const gp_classes *classes, const char *name) {
    size_t low = 0, high = classes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(classes->names[classes->sorted[middle]], name);
        if (order == 0) return (int64_t)classes->sorted[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

/* ---- the file ---- */

gp_status gp_classes_save(const gp_classes *classes, const char *path) {
    json_t *list = json_array();
    for (size_t i = 0; i < classes->count; i++)
        json_array_append_new(list, json_string(classes->names[i]));
    bool whole = json_array_size(list) == classes->count;
    json_t *object = json_pack("{s:s, s:i, s:o}", "format", FORMAT, "version", VERSION, "classes", list);
    char *text = object && whole ? json_dumps(object, JSON_INDENT(1)) : NULL;
    gp_status status = text ? gp_file_write_text(path, text) : gp_error(GP_OUT_OF_MEMORY, "no memory for the classes");
    free(text);
    json_decref(object);
    return gp_error_within(status, "the classes were not saved to '%s'", path);
}

static gp_status read_object(gp_classes **classes, const json_t *object) {
    const char *format = json_string_value(json_object_get(object, "format"));
    const json_t *list = json_object_get(object, "classes");
    size_t count = json_array_size(list);
    if (!format || strcmp(format, FORMAT) != 0) return gp_error(GP_INVALID, "its \"format\" is not \"" FORMAT "\"");
    if (json_integer_value(json_object_get(object, "version")) != VERSION)
        return gp_error(GP_INVALID, "its \"version\" is not %d", VERSION);
    const char **names = gp_allocate_array(count, sizeof *names);
    if (!names) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    for (size_t i = 0; status == GP_OK && i < count; i++) {
        names[i] = json_string_value(json_array_get(list, i));
        if (!names[i]) status = gp_error(GP_INVALID, "number %zu of its \"classes\" is not a text", i);
    }
    if (status == GP_OK) status = gp_classes_create(classes, names, count);
    gp_free(names);
    return status;
}

gp_status gp_classes_load(gp_classes **classes, const char *path) {
    static const gp_json_limits limits = {(size_t)32 << 20, 4, 4 * GP_MOST_CLASSES};
    gp_file_map map;
    json_t *object = NULL;
    *classes = NULL;
    GP_TRY(gp_file_map_open(&map, path));
    gp_status status = gp_json_parse(&object, (const char *)map.data, map.bytes, &limits, "it");
    if (status == GP_OK) status = read_object(classes, object);
    json_decref(object);
    gp_file_map_close(&map);
    return gp_error_within(status, "'%s' is not a list of classes", path);
}
