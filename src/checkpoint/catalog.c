/* The folder in which a run keeps its checkpoints. Every change of a name is one rename, so a process that is killed at
 * any instant leaves whole folders step-N, and perhaps unfinished ones whose names start with a dot. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state.h"

/* ---- names ---- */

/* As gpipe writes them: "step-007" is none. */
static bool step_of(const char *name, int64_t *step) {
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
    if (name[5] == '0' && name[6] != '\0') return false;
    errno = 0;
    *step = strtoll(name + 5, &end, 10);
    return *end == '\0' && errno == 0;
}

static char *folder_of(const char *checkpoints, int64_t step) {
    return gp_format_text("%s/step-%" PRId64, checkpoints, step);
}

/* ---- listing ---- */

static int descending(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

static gp_status add_step(int64_t **steps, size_t *count, size_t *capacity, int64_t step) {
    if (*count == *capacity) {
        int64_t *grown = gp_grow_array(*steps, *capacity, 2 * *capacity + 8, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        *steps = grown;
        *capacity = 2 * *capacity + 8;
    }
    (*steps)[(*count)++] = step;
    return GP_OK;
}

static bool is_folder_in(DIR *list, const char *name) {
    struct stat information;
    return fstatat(dirfd(list), name, &information, 0) == 0 && S_ISDIR(information.st_mode);
}

static gp_status list_steps(DIR *list, int64_t **steps, size_t *count) {
    size_t capacity = 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        int64_t step;
        if (step_of(entry->d_name, &step) && is_folder_in(list, entry->d_name))
            GP_TRY(add_step(steps, count, &capacity, step));
    }
    return GP_OK;
}

/* A folder that cannot be looked into must not pass for an empty one: a run would begin again over its checkpoints. */
gp_status gp_catalog_list(const char *checkpoints, int64_t **steps, size_t *count) {
    DIR *list = opendir(checkpoints);
    *steps = NULL;
    *count = 0;
    if (!list && (errno == ENOENT || errno == ENOTDIR)) return GP_OK;
    if (!list) return gp_error(GP_IO, "'%s' could not be read: %s", checkpoints, strerror(errno));
    gp_status status = list_steps(list, steps, count);
    closedir(list);
    if (*count > 0) qsort(*steps, *count, sizeof **steps, descending);
    if (status != GP_OK) {
        gp_free(*steps);
        *steps = NULL;
        *count = 0;
    }
    return status;
}

/* ---- removing ---- */

/* Whether gpipe writes files of this name into a checkpoint, whole ones and what a killed process was writing. */
static bool is_own_file(const char *name) {
    return strstr(name, ".safetensors") || strncmp(name, GP_STATE_FILE, sizeof GP_STATE_FILE - 1) == 0;
}

static void remove_folder(const char *checkpoints, const char *name) {
    char *path = gp_format_text("%s/%s", checkpoints, name);
    DIR *folder = path ? opendir(path) : NULL;
    if (folder) {
        unlinkat(dirfd(folder), GP_STATE_FILE, 0); /* first: what is left is no checkpoint then */
        for (struct dirent *entry; (entry = readdir(folder));)
            if (is_own_file(entry->d_name)) unlinkat(dirfd(folder), entry->d_name, 0);
        closedir(folder);
    }
    if (path) rmdir(path);
    gp_free(path);
}

/* It loses its name first: a process that is killed meanwhile leaves no half of a folder step-N. What is not gpipe's
 * keeps the folder, under its name. */
void gp_catalog_remove(const char *checkpoints, int64_t step) {
    char name[48], aside[48];
    snprintf(name, sizeof name, "step-%" PRId64, step);
    snprintf(aside, sizeof aside, ".step-%" PRId64 ".old", step);
    char *path = folder_of(checkpoints, step), *other = gp_format_text("%s/%s", checkpoints, aside);
    bool moved = path && other && rename(path, other) == 0;
    remove_folder(checkpoints, moved ? aside : name);
    if (moved) (void)rename(other, path);
    gp_free(path);
    gp_free(other);
}

void gp_catalog_clean(const char *checkpoints) {
    DIR *folder = opendir(checkpoints);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, ".step-", 6) == 0) remove_folder(checkpoints, entry->d_name);
    if (folder) closedir(folder);
}

