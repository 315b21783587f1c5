/* A checkpoint opened for reading. What state.json says is believed only as far as the files bear it out. */
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header.h"
#include "checkpoint/shards.h"
#include "checkpoint/state.h"
#include "gpipe/words.h"

typedef struct group {
    const char *name; /* the state's */
    gp_shards *shards;
} group;

struct gp_checkpoint {
    char *folder;
    gp_checkpoint_state state;
    json_t *object; /* of state.json */
    group *groups;
    size_t group_count;
};

/* ---- opening ---- */

static gp_status check_size(const gp_checkpoint *checkpoint, const char *name, const json_t *file) {
    struct stat information;
    const json_t *bytes = json_object_get(file, "bytes");
    if (strchr(name, '/') || name[0] == '.' || !json_is_integer(bytes))
        return gp_error(GP_INVALID, "'%s/" GP_STATE_FILE "' describes no file \"%.80s\"", checkpoint->folder, name);
    char *path = gp_format_text("%s/%s", checkpoint->folder, name);
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    if (stat(path, &information) != 0) {
        status = gp_error(GP_INVALID, "'%s' is missing: %s", path, strerror(errno));
    } else if (!S_ISREG(information.st_mode)) {
        status = gp_error(GP_INVALID, "'%s' is not a regular file", path);
    } else if (information.st_size != json_integer_value(bytes)) {
        status = gp_error(GP_INVALID, "'%s' has %" PRId64 " byte%s, but %" PRId64 " were written", path,
                          (int64_t)information.st_size, gp_plural(information.st_size, "s"),
                          (int64_t)json_integer_value(bytes));
    }
    gp_free(path);
    return status;
}

