/* The files of byte-pair encoding: tokenizer.json, or vocab.json and merges.txt. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "data/bpe.h"
#include "data/tokenizer_file.h"

#define END_OF_TEXT "<|endoftext|>"

/* ---- how the text is cut ---- */

#define LATER(digits)                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                         \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *text;
    gp_split_pattern pattern;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", GP_SPLIT_GPT2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", GP_SPLIT_GPT2},
    {LATER("{1,3}"), GP_SPLIT_THREE_DIGITS},
    {LATER(""), GP_SPLIT_ONE_DIGIT},
};

static gp_status read_byte_level(gp_bpe *bpe, const json_t *object) {
    if (gp_json_flag(object, "use_regex", true)) bpe->pattern = GP_SPLIT_GPT2;
    bpe->prefix_space = gp_json_flag(object, "add_prefix_space", true);
    return GP_OK;
}

static gp_status read_pattern(gp_bpe *bpe, const json_t *object) {
    const char *text = gp_json_text(json_object_get(object, "pattern"), "Regex", "");
    bool isolates = strcmp(gp_json_text(object, "behavior", ""), "Isolated") == 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && isolates; i++) {
        if (strcmp(text, patterns[i].text) != 0) continue;
        bpe->pattern = patterns[i].pattern;
        return GP_OK;
    }
    return gp_error(
        GP_INVALID,
        "its pattern \"%.80s\" is not among those that gpipe knows: GPT-2's, GPT-4's and Llama 3's, Qwen 2's", text);
}

static gp_status read_pre_tokenizer(gp_bpe *bpe, const json_t *object) {
    const char *type = gp_json_text(object, "type", "");
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(bpe, object);
    const json_t *list = json_object_get(object, "pretokenizers");
    const json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    bool known = strcmp(type, "Sequence") == 0 && json_array_size(list) == 2 &&
                 strcmp(gp_json_text(first, "type", ""), "Split") == 0 &&
                 strcmp(gp_json_text(second, "type", ""), "ByteLevel") == 0 && !gp_json_flag(second, "use_regex", true);
    if (!known) {
        return gp_error(GP_INVALID, "its pre_tokenizer is neither ByteLevel (GPT-2's) nor a Split before ByteLevel");
    }
    GP_TRY(read_byte_level(bpe, second));
    return read_pattern(bpe, first);
}

/* ---- vocabulary and merges ---- */

/* Sets the bytes that a token stands for: those of its symbols, or its own when one of them is no symbol. */
static gp_status set_piece(gp_bpe *bpe, int32_t id, gp_buffer *piece) {
    gp_vocabulary *vocabulary = &bpe->subword.vocabulary;
    const gp_token *token = &vocabulary->tokens[id];
    const unsigned char *name = (const unsigned char *)gp_vocabulary_name(vocabulary, id);
    bool symbols = !token->added;
    piece->used = 0;
    GP_TRY(gp_buffer_reserve(piece, (size_t)token->name_bytes + 1));
    for (size_t at = 0; at < token->name_bytes && symbols;) {
        uint32_t code = 0;
        size_t length = gp_utf8_decode(name + at, token->name_bytes - at, &code);
        int byte = length > 0 ? gp_symbol_byte(code) : -1;
        symbols = byte >= 0;
        piece->bytes[piece->used++] = (unsigned char)byte;
        at += length;
    }
    if (!symbols) {
        piece->used = 0;
        GP_TRY(gp_buffer_add(piece, name, token->name_bytes));
    }
    return gp_vocabulary_set_piece(vocabulary, id, piece->bytes, piece->used);
}

static gp_status set_pieces(gp_bpe *bpe) {
    gp_buffer piece = {0};
    gp_status status = GP_OK;
    for (int32_t id = 0; id < bpe->subword.vocabulary.count && status == GP_OK; id++) {
        if (bpe->subword.vocabulary.tokens[id].there) status = set_piece(bpe, id, &piece);
    }
    gp_buffer_free(&piece);
    return status;
}

static void set_bytes(gp_bpe *bpe) {
    for (int byte = 0; byte < 256; byte++) {
        char name[4];
        bpe->symbols[byte] = gp_byte_symbol((unsigned char)byte);
        size_t length = gp_utf8_encode(bpe->symbols[byte], name);
        bpe->byte_ids[byte] = gp_vocabulary_find(&bpe->subword.vocabulary, name, length);
    }
}

static gp_status find_part(const gp_bpe *bpe, const char *name, size_t bytes, size_t number, int32_t *id) {
    *id = gp_vocabulary_find(&bpe->subword.vocabulary, name, bytes);
    if (*id >= 0) return GP_OK;
    return gp_error(GP_INVALID, "its merge %zu has \"%.*s\", which is not in the vocabulary", number,
                    bytes > 64 ? 64 : (int)bytes, name);
}

