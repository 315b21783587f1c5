/* The files of WordPiece: tokenizer.json, or vocab.txt with tokenizer_config.json. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "data/tokenizer_file.h"
#include "data/wordpiece.h"

enum { MOST_CHARACTERS = 100 };

static gp_wordpiece *create(const char *prefix) {
    gp_wordpiece *wp = gp_allocate(sizeof *wp);
    if (!wp) return NULL;
    wp->subword.tokenizer.table = &gp_wordpiece_class;
    wp->subword.encode_plain = gp_wordpiece_encode_plain;
    wp->most = MOST_CHARACTERS;
    wp->prefix = gp_copy_text(prefix);
    if (wp->prefix) return wp;
    gp_tokenizer_destroy(&wp->subword.tokenizer);
    return NULL;
}

static gp_status hand_out(gp_tokenizer **tokenizer, gp_wordpiece *wp, gp_status status) {
    if (status == GP_OK) {
        *tokenizer = &wp->subword.tokenizer;
    } else {
        gp_tokenizer_destroy(&wp->subword.tokenizer);
    }
    return status;
}

static gp_status find_unknown(gp_wordpiece *wp, const char *name) {
    wp->unknown = gp_vocabulary_find(&wp->subword.vocabulary, name, strlen(name));
    if (wp->unknown >= 0) return GP_OK;
    return gp_error(GP_INVALID, "its token for unknown words, \"%.64s\", is not in the vocabulary", name);
}

/* ---- tokenizer.json ---- */

static gp_status read_normalizer(gp_wordpiece *wp, const json_t *object) {
    if (!object || json_is_null(object)) return GP_OK;
    const char *type = gp_json_text(object, "type", "?");
    if (strcmp(type, "BertNormalizer") != 0) {
        return gp_error(GP_INVALID, "its normalizer is \"%.32s\": for WordPiece BertNormalizer is accepted", type);
    }
    wp->cleans = gp_json_flag(object, "clean_text", true);
    wp->chinese = gp_json_flag(object, "handle_chinese_chars", true);
    wp->lowers = gp_json_flag(object, "lowercase", true);
    wp->strips = gp_json_flag(object, "strip_accents", wp->lowers);
    return GP_OK;
}

/* Tokens that are looked for in the normalised text: gpipe looks for all of them before. */
static gp_status check_added(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        if (!gp_json_flag(token, "normalized", false)) continue;
        return gp_error(GP_INVALID, "its added token \"%.64s\" is \"normalized\", which gpipe does not know",
                        gp_json_text(token, "content", "?"));
    }
    return GP_OK;
}

static gp_status read_json(gp_wordpiece *wp, const json_t *object) {
    const json_t *model = json_object_get(object, "model"), *added = json_object_get(object, "added_tokens");
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    const char *words = gp_json_text(json_object_get(object, "pre_tokenizer"), "type", "?");
    if (strcmp(words, "BertPreTokenizer") != 0) {
        return gp_error(GP_INVALID, "its pre_tokenizer is \"%.32s\": for WordPiece BertPreTokenizer is accepted",
                        words);
    }
    if (json_is_integer(most)) wp->most = json_integer_value(most);
    GP_TRY(read_normalizer(wp, json_object_get(object, "normalizer")));
    GP_TRY(check_added(added));
    GP_TRY(
        gp_subword_read_vocabulary(&wp->subword.vocabulary, json_object_get(model, "vocab"), json_array_size(added)));
    GP_TRY(gp_subword_read_added(&wp->subword.vocabulary, added));
    GP_TRY(find_unknown(wp, gp_json_text(model, "unk_token", "[UNK]")));
    return gp_wordpiece_finish(wp);
}

gp_status gp_wordpiece_read_json(gp_tokenizer **tokenizer, const json_t *object) {
    gp_wordpiece *wp = create(gp_json_text(json_object_get(object, "model"), "continuing_subword_prefix", "##"));
    return wp ? hand_out(tokenizer, wp, read_json(wp, object)) : GP_OUT_OF_MEMORY;
}

/* ---- vocab.txt ---- */

static size_t count_lines(const gp_file_map *map) {
    size_t lines = 1;
    for (size_t i = 0; i < map->bytes; i++)
        lines += map->data[i] == '\n';
    return lines;
}

static size_t without_blanks(const char *line, size_t bytes) {
    while (bytes > 0 && strchr(" \t\r\v\f", line[bytes - 1]) && line[bytes - 1])
        bytes--;
    return bytes;
}