static gp_status open_group(gp_checkpoint *checkpoint, const char *name) {
    for (size_t g = 0; g < checkpoint->group_count; g++)
        if (strcmp(checkpoint->groups[g].name, name) == 0) return GP_OK;
    group *made = &checkpoint->groups[checkpoint->group_count];
    made->name = name;
    GP_TRY(gp_shards_open_base(&made->shards, checkpoint->folder, name));
    checkpoint->group_count++;
    return GP_OK;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The header of an open file lies before its first tensor; its bytes are in the map. */
static gp_status check_header(const gp_checkpoint *checkpoint, const gp_safetensors *file, const char *path) {
    json_t *said = json_object_get(json_object_get(checkpoint->object, "files"), base_name(path));
    json_int_t bytes = json_integer_value(json_object_get(said, "header_bytes"));
    uint64_t wanted = 0;
    if (!gp_checksum_parse(json_string_value(json_object_get(said, "header")), &wanted))
        return gp_error(GP_INVALID, "'%s/" GP_STATE_FILE "' has no checksum for '%s'", checkpoint->folder, path);
    const char *data = gp_safetensors_count(file) > 0 ? gp_safetensors_data(file, 0) : NULL;
    if (!data || bytes < 8 || (uint64_t)bytes != gp_safetensors_header_bytes(file) ||
        gp_checksum_of(data - bytes, (size_t)bytes) != wanted)
        return gp_error(GP_INVALID, "the header of '%s' is damaged: its checksum is another one", path);
    return GP_OK;
}

static gp_status check_headers(const gp_checkpoint *checkpoint) {
    for (size_t g = 0; g < checkpoint->group_count; g++)
        for (size_t f = 0; f < gp_shards_file_count(checkpoint->groups[g].shards); f++) {
            const char *path;
            const gp_safetensors *file = gp_shards_file(checkpoint->groups[g].shards, f, &path);
            GP_TRY(check_header(checkpoint, file, path));
        }
    return GP_OK;
}

static gp_status open_files(gp_checkpoint *checkpoint) {
    json_t *files = json_object_get(checkpoint->object, "files"), *file;
    const char *name;
    checkpoint->groups = gp_allocate_array(json_object_size(files), sizeof *checkpoint->groups);
    if (!checkpoint->groups) return GP_OUT_OF_MEMORY;
    json_object_foreach(files, name, file) {
        GP_TRY(check_size(checkpoint, name, file));
    }
    json_object_foreach(files, name, file) {
        const char *of = json_string_value(json_object_get(file, "group"));
        if (!of || strchr(of, '/'))
            return gp_error(GP_INVALID, "'%s/" GP_STATE_FILE "' does not say what \"%s\" belongs to",
                            checkpoint->folder, name);
        GP_TRY(open_group(checkpoint, of));
    }
    return check_headers(checkpoint);
}

gp_status gp_checkpoint_open(gp_checkpoint **checkpoint, const char *folder) {
    *checkpoint = NULL;
    gp_checkpoint *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->folder = gp_copy_text(folder);
    gp_status status = made->folder ? gp_state_read(folder, &made->state, &made->object) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = open_files(made);
    if (status != GP_OK) {
        gp_checkpoint_close(made);
        return status;
    }
    *checkpoint = made;
    return GP_OK;
}

void gp_checkpoint_close(gp_checkpoint *checkpoint) {
    if (!checkpoint) return;
    for (size_t g = 0; g < checkpoint->group_count; g++)
        gp_shards_close(checkpoint->groups[g].shards);
    gp_free(checkpoint->groups);
    json_decref(checkpoint->object);
    gp_free(checkpoint->folder);
    gp_free(checkpoint);
}

const gp_checkpoint_state *gp_checkpoint_state_of(const gp_checkpoint *checkpoint) {
    return &checkpoint->state;
}

/* ---- tensors ---- */

gp_status gp_checkpoint_tensor(const gp_checkpoint *checkpoint, const char *group_name, const char *name,
                               const gp_shards **shards, size_t *index) {
    for (size_t g = 0; g < checkpoint->group_count; g++) {
        if (strcmp(checkpoint->groups[g].name, group_name) != 0) continue;
        *shards = checkpoint->groups[g].shards;
        if (gp_shards_find(*shards, name, index)) return GP_OK;
        break;
    }
    return gp_error(GP_INVALID, "%s: there is no tensor %s in its %s.safetensors", checkpoint->folder, name,
                    group_name);
}

gp_status gp_checkpoint_check(const gp_checkpoint *checkpoint, const gp_shards *shards, size_t index, uint64_t first,
                              uint64_t bytes) {
    const char *path, *name = gp_shards_name(shards, index), *data = gp_shards_data(shards, index);
    uint64_t total = gp_type_bytes(gp_shards_type(shards, index)), begin = 0, piece = 0, wanted = 0;
    gp_shards_file(shards, gp_shards_file_of(shards, index), &path);
    json_t *sums = json_object_get(json_object_get(checkpoint->object, "checksums"), base_name(path));
    json_t *entry = json_object_get(sums, name);
    for (size_t i = 0; gp_state_checksum(entry, i, &piece, &wanted); i++, begin += piece) {
        if (piece == UINT64_MAX) piece = total;
        if (piece > total - begin) break;
        bool touched = begin < first + bytes && first < begin + piece;
        if (touched && gp_checksum_of(data + begin, (size_t)piece) != wanted)
            return gp_error(GP_INVALID, "tensor %s of '%s' is damaged: its checksum is another one", name, path);
    }
    if (begin == total && entry) return GP_OK;
    return gp_error(GP_INVALID, "'%s/" GP_STATE_FILE "' has no checksums for all of tensor %s", checkpoint->folder,
                    name);
}

/* ---- verifying ---- */

/* Goes on after damage, so that a visitor sees all of it. Returns the first fault. */
static gp_status verify_group(const gp_checkpoint *checkpoint, const gp_shards *shards, gp_checkpoint_visit visit,
                              void *user, char *message, size_t size) {
    gp_status first = GP_OK;
    for (size_t i = 0; i < gp_shards_count(shards); i++) {
        const char *path;
        uint64_t bytes = gp_type_bytes(gp_shards_type(shards, i));
        gp_status status = gp_checkpoint_check(checkpoint, shards, i, 0, bytes);
        if (status != GP_OK && first == GP_OK) {
            first = status;
            snprintf(message, size, "%s", gp_error_message());
        }
        gp_shards_file(shards, gp_shards_file_of(shards, i), &path);
        if (visit && !visit(user, base_name(path), gp_shards_name(shards, i), gp_type_bytes(gp_shards_type(shards, i)),
                            status != GP_OK))
            break;
    }
    return first;
}

gp_status gp_checkpoint_verify(const char *folder, gp_checkpoint_visit visit, void *user) {
    gp_checkpoint *checkpoint;
    gp_status first = GP_OK;
    char message[1024];
    GP_TRY(gp_checkpoint_open(&checkpoint, folder));
    for (size_t g = 0; g < checkpoint->group_count; g++) {
        char text[sizeof message];
        gp_status status = verify_group(checkpoint, checkpoint->groups[g].shards, visit, user, text, sizeof text);
        if (status == GP_OK || first != GP_OK) continue;
        first = status;
        memcpy(message, text, sizeof message);
    }
    gp_checkpoint_close(checkpoint);
    return first == GP_OK ? GP_OK : gp_error(first, "%s", message);
}
