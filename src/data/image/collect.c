/* Which format a path has, and the images of all paths that a pattern means. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "data/image/collection.h"
#include "data/paths.h"

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

static bool is_tar(const char *path) {
    static const char *const endings[] = {".tar",     ".tar.gz",  ".tgz",    ".tar.bz2", ".tbz2",
                                          ".tar.zst", ".tar.lz4", ".tar.xz", ".txz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(path, endings[i])) return true;
    return false;
}

/* By the kind of thing at the path, then by name; CIFAR's two by the length of the file. */
static gp_status find_format(const char *path, gp_image_format *format) {
    struct stat info;
    bool there = stat(path, &info) == 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!there) return gp_error(GP_INVALID, "there are no images at '%s': there is nothing of that name", path);
    if (S_ISDIR(info.st_mode)) {
        *format = GP_IMAGES_FOLDER;
    } else if (is_tar(name)) {
        *format = GP_IMAGES_TAR;
    } else if (strstr(name, "idx3")) {
        *format = GP_IMAGES_IDX;
    } else if (ends_with(name, ".bin")) {
        *format = info.st_size % 3073 == 0 || info.st_size % 3074 != 0 ? GP_IMAGES_CIFAR10 : GP_IMAGES_CIFAR100;
    } else {
        return gp_error(GP_INVALID,
                        "it is not known what kind of images '%s' has: a folder of classes, .tar (.tar.gz and "
                        "so on), .bin of CIFAR and ...-idx3-ubyte are known by their names",
                        path);
    }
    return GP_OK;
}

static gp_status collect_path(gp_collection *collection, const char *path, gp_image_format format, const char *labels) {
    switch (format) {
    case GP_IMAGES_FOLDER:
        return gp_collect_folder(collection, path);
    case GP_IMAGES_TAR:
        return gp_collect_tar(collection, path);
    case GP_IMAGES_CIFAR10:
        return gp_collect_cifar(collection, path, 10);
    case GP_IMAGES_CIFAR100:
        return gp_collect_cifar(collection, path, 100);
    case GP_IMAGES_IDX:
        return gp_collect_idx(collection, path, labels);
    case GP_IMAGES_AUTO:
        break;
    }
    return gp_error(GP_INVALID, "there is no format of images of number %d", (int)format);
}

gp_status gp_collect(gp_collection *collection, const char *pattern, gp_image_format format, const char *labels) {
    gp_paths paths = {0};
    gp_status status =
        *pattern ? gp_paths_add(&paths, pattern) : gp_error(GP_INVALID, "the path of the images is empty");
    gp_image_format first = format;
    for (size_t i = 0; status == GP_OK && i < paths.count; i++) {
        gp_image_format here = format;
        if (format == GP_IMAGES_AUTO) status = find_format(paths.list[i], &here);
        if (i == 0) first = here;
        if (status == GP_OK && here != first)
            status =
                gp_error(GP_INVALID, "'%s' and '%s' have images of different formats", paths.list[0], paths.list[i]);
        if (status == GP_OK) status = collect_path(collection, paths.list[i], here, labels);
    }
    gp_paths_free(&paths);
    if (status == GP_OK && collection->count == 0)
        status = gp_error(GP_INVALID, "'%s' has no images%s", pattern,
                          collection->ignored ? ": its files are neither .jpg, .jpeg nor .png" : "");
    return status;
}
