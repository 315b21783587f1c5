/* Drives a target: as libFuzzer's function, or over the files named on the command line. */
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#ifdef GPIPE_FUZZ
#include <stdatomic.h>

/* Of the sanitizers' runtime: calls these for every block. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *memory);

static _Atomic int64_t held, most; /* bytes now, and at most since the input began */

static void on_malloc(const volatile void *memory, size_t bytes) {
    (void)memory;
    int64_t now = atomic_fetch_add(&held, (int64_t)bytes) + (int64_t)bytes;
    if (now > atomic_load(&most)) atomic_store(&most, now);
}

static void on_free(const volatile void *memory) {
    if (memory) atomic_fetch_sub(&held, (int64_t)__sanitizer_get_allocated_size(memory));
}

static void begin_input(void) {
    static bool installed = false;
    if (!installed) __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    atomic_store(&held, 0);
    atomic_store(&most, 0);
}

static void end_input(size_t bytes) {
    int64_t allowed = (int64_t)(fuzz_fixed + fuzz_factor * bytes);
    if (atomic_load(&most) <= allowed) return;
    fprintf(stderr, "an input of %zu bytes took %lld bytes of memory: %lld are allowed\n", bytes,
            (long long)atomic_load(&most), (long long)allowed);
    abort();
}
#else
static void begin_input(void) {}

static void end_input(size_t bytes) {
    (void)bytes;
}
#endif

static char folder[256];

static void remove_folder(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, fuzz_file);
    unlink(path);
    rmdir(folder);
}

/* One folder for the process; in memory where the system has a place for that. */
static void make_folder(void) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/gpipe-fuzz-XXXXXX", base);
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char path[512];
    if (!folder[0]) make_folder();
    snprintf(path, sizeof path, "%s/%s", folder, fuzz_file);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
    begin_input();
    fuzz_one(folder, path, data, bytes);
    end_input(bytes);
    return 0;
}

#ifndef GPIPE_FUZZ
static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return 1;
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    uint8_t *data = malloc((size_t)bytes + 1);
    int failed = !data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes;
    fclose(file);
    if (!failed) LLVMFuzzerTestOneInput(data, (size_t)bytes);
    free(data);
    return failed;
}

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        if (replay(paths[i]) != 0) {
            fprintf(stderr, "%s could not be read\n", paths[i]);
            return 1;
        }
    }
    printf("%d inputs\n", count - 1);
    return count > 1 ? 0 : 1;
}
#endif
