/* Fuzzing: tokenizer.json of byte-pair encoding, WordPiece, or gpipe. */
#include "fuzz.h"

#include "gpipe/data.h"

const char *const fuzz_file = "tokenizer.json";
const size_t fuzz_fixed = (size_t)8 << 20, fuzz_factor = 600;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    gp_tokenizer *tokenizer;
    size_t count;
    if (gp_tokenizer_load(&tokenizer, path) != GP_OK) return;
    (void)gp_tokenizer_encode(tokenizer, (const char *)data, bytes, NULL, 0, &count);
    gp_tokenizer_destroy(tokenizer);
}
