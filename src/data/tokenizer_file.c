/* Tokenizers from their files: which kind it is, is found out from the names and from what is in them. */
#include "data/tokenizer_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/utf8.h"

/* Room for the largest vocabularies there are (256,000 tokens and twice as many merges). */
static const gp_json_limits limits = {(size_t)128 << 20, 32, 8 << 20};

gp_status gp_tokenizer_save(const gp_tokenizer *tokenizer, const char *path) {
    char *text = tokenizer->table->describe(tokenizer);
    gp_status status = text ? gp_file_write_text(path, text)
                            : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for the vocabulary");
    gp_free(text);
    return gp_error_within(status, "the tokenizer was not saved to '%s'", path);
}

/* ---- tokenizer.json ---- */

static gp_status read_characters(gp_tokenizer **tokenizer, const json_t *value) {
    size_t bytes = json_string_length(value), count = 0;
    if (bytes == 0) return gp_error(GP_INVALID, "its \"characters\" are not a text of at least one character");
    const unsigned char *text = (const unsigned char *)json_string_value(value);
    uint32_t *codes = gp_allocate_array(bytes, sizeof *codes);
    if (!codes) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    for (size_t at = 0; at < bytes && status == GP_OK; count++) {
        size_t length = gp_utf8_decode(text + at, bytes - at, &codes[count]);
        if (length == 0) status = gp_error(GP_INVALID, "its \"characters\" are not valid UTF-8");
        if (status == GP_OK && count > 0 && codes[count] <= codes[count - 1]) {
            status = gp_error(GP_INVALID, "its \"characters\" are not in ascending order at character %zu", count);
        }
        at += length;
    }
    if (status == GP_OK) status = gp_tokenizer_create_char(tokenizer, codes, count);
    gp_free(codes);
    return status;
}

static gp_status read_own(gp_tokenizer **tokenizer, const json_t *object) {
    const json_t *version = json_object_get(object, "version");
    const char *kind = gp_json_text(object, "kind", "");
    if (strcmp(gp_json_text(object, "format", ""), GP_TOKENIZER_FORMAT) != 0) {
        return gp_error(GP_INVALID, "its \"format\" is not \"" GP_TOKENIZER_FORMAT "\", and it has no \"model\"");
    }
    if (!json_is_integer(version) || json_integer_value(version) != GP_TOKENIZER_VERSION) {
        return gp_error(GP_INVALID, "its \"version\" is not %d", GP_TOKENIZER_VERSION);
    }
    if (strcmp(kind, gp_tokenizer_kind_name(GP_TOKENIZER_BYTE)) == 0) return gp_tokenizer_create_byte(tokenizer);
    if (strcmp(kind, gp_tokenizer_kind_name(GP_TOKENIZER_CHAR)) == 0) {
        return read_characters(tokenizer, json_object_get(object, "characters"));
    }
    return gp_error(GP_INVALID, "its \"kind\" is neither \"char\" nor \"byte\"");
}

/* The kind of a model that does not say it: older files leave it out. */
static const char *model_type(const json_t *model) {
    const char *type = gp_json_text(model, "type", "");
    if (*type) return type;
    return json_object_get(model, "merges")                     ? "BPE"
           : json_object_get(model, "max_input_chars_per_word") ? "WordPiece"
                                                                : "?";
}

static gp_status read_model(gp_tokenizer **tokenizer, const json_t *object, const gp_file_map *map) {
    const char *type = model_type(json_object_get(object, "model"));
    if (strcmp(type, "BPE") == 0) {
        GP_TRY(gp_bpe_read_json(tokenizer, object));
    } else if (strcmp(type, "WordPiece") == 0) {
        GP_TRY(gp_wordpiece_read_json(tokenizer, object));
    } else {
        return gp_error(GP_INVALID, "its model is of the type \"%.32s\": BPE and WordPiece are accepted", type);
    }
    char *source = gp_format_text("%.*s", (int)map->bytes, (const char *)map->data);
    ((gp_subword *)*tokenizer)->source = source;
    return source ? GP_OK : GP_OUT_OF_MEMORY;
}

static gp_status read_object(gp_tokenizer **tokenizer, const json_t *object, const gp_file_map *map) {
    if (json_is_object(json_object_get(object, "model"))) return read_model(tokenizer, object, map);
    return read_own(tokenizer, object);
}

static gp_status read_json(gp_tokenizer **tokenizer, const gp_file_map *map) {
    json_t *object;
    GP_TRY(gp_json_parse(&object, (const char *)map->data, map->bytes, &limits, "it"));
    gp_status status = read_object(tokenizer, object, map);
    json_decref(object);
    return status;
}

static gp_status load_json(gp_tokenizer **tokenizer, const char *path) {
    gp_file_map map;
    GP_TRY(gp_file_map_open(&map, path));
    gp_status status = read_json(tokenizer, &map);
    gp_file_map_close(&map);
    return gp_error_within(status, "'%s' is not a tokenizer file", path);
}

