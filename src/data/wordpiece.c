/* From text to normalised words to tokens, in one walk over the text. Marks that stay (a few hundred rare ones) keep
 * the order of the text; Unicode would sort those of one letter. */
#include "data/wordpiece.h"

#include <string.h>

#include "base/status.h"

/* ---- words to tokens ---- */

static uint64_t edge(uint32_t node, unsigned char byte) {
    return ((uint64_t)node << 8 | byte) + 1;
}

/* The longest token from `node` on along the word; -1 when there is none. */
static int32_t longest_token(const gp_wordpiece *wp, uint32_t node, const unsigned char *word, size_t bytes, size_t at,
                             size_t *end) {
    int32_t id = -1;
    for (; at < bytes; at++) {
        const gp_pair *pair = gp_pairs_find(&wp->trie, edge(node, word[at]));
        if (!pair) break;
        node = pair->first;
        if (pair->second) {
            id = (int32_t)pair->second - 1;
            *end = at + 1;
        }
    }
    return id;
}

/* Appends the tokens of a word, or the unknown one. */
static gp_status encode_word(const gp_wordpiece *wp, gp_encoding *encoding, const unsigned char *word, size_t bytes,
                             int64_t characters) {
    size_t before = encoding->ids.count;
    if (characters > wp->most) return gp_ids_add(&encoding->ids, wp->unknown);
    for (size_t at = 0; at < bytes;) {
        uint32_t node = at == 0 ? 0 : wp->continuation;
        int32_t id = node == UINT32_MAX ? -1 : longest_token(wp, node, word, bytes, at, &at);
        if (id < 0) {
            encoding->ids.count = before;
            return gp_ids_add(&encoding->ids, wp->unknown);
        }
        GP_TRY(gp_ids_add(&encoding->ids, id));
    }
    return GP_OK;
}

/* ---- text to words ---- */

typedef struct word_maker {
    const gp_wordpiece *wp;
    gp_encoding *encoding;
    gp_buffer *word; /* what there is of the current word */
    int64_t characters;
} word_maker;

static gp_status end_word(word_maker *maker) {
    if (maker->word->used == 0) return GP_OK;
    gp_status status =
        encode_word(maker->wp, maker->encoding, maker->word->bytes, maker->word->used, maker->characters);
    maker->word->used = 0;
    maker->characters = 0;
    return status;
}

static gp_status append(word_maker *maker, uint32_t code) {
    gp_buffer *word = maker->word;
    if (word->capacity - word->used < 4) GP_TRY(gp_buffer_reserve(word, 4));
    word->used += gp_utf8_encode(code, (char *)word->bytes + word->used);
    maker->characters++;
    return GP_OK;
}

/* A normalised character: white space and punctuation end a word. */
static gp_status take(word_maker *maker, uint32_t code) {
    unsigned flags = maker->wp->subword.unicode->flags[code];
    if (flags & GP_IS_SPACE) return end_word(maker);
    if (!(flags & GP_IS_PUNCTUATION)) return append(maker, code);
    GP_TRY(end_word(maker));
    GP_TRY(append(maker, code));
    return end_word(maker);
}

static gp_status take_lowered(word_maker *maker, uint32_t code) {
    if (!maker->wp->lowers) return take(maker, code);
    if (code != 0x130) return take(maker, gp_unicode_lower(code));
    GP_TRY(take(maker, 'i')); /* I with a dot: the dot becomes a mark of its own */
    return take(maker, 0x307);
}

static gp_status take_changing(word_maker *maker, uint32_t code) {
    uint32_t parts[3] = {code};
    size_t count = maker->wp->strips ? gp_unicode_parts(code, parts) : 1;
    for (size_t i = 0; i < count; i++)
        GP_TRY(take_lowered(maker, parts[i]));
    return GP_OK;
}

/* The ranges that BERT calls Chinese; the last but two begins 256 later than the block does, as in the package
 * `tokenizers`. */
static bool is_chinese(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                  {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    }
    return false;
}

static gp_status take_any(word_maker *maker, uint32_t code) {
    const gp_wordpiece *wp = maker->wp;
    unsigned flags = wp->subword.unicode->flags[code];
    if (wp->cleans && flags & GP_IS_REMOVED) return GP_OK;
    if (wp->cleans && flags & GP_IS_BLANK) return end_word(maker);
    if (wp->strips && flags & GP_IS_MARK) return GP_OK;
    bool chinese = wp->chinese && code >= 0x3400 && is_chinese(code);
    if (chinese) GP_TRY(end_word(maker));
    GP_TRY(flags & GP_CHANGES ? take_changing(maker, code) : take(maker, code));
    return chinese ? end_word(maker) : GP_OK;
}

