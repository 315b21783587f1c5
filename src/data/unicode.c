/* Characters: tables of ranges spread out into one byte of flags a code point, and searched for the rest. */
#include "data/unicode.h"

#include "base/memory.h"
#include "data/unicode_tables.h"

/* Hangul syllables are taken apart by rule (Unicode, section 3.12). */
enum {
    SYLLABLE_BASE = 0xAC00,
    LEAD_BASE = 0x1100,
    VOWEL_BASE = 0x1161,
    TAIL_BASE = 0x11A7,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = 19 * VOWELS * TAILS
};

static void flag_ranges(gp_unicode *unicode, gp_code_ranges ranges, uint8_t flag) {
    for (size_t i = 0; i < ranges.count; i++) {
        for (uint32_t code = ranges.list[i].first; code <= ranges.list[i].last; code++)
            unicode->flags[code] |= flag;
    }
}

static void flag_changes(gp_unicode *unicode) {
    const gp_unicode_tables *tables = &gp_unicode_tables_all;
    for (size_t i = 0; i < tables->lower.count; i++) {
        const gp_code_step *run = &tables->lower.list[i];
        for (uint32_t code = run->first; code <= run->last; code += run->step)
            unicode->flags[code] |= GP_CHANGES;
    }
    for (size_t i = 0; i < tables->parts.count; i++)
        unicode->flags[tables->parts.list[i].code] |= GP_CHANGES;
    for (uint32_t i = 0; i < SYLLABLES; i++)
        unicode->flags[SYLLABLE_BASE + i] |= GP_CHANGES;
    unicode->flags[0x130] |= GP_CHANGES; /* I with a dot, whose lower case is two code points */
}

gp_status gp_unicode_create(gp_unicode **unicode) {
    const gp_unicode_tables *tables = &gp_unicode_tables_all;
    *unicode = gp_allocate(sizeof **unicode);
    if (!*unicode) return GP_OUT_OF_MEMORY;
    flag_ranges(*unicode, tables->letters, GP_IS_LETTER);
    flag_ranges(*unicode, tables->numbers, GP_IS_NUMBER);
    flag_ranges(*unicode, tables->spaces, GP_IS_SPACE);
    flag_ranges(*unicode, tables->removed, GP_IS_REMOVED);
    flag_ranges(*unicode, tables->blanks, GP_IS_BLANK);
    flag_ranges(*unicode, tables->punctuation, GP_IS_PUNCTUATION);
    flag_ranges(*unicode, tables->marks, GP_IS_MARK);
    flag_changes(*unicode);
    return GP_OK;
}

uint32_t gp_unicode_lower(uint32_t code) {
    const gp_code_step *runs = gp_unicode_tables_all.lower.list;
    size_t low = 0, high = gp_unicode_tables_all.lower.count;
    while (low < high) { /* the first run that ends at or behind the code point */
        size_t middle = low + (high - low) / 2;
        if (runs[middle].last < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == gp_unicode_tables_all.lower.count || code < runs[low].first) return code;
    if ((code - runs[low].first) % runs[low].step != 0) return code;
    return (uint32_t)((int32_t)code + runs[low].distance);
}

static size_t syllable_parts(uint32_t number, uint32_t parts[3]) {
    parts[0] = LEAD_BASE + number / (VOWELS * TAILS);
    parts[1] = VOWEL_BASE + number / TAILS % VOWELS;
    if (number % TAILS == 0) return 2;
    parts[2] = TAIL_BASE + number % TAILS;
    return 3;
}

size_t gp_unicode_parts(uint32_t code, uint32_t parts[3]) {
    if (code >= SYLLABLE_BASE && code < SYLLABLE_BASE + SYLLABLES) return syllable_parts(code - SYLLABLE_BASE, parts);
    const gp_code_parts *list = gp_unicode_tables_all.parts.list;
    size_t low = 0, high = gp_unicode_tables_all.parts.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].code < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == gp_unicode_tables_all.parts.count || list[low].code != code) {
        parts[0] = code;
        return 1;
    }
    size_t count = 0;
    for (; count < 3 && list[low].parts[count] != 0; count++)
        parts[count] = list[low].parts[count];
    return count;
}
