/* The patterns of words. Every function returns where something ends. */
#include "data/split.h"

#include <stdbool.h>

enum { LETTER = GP_IS_LETTER, NUMBER = GP_IS_NUMBER, SPACE = GP_IS_SPACE, CLASSES = LETTER | NUMBER | SPACE };

typedef struct walk {
    const gp_unicode *unicode;
    const unsigned char *text;
    size_t bytes;
} walk;

/* The class of the character at `at`: LETTER, NUMBER, SPACE or 0; `*next` is behind it. */
static inline unsigned class_at(const walk *w, size_t at, size_t *next) {
    uint32_t code = w->text[at];
    size_t length = 1;
    if (code >= 0x80) {
        length = gp_utf8_decode(w->text + at, w->bytes - at, &code);
        if (length == 0) length = 1; /* not in valid text */
    }
    *next = at + length;
    return w->unicode->flags[code] & CLASSES;
}

/* The end of the run of characters of one class. */
static inline size_t run_end(const walk *w, size_t at, unsigned class) {
    while (at < w->bytes) {
        size_t next;
        if (class_at(w, at, &next) != class) break;
        at = next;
    }
    return at;
}

/* A run of white space: all of it at the end of the text, else without its last character, which belongs to the word
 * behind it; a single one is a word. */
static size_t space_end(const walk *w, size_t at) {
    size_t last = at, end = at;
    while (end < w->bytes) {
        size_t next;
        if (class_at(w, end, &next) != SPACE) break;
        last = end;
        end = next;
    }
    return end == w->bytes || last == at ? end : last;
}

/* Bytes of 's, 't, 'm, 'd, 're, 've, 'll at an apostrophe, 0 when there is none of them. */
static size_t contraction(const walk *w, size_t at) {
    size_t left = w->bytes - at;
    const unsigned char *text = w->text + at;
    if (left < 2) return 0;
    switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return left > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
        return left > 2 && text[2] == 'l' ? 3 : 0;
    default:
        return 0;
    }
}

static size_t gpt2_end(const walk *w, size_t at) {
    if (w->text[at] == '\'') {
        size_t length = contraction(w, at);
        if (length > 0) return at + length;
    }
    size_t next, begin = at + (w->text[at] == ' ');
    if (begin == w->bytes) return begin;
    unsigned class = class_at(w, begin, &next);
    return class == SPACE ? space_end(w, at) : run_end(w, next, class);
}

/* As contraction, in either case; the long s is a lower case of S. */
static size_t contraction_of_any_case(const walk *w, size_t at) {
    size_t left = w->bytes - at;
    const unsigned char *text = w->text + at;
    if (left < 2) return 0;
    unsigned char first = text[1] | 0x20, second = left > 2 ? text[2] | 0x20 : 0;
    if (text[1] >= 0x80) return left > 2 && text[1] == 0xC5 && text[2] == 0xBF ? 3 : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    return first == 'l' && second == 'l' ? 3 : 0;
}

static bool is_line_end(unsigned char byte) {
    return byte == '\n' || byte == '\r';
}

static size_t digits_end(const walk *w, size_t at, int most) {
    for (int i = 0; i < most && at < w->bytes; i++) {
        size_t next;
        if (class_at(w, at, &next) != NUMBER) break;
        at = next;
    }
    return at;
}

/* \s*[\r\n]+ : a run of white space up to its last line end; 0 when it has none. */
static size_t lines_end(const walk *w, size_t at) {
    size_t end = 0;
    while (at < w->bytes) {
        size_t next;
        if (class_at(w, at, &next) != SPACE) break;
        if (is_line_end(w->text[at])) end = next;
        at = next;
    }
    return end;
}

static size_t signs_end(const walk *w, size_t at) {
    at = run_end(w, at, 0);
    while (at < w->bytes && is_line_end(w->text[at]))
        at++;
    return at;
}

static size_t later_end(const walk *w, size_t at, int digits) {
    if (w->text[at] == '\'') {
        size_t length = contraction_of_any_case(w, at);
        if (length > 0) return at + length;
    }
    size_t next, behind;
    unsigned class = class_at(w, at, &next);
    if (class == LETTER) return run_end(w, next, LETTER);
    if (class == NUMBER) return digits_end(w, at, digits);
    unsigned second = next < w->bytes ? class_at(w, next, &behind) : SPACE;
    if (second == LETTER && !is_line_end(w->text[at])) return run_end(w, behind, LETTER);
    if (class == 0) return signs_end(w, next);
    if (second == 0 && next < w->bytes && w->text[at] == ' ') return signs_end(w, behind);
    size_t lines = lines_end(w, at);
    return lines > 0 ? lines : space_end(w, at);
}

size_t gp_split_end(gp_split_pattern pattern, const gp_unicode *unicode, const unsigned char *text, size_t bytes,
                    size_t at) {
    const walk w = {unicode, text, bytes};
    switch (pattern) {
    case GP_SPLIT_GPT2:
        return gpt2_end(&w, at);
    case GP_SPLIT_THREE_DIGITS:
        return later_end(&w, at, 3);
    case GP_SPLIT_ONE_DIGIT:
        return later_end(&w, at, 1);
    case GP_SPLIT_NOTHING:
        break;
    }
    return bytes;
}
