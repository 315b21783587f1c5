/* Fuzzing: files of token ids. */
#include "fuzz.h"

#include "data/token_files.h"

const char *const fuzz_file = "tokens.bin";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 4;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    gp_token_files files;
    int32_t ids[64];
    if (gp_token_files_open(&files, path, bytes % 2 ? 50257 : 0, 0) != GP_OK) return;
    int64_t count = files.tokens < 64 ? files.tokens : 64;
    (void)gp_token_files_read(&files, files.tokens - count, count, ids);
    gp_token_files_close(&files);
}
