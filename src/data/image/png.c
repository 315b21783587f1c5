/* PNG through libspng: all of its colour types, 1 to 16 bits, interlaced or not, become 8-bit colours. */
#include <spng.h>
#include <string.h>

#include "base/status.h"
#include "data/image/decode.h"

/* Chunks beside the picture (profiles, texts): the largest one, and all of them together. */
enum { MOST_CHUNK_BYTES = 16 << 20, MOST_CACHED_BYTES = 64 << 20 };

static gp_status refuse(int error) {
    if (error == SPNG_EMEM) return gp_error(GP_OUT_OF_MEMORY, "no memory to decode a PNG");
    return gp_error(GP_INVALID, "the PNG is damaged: %s", spng_strerror(error));
}

static gp_status open_context(spng_ctx **context, const uint8_t *bytes, size_t size, struct spng_ihdr *header) {
    *context = spng_ctx_new(0);
    if (!*context) return refuse(SPNG_EMEM);
    int error = spng_set_image_limits(*context, 0x7FFFFFFF, 0x7FFFFFFF);
    if (!error) error = spng_set_chunk_limits(*context, MOST_CHUNK_BYTES, MOST_CACHED_BYTES);
    if (!error) error = spng_set_png_buffer(*context, bytes, size);
    if (!error) error = spng_get_ihdr(*context, header);
    if (!error) return GP_OK;
    spng_ctx_free(*context);
    *context = NULL;
    return refuse(error);
}

gp_status gp_png_header(const uint8_t *bytes, size_t size, gp_image_header *header) {
    spng_ctx *context;
    struct spng_ihdr found;
    GP_TRY(open_context(&context, bytes, size, &found));
    spng_ctx_free(context);
    *header = (gp_image_header){.kind = GP_IMAGE_PNG, .width = (int)found.width, .height = (int)found.height};
    return GP_OK;
}

static gp_status decode_colours(const uint8_t *bytes, size_t size, const gp_image_header *header, gp_pixels *pixels) {
    spng_ctx *context;
    struct spng_ihdr found;
    size_t wanted = 0;
    GP_TRY(gp_pixels_resize(pixels, header->width, header->height, 3));
    GP_TRY(open_context(&context, bytes, size, &found));
    int error = spng_decoded_image_size(context, SPNG_FMT_RGB8, &wanted);
    if (!error && wanted != gp_pixels_row(pixels) * (size_t)pixels->height) error = SPNG_EINTERNAL;
    if (!error) error = spng_decode_image(context, pixels->data, wanted, SPNG_FMT_RGB8, 0);
    spng_ctx_free(context);
    return error ? refuse(error) : GP_OK;
}

gp_status gp_png_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header,
                        int channels, gp_pixels *pixels) {
    if (channels == 3) return decode_colours(bytes, size, header, pixels);
    GP_TRY(decode_colours(bytes, size, header, &decoder->scratch));
    return gp_pixels_convert(&decoder->scratch, 1, pixels);
}
