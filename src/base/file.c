/* Mapping and replacing files. A replacement is written beside its target, flushed, renamed, and the folder flushed
 * too: after a power cut either the old or the new file is there, whole. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

/* Whether a failure to open is the fault of the path that was given, rather than of the system. */
static bool is_fault_of_path(int number) {
    return number == ENOENT || number == ENOTDIR || number == EACCES || number == EISDIR || number == ELOOP ||
           number == ENAMETOOLONG || number == ENXIO;
}

static gp_status map_descriptor(gp_file_map *map, int descriptor, const char *path) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return gp_error(GP_IO, "'%s' could not be read: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) {
        return gp_error(GP_INVALID, "'%s' is %s: a regular file is needed", path,
                        S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    }
    map->bytes = (size_t)info.st_size;
    map->data = (const unsigned char *)"";
    if (map->bytes == 0) return GP_OK;
    void *data = mmap(NULL, map->bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
        *map = (gp_file_map){0};
        return gp_error(GP_IO, "'%s' could not be mapped into memory: %s", path, strerror(errno));
    }
    map->data = data;
    return GP_OK;
}

gp_status gp_file_map_open(gp_file_map *map, const char *path) {
    *map = (gp_file_map){0};
    /* Without blocking: opening a pipe that nobody writes to would wait for ever. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        gp_status status = is_fault_of_path(errno) ? GP_INVALID : GP_IO;
        return gp_error(status, "'%s' could not be opened: %s", path, strerror(errno));
    }
    gp_status status = map_descriptor(map, descriptor, path);
    close(descriptor);
    return status;
}

void gp_file_map_close(gp_file_map *map) {
    if (map->bytes > 0) munmap((void *)map->data, map->bytes);
    *map = (gp_file_map){0};
}

struct gp_file_writer {
    char *path;
    char *folder;    /* of path */
    char *temporary; /* NULL once the file has its name or where none was made */
    int descriptor;  /* -1 when closed */
};

/* Opens a new file whose name nobody uses; the process number keeps two runs apart, the attempt two threads. */
static gp_status open_temporary(gp_file_writer *writer) {
    for (int attempt = 0; attempt < 1000; attempt++) {
        gp_free(writer->temporary);
        writer->temporary = gp_format_text("%s.%ld-%d.tmp", writer->path, (long)getpid(), attempt);
        if (!writer->temporary) return GP_OUT_OF_MEMORY;
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor >= 0) return GP_OK;
        if (errno != EEXIST) break;
    }
    gp_error(GP_IO, "'%s' could not be created: %s", writer->temporary, strerror(errno));
    gp_free(writer->temporary);
    writer->temporary = NULL;
    return GP_IO;
}

/* Renaming over a device, a pipe or a socket would remove it: a superuser's "-o /dev/null" must not. */
static gp_status check_target(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return GP_OK;
    return gp_error(GP_INVALID, "'%s' is %s: a new file, or a regular one to replace, is accepted", path,
                    S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
}

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? gp_format_text("%.*s", slash == path ? 1 : (int)(slash - path), path) : gp_copy_text(".");
}

gp_status gp_file_writer_create(gp_file_writer **writer, const char *path) {
    *writer = NULL;
    GP_TRY(check_target(path));
    gp_file_writer *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->descriptor = -1;
    made->path = gp_copy_text(path);
    made->folder = folder_of(path);
    gp_status status = made->path && made->folder ? open_temporary(made) : GP_OUT_OF_MEMORY;
    if (status != GP_OK) {
        gp_file_writer_destroy(made);
        return status;
    }
    *writer = made;
    return GP_OK;
}

/* Writes with `offset` UINT64_MAX where the descriptor stands, else at that place. */
static gp_status write_pieces(int descriptor, const void *data, size_t bytes, uint64_t offset, const char *name) {
    const size_t most = (size_t)1 << 30; /* the system takes less than 2 GiB at once */
    for (const char *next = data; bytes > 0;) {
        size_t piece = bytes < most ? bytes : most;
        ssize_t written =
            offset == UINT64_MAX ? write(descriptor, next, piece) : pwrite(descriptor, next, piece, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return gp_error(GP_IO, "'%s' could not be written: %s", name, strerror(errno));
        if (written == 0) return gp_error(GP_IO, "'%s' could not be written: the system takes no bytes", name);
        next += written;
        bytes -= (size_t)written;
        if (offset != UINT64_MAX) offset += (uint64_t)written;
    }
    return GP_OK;
}

gp_status gp_write_all(int descriptor, const void *data, size_t bytes, const char *name) {
    return write_pieces(descriptor, data, bytes, UINT64_MAX, name);
}

gp_status gp_write_all_at(int descriptor, const void *data, size_t bytes, uint64_t offset, const char *name) {
    return write_pieces(descriptor, data, bytes, offset, name);
}

gp_status gp_file_writer_write(gp_file_writer *writer, const void *data, size_t bytes) {
    return gp_write_all(writer->descriptor, data, bytes, writer->temporary);
}

gp_status gp_file_writer_write_at(gp_file_writer *writer, const void *data, size_t bytes, uint64_t offset) {
    return gp_write_all_at(writer->descriptor, data, bytes, offset, writer->temporary);
}

gp_status gp_file_writer_commit(gp_file_writer *writer) {
    int failure = fsync(writer->descriptor) != 0 ? errno : 0;
    if (close(writer->descriptor) != 0 && !failure) failure = errno;
    writer->descriptor = -1;
    if (failure) return gp_error(GP_IO, "'%s' could not be written: %s", writer->temporary, strerror(failure));
    if (rename(writer->temporary, writer->path) != 0) {
        return gp_error(GP_IO, "'%s' could not be replaced: %s", writer->path, strerror(errno));
    }
    gp_free(writer->temporary);
    writer->temporary = NULL;
    return gp_folder_flush(writer->folder); /* makes the renaming itself last */
}

void gp_file_writer_destroy(gp_file_writer *writer) {
    if (!writer) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    if (writer->temporary) unlink(writer->temporary);
    gp_free(writer->temporary);
    gp_free(writer->folder);
    gp_free(writer->path);
    gp_free(writer);
}

gp_status gp_file_write_text(const char *path, const char *text) {
    gp_file_writer *writer = NULL;
    gp_status status = gp_file_writer_create(&writer, path);
    if (status == GP_OK) status = gp_file_writer_write(writer, text, strlen(text));
    if (status == GP_OK) status = gp_file_writer_commit(writer);
    gp_file_writer_destroy(writer);
    return status;
}

/* ---- what is there ---- */

bool gp_is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool gp_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* ---- folders ---- */

gp_status gp_folder_make(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return GP_OK;
    return gp_error(GP_IO, "'%s' could not be created: %s", path, strerror(errno));
}

gp_status gp_folder_flush(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 && errno == EACCES) return GP_OK; /* one may write to a folder that one may not read */
    if (descriptor < 0) return gp_error(GP_IO, "'%s' could not be opened: %s", path, strerror(errno));
    int failure = fsync(descriptor) != 0 ? errno : 0;
    close(descriptor);
    if (failure == 0 || failure == EINVAL || failure == ENOTSUP || failure == EROFS) return GP_OK;
    return gp_error(GP_IO, "the names in '%s' could not be written to the disk: %s", path, strerror(failure));
}

uint64_t gp_folder_free_bytes(const char *path) {
    struct statvfs information;
    if (statvfs(path, &information) != 0 || information.f_blocks == 0) return UINT64_MAX;
    return (uint64_t)information.f_bavail * information.f_frsize;
}
