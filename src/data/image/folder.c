/* A folder of classes: each folder in it is one, with all images in and below it. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/collection.h"
#include "data/paths.h"
#include "gpipe/words.h"

/* Of folders in a class: links may go round in circles. */
enum { MOST_DEPTH = 16 };

/* What is in a folder, hidden things left out; sorted by bytes. */
typedef struct listing {
    gp_paths folders, files;
} listing;

static void free_listing(listing *list) {
    gp_paths_free(&list->folders);
    gp_paths_free(&list->files);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static gp_status add_entry(listing *list, DIR *folder, const struct dirent *entry) {
    struct stat info;
    if (entry->d_name[0] == '.') return GP_OK;
    bool is_folder = entry->d_type == DT_DIR, is_file = entry->d_type == DT_REG;
    if (!is_folder && !is_file && fstatat(dirfd(folder), entry->d_name, &info, 0) == 0) {
        is_folder = S_ISDIR(info.st_mode);
        is_file = S_ISREG(info.st_mode);
    }
    if (is_folder) return gp_paths_append(&list->folders, entry->d_name);
    return is_file ? gp_paths_append(&list->files, entry->d_name) : GP_OK;
}

static void sort(gp_paths *paths) {
    if (paths->count > 0) qsort(paths->list, paths->count, sizeof *paths->list, compare);
}

static gp_status list_folder(listing *list, const char *path) {
    *list = (listing){0};
    DIR *folder = opendir(path);
    if (!folder) return gp_error(GP_INVALID, "the folder '%s' could not be opened: %s", path, strerror(errno));
    gp_status status = GP_OK;
    for (struct dirent *entry; status == GP_OK && (entry = readdir(folder));)
        status = add_entry(list, folder, entry);
    closedir(folder);
    sort(&list->folders);
    sort(&list->files);
    return status;
}

static gp_status add_file(gp_collection *collection, const char *below, const char *name, int32_t class) {
    gp_image_item item = {.label = class};
    if (!gp_image_named(name)) {
        collection->ignored++;
        return GP_OK;
    }
    item.name = collection->names.used;
    GP_TRY(gp_buffer_add(&collection->names, below, strlen(below)));
    GP_TRY(gp_buffer_add(&collection->names, "/", 1));
    GP_TRY(gp_buffer_add(&collection->names, name, strlen(name) + 1));
    return gp_collection_add(collection, item);
}

static gp_status add_below(gp_collection *collection, const char *root, const char *below, int32_t class, int depth);

static gp_status add_listing(gp_collection *collection, const listing *list, const char *root, const char *below,
                             int32_t class, int depth) {
    for (size_t i = 0; i < list->files.count; i++)
        GP_TRY(add_file(collection, below, list->files.list[i], class));
    for (size_t i = 0; i < list->folders.count; i++) {
        char *deeper = gp_format_text("%s/%s", below, list->folders.list[i]);
        gp_status status = deeper ? add_below(collection, root, deeper, class, depth + 1) : GP_OUT_OF_MEMORY;
        gp_free(deeper);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

/* The images of the folder <root>/<below> and of those in it. */
static gp_status add_below(gp_collection *collection, const char *root, const char *below, int32_t class, int depth) {
    listing list;
    if (depth > MOST_DEPTH)
        return gp_error(GP_INVALID, "folders lie in each other more than %d deep: '%s/%s'", MOST_DEPTH, root, below);
    char *path = gp_format_text("%s/%s", root, below);
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = list_folder(&list, path);
    if (status == GP_OK) status = add_listing(collection, &list, root, below, class, depth);
    free_listing(&list);
    gp_free(path);
    return status;
}

static gp_status add_class(gp_collection *collection, const char *root, const char *name) {
    size_t before = collection->count;
    int32_t class;
    GP_TRY(gp_collection_class(collection, name, &class));
    GP_TRY(add_below(collection, root, name, class, 0));
    if (collection->count == before) gp_log(GP_LOG_WARNING, "the class folder '%s/%s' has no images", root, name);
    return GP_OK;
}

static gp_status check_listing(const listing *list, const char *path) {
    size_t images = 0;
    for (size_t i = 0; i < list->files.count; i++)
        images += gp_image_named(list->files.list[i]);
    if (list->folders.count > 0) {
        if (images > 0)
            gp_log(GP_LOG_WARNING, "%zu image%s of '%s' in no class folder: not used", images,
                   gp_plural((int64_t)images, "s"), path);
        return GP_OK;
    }
    if (images > 0)
        return gp_error(GP_INVALID,
                        "the folder '%s' has %zu image%s but no folders: a folder for every class, with its images in "
                        "it, is needed",
                        path, images, gp_plural((int64_t)images, "s"));
    return gp_error(GP_INVALID,
                    "the folder '%s' has no images: a folder for every class, with its .jpg, .jpeg or .png "
                    "files in it, is needed",
                    path);
}

gp_status gp_collect_folder(gp_collection *collection, const char *path) {
    listing list;
    gp_status status = list_folder(&list, path);
    if (status == GP_OK) status = check_listing(&list, path);
    if (status == GP_OK) status = gp_collection_add_source(collection, GP_SOURCE_FILES, path, (gp_file_map){0});
    for (size_t i = 0; status == GP_OK && i < list.folders.count; i++)
        status = add_class(collection, path, list.folders.list[i]);
    free_listing(&list);
    return status;
}
