/* UTF-8, strictly (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. Inline: corpora are read with
 * it. */
#ifndef GP_DATA_UTF8_H
#define GP_DATA_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { GP_CODE_POINTS = 0x110000 };

/* Decodes the character at `text`, of which `bytes` are there. Returns its length, 0 when it is not valid. */
static inline size_t gp_utf8_decode(const unsigned char *text, size_t bytes, uint32_t *code) {
    if (bytes == 0) return 0;
    uint32_t first = text[0];
    if (first < 0x80) {
        *code = first;
        return 1;
    }
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || bytes < length) return 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t value = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0u) != 0x80u) return 0;
        value = value << 6 | (text[i] & 0x3Fu);
    }
    if (value < least[length] || value >= GP_CODE_POINTS || (value >= 0xD800 && value < 0xE000)) return 0;
    *code = value;
    return length;
}

/* Writes a valid code point and returns its length, 1 to 4. */
static inline size_t gp_utf8_encode(uint32_t code, char text[4]) {
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80u | (code & 0x3Fu));
    text[0] = (char)(((0xF00u >> length) & 0xF0u) | code);
    return length;
}

#endif
