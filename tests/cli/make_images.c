/* Small images for the suites of the command line: make_images PLACE CLASSES IMAGES SIDE, where PLACE is a folder or a
 * .tar file. Classes are c0, c1, ...; a picture grows brighter from left to right in the channel of its class. */
#include "../data/image_files.h"

static image_file encode(int kind, int number, int side) {
    return number % 2 ? png_picture(kind, side, side) : jpeg_picture(kind, side + number, side);
}

static void write_file(const char *place, int kind, int number, int side) {
    char path[1024];
    image_file file = encode(kind, number, side);
    snprintf(path, sizeof path, "%s/c%d", place, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/c%d/%03d.%s", place, kind, number, number % 2 ? "png" : "jpg");
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(file.bytes, 1, file.size, out) != file.size || fclose(out) != 0) exit(1);
    free(file.bytes);
}

static void write_member(struct archive *tar, int kind, int number, int side) {
    char name[64];
    snprintf(name, sizeof name, "./c%d/%03d.%s", kind, number, number % 2 ? "png" : "jpg");
    tar_add_image(tar, name, encode(kind, number, side));
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    const char *place = arguments[1];
    int classes = atoi(arguments[2]), images = atoi(arguments[3]), side = atoi(arguments[4]);
    size_t length = strlen(place);
    bool is_tar = length > 4 && strcmp(place + length - 4, ".tar") == 0;
    struct archive *tar = is_tar ? tar_create(place, ARCHIVE_FILTER_NONE) : NULL;
    if (!tar) mkdir(place, 0777);
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < images; i++) {
            if (tar) {
                write_member(tar, c, i, side);
            } else {
                write_file(place, c, i, side);
            }
        }
    }
    if (tar) tar_close(tar);
    return 0;
}