/* Adds a merge of the next rank. */
static gp_status add_merge(gp_bpe *bpe, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                           gp_buffer *joined) {
    size_t number = bpe->count + 1;
    gp_merge merge;
    int32_t id;
    joined->used = 0;
    GP_TRY(gp_buffer_add(joined, left, left_bytes));
    GP_TRY(gp_buffer_add(joined, right, right_bytes));
    GP_TRY(find_part(bpe, left, left_bytes, number, &merge.left));
    GP_TRY(find_part(bpe, right, right_bytes, number, &merge.right));
    GP_TRY(find_part(bpe, (const char *)joined->bytes, joined->used, number, &id));
    GP_TRY(gp_pairs_set(&bpe->merges, gp_merge_key(merge.left, merge.right), (uint32_t)bpe->count, (uint32_t)id));
    bpe->list[bpe->count++] = merge;
    return GP_OK;
}

static gp_status create_merges(gp_bpe *bpe, size_t count) {
    if (count > INT32_MAX) return gp_error(GP_INVALID, "it has %zu merges", count);
    bpe->list = gp_allocate_array(count, sizeof *bpe->list);
    if (!bpe->list) return GP_OUT_OF_MEMORY;
    return gp_pairs_create(&bpe->merges, count);
}

/* "left right" */
static gp_status add_line(gp_bpe *bpe, const char *line, size_t bytes, gp_buffer *joined) {
    const char *blank = memchr(line, ' ', bytes);
    size_t left = blank ? (size_t)(blank - line) : 0, right = blank ? bytes - left - 1 : 0;
    if (left == 0 || right == 0 || memchr(blank + 1, ' ', right)) {
        return gp_error(GP_INVALID, "its merge %zu is \"%.*s\": two tokens with a blank between are accepted",
                        bpe->count + 1, bytes > 64 ? 64 : (int)bytes, line);
    }
    return add_merge(bpe, line, left, blank + 1, right, joined);
}

static gp_status add_item(gp_bpe *bpe, const json_t *item, gp_buffer *joined) {
    if (json_is_string(item)) return add_line(bpe, json_string_value(item), json_string_length(item), joined);
    const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
    if (json_array_size(item) != 2 || json_string_length(left) == 0 || json_string_length(right) == 0) {
        return gp_error(GP_INVALID, "its merge %zu is neither a text nor a list of two", bpe->count + 1);
    }
    return add_merge(bpe, json_string_value(left), json_string_length(left), json_string_value(right),
                     json_string_length(right), joined);
}

static gp_status read_merge_list(gp_bpe *bpe, const json_t *list) {
    if (!json_is_array(list)) return gp_error(GP_INVALID, "its \"merges\" are not a list");
    GP_TRY(create_merges(bpe, json_array_size(list)));
    gp_buffer joined = {0};
    gp_status status = GP_OK;
    for (size_t i = 0; i < json_array_size(list) && status == GP_OK; i++)
        status = add_item(bpe, json_array_get(list, i), &joined);
    gp_buffer_free(&joined);
    return status;
}

/* The line that begins at `*at`, without its end; `*at` moves behind it. */
static size_t next_line(const gp_file_map *map, size_t *at, const char **line) {
    *line = (const char *)map->data + *at;
    const char *end = memchr(*line, '\n', map->bytes - *at);
    size_t bytes = end ? (size_t)(end - *line) : map->bytes - *at;
    *at += bytes + (end != NULL);
    return bytes > 0 && (*line)[bytes - 1] == '\r' ? bytes - 1 : bytes;
}

static gp_status add_lines(gp_bpe *bpe, const gp_file_map *map, gp_buffer *joined) {
    const char *line;
    for (size_t at = 0; at < map->bytes;) {
        size_t bytes = next_line(map, &at, &line);
        bool comment = bytes >= 8 && memcmp(line, "#version", 8) == 0;
        if (bytes > 0 && !comment) GP_TRY(add_line(bpe, line, bytes, joined));
    }
    return GP_OK;
}

static gp_status read_merge_lines(gp_bpe *bpe, const gp_file_map *map) {
    size_t lines = 1;
    for (const unsigned char *at = map->data; (at = memchr(at, '\n', (size_t)(map->data + map->bytes - at))); at++)
        lines++;
    GP_TRY(create_merges(bpe, lines));
    gp_buffer joined = {0};
    gp_status status = add_lines(bpe, map, &joined);
    gp_buffer_free(&joined);
    return status;
}

/* ---- whole files ---- */

static gp_status finish(gp_bpe *bpe) {
    GP_TRY(set_pieces(bpe));
    set_bytes(bpe);
    return gp_subword_finish(&bpe->subword);
}

static gp_bpe *create(void) {
    gp_bpe *bpe = gp_allocate(sizeof *bpe);
    if (!bpe) return NULL;
    bpe->subword.tokenizer.table = &gp_bpe_class;
    bpe->subword.encode_plain = gp_bpe_encode_plain;
    bpe->pattern = GP_SPLIT_NOTHING;
    return bpe;
}

