/* Fuzzing: merges.txt of byte-pair encoding, beside a vocabulary that has some merges. */
#include "fuzz.h"

#include "base/json.h"
#include "data/tokenizer_file.h"

const char *const fuzz_file = "merges.txt";
const size_t fuzz_fixed = (size_t)8 << 20, fuzz_factor = 600;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    static const char vocabulary[] =
        "{\"a\":0,\"b\":1,\"c\":2,\"\u0120\":3,\"ab\":4,\"bc\":5,\"abc\":6,\"\u0120a\":7,\"aa\":8,"
        "\"aaaa\":9,\"cc\":10,\"<|endoftext|>\":11}";
    static const gp_json_limits limits = {4096, 4, 64};
    (void)folder;
    (void)path;
    json_t *object;
    gp_tokenizer *tokenizer;
    size_t count;
    if (gp_json_parse(&object, vocabulary, sizeof vocabulary - 1, &limits, "it") != GP_OK) return;
    gp_file_map map = {data, bytes};
    if (gp_bpe_read_files(&tokenizer, object, &map) == GP_OK) {
        (void)gp_tokenizer_encode(tokenizer, (const char *)data, bytes, NULL, 0, &count);
        (void)gp_tokenizer_encode(tokenizer, "aaaaaabcabc cc<|endoftext|>", 27, NULL, 0, &count);
        gp_tokenizer_destroy(tokenizer);
    }
    json_decref(object);
}
