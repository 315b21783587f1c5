/* JPEG through libjpeg-turbo's TurboJPEG interface. Only its exact transforms are used, which give the same bytes with
 * and without vector instructions. */
#include <stdbool.h>
#include <string.h>
#include <turbojpeg.h>

#include "base/status.h"
#include "data/image/decode.h"

void gp_jpeg_free(gp_decoder *decoder) {
    if (decoder->jpeg) tjDestroy(decoder->jpeg);
    decoder->jpeg = NULL;
}

/* A handle of its own for every file: the library keeps tables from one to the next, so that what a file without some
 * of them, or one behind a damaged one, shows would depend on what was decoded before. */
static gp_status open_handle(gp_decoder *decoder) {
    gp_jpeg_free(decoder);
    decoder->jpeg = tjInitDecompress();
    return decoder->jpeg ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "no memory for a JPEG decoder");
}

static gp_status refuse(const gp_decoder *decoder) {
    return gp_error(GP_INVALID, "the JPEG is damaged: %s", tjGetErrorStr2(decoder->jpeg));
}

gp_status gp_jpeg_header(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_image_header *header) {
    GP_TRY(open_handle(decoder));
    int width = 0, height = 0, sampling = 0, colours = -1;
    if (size > 0x7FFFFFFF) return gp_error(GP_INVALID, "the JPEG has %zu bytes, more than 2 GiB", size);
    /* Failing with the sizes known is about an unusual sampling of colours: decoding needs no word for it. */
    int result = tjDecompressHeader3(decoder->jpeg, bytes, (unsigned long)size, &width, &height, &sampling, &colours);
    if (width < 1 || height < 1 || colours < 0) return refuse(decoder);
    (void)result;
    *header = (gp_image_header){.kind = GP_IMAGE_JPEG, .width = width, .height = height, .colours = colours};
    return GP_OK;
}

/* Warnings that leave the picture whole: cameras and editors write such files, and every viewer shows them. */
static bool is_harmless(const char *warning) {
    static const char *const known[] = {"extraneous bytes before marker", "Unknown Adobe color transform code",
                                        "Warning: unknown JFIF revision number"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(warning, known[i])) return true;
    return false;
}

enum { MARKER = 0xFF, END_OF_IMAGE = 0xD9, START_OF_SCAN = 0xDA, RESTART_0 = 0xD0, TEMPORARY = 0x01 };

/* Whether the file says, behind the beginning of its picture, that it ends. Pictures within its comments do not count,
 * so markers are followed. */
static bool has_end(const uint8_t *bytes, size_t size) {
    bool in_scan = false;
    for (size_t at = 2; at + 1 < size;) {
        uint8_t marker = bytes[at + 1];
        if (bytes[at] != MARKER || marker == 0 || marker == MARKER) {
            at++;
        } else if (marker == END_OF_IMAGE) {
            return in_scan;
        } else if (marker == TEMPORARY || (marker >= RESTART_0 && marker < RESTART_0 + 8)) {
            at += 2;
        } else {
            in_scan = in_scan || marker == START_OF_SCAN;
            at += at + 3 < size ? 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]) : 2;
        }
    }
    return false;
}

/* Stops at the first warning. When that one is harmless, decodes again without stopping: only the first warning can be
 * read, so the usual one of those that might follow, that the file ends early, is looked for by hand. */
static gp_status decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, gp_pixels *to, int format) {
    int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
    for (int attempt = 0; attempt < 2; attempt++) {
        int result = tjDecompress2(decoder->jpeg, bytes, (unsigned long)size, to->data, to->width, 0, to->height,
                                   format, flags | (attempt == 0 ? TJFLAG_STOPONWARNING : 0));
        if (result == 0) return GP_OK;
        bool warning = tjGetErrorCode(decoder->jpeg) == TJERR_WARNING;
        if (!warning || !is_harmless(tjGetErrorStr2(decoder->jpeg))) return refuse(decoder);
        if (!has_end(bytes, size)) return gp_error(GP_INVALID, "the JPEG is damaged: it ends early");
    }
    return GP_OK;
}

/* Inks are stored the wrong way round, as Adobe's programs do and everybody after them: 255 is none. */
static void ink_to_colours(const gp_pixels *ink, gp_pixels *pixels) {
    size_t count = (size_t)ink->width * (size_t)ink->height;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = ink->data + 4 * i;
        for (size_t c = 0; c < 3; c++)
            pixels->data[3 * i + c] = (uint8_t)((from[c] * from[3] + 127) / 255);
    }
}

/* Three channels from any kind of file. */
static gp_status decode_colours(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header,
                                int width, int height, gp_pixels *pixels) {
    GP_TRY(gp_pixels_resize(pixels, width, height, 3));
    if (header->colours != TJCS_CMYK && header->colours != TJCS_YCCK)
        return decode(decoder, bytes, size, pixels, TJPF_RGB);
    gp_pixels ink = {0};
    gp_status status = gp_pixels_resize(&ink, width, height, 4);
    if (status == GP_OK) status = decode(decoder, bytes, size, &ink, TJPF_CMYK);
    if (status == GP_OK) ink_to_colours(&ink, pixels);
    gp_pixels_free(&ink);
    return status;
}

gp_status gp_jpeg_decode(gp_decoder *decoder, const uint8_t *bytes, size_t size, const gp_image_header *header,
                         int shrink, int channels, gp_pixels *pixels) {
    int width = (header->width - 1) / shrink + 1, height = (header->height - 1) / shrink + 1;
    if (channels == 3) return decode_colours(decoder, bytes, size, header, width, height, pixels);
    if (header->colours == TJCS_GRAY || header->colours == TJCS_YCbCr) {
        GP_TRY(gp_pixels_resize(pixels, width, height, 1));
        return decode(decoder, bytes, size, pixels, TJPF_GRAY);
    }
    GP_TRY(decode_colours(decoder, bytes, size, header, width, height, &decoder->scratch));
    return gp_pixels_convert(&decoder->scratch, 1, pixels);
}
