/* Labels of examples: any texts or numbers. Classes are few, so a sorted list serves. */
#include "data/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum { MOST_LABELS = 65536 };

gp_status gp_labels_create(gp_labels *labels, const gp_classes *given) {
    *labels = (gp_labels){.given = given};
    return GP_OK;
}

void gp_labels_free(gp_labels *labels) {
    for (size_t i = 0; i < labels->count; i++)
        gp_free(labels->names[i]);
    gp_free(labels->names);
    gp_free(labels->sorted);
    gp_free(labels->classes);
    *labels = (gp_labels){0};
}

static int compare(const char *text, size_t bytes, const char *name) {
    int order = strncmp(text, name, bytes);
    return order != 0 ? order : -(name[bytes] != '\0');
}

/* The place in `sorted` of a label, or where it would be. */
static size_t find_place(const gp_labels *labels, const char *text, size_t bytes, bool *found) {
    size_t low = 0, high = labels->count;
    *found = false;
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = compare(text, bytes, labels->names[labels->sorted[middle]]);
        *found = order == 0;
        if (order < 0) {
            high = middle;
        } else {
            low = *found ? middle : middle + 1;
        }
    }
    return low;
}

static gp_status grow(gp_labels *labels) {
    if (labels->count < labels->capacity) return GP_OK;
    size_t capacity = 2 * labels->capacity + 16;
    char **names = gp_grow_array(labels->names, labels->capacity, capacity, sizeof *names);
    if (names) labels->names = names;
    size_t *sorted = names ? gp_grow_array(labels->sorted, labels->capacity, capacity, sizeof *sorted) : NULL;
    if (!sorted) return GP_OUT_OF_MEMORY;
    labels->sorted = sorted;
    labels->capacity = capacity;
    return GP_OK;
}

static gp_status add(gp_labels *labels, size_t place, const char *text, size_t bytes, int32_t *number) {
    if (labels->count == MOST_LABELS)
        return gp_error(GP_INVALID, "there are more than %d different labels", MOST_LABELS);
    GP_TRY(grow(labels));
    char *name = gp_format_text("%.*s", (int)bytes, text);
    if (!name) return GP_OUT_OF_MEMORY;
    memmove(labels->sorted + place + 1, labels->sorted + place, (labels->count - place) * sizeof *labels->sorted);
    labels->sorted[place] = labels->count;
    labels->names[labels->count] = name;
    *number = (int32_t)labels->count++;
    return GP_OK;
}

/* "positive, negative and 3 more" */
static void list_classes(const gp_classes *classes, char *text, size_t size) {
    enum { SHOWN = 5 };
    size_t count = gp_classes_count(classes), used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && i < SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.40s", i ? ", " : "", gp_classes_name(classes, i));
    if (count > SHOWN && used < size) snprintf(text + used, size - used, " and %zu more", count - SHOWN);
}

static gp_status find_given(const gp_labels *labels, const char *text, size_t bytes, int32_t *number) {
    char list[320], *name = gp_format_text("%.*s", (int)bytes, text);
    if (!name) return GP_OUT_OF_MEMORY;
    int64_t found = gp_classes_find(labels->given, name);
    *number = (int32_t)found;
    list_classes(labels->given, list, sizeof list);
    gp_status status =
        found >= 0 ? GP_OK : gp_error(GP_INVALID, "its label '%.80s' is not among the classes: %s", name, list);
    gp_free(name);
    return status;
}

gp_status gp_labels_number(gp_labels *labels, const char *text, size_t bytes, int32_t *number) {
    bool found;
    if (bytes > 4096) return gp_error(GP_INVALID, "its label has %zu bytes: up to 4096 are accepted", bytes);
    if (labels->given) return find_given(labels, text, bytes, number);
    size_t place = find_place(labels, text, bytes, &found);
    if (!found) return add(labels, place, text, bytes, number);
    *number = (int32_t)labels->sorted[place];
    return GP_OK;
}

/* ---- classes ---- */

static bool is_number(const char *name) {
    size_t sign = *name == '-', digits = strspn(name + sign, "0123456789");
    return digits > 0 && digits < 18 && name[sign + digits] == '\0';
}

static int by_number(const void *a, const void *b, void *names) {
    char *const *list = names;
    long long x = strtoll(list[*(const size_t *)a], NULL, 10), y = strtoll(list[*(const size_t *)b], NULL, 10);
    return (x > y) - (x < y);
}

static gp_status copy_given(const gp_classes *given, gp_classes **classes) {
    size_t count = gp_classes_count(given);
    const char **names = gp_allocate_array(count, sizeof *names);
    if (!names) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = gp_classes_name(given, i);
    gp_status status = gp_classes_create(classes, names, count);
    gp_free(names);
    return status;
}

gp_status gp_labels_classes(gp_labels *labels, gp_classes **classes) {
    if (labels->given) return copy_given(labels->given, classes);
    bool numbers = true;
    for (size_t i = 0; i < labels->count; i++)
        numbers = numbers && is_number(labels->names[i]);
    if (numbers) qsort_r(labels->sorted, labels->count, sizeof *labels->sorted, by_number, labels->names);
    const char **names = gp_allocate_array(labels->count, sizeof *names);
    labels->classes = gp_allocate_array(labels->count, sizeof *labels->classes);
    gp_status status = names && labels->classes ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i < labels->count; i++) {
        names[i] = labels->names[labels->sorted[i]];
        labels->classes[labels->sorted[i]] = (int32_t)i;
    }
    if (status == GP_OK) status = gp_classes_create(classes, names, labels->count);
    gp_free(names);
    return status;
}

int32_t gp_labels_class(const gp_labels *labels, int32_t number) {
    return labels->given ? number : labels->classes[number];
}
