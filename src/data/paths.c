/* Patterns to paths. */
#include "data/paths.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

#ifndef GLOB_TILDE
#define GLOB_TILDE 0
#endif

static gp_status add(gp_paths *paths, char *const *found, size_t count) {
    char **list = gp_grow_array(paths->list, paths->count, paths->count + count, sizeof *list);
    if (!list) return GP_OUT_OF_MEMORY;
    paths->list = list;
    for (size_t i = 0; i < count; i++) {
        list[paths->count] = gp_copy_text(found[i]);
        if (!list[paths->count]) return GP_OUT_OF_MEMORY;
        paths->count++;
    }
    return GP_OK;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static gp_status add_matches(gp_paths *paths, const char *pattern) {
    glob_t found = {0};
    int result = glob(pattern, GLOB_NOSORT | GLOB_TILDE, NULL, &found);
    gp_status status;
    if (result == GLOB_NOMATCH) {
        status = gp_error(GP_INVALID, "the pattern '%s' matches no file", pattern);
    } else if (result != 0) {
        status = gp_error(GP_IO, "the files of the pattern '%s' could not be listed: %s", pattern,
                          result == GLOB_NOSPACE ? "no memory left" : strerror(errno));
    } else {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
        status = add(paths, found.gl_pathv, found.gl_pathc);
    }
    globfree(&found);
    return status;
}

gp_status gp_paths_append(gp_paths *paths, const char *path) {
    return add(paths, (char *const[]){(char *)(uintptr_t)path}, 1);
}

gp_status gp_paths_add(gp_paths *paths, const char *pattern) {
    bool is_pattern = (strpbrk(pattern, "*?[") || pattern[0] == '~') && access(pattern, F_OK) != 0;
    return is_pattern ? add_matches(paths, pattern) : gp_paths_append(paths, pattern);
}

void gp_paths_free(gp_paths *paths) {
    for (size_t i = 0; i < paths->count; i++)
        gp_free(paths->list[i]);
    gp_free(paths->list);
    *paths = (gp_paths){0};
}
