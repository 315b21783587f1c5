/* Which format a file has, by its first bytes and not by its name, and whether its size can be true. */
#include "data/image/decode.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

/* Neither format packs more pixels into a byte, so a larger claim is a lie: deflate reaches 1032 bytes, of up to eight
 * pixels; a JPEG's block of 64 pixels (256 with halved colours) takes two bits at least in the usual coding. Small
 * images are spared the question. */
enum { MOST_PIXELS_A_BYTE = 8300, UNASKED_PIXELS = 1 << 20 };
/* What a JPEG can have, and enough for anybody's PNG. */
enum { MOST_SIDE = 65535 };

void gp_decoder_free(gp_decoder *decoder) {
    gp_jpeg_free(decoder);
    gp_pixels_free(&decoder->scratch);
}

static gp_status find_kind(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_image_header *header) {
    static const uint8_t jpeg[] = {0xFF, 0xD8, 0xFF}, png[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
    if (size == 0) return gp_error(GP_INVALID, "the file is empty");
    if (size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
        return gp_jpeg_header(decoder, bytes, size, header);
    if (size >= sizeof png && memcmp(bytes, png, sizeof png) == 0) return gp_png_header(bytes, size, header);
    return gp_error(GP_INVALID, "the file is neither a JPEG nor a PNG");
}

gp_status gp_decode_header(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_image_header *header) {
    GP_TRY(find_kind(decoder, bytes, size, header));
    if (header->width > MOST_SIDE || header->height > MOST_SIDE) {
        return gp_error(GP_INVALID, "the image has %d x %d pixels: sides of at most %d are accepted", header->width,
                        header->height, MOST_SIDE);
    }
    int64_t pixels = (int64_t)header->width * header->height;
    if (pixels > decoder->most_pixels) {
        return gp_error(GP_INVALID, "the image has %d x %d pixels: at most %" PRId64 " are accepted", header->width,
                        header->height, decoder->most_pixels);
    }
    if (pixels > UNASKED_PIXELS && (uint64_t)pixels / MOST_PIXELS_A_BYTE > size) {
        return gp_error(GP_INVALID, "the file claims to have %d x %d pixels, which cannot be in its %zu bytes",
                        header->width, header->height, size);
    }
    return GP_OK;
}

gp_status gp_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header, int shrink,
                    int channels, gp_pixels *pixels) {
    if (header->kind == GP_IMAGE_PNG) return gp_png_decode(decoder, bytes, size, header, channels, pixels);
    return gp_jpeg_decode(decoder, bytes, size, header, shrink, channels, pixels);
}
