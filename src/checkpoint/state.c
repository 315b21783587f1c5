/* state.json, written and read. Numbers that must come back as they were have 17 digits, or are texts. */
#include "checkpoint/state.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header.h"

#define FORMAT_NAME "gpipe checkpoint"

enum { NUMBERS = JSON_REAL_PRECISION(17) };

/* ---- writing ---- */

static json_t *checksum_json(uint64_t value) {
    char text[GP_CHECKSUM_TEXT];
    return json_string(gp_checksum_format(value, text));
}

static json_t *number_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *counters_json(const gp_checkpoint_state *state) {
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, state->seed);
    json_t *best = state->best_step < 0 ? json_null()
                                        : json_pack("{s:I, s:o}", "step", (json_int_t)state->best_step,
                                                    "validation_loss", number_json(state->best));
    return json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:{s:s, s:I}, s:{s:s, s:o, s:o, s:I}, s:o, s:{s:I, s:I}, s:o, "
                     "s:b}",
                     "format", FORMAT_NAME, "format_version", (int)GP_STATE_VERSION, "gpipe_version", gp_version(),
                     "step", (json_int_t)state->step, "updates", (json_int_t)state->updates, "samples",
                     (json_int_t)state->samples, "random", "seed", seed, "step", (json_int_t)state->step,
                     "learning_rate", "schedule", state->schedule, "lr", number_json(state->lr), "next",
                     number_json(state->next_lr), "steps", (json_int_t)state->steps, "best", best, "data",
                     "training_count", (json_int_t)state->training_count, "validation_count",
                     (json_int_t)state->validation_count, "configuration", checksum_json(state->configuration),
                     "evaluation_pending", (int)state->evaluation_pending);
}

static json_t *files_json(const gp_files *files) {
    json_t *object = json_object();
    for (size_t s = 0; s < files->shard_count; s++) {
        const gp_files_shard *shard = &files->shards[s];
        uint64_t header = gp_checksum_of(shard->header, shard->header_bytes);
        json_object_set_new(object, shard->name,
                            json_pack("{s:s, s:I, s:I, s:o}", "group", shard->group, "bytes", (json_int_t)shard->bytes,
                                      "header_bytes", (json_int_t)shard->header_bytes, "header",
                                      checksum_json(header)));
    }
    return object;
}

/* "hash" of a whole tensor, or ["bytes:hash", ...] of its pieces. */
static json_t *pieces_json(const gp_files_piece *pieces, size_t count) {
    if (count == 1) return checksum_json(pieces[0].checksum);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[GP_CHECKSUM_TEXT];
        gp_checksum_format(pieces[i].checksum, text);
        json_array_append_new(list, json_sprintf("%" PRIu64 ":%s", pieces[i].bytes, text));
    }
    return list;
}

/* The pieces are sorted by tensor. */
static json_t *checksums_json(const gp_files *files, const gp_files_piece *pieces, size_t count) {
    json_t *object = json_object();
    for (size_t s = 0; s < files->shard_count; s++)
        json_object_set_new(object, files->shards[s].name, json_object());
    for (size_t i = 0, next; i < count; i = next) {
        size_t tensor = pieces[i].tensor;
        for (next = i; next < count && pieces[next].tensor == tensor;)
            next++;
        json_object_set_new(json_object_get(object, files->shards[files->shard[tensor]].name),
                            files->tensors[tensor].name, pieces_json(pieces + i, next - i));
    }
    return object;
}

/* The checksum of the object without the one that it may hold itself. */
static bool own_checksum(const json_t *object, uint64_t *value) {
    json_t *rest = json_copy((json_t *)object);
    json_object_del(rest, "checksum");
    char *text = rest ? json_dumps(rest, JSON_COMPACT | NUMBERS) : NULL;
    if (text) *value = gp_checksum_of(text, strlen(text));
    json_decref(rest);
    bool known = text != NULL;
    free(text);
    return known;
}

