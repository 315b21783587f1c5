/* gpipe inspect --verify: every byte of a checkpoint against its checksums. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gpipe/checkpoint.h"
#include "gpipe/words.h"
#include "inspect.h"
#include "json.h"
#include "message.h"

typedef struct verification {
    bool json;
    json_t *list;    /* with json: what was found, checkpoint by checkpoint */
    json_t *damaged; /* of the checkpoint that is being read: names of tensors */
    int64_t tensors;
    uint64_t bytes;
    int whole, broken; /* checkpoints */
} verification;

static bool note(void *user, const char *file, const char *tensor, uint64_t bytes, bool damaged) {
    verification *v = user;
    v->tensors++;
    v->bytes += bytes;
    if (damaged) json_array_append_new(v->damaged, json_sprintf("%s: %s", file, tensor));
    return true;
}

static void print(const verification *v, const char *folder, const gp_checkpoint_state *state) {
    char size[16];
    if (json_array_size(v->damaged) == 0 && state) {
        printf("%s: whole: step %" PRId64 " of %" PRId64 ", %" PRId64 " tensor%s, %s, written by gpipe %s\n", folder,
               state->step, state->steps, v->tensors, gp_plural(v->tensors, "s"),
               gp_bytes_format((size_t)v->bytes, size, sizeof size), state->version);
        return;
    }
    printf("%s: DAMAGED: %s\n", folder, gp_error_message());
    for (size_t i = 0; i < json_array_size(v->damaged); i++)
        printf("  %s\n", json_string_value(json_array_get(v->damaged, i)));
}

static void keep(verification *v, const char *folder, bool whole, const gp_checkpoint_state *state) {
    json_t *entry =
        json_pack("{s:o, s:b, s:O}", "checkpoint", cli_json_text(folder), "whole", (int)whole, "damaged", v->damaged);
    if (whole) {
        json_object_set_new(entry, "step", json_integer(state->step));
        json_object_set_new(entry, "tensors", json_integer(v->tensors));
        json_object_set_new(entry, "bytes", json_integer((json_int_t)v->bytes));
    } else {
        json_object_set_new(entry, "message", cli_json_text(gp_error_message()));
    }
    json_array_append_new(v->list, entry);
}

static void verify(verification *v, const char *folder) {
    gp_checkpoint_state state;
    v->tensors = 0;
    v->bytes = 0;
    v->damaged = json_array();
    gp_status status = gp_checkpoint_read_state(folder, &state);
    if (status == GP_OK) status = gp_checkpoint_verify(folder, note, v);
    bool whole = status == GP_OK;
    v->whole += whole;
    v->broken += !whole;
    if (v->json) {
        keep(v, folder, whole, &state);
    } else {
        print(v, folder, whole ? &state : NULL);
    }
    json_decref(v->damaged);
}

static bool is_folder(const char *path) {
    struct stat information;
    return stat(path, &information) == 0 && S_ISDIR(information.st_mode);
}

/* A checkpoint, or all of a run. */
static gp_status verify_path(verification *v, const char *path) {
    char folder[4096];
    int length = snprintf(folder, sizeof folder, "%s/checkpoints", path);
    if (length < 0 || (size_t)length + 32 >= sizeof folder)
        return gp_error(GP_INVALID, "the path %s is too long", path);
    if (!is_folder(path))
        return gp_error(GP_INVALID, "%s is not a folder: --verify takes a checkpoint or a run directory", path);
    if (!is_folder(folder)) {
        verify(v, path);
        return GP_OK;
    }
    for (int64_t step = INT64_MAX; (step = gp_checkpoint_before(path, step)) >= 0;) {
        snprintf(folder + length, sizeof folder - (size_t)length, "/step-%" PRId64, step);
        verify(v, folder);
    }
    return v->whole + v->broken > 0 ? GP_OK : gp_error(GP_INVALID, "there is no checkpoint in %s", folder);
}

int cli_inspect_verify(const char *path, bool json) {
    verification v = {.json = json, .list = json_array()};
    gp_status status = verify_path(&v, path);
    if (status == GP_OK && v.json) status = cli_json_print(json_incref(v.list));
    json_decref(v.list);
    if (status != GP_OK) return cli_fail(status);
    if (v.broken == 0) return 0;
    return cli_fail(gp_error(GP_INVALID, "%d of %d checkpoint%s %s damaged", v.broken, v.whole + v.broken,
                             gp_plural(v.whole + v.broken, "s"), v.broken == 1 ? "is" : "are"));
}