/* ---- vocab.json and merges.txt ---- */

/* Parses a file that stands beside others; NULL without an error when there is none and it may be missing. */
static gp_status parse_file(json_t **object, const char *path, bool may_be_missing) {
    gp_file_map map;
    *object = NULL;
    if (may_be_missing && access(path, F_OK) != 0) return GP_OK;
    GP_TRY(gp_file_map_open(&map, path));
    gp_status status = gp_json_parse(object, (const char *)map.data, map.bytes, &limits, "it");
    gp_file_map_close(&map);
    return gp_error_within(status, "'%s' cannot be used", path);
}

static gp_status load_pair(gp_tokenizer **tokenizer, const char *vocabulary, const char *merges) {
    json_t *object;
    gp_file_map map = {0};
    GP_TRY(parse_file(&object, vocabulary, false));
    gp_status status = gp_file_map_open(&map, merges);
    if (status == GP_OK) {
        status = gp_error_within(gp_bpe_read_files(tokenizer, object, &map), "'%s' with '%s' is not a tokenizer",
                                 vocabulary, merges);
    }
    gp_file_map_close(&map);
    json_decref(object);
    return status;
}

/* ---- vocab.txt ---- */

static gp_status load_list(gp_tokenizer **tokenizer, const char *list, const char *config) {
    json_t *object;
    gp_file_map map = {0};
    GP_TRY(parse_file(&object, config, true));
    gp_status status = gp_file_map_open(&map, list);
    if (status == GP_OK) {
        status = gp_error_within(gp_wordpiece_read_list(tokenizer, &map, object), "'%s' is not a tokenizer file", list);
    }
    gp_file_map_close(&map);
    json_decref(object);
    return status;
}

/* ---- any of them ---- */

typedef struct tokenizer_paths {
    char *json, *vocabulary, *merges, *list, *config;
} tokenizer_paths;

static bool name_paths(tokenizer_paths *paths, const char *folder, int bytes) {
    paths->json = gp_format_text("%.*s/tokenizer.json", bytes, folder);
    paths->vocabulary = gp_format_text("%.*s/vocab.json", bytes, folder);
    paths->merges = gp_format_text("%.*s/merges.txt", bytes, folder);
    paths->list = gp_format_text("%.*s/vocab.txt", bytes, folder);
    paths->config = gp_format_text("%.*s/tokenizer_config.json", bytes, folder);
    return paths->json && paths->vocabulary && paths->merges && paths->list && paths->config;
}

static void free_paths(tokenizer_paths *paths) {
    gp_free(paths->json);
    gp_free(paths->vocabulary);
    gp_free(paths->merges);
    gp_free(paths->list);
    gp_free(paths->config);
}

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static gp_status load_folder(gp_tokenizer **tokenizer, const char *path, const tokenizer_paths *paths) {
    if (is_there(paths->json)) return load_json(tokenizer, paths->json);
    if (is_there(paths->vocabulary) || is_there(paths->merges))
        return load_pair(tokenizer, paths->vocabulary, paths->merges);
    if (is_there(paths->list)) return load_list(tokenizer, paths->list, paths->config);
    return gp_error(GP_INVALID,
                    "the folder '%s' has no tokenizer: tokenizer.json, vocab.json with merges.txt, or vocab.txt is "
                    "accepted",
                    path);
}

/* A file is known by its name; any other is taken for a tokenizer.json. */
static gp_status load_file(gp_tokenizer **tokenizer, const char *path, const tokenizer_paths *paths) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (strcmp(name, "vocab.json") == 0) return load_pair(tokenizer, path, paths->merges);
    if (strcmp(name, "merges.txt") == 0) return load_pair(tokenizer, paths->vocabulary, path);
    if (length > 4 && strcmp(name + length - 4, ".txt") == 0) return load_list(tokenizer, path, paths->config);
    return load_json(tokenizer, path);
}

static gp_status load(gp_tokenizer **tokenizer, const char *path, const tokenizer_paths *beside) {
    struct stat information;
    if (stat(path, &information) != 0 || !S_ISDIR(information.st_mode)) return load_file(tokenizer, path, beside);
    tokenizer_paths inside = {0};
    gp_status status =
        name_paths(&inside, path, (int)strlen(path)) ? load_folder(tokenizer, path, &inside) : GP_OUT_OF_MEMORY;
    free_paths(&inside);
    return status;
}

gp_status gp_tokenizer_load(gp_tokenizer **tokenizer, const char *path) {
    const char *slash = strrchr(path, '/');
    tokenizer_paths beside = {0};
    *tokenizer = NULL;
    gp_status status = GP_OUT_OF_MEMORY;
    if (name_paths(&beside, slash ? path : ".", slash ? (int)(slash - path) : 1))
        status = load(tokenizer, path, &beside);
    free_paths(&beside);
    if (status != GP_OK) {
        gp_tokenizer_destroy(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