gp_status gp_wordpiece_encode_plain(const gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                                    size_t bytes) {
    const gp_wordpiece *wp = (const gp_wordpiece *)subword;
    word_maker maker = {wp, encoding, &encoding->normal, 0};
    encoding->normal.used = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t code = text[at];
        size_t length = code < 0x80 ? 1 : gp_utf8_decode(text + at, bytes - at, &code);
        if (length == 0) return gp_error(GP_INVALID, "the text is not UTF-8"); /* not after its repair */
        GP_TRY(take_any(&maker, code));
        at += length;
    }
    return end_word(&maker);
}

/* ---- the class ---- */

static void wordpiece_destroy(gp_tokenizer *tokenizer) {
    gp_wordpiece *wp = (gp_wordpiece *)tokenizer;
    gp_subword_free(&wp->subword);
    gp_pairs_free(&wp->trie);
    gp_free(wp->prefix);
    gp_free(wp);
}

static gp_piece wordpiece_piece(const gp_tokenizer *tokenizer, int32_t before, int32_t id, char scratch[4]) {
    (void)scratch;
    const gp_vocabulary *vocabulary = &gp_subword_of(tokenizer)->vocabulary;
    const char *text = gp_vocabulary_piece(vocabulary, id);
    size_t bytes = vocabulary->tokens[id].piece_bytes;
    bool blank = before < 0 && bytes > 0 && text[0] == ' '; /* no blank at the beginning */
    return (gp_piece){text + blank, bytes - blank};
}

const gp_tokenizer_class gp_wordpiece_class = {
    .kind = GP_TOKENIZER_WORDPIECE,
    .destroy = wordpiece_destroy,
    .encode = gp_subword_encode,
    .piece = wordpiece_piece,
    .find = gp_subword_find,
    .describe = gp_wordpiece_describe,
};

static gp_status add_to_trie(gp_wordpiece *wp, const char *name, size_t bytes, int32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t key = edge(node, (unsigned char)name[i]);
        const gp_pair *pair = gp_pairs_find(&wp->trie, key);
        uint32_t next = pair ? pair->first : ++wp->nodes, ends = pair ? pair->second : 0;
        if (i + 1 == bytes) ends = (uint32_t)id + 1;
        if (!pair || i + 1 == bytes) GP_TRY(gp_pairs_set(&wp->trie, key, next, ends));
        node = next;
    }
    return GP_OK;
}

static void find_continuation(gp_wordpiece *wp) {
    wp->continuation = 0;
    for (const char *c = wp->prefix; *c && wp->continuation != UINT32_MAX; c++) {
        const gp_pair *pair = gp_pairs_find(&wp->trie, edge(wp->continuation, (unsigned char)*c));
        wp->continuation = pair ? pair->first : UINT32_MAX;
    }
}

/* What a token adds to a text: a blank and its name; its rest when it continues a word; no blank before what closes a
 * sentence. */
static gp_status set_piece(gp_wordpiece *wp, int32_t id, gp_buffer *piece) {
    gp_vocabulary *vocabulary = &wp->subword.vocabulary;
    const char *name = gp_vocabulary_name(vocabulary, id);
    size_t bytes = vocabulary->tokens[id].name_bytes, prefix = strlen(wp->prefix);
    bool continues = prefix > 0 && bytes > prefix && memcmp(name, wp->prefix, prefix) == 0;
    bool closes = bytes == 1 && strchr(".,!?", name[0]);
    piece->used = 0;
    if (!continues && !closes) GP_TRY(gp_buffer_add(piece, " ", 1));
    GP_TRY(gp_buffer_add(piece, name + (continues ? prefix : 0), bytes - (continues ? prefix : 0)));
    return gp_vocabulary_set_piece(vocabulary, id, piece->bytes, piece->used);
}

static gp_status set_pieces(gp_wordpiece *wp) {
    gp_buffer piece = {0};
    gp_status status = GP_OK;
    for (int32_t id = 0; id < wp->subword.vocabulary.count && status == GP_OK; id++) {
        if (wp->subword.vocabulary.tokens[id].there) status = set_piece(wp, id, &piece);
    }
    gp_buffer_free(&piece);
    return status;
}

gp_status gp_wordpiece_finish(gp_wordpiece *wp) {
    const gp_vocabulary *vocabulary = &wp->subword.vocabulary;
    GP_TRY(gp_pairs_create(&wp->trie, 4 * (size_t)vocabulary->count));
    for (int32_t id = 0; id < vocabulary->count; id++) {
        /* Of two tokens with one name the one that is found by name counts. */
        const gp_token *token = &vocabulary->tokens[id];
        if (!token->there || token->name_bytes == 0) continue;
        GP_TRY(add_to_trie(wp, gp_vocabulary_name(vocabulary, id), token->name_bytes, id));
    }
    find_continuation(wp);
    GP_TRY(set_pieces(wp));
    return gp_subword_finish(&wp->subword);
}