void gp_catalog_prune(const char *checkpoints, const gp_catalog_policy *policy) {
    int64_t *steps;
    size_t count, kept = 1; /* the latest */
    if (gp_catalog_list(checkpoints, &steps, &count) != GP_OK) return;
    for (size_t i = 0; i < count; i++) {
        int64_t step = steps[i];
        bool every = policy->keep_every > 0 && step % policy->keep_every == 0;
        bool newest = (int64_t)kept < policy->keep && step != policy->latest && step != policy->best && !every;
        bool stays = step == policy->latest || step == policy->best || every || newest;
        if (step > policy->latest || !stays) gp_catalog_remove(checkpoints, step); /* later ones are another run's */
        kept += step < policy->latest && newest;
    }
    gp_free(steps);
}

/* A link whose target is gone. */
static void remove_dangling(const char *checkpoints, const char *name) {
    struct stat information;
    char *link = gp_format_text("%s/%s", checkpoints, name);
    if (link && lstat(link, &information) == 0 && S_ISLNK(information.st_mode) && stat(link, &information) != 0)
        unlink(link);
    gp_free(link);
}

void gp_checkpoint_remove(const char *run, int64_t first) {
    int64_t *steps = NULL;
    size_t count = 0;
    char *checkpoints = gp_format_text("%s/checkpoints", run);
    if (!checkpoints) return;
    gp_catalog_clean(checkpoints);
    if (gp_catalog_list(checkpoints, &steps, &count) != GP_OK) count = 0;
    for (size_t i = 0; i < count && steps[i] >= first; i++)
        gp_catalog_remove(checkpoints, steps[i]);
    remove_dangling(checkpoints, GP_CATALOG_LATEST);
    remove_dangling(checkpoints, GP_CATALOG_BEST);
    if (first <= 0) rmdir(checkpoints);
    gp_free(steps);
    gp_free(checkpoints);
}

int64_t gp_checkpoint_before(const char *run, int64_t step) {
    int64_t *steps = NULL, found = -1;
    size_t count = 0;
    char *checkpoints = gp_format_text("%s/checkpoints", run);
    if (checkpoints && gp_catalog_list(checkpoints, &steps, &count) != GP_OK) count = 0;
    for (size_t i = 0; found < 0 && i < count; i++)
        if (steps[i] < step) found = steps[i];
    gp_free(steps);
    gp_free(checkpoints);
    return found;
}

/* ---- writing ---- */

gp_status gp_catalog_create(const char *checkpoints) {
    static const char *const names[] = {GP_CATALOG_LATEST, GP_CATALOG_BEST};
    GP_TRY(gp_folder_make(checkpoints));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct stat information;
        char *link = gp_format_text("%s/%s", checkpoints, names[i]);
        bool taken = link && lstat(link, &information) == 0 && !S_ISLNK(information.st_mode);
        gp_status status = link ? GP_OK : GP_OUT_OF_MEMORY;
        if (taken)
            status = gp_error(GP_INVALID,
                              "'%s' is no link (perhaps the run was copied without its links), but a run links a "
                              "checkpoint there: move it away",
                              link);
        gp_free(link);
        GP_TRY(status);
    }
    return GP_OK;
}

static gp_status check_room(const char *checkpoints, uint64_t bytes) {
    char wanted[16], there[16];
    uint64_t free_bytes = gp_folder_free_bytes(checkpoints), margin = bytes / 100 + (1 << 20);
    if (free_bytes >= bytes + margin) return GP_OK;
    return gp_error(GP_IO, "the disk of %s has %s free, but a checkpoint needs %s", checkpoints,
                    gp_bytes_format((size_t)free_bytes, there, sizeof there),
                    gp_bytes_format((size_t)(bytes + margin), wanted, sizeof wanted));
}

