/* A cut is safe before white space that follows something else, since no token of any pattern reaches over it; with two
 * exceptions. Patterns after GPT-2's let signs take the line ends behind them, so there a letter or a digit must stand
 * before the cut. And a token that is looked for in the whole text must not lie across the cut or touch it. */
#include "data/cut.h"

#include <string.h>

#include "data/bpe.h"
#include "data/utf8.h"

size_t gp_line_end(const unsigned char *text, size_t bytes, size_t at, size_t *end) {
    const unsigned char *found = memchr(text + at, '\n', bytes - at);
    size_t next = found ? (size_t)(found - text) + 1 : bytes;
    *end = found ? next - 1 : bytes;
    if (*end > at && text[*end - 1] == '\r') --*end;
    return next;
}

bool gp_line_is_blank(const unsigned char *line, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    }
    return true;
}

size_t gp_cut_lines(const unsigned char *text, size_t bytes, size_t from) {
    size_t end;
    return gp_line_end(text, bytes, from - 1, &end);
}

size_t gp_cut_paragraphs(const unsigned char *text, size_t bytes, size_t from) {
    for (size_t at = gp_cut_lines(text, bytes, from); at < bytes;) {
        size_t end, next = gp_line_end(text, bytes, at, &end);
        if (gp_line_is_blank(text + at, end - at)) return next;
        at = next;
    }
    return bytes;
}

static bool is_blank(unsigned char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* The class of the character that ends at `end`; that of U+FFFD when it is not UTF-8. */
static unsigned class_before(const gp_unicode *unicode, const unsigned char *text, size_t end) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (text[begin] & 0xC0) == 0x80)
        begin--;
    uint32_t code = 0;
    size_t length = gp_utf8_decode(text + begin, end - begin, &code);
    return length == end - begin ? unicode->flags[code] : 0;
}

/* Whether an added token might lie across `at` or end there. */
static bool touches_added(const gp_subword *subword, const unsigned char *text, size_t bytes, size_t at) {
    size_t longest = subword->added.longest, from = at > longest ? at - longest : 0;
    size_t to = bytes - at > longest ? at + longest : bytes;
    for (size_t begin = from; begin < at; begin++) {
        size_t end = 0;
        if (gp_added_at(&subword->added, text, to, begin, &end) >= 0 && end >= at) return true;
    }
    return false;
}

static size_t cut_subwords(const gp_subword *subword, const unsigned char *text, size_t bytes, size_t from) {
    bool bpe = subword->tokenizer.table->kind == GP_TOKENIZER_BPE;
    gp_split_pattern pattern = bpe ? ((const gp_bpe *)subword)->pattern : GP_SPLIT_GPT2;
    bool needs_word = pattern == GP_SPLIT_THREE_DIGITS || pattern == GP_SPLIT_ONE_DIGIT;
    if (pattern == GP_SPLIT_NOTHING) return bytes;
    for (size_t at = from; at < bytes; at++) {
        if (!is_blank(text[at]) || is_blank(text[at - 1])) continue;
        unsigned before = class_before(subword->unicode, text, at);
        bool safe = needs_word ? before & (GP_IS_LETTER | GP_IS_NUMBER) : !(before & GP_IS_SPACE);
        if (safe && !touches_added(subword, text, bytes, at)) return at;
    }
    return bytes;
}

size_t gp_cut_text(const gp_tokenizer *tokenizer, const unsigned char *text, size_t bytes, size_t from) {
    switch (gp_tokenizer_kind_of(tokenizer)) {
    case GP_TOKENIZER_BPE:
    case GP_TOKENIZER_WORDPIECE:
        return cut_subwords(gp_subword_of(tokenizer), text, bytes, from);
    case GP_TOKENIZER_CHAR:
        while (from < bytes && (text[from] & 0xC0) == 0x80)
            from++;
        break;
    case GP_TOKENIZER_BYTE:
        break;
    }
    return from < bytes ? from : bytes;
}
