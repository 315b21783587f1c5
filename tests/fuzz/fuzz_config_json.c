/* Fuzzing: config.json of another program. */
#include "fuzz.h"

#include "exchange/config_json.h"

const char *const fuzz_file = "config.json";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 300;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    gp_family_options family = {0};
    gp_foreign_options options = {0};
    (void)gp_config_json_read(&family, path, &options);
}