static gp_status write_object(const char *folder, const json_t *object) {
    char *text = json_dumps(object, JSON_INDENT(1) | NUMBERS);
    char *path = gp_format_text("%s/" GP_STATE_FILE, folder);
    gp_status status = text && path ? gp_file_write_text(path, text)
                                    : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for " GP_STATE_FILE);
    free(text);
    gp_free(path);
    return status;
}

gp_status gp_state_write(const char *folder, const gp_checkpoint_state *state, const gp_files *files,
                         gp_files_piece *pieces, size_t piece_count) {
    uint64_t own = 0;
    GP_TRY(gp_files_check_pieces(files, pieces, piece_count));
    json_t *object = counters_json(state);
    bool whole = object && json_object_set_new(object, "files", files_json(files)) == 0 &&
                 json_object_set_new(object, "checksums", checksums_json(files, pieces, piece_count)) == 0 &&
                 own_checksum(object, &own) && json_object_set_new(object, "checksum", checksum_json(own)) == 0;
    gp_status status = whole ? write_object(folder, object)
                             : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for " GP_STATE_FILE);
    json_decref(object);
    return status;
}

/* ---- reading ---- */

static gp_status read_integer(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *value) {
    const json_t *found = json_object_get(object, key);
    if (!json_is_integer(found)) return gp_error(GP_INVALID, "\"%s\" is not a whole number", key);
    *value = json_integer_value(found);
    if (*value >= least && *value <= most) return GP_OK;
    return gp_error(GP_INVALID, "\"%s\" is %" PRId64 ": %" PRId64 " to %" PRId64 " is accepted", key, *value, least,
                    most);
}

/* A rate of learning, a loss: JSON has no number that is not finite, but a rate below 0 is none either. */
static gp_status read_rate_number(const json_t *object, const char *key, double *value) {
    const json_t *found = json_object_get(object, key);
    *value = json_number_value(found);
    if (json_is_number(found) && *value >= 0) return GP_OK;
    return gp_error(GP_INVALID, "\"%s\" is not a number of 0 or more", key);
}

static gp_status read_text(const json_t *object, const char *key, char text[GP_CHECKPOINT_TEXT]) {
    const char *found = json_string_value(json_object_get(object, key));
    if (!found || strlen(found) >= GP_CHECKPOINT_TEXT || !gp_header_name_is_printable(found))
        return gp_error(GP_INVALID, "\"%s\" is not a text of at most %d bytes", key, GP_CHECKPOINT_TEXT - 1);
    memcpy(text, found, strlen(found) + 1);
    return GP_OK;
}

static gp_status read_seed(const json_t *object, uint64_t *seed) {
    const char *text = json_string_value(json_object_get(object, "seed"));
    char *end = NULL;
    errno = 0;
    if (text && *text >= '0' && *text <= '9') *seed = strtoull(text, &end, 10);
    if (!end || *end || errno != 0) return gp_error(GP_INVALID, "\"seed\" is not a text of digits");
    return GP_OK;
}

static gp_status read_best(const json_t *best, gp_checkpoint_state *state) {
    state->best_step = -1;
    state->best = INFINITY;
    if (!best || json_is_null(best)) return GP_OK;
    const json_t *loss = json_object_get(best, "validation_loss");
    if (!json_is_real(loss)) return gp_error(GP_INVALID, "\"validation_loss\" is not a number");
    state->best = json_real_value(loss);
    return gp_error_within(read_integer(best, "step", 0, state->step, &state->best_step), "\"best\"");
}

static gp_status read_rate(const json_t *rate, gp_checkpoint_state *state) {
    GP_TRY(read_rate_number(rate, "lr", &state->lr));
    GP_TRY(read_rate_number(rate, "next", &state->next_lr));
    GP_TRY(read_integer(rate, "steps", 0, GP_STATE_MOST_STEPS, &state->steps));
    return read_text(rate, "schedule", state->schedule);
}

