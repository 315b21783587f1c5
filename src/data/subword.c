/* Text of any kind to runs of valid UTF-8 between added tokens. */
#include "data/subword.h"

#include <string.h>

#include "base/status.h"

gp_status gp_subword_finish(gp_subword *subword) {
    subword->tokenizer.vocabulary = subword->vocabulary.count;
    GP_TRY(gp_unicode_create(&subword->unicode));
    return gp_added_create(&subword->added, &subword->vocabulary);
}

void gp_subword_free(gp_subword *subword) {
    gp_vocabulary_free(&subword->vocabulary);
    gp_added_free(&subword->added);
    gp_free(subword->unicode);
    gp_free(subword->source);
}

static gp_status encode_between(const gp_subword *subword, gp_encoding *encoding, const unsigned char *text,
                                size_t bytes) {
    return bytes > 0 ? subword->encode_plain(subword, encoding, text, bytes) : GP_OK;
}

gp_status gp_subword_encode(const gp_tokenizer *tokenizer, gp_encoding *encoding, const unsigned char *text,
                            size_t bytes) {
    const gp_subword *subword = gp_subword_of(tokenizer);
    size_t replaced = 0, at = 0;
    GP_TRY(gp_utf8_repair(text, bytes, &encoding->repaired, &text, &bytes, &replaced));
    encoding->replaced += replaced;
    gp_added_match match;
    while (!encoding->plain &&
           gp_added_find(&subword->added, &subword->vocabulary, subword->unicode, text, bytes, at, &match)) {
        GP_TRY(encode_between(subword, encoding, text + at, match.begin - at));
        GP_TRY(gp_ids_add(&encoding->ids, match.id));
        encoding->continued = false;
        at = match.end;
    }
    return encode_between(subword, encoding, text + at, bytes - at);
}

int32_t gp_subword_find(const gp_tokenizer *tokenizer, const char *text) {
    return gp_vocabulary_find(&gp_subword_of(tokenizer)->vocabulary, text, strlen(text));
}