/* Hands a tokenizer out, or destroys it. */
static gp_status hand_out(gp_tokenizer **tokenizer, gp_bpe *bpe, gp_status status) {
    if (status == GP_OK) {
        *tokenizer = &bpe->subword.tokenizer;
    } else {
        gp_tokenizer_destroy(&bpe->subword.tokenizer);
    }
    return status;
}

/* Kinds of byte-pair encoding that do not work on bytes. */
static gp_status check_model(const json_t *object, const json_t *model) {
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++) {
        const char *affix = gp_json_text(model, affixes[i], "");
        if (*affix) {
            return gp_error(GP_INVALID,
                            "its model has the %s \"%.16s\": only byte-level encoding (GPT-2's kind) is read",
                            affixes[i], affix);
        }
    }
    if (gp_json_flag(model, "byte_fallback", false)) {
        return gp_error(GP_INVALID, "its model has a byte_fallback: only byte-level encoding (GPT-2's kind) is read");
    }
    if (json_number_value(json_object_get(model, "dropout")) > 0) {
        return gp_error(GP_INVALID, "its model has a dropout: a text would have other tokens each time");
    }
    const json_t *normalizer = json_object_get(object, "normalizer");
    if (normalizer && !json_is_null(normalizer)) {
        return gp_error(GP_INVALID, "its normalizer is \"%.32s\": for byte-pair encoding none is accepted",
                        gp_json_text(normalizer, "type", "?"));
    }
    return GP_OK;
}

static gp_status read_json(gp_bpe *bpe, const json_t *object) {
    const json_t *model = json_object_get(object, "model"), *added = json_object_get(object, "added_tokens");
    GP_TRY(check_model(object, model));
    GP_TRY(read_pre_tokenizer(bpe, json_object_get(object, "pre_tokenizer")));
    GP_TRY(
        gp_subword_read_vocabulary(&bpe->subword.vocabulary, json_object_get(model, "vocab"), json_array_size(added)));
    GP_TRY(gp_subword_read_added(&bpe->subword.vocabulary, added));
    GP_TRY(read_merge_list(bpe, json_object_get(model, "merges")));
    bpe->whole_words = gp_json_flag(model, "ignore_merges", false);
    return finish(bpe);
}

gp_status gp_bpe_read_json(gp_tokenizer **tokenizer, const json_t *object) {
    gp_bpe *bpe = create();
    return bpe ? hand_out(tokenizer, bpe, read_json(bpe, object)) : GP_OUT_OF_MEMORY;
}

static gp_status read_files(gp_bpe *bpe, const json_t *vocabulary, const gp_file_map *merges) {
    bpe->pattern = GP_SPLIT_GPT2;
    GP_TRY(gp_subword_read_vocabulary(&bpe->subword.vocabulary, vocabulary, 0));
    int32_t end = gp_vocabulary_find(&bpe->subword.vocabulary, END_OF_TEXT, strlen(END_OF_TEXT));
    if (end >= 0) bpe->subword.vocabulary.tokens[end].added = true;
    GP_TRY(read_merge_lines(bpe, merges));
    return finish(bpe);
}

gp_status gp_bpe_read_files(gp_tokenizer **tokenizer, const json_t *vocabulary, const gp_file_map *merges) {
    gp_bpe *bpe = create();
    return bpe ? hand_out(tokenizer, bpe, read_files(bpe, vocabulary, merges)) : GP_OUT_OF_MEMORY;
}

/* ---- the description of what was read from vocab.json and merges.txt ---- */

static json_t *describe_merges(const gp_bpe *bpe) {
    const gp_vocabulary *vocabulary = &bpe->subword.vocabulary;
    json_t *list = json_array();
    for (size_t i = 0; list && i < bpe->count; i++) {
        json_t *item = json_sprintf("%s %s", gp_vocabulary_name(vocabulary, bpe->list[i].left),
                                    gp_vocabulary_name(vocabulary, bpe->list[i].right));
        if (json_array_append_new(list, item) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *describe_byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     1);
}

static json_t *describe_model(const gp_bpe *bpe) {
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                     "ignore_merges", 0, "vocab", gp_subword_describe_vocabulary(&bpe->subword.vocabulary), "merges",
                     describe_merges(bpe));
}

char *gp_bpe_describe(const gp_tokenizer *tokenizer) {
    const gp_bpe *bpe = (const gp_bpe *)tokenizer;
    if (bpe->subword.source) return gp_copy_text(bpe->subword.source);
    return gp_json_describe(json_pack(
        "{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding", "added_tokens",
        gp_subword_describe_added(&bpe->subword.vocabulary), "normalizer", "pre_tokenizer", describe_byte_level(),
        "post_processor", describe_byte_level(), "decoder", describe_byte_level(), "model", describe_model(bpe)));
}
