/* Fuzzing: the configuration of a run. */
#include "fuzz.h"

#include "config.h"

const char *const fuzz_file = "run.yaml";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 1000;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    cli_config config;
    cli_text text = {0};
    if (cli_config_load(&config, path, &(cli_config_options){.any_schedule = true}) == GP_OK)
        (void)cli_config_write(&config, false, &text);
    cli_text_free(&text);
    cli_config_free(&config);
}
