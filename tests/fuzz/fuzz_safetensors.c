/* Fuzzing: the header of a safetensors file. */
#include "fuzz.h"

#include "gpipe/checkpoint.h"

const char *const fuzz_file = "model.safetensors";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 300;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    (void)data;
    (void)bytes;
    gp_safetensors *file;
    if (gp_safetensors_open(&file, path) != GP_OK) return;
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        double value;
        bool any = gp_shape_elements(gp_safetensors_type(file, i).shape) > 0;
        if (any) (void)gp_safetensors_read(file, i, 0, 1, GP_F64, &value);
    }
    gp_safetensors_close(file);
}
