/* Labels as they are found, and the classes that they become. */
#ifndef GP_DATA_LABELS_H
#define GP_DATA_LABELS_H

#include "gpipe/images.h"

typedef struct gp_labels {
    const gp_classes *given; /* what the labels must be among; NULL: they make the list */
    char **names;            /* in the order in which they were found; with `given` not used */
    size_t *sorted;          /* numbers of the names, sorted by name */
    int32_t *classes;        /* number of the class, by number of the name; after gp_labels_classes */
    size_t count, capacity;
} gp_labels;

gp_status gp_labels_create(gp_labels *labels, const gp_classes *given);
void gp_labels_free(gp_labels *labels);

/* The number of a label. Errors: GP_INVALID for one that is not among the given classes, or too many. */
gp_status gp_labels_number(gp_labels *labels, const char *text, size_t bytes, int32_t *number);

/* The list: a copy of the given one, or the names in order (as numbers when all are numbers). The caller destroys it.
 */
gp_status gp_labels_classes(gp_labels *labels, gp_classes **classes);
/* The class that a label's number became. */
int32_t gp_labels_class(const gp_labels *labels, int32_t number);

#endif
