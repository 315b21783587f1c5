/* A classifier's evaluation for people and for machines: loss, accuracy, and which class was taken for which. */
#include "eval_classes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t count_of(const gp_evaluation *found) {
    return found->samples > 0 ? found->samples : (int64_t)found->weight;
}

bool cli_top5_tells(const gp_evaluation *found) {
    return found->classes > 5;
}

gp_status cli_confusion_create(const gp_model *model, const gp_dataset *dataset, int64_t **confusion) {
    int64_t classes = gp_model_class_count(model);
    if (classes < 1 || !gp_dataset_classes(dataset))
        return gp_error(GP_INVALID,
                        "--confusion is for classifiers: a model with an output for each class of its data");
    *confusion = calloc((size_t)(classes * classes), sizeof **confusion);
    return *confusion ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
}

/* ---- for machines ---- */

/* Row: the label; column: the prediction. */
static json_t *confusion_json(const gp_evaluation *found) {
    json_t *rows = json_array();
    for (int64_t r = 0; rows && r < found->classes; r++) {
        json_t *row = json_array();
        for (int64_t c = 0; row && c < found->classes; c++)
            json_array_append_new(row, json_integer((json_int_t)found->confusion[r * found->classes + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *names_json(const gp_classes *classes) {
    json_t *names = json_array();
    for (size_t i = 0; names && i < gp_classes_count(classes); i++)
        json_array_append_new(names, json_string(gp_classes_name(classes, i)));
    return names;
}

static bool print_json(const char *what, const gp_evaluation *found, const gp_dataset *dataset) {
    json_t *object = json_pack("{s:s, s:f, s:f, s:I, s:I}", "split", what, "loss", found->loss, "accuracy",
                               share(found->top1, found->samples), gp_dataset_unit(dataset),
                               (json_int_t)count_of(found), "corrupt", (json_int_t)gp_dataset_corrupt(dataset));
    if (object && cli_top5_tells(found))
        json_object_set_new(object, "accuracy_top5", json_real(share(found->top5, found->samples)));
    if (object && found->confusion) {
        json_object_set_new(object, "classes", names_json(gp_dataset_classes(dataset)));
        json_object_set_new(object, "confusion", confusion_json(found));
    }
    bool written = object && json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && puts("") >= 0;
    json_decref(object);
    return written;
}

/* ---- for people ---- */

static bool print_confusion(const gp_evaluation *found, const gp_classes *classes) {
    bool written = puts("\nrow: what it is; column, by number: what it was taken for") >= 0 && printf("%20s", "") > 0;
    for (int64_t c = 0; c < found->classes; c++)
        written = printf(" %6lld", (long long)c) > 0 && written;
    written = puts("") >= 0 && written;
    for (int64_t r = 0; r < found->classes; r++) {
        const char *name = (size_t)r < gp_classes_count(classes) ? gp_classes_name(classes, (size_t)r) : "";
        written = printf("%4lld %-15.15s", (long long)r, name) > 0 && written;
        for (int64_t c = 0; c < found->classes; c++)
            written = printf(" %6lld", (long long)found->confusion[r * found->classes + c]) > 0 && written;
        written = puts("") >= 0 && written;
    }
    return written;
}

static bool print_text(const char *what, const gp_evaluation *found, const gp_dataset *dataset) {
    int64_t corrupt = gp_dataset_corrupt(dataset);
    char five[48] = "";
    if (cli_top5_tells(found))
        snprintf(five, sizeof five, "  among the first five %.2f%%", 100 * share(found->top5, found->samples));
    bool written = printf("%s loss %.6f  accuracy %.2f%%%s  over %lld %s", what, found->loss,
                          100 * share(found->top1, found->samples), five, (long long)count_of(found),
                          gp_dataset_unit(dataset)) > 0;
    if (corrupt > 0) written = printf(" (%lld more are corrupt)", (long long)corrupt) > 0 && written;
    written = puts("") >= 0 && written;
    return found->confusion ? print_confusion(found, gp_dataset_classes(dataset)) && written : written;
}

gp_status cli_print_classes(const char *what, const gp_evaluation *found, const gp_dataset *dataset, bool json) {
    bool written = json ? print_json(what, found, dataset) : print_text(what, found, dataset);
    return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
}
