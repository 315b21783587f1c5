/* Fuzzing: JPEG and PNG files. */
#include "fuzz.h"

#include "data/image/decode.h"

const char *const fuzz_file = "image";
const size_t fuzz_fixed = (size_t)8 << 20, fuzz_factor = 4096;

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    (void)folder;
    (void)path;
    gp_decoder decoder = {.most_pixels = 1 << 16};
    gp_image_header header;
    gp_pixels pixels = {0};
    if (gp_decode_header(&decoder, data, bytes, &header) == GP_OK)
        (void)gp_decode(&decoder, data, bytes, &header, 1, 3, &pixels);
    gp_pixels_free(&pixels);
    gp_decoder_free(&decoder);
}