static gp_status read_lines(gp_vocabulary *vocabulary, const gp_file_map *map) {
    size_t valid = gp_utf8_valid(map->data, map->bytes);
    if (valid < map->bytes) return gp_error(GP_INVALID, "it is not UTF-8 at byte %zu", valid);
    GP_TRY(gp_vocabulary_create(vocabulary, count_lines(map)));
    int64_t id = 0;
    for (size_t at = 0; at < map->bytes; id++) {
        const char *line = (const char *)map->data + at;
        const char *end = memchr(line, '\n', map->bytes - at);
        size_t bytes = end ? (size_t)(end - line) : map->bytes - at;
        if (memchr(line, 0, bytes)) return gp_error(GP_INVALID, "it has a NUL byte in line %" PRId64, id + 1);
        GP_TRY(gp_vocabulary_add(vocabulary, id, line, without_blanks(line, bytes)));
        at += bytes + 1;
    }
    return GP_OK;
}

static gp_status read_list(gp_wordpiece *wp, const gp_file_map *map, const json_t *config) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    wp->cleans = true;
    wp->chinese = gp_json_flag(config, "tokenize_chinese_chars", true);
    wp->lowers = gp_json_flag(config, "do_lower_case", true);
    wp->strips = gp_json_flag(config, "strip_accents", wp->lowers);
    GP_TRY(read_lines(&wp->subword.vocabulary, map));
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        int32_t id = gp_vocabulary_find(&wp->subword.vocabulary, special[i], strlen(special[i]));
        if (id >= 0) wp->subword.vocabulary.tokens[id].added = true;
    }
    GP_TRY(find_unknown(wp, "[UNK]"));
    return gp_wordpiece_finish(wp);
}

gp_status gp_wordpiece_read_list(gp_tokenizer **tokenizer, const gp_file_map *list, const json_t *config) {
    gp_wordpiece *wp = create("##");
    return wp ? hand_out(tokenizer, wp, read_list(wp, list, config)) : GP_OUT_OF_MEMORY;
}

/* ---- the description of what was read from vocab.txt ---- */

static json_t *describe_special(const char *name, int type) {
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", type);
}

static json_t *describe_sequence(const char *name, int type) {
    return json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type);
}

static json_t *describe_special_ids(const char *name, int32_t id) {
    return json_pack("{s:s, s:[i], s:[s]}", "id", name, "ids", id, "tokens", name);
}

/* [CLS] text [SEP], and [CLS] text [SEP] text [SEP]: what others put around a text; gpipe does not. */
static json_t *describe_template(const gp_wordpiece *wp) {
    int32_t begin = gp_subword_find(&wp->subword.tokenizer, "[CLS]");
    int32_t end = gp_subword_find(&wp->subword.tokenizer, "[SEP]");
    if (begin < 0 || end < 0) return json_null();
    return json_pack("{s:s, s:[o,o,o], s:[o,o,o,o,o], s:{s:o, s:o}}", "type", "TemplateProcessing", "single",
                     describe_special("[CLS]", 0), describe_sequence("A", 0), describe_special("[SEP]", 0), "pair",
                     describe_special("[CLS]", 0), describe_sequence("A", 0), describe_special("[SEP]", 0),
                     describe_sequence("B", 1), describe_special("[SEP]", 1), "special_tokens", "[CLS]",
                     describe_special_ids("[CLS]", begin), "[SEP]", describe_special_ids("[SEP]", end));
}

static json_t *describe_normalizer(const gp_wordpiece *wp) {
    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "type", "BertNormalizer", "clean_text", wp->cleans,
                     "handle_chinese_chars", wp->chinese, "strip_accents", wp->strips, "lowercase", wp->lowers);
}

static json_t *describe_model(const gp_wordpiece *wp) {
    return json_pack("{s:s, s:s, s:s, s:I, s:o}", "type", "WordPiece", "unk_token",
                     gp_vocabulary_name(&wp->subword.vocabulary, wp->unknown), "continuing_subword_prefix", wp->prefix,
                     "max_input_chars_per_word", (json_int_t)wp->most, "vocab",
                     gp_subword_describe_vocabulary(&wp->subword.vocabulary));
}

char *gp_wordpiece_describe(const gp_tokenizer *tokenizer) {
    const gp_wordpiece *wp = (const gp_wordpiece *)tokenizer;
    if (wp->subword.source) return gp_copy_text(wp->subword.source);
    return gp_json_describe(json_pack(
        "{s:s, s:n, s:n, s:o, s:o, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:o}", "version", "1.0", "truncation", "padding",
        "added_tokens", gp_subword_describe_added(&wp->subword.vocabulary), "normalizer", describe_normalizer(wp),
        "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", describe_template(wp), "decoder", "type",
        "WordPiece", "prefix", wp->prefix, "cleanup", 1, "model", describe_model(wp)));
}
