/* A temporary folder for the files of a test, and reading and writing whole files. */
#ifndef GP_TESTS_TEMPORARY_H
#define GP_TESTS_TEMPORARY_H

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct temporary {
    char folder[256];
    char *path[8]; /* paths handed out, used in turn */
    int next;
} temporary;

static inline int temporary_create(void **state) {
    temporary *t = calloc(1, sizeof *t);
    if (!t) return -1;
    const char *base = getenv("TMPDIR");
    snprintf(t->folder, sizeof t->folder, "%s/gpipe-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(t->folder)) {
        free(t);
        return -1;
    }
    *state = t;
    return 0;
}

static inline const char *temporary_path(temporary *t, const char *name) {
    size_t size = sizeof t->folder + strlen(name) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", t->folder, name);
    int slot = t->next++ % 8;
    free(t->path[slot]);
    t->path[slot] = path;
    return path;
}

/* Number of files in the folder. */
static inline int temporary_count(const temporary *t) {
    DIR *folder = opendir(t->folder);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder) closedir(folder);
    return count;
}

static inline int temporary_remove(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

/* Removes the folder with all that is in it. */
static inline int temporary_destroy(void **state) {
    temporary *t = *state;
    nftw(t->folder, temporary_remove, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < 8; i++)
        free(t->path[i]);
    free(t);
    return 0;
}

/* Makes the folders that a path in the folder leads through. */
static inline void temporary_folders(temporary *t, const char *name) {
    char path[512];
    int length = snprintf(path, sizeof path, "%s/%s", t->folder, name);
    assert_true(length > 0 && (size_t)length < sizeof path);
    for (char *slash = path + strlen(t->folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
}

/* Writes a file and returns its path. */
static inline const char *temporary_write(temporary *t, const char *name, const void *data, size_t bytes) {
    temporary_folders(t, name);
    const char *path = temporary_path(t, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *temporary_write_text(temporary *t, const char *name, const char *text) {
    return temporary_write(t, name, text, strlen(text));
}

/* Reads a whole file (freed by the caller). */
static inline char *temporary_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    data[*bytes] = '\0';
    fclose(file);
    return data;
}

/* Asserts that the message of the last error has a part. */
static inline void assert_message_has(const char *message, const char *part) {
    if (strstr(message, part)) return;
    print_error("message \"%s\" lacks \"%s\"\n", message, part);
    fail();
}

#endif