/* Damage first: what follows then speaks of files that somebody wrote so. */
static gp_status check_object(const json_t *object) {
    uint64_t own = 0, said = 0;
    int64_t version = 0;
    const char *format = json_string_value(json_object_get(object, "format"));
    if (!format || strcmp(format, FORMAT_NAME) != 0)
        return gp_error(GP_INVALID, "\"format\" is not \"" FORMAT_NAME "\"");
    GP_TRY(read_integer(object, "format_version", 1, INT32_MAX, &version));
    if (version > GP_STATE_VERSION)
        return gp_error(GP_INVALID, "it has format version %" PRId64 ", but this gpipe (%s) knows up to %d", version,
                        gp_version(), (int)GP_STATE_VERSION);
    if (!own_checksum(object, &own)) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for a checksum");
    if (!gp_checksum_parse(json_string_value(json_object_get(object, "checksum")), &said) || said != own)
        return gp_error(GP_INVALID, "its checksum is not that of its contents: it is damaged");
    return GP_OK;
}

static gp_status read_object(const json_t *object, gp_checkpoint_state *state) {
    const json_t *data = json_object_get(object, "data");
    *state = (gp_checkpoint_state){0};
    GP_TRY(check_object(object));
    GP_TRY(read_text(object, "gpipe_version", state->version));
    GP_TRY(read_integer(object, "step", 0, GP_STATE_MOST_STEPS, &state->step));
    GP_TRY(read_integer(object, "updates", 0, state->step, &state->updates));
    GP_TRY(read_integer(object, "samples", 0, GP_STATE_MOST, &state->samples));
    GP_TRY(read_seed(json_object_get(object, "random"), &state->seed));
    GP_TRY(gp_error_within(read_rate(json_object_get(object, "learning_rate"), state), "\"learning_rate\""));
    GP_TRY(read_best(json_object_get(object, "best"), state));
    GP_TRY(read_integer(data, "training_count", 0, GP_STATE_MOST, &state->training_count));
    GP_TRY(read_integer(data, "validation_count", 0, GP_STATE_MOST, &state->validation_count));
    if (!gp_checksum_parse(json_string_value(json_object_get(object, "configuration")), &state->configuration))
        return gp_error(GP_INVALID, "\"configuration\" is not a checksum");
    state->evaluation_pending = json_is_true(json_object_get(object, "evaluation_pending"));
    if (!json_is_object(json_object_get(object, "files")) || !json_is_object(json_object_get(object, "checksums")))
        return gp_error(GP_INVALID, "\"files\" and \"checksums\" are not objects");
    return GP_OK;
}

static gp_status parse(const gp_file_map *map, gp_checkpoint_state *state, json_t **object) {
    static const gp_json_limits limits = {GP_STATE_MAX_BYTES, 4, GP_HEADER_MAX_VALUES};
    GP_TRY(gp_json_parse(object, (const char *)map->data, map->bytes, &limits, "the file"));
    return read_object(*object, state);
}

gp_status gp_state_read(const char *folder, gp_checkpoint_state *state, json_t **object) {
    gp_file_map map;
    char *path = gp_format_text("%s/" GP_STATE_FILE, folder);
    *object = NULL;
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = gp_file_map_open(&map, path);
    if (status == GP_OK) {
        status = gp_error_within(parse(&map, state, object), "'%s' cannot be used", path);
        gp_file_map_close(&map);
    }
    if (status != GP_OK) {
        json_decref(*object);
        *object = NULL;
    }
    gp_free(path);
    return status;
}

bool gp_state_checksum(const json_t *entry, size_t number, uint64_t *bytes, uint64_t *checksum) {
    if (json_is_string(entry)) {
        *bytes = UINT64_MAX;
        return number == 0 && gp_checksum_parse(json_string_value(entry), checksum);
    }
    const char *text = json_string_value(json_array_get(entry, number));
    char *end = NULL;
    if (!text || *text < '0' || *text > '9') return false;
    *bytes = strtoull(text, &end, 10);
    return *end == ':' && gp_checksum_parse(end + 1, checksum);
}

gp_status gp_checkpoint_read_state(const char *folder, gp_checkpoint_state *state) {
    json_t *object = NULL;
    gp_status status = gp_state_read(folder, state, &object);
    json_decref(object);
    return status;
}