gp_status gp_catalog_begin(const char *checkpoints, int64_t step, uint64_t bytes, char **folder) {
    *folder = NULL;
    GP_TRY(gp_folder_make(checkpoints));
    gp_catalog_clean(checkpoints);
    GP_TRY(check_room(checkpoints, bytes));
    char *path = gp_format_text("%s/.step-%" PRId64 ".new", checkpoints, step);
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    if (mkdir(path, 0777) != 0) status = gp_error(GP_IO, "'%s' could not be created: %s", path, strerror(errno));
    if (status == GP_OK) {
        *folder = path;
    } else {
        gp_free(path);
    }
    return status;
}

/* Puts `folder` in the place of `target`, which exists. */
static gp_status exchange(const char *folder, const char *target) {
    if (renameat2(AT_FDCWD, folder, AT_FDCWD, target, RENAME_EXCHANGE) == 0) return GP_OK;
    /* A file system without exchange: for an instant there is no folder of this name, but there are older ones. */
    char *aside = gp_format_text("%s.old", folder);
    if (!aside) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    bool moved = rename(target, aside) == 0;
    if (!moved || rename(folder, target) != 0) {
        status = gp_error(GP_IO, "'%s' could not be replaced: %s", target, strerror(errno));
        if (moved) rename(aside, target);
    }
    gp_free(aside);
    return status;
}

static gp_status give_name(const char *folder, const char *target) {
    struct stat information;
    if (lstat(target, &information) == 0) return exchange(folder, target);
    if (rename(folder, target) == 0) return GP_OK;
    return gp_error(GP_IO, "'%s' could not be named '%s': %s", folder, target, strerror(errno));
}

gp_status gp_catalog_commit(const char *checkpoints, int64_t step, const char *folder) {
    char *target = folder_of(checkpoints, step);
    gp_status status = target ? gp_folder_flush(folder) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = give_name(folder, target);
    if (status == GP_OK) status = gp_folder_flush(checkpoints);
    gp_free(target);
    return status;
}

gp_status gp_catalog_link(const char *checkpoints, const char *name, int64_t step) {
    char target[48];
    char *link = gp_format_text("%s/%s", checkpoints, name);
    char *fresh = gp_format_text("%s/.%s.new", checkpoints, name);
    gp_status status = link && fresh ? GP_OK : GP_OUT_OF_MEMORY;
    snprintf(target, sizeof target, "step-%" PRId64, step);
    if (status == GP_OK) {
        unlink(fresh);
        if (symlink(target, fresh) != 0 || rename(fresh, link) != 0)
            status = gp_error(GP_IO, "'%s' could not be linked to %s: %s", link, target, strerror(errno));
        if (status != GP_OK) unlink(fresh);
    }
    gp_free(link);
    gp_free(fresh);
    return status;
}

/* ---- finding ---- */

static gp_status give_path(const char *path, char *folder, size_t size) {
    if (!folder) return GP_OK;
    int length = snprintf(folder, size, "%s", path);
    if (length >= 0 && (size_t)length < size) return GP_OK;
    return gp_error(GP_INVALID, "the path %s is too long", path);
}

gp_status gp_checkpoint_find_newest(const char *run, int64_t *step, char *folder, size_t size) {
    int64_t *steps = NULL;
    size_t count = 0;
    char *checkpoints = gp_format_text("%s/checkpoints", run);
    gp_status status = checkpoints ? gp_catalog_list(checkpoints, &steps, &count) : GP_OUT_OF_MEMORY;
    *step = -1;
    for (size_t i = 0; status == GP_OK && *step < 0 && i < count; i++) {
        gp_checkpoint *checkpoint = NULL;
        char *path = folder_of(checkpoints, steps[i]);
        gp_status opened = path ? gp_checkpoint_open(&checkpoint, path) : GP_OUT_OF_MEMORY;
        gp_checkpoint_close(checkpoint);
        if (opened == GP_OK) {
            *step = steps[i];
            status = give_path(path, folder, size);
        } else if (opened == GP_OUT_OF_MEMORY) {
            status = opened;
        } else {
            gp_log(GP_LOG_WARNING, "step-%" PRId64 " is passed over: %s", steps[i], gp_error_message());
        }
        gp_free(path);
    }
    gp_free(steps);
    gp_free(checkpoints);
    return status;
}
