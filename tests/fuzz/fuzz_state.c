/* Fuzzing: state.json of a checkpoint. */
#include "fuzz.h"

#include "checkpoint/state.h"

const char *const fuzz_file = "state.json";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 300;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    gp_checkpoint_state state = {0};
    json_t *object = NULL;
    if (gp_state_read(folder, &state, &object) == GP_OK) json_decref(object);
}
