/* Opening what may be anything: opening a pipe that nobody writes to would wait for ever, so every file that the
 * program opens by name goes through here. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_handed_over(const char *path) {
    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
}

static gp_status check(int descriptor, const char *path, bool reading) {
    struct stat information;
    if (fstat(descriptor, &information) != 0)
        return gp_error(GP_IO, "%s could not be looked at: %s", path, strerror(errno));
    if (S_ISREG(information.st_mode)) return GP_OK;
    if (S_ISDIR(information.st_mode)) return gp_error(GP_INVALID, "%s is a folder: a file is needed", path);
    if (reading && is_handed_over(path)) return GP_OK;
    return gp_error(GP_INVALID, "%s is not a regular file: one is needed%s", path,
                    reading ? "" : ", or none to begin with");
}

static gp_status refuse(const char *path, bool reading) {
    if (reading) return gp_error(GP_INVALID, "%s could not be opened: %s", path, strerror(errno));
    if (errno == ENXIO || errno == EISDIR) /* a pipe without a reader */
        return gp_error(GP_INVALID, "%s is not a regular file: one is needed, or none to begin with", path);
    return gp_error(GP_IO, "%s could not be written: %s", path, strerror(errno));
}

/* The old contents go when the file is known to be one. */
static gp_status prepare(int descriptor, const char *path, const char *mode) {
    gp_status status = check(descriptor, path, *mode == 'r');
    if (status != GP_OK) return status;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
    if (*mode != 'w' || ftruncate(descriptor, 0) == 0) return GP_OK;
    return gp_error(GP_IO, "%s could not be written: %s", path, strerror(errno));
}

gp_status cli_file_open(FILE **file, const char *path, const char *mode) {
    bool reading = *mode == 'r';
    int flags = reading ? O_RDONLY : O_WRONLY | O_CREAT | (*mode == 'a' ? O_APPEND : 0);
    *file = NULL;
    int descriptor = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor < 0) return refuse(path, reading);
    gp_status status = prepare(descriptor, path, mode);
    if (status == GP_OK && !(*file = fdopen(descriptor, mode)))
        status = gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    if (!*file) close(descriptor);
    return status;
}
