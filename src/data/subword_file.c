/* The parts that tokenizer files of byte-pair encoding and of WordPiece have in common. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "data/tokenizer_file.h"

const char *gp_json_text(const json_t *object, const char *key, const char *fallback) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : fallback;
}

bool gp_json_flag(const json_t *object, const char *key, bool fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

gp_status gp_subword_read_vocabulary(gp_vocabulary *vocabulary, const json_t *object, size_t more) {
    if (!json_is_object(object) || json_object_size(object) == 0) {
        return gp_error(GP_INVALID, "its vocabulary is not an object of tokens and ids");
    }
    GP_TRY(gp_vocabulary_create(vocabulary, json_object_size(object) + more));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (!json_is_integer(value)) return gp_error(GP_INVALID, "the id of its token \"%.64s\" is no integer", name);
        GP_TRY(gp_vocabulary_add(vocabulary, json_integer_value(value), name, strlen(name)));
    }
    return GP_OK;
}

static gp_status read_added_token(gp_vocabulary *vocabulary, const json_t *value) {
    const char *content = gp_json_text(value, "content", "");
    const json_t *id = json_object_get(value, "id");
    if (!*content || !json_is_integer(id)) {
        return gp_error(GP_INVALID, "one of its \"added_tokens\" lacks a \"content\" or an \"id\"");
    }
    if (gp_json_flag(value, "single_word", false)) {
        return gp_error(GP_INVALID, "its added token \"%.64s\" is a \"single_word\", which gpipe does not know",
                        content);
    }
    int32_t known = gp_vocabulary_find(vocabulary, content, strlen(content));
    if (known >= 0 && known != json_integer_value(id)) {
        return gp_error(GP_INVALID, "its added token \"%.64s\" has the id %lld, and %" PRId32 " in the vocabulary",
                        content, (long long)json_integer_value(id), known);
    }
    GP_TRY(gp_vocabulary_add(vocabulary, json_integer_value(id), content, strlen(content)));
    gp_token *token = &vocabulary->tokens[json_integer_value(id)];
    token->added = true;
    token->strips_left = gp_json_flag(value, "lstrip", false);
    token->strips_right = gp_json_flag(value, "rstrip", false);
    return GP_OK;
}

gp_status gp_subword_read_added(gp_vocabulary *vocabulary, const json_t *list) {
    if (list && !json_is_null(list) && !json_is_array(list)) {
        return gp_error(GP_INVALID, "its \"added_tokens\" are not a list");
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        GP_TRY(read_added_token(vocabulary, json_array_get(list, i)));
    return GP_OK;
}

json_t *gp_subword_describe_vocabulary(const gp_vocabulary *vocabulary) {
    json_t *object = json_object();
    for (int32_t id = 0; object && id < vocabulary->count; id++) {
        if (!vocabulary->tokens[id].there) continue;
        if (json_object_set_new(object, gp_vocabulary_name(vocabulary, id), json_integer(id)) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

json_t *gp_subword_describe_added(const gp_vocabulary *vocabulary) {
    json_t *list = json_array();
    for (int32_t id = 0; list && id < vocabulary->count; id++) {
        const gp_token *token = &vocabulary->tokens[id];
        if (!token->there || !token->added) continue;
        json_t *value = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content",
                                  gp_vocabulary_name(vocabulary, id), "single_word", 0, "lstrip", token->strips_left,
                                  "rstrip", token->strips_right, "normalized", 0, "special", 1);
        if (json_array_append_new(list, value) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

char *gp_json_describe(json_t *tree) {
    char *dumped = tree ? json_dumps(tree, JSON_INDENT(1)) : NULL;
    char *text = dumped ? gp_format_text("%s\n", dumped) : NULL;
    free(dumped); /* Jansson's */
    json_decref(tree);
    return text;
}
