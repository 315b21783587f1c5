/* A trie of the added tokens, walked from every byte that one of them begins with. */
#include "data/added.h"

#include <string.h>

#include "base/status.h"

static uint64_t edge(uint32_t node, unsigned char byte) {
    return ((uint64_t)node << 8 | byte) + 1;
}

static gp_status add_token(gp_added *added, const char *name, size_t bytes, int32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t key = edge(node, (unsigned char)name[i]);
        const gp_pair *pair = gp_pairs_find(&added->trie, key);
        uint32_t next = pair ? pair->first : ++added->nodes, ends = pair ? pair->second : 0;
        if (i + 1 == bytes) ends = (uint32_t)id + 1;
        GP_TRY(gp_pairs_set(&added->trie, key, next, ends));
        node = next;
    }
    if (bytes > added->longest) added->longest = bytes;
    added->first[(unsigned char)name[0]] = true;
    return GP_OK;
}

gp_status gp_added_create(gp_added *added, const gp_vocabulary *vocabulary) {
    *added = (gp_added){.only_first = -1};
    GP_TRY(gp_pairs_create(&added->trie, 64));
    for (int32_t id = 0; id < vocabulary->count; id++) {
        const gp_token *token = &vocabulary->tokens[id];
        if (token->there && token->added && token->name_bytes > 0)
            GP_TRY(add_token(added, gp_vocabulary_name(vocabulary, id), token->name_bytes, id));
    }
    int firsts = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (added->first[byte]) {
            firsts++;
            added->only_first = byte;
        }
    }
    if (firsts != 1) added->only_first = -1;
    return GP_OK;
}

void gp_added_free(gp_added *added) {
    gp_pairs_free(&added->trie);
    *added = (gp_added){0};
}

int32_t gp_added_at(const gp_added *added, const unsigned char *text, size_t bytes, size_t at, size_t *end) {
    int32_t id = -1;
    uint32_t node = 0;
    for (; at < bytes; at++) {
        const gp_pair *pair = gp_pairs_find(&added->trie, edge(node, text[at]));
        if (!pair) break;
        node = pair->first;
        if (pair->second) {
            id = (int32_t)pair->second - 1;
            *end = at + 1;
        }
    }
    return id;
}

/* The next place where a token may begin; `bytes` when there is none. */
static size_t next_first(const gp_added *added, const unsigned char *text, size_t bytes, size_t at) {
    if (added->only_first >= 0) {
        const unsigned char *found = memchr(text + at, added->only_first, bytes - at);
        return found ? (size_t)(found - text) : bytes;
    }
    while (at < bytes && !added->first[text[at]])
        at++;
    return at;
}

static bool is_space(const gp_unicode *unicode, const unsigned char *text, size_t bytes, size_t *length) {
    uint32_t code = 0;
    *length = gp_utf8_decode(text, bytes, &code);
    return *length > 0 && unicode->flags[code] & GP_IS_SPACE;
}

/* Widens a match over the white space beside it, not further left than `from`. */
static void strip(const gp_unicode *unicode, const gp_token *token, const unsigned char *text, size_t bytes,
                  size_t from, gp_added_match *match) {
    size_t length;
    while (token->strips_right && is_space(unicode, text + match->end, bytes - match->end, &length))
        match->end += length;
    while (token->strips_left && match->begin > from) {
        size_t before = match->begin - 1;
        while (before > from && (text[before] & 0xC0) == 0x80)
            before--;
        if (!is_space(unicode, text + before, match->begin - before, &length)) break;
        match->begin = before;
    }
}

bool gp_added_find(const gp_added *added, const gp_vocabulary *vocabulary, const gp_unicode *unicode,
                   const unsigned char *text, size_t bytes, size_t from, gp_added_match *match) {
    if (added->longest == 0) return false;
    for (size_t at = from; (at = next_first(added, text, bytes, at)) < bytes; at++) {
        match->id = gp_added_at(added, text, bytes, at, &match->end);
        if (match->id < 0) continue;
        match->begin = at;
        strip(unicode, &vocabulary->tokens[match->id], text, bytes, from, match);
        return true;
    }
    return false;
}
