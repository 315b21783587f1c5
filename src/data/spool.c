/* The file loses its name as soon as it has one, so that nothing is left behind however the process ends. */
#include "data/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    if (folder && *folder) return folder;
    return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

gp_status gp_spool_open(gp_spool *spool, const char *what) {
    *spool = (gp_spool){.descriptor = -1};
    spool->name = gp_format_text("%s/gpipe-data-XXXXXX", temporary_folder());
    if (!spool->name) return GP_OUT_OF_MEMORY;
    spool->descriptor = mkostemp(spool->name, O_CLOEXEC);
    if (spool->descriptor < 0)
        return gp_error(GP_IO, "a temporary file for %s, '%s', could not be created: %s", what, spool->name,
                        strerror(errno));
    unlink(spool->name);
    return GP_OK;
}

gp_status gp_spool_write(gp_spool *spool, const void *data, size_t bytes) {
    spool->bytes += bytes;
    return gp_write_all(spool->descriptor, data, bytes, spool->name);
}

gp_status gp_spool_map(const gp_spool *spool, gp_file_map *map) {
    *map = (gp_file_map){.data = (const unsigned char *)""};
    if (spool->bytes == 0) return GP_OK;
    void *data = mmap(NULL, spool->bytes, PROT_READ, MAP_SHARED, spool->descriptor, 0);
    if (data == MAP_FAILED)
        return gp_error(GP_IO, "'%s' could not be mapped into memory: %s", spool->name, strerror(errno));
    *map = (gp_file_map){.data = data, .bytes = spool->bytes};
    return GP_OK;
}

void gp_spool_close(gp_spool *spool) {
    if (spool->descriptor >= 0) close(spool->descriptor);
    gp_free(spool->name);
    *spool = (gp_spool){.descriptor = -1};
}
