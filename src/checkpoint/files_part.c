/* One thread's part of the files of a checkpoint. Every tensor has its place, so threads and processes share the files
 * without knowing of each other; each flushes what it wrote. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/checksum.h"
#include "checkpoint/files.h"

enum { BUFFER_BYTES = 1 << 20, CLOSED = -1 };

struct gp_files_part {
    const gp_files *files;
    char *folder;
    int *descriptors; /* of each shard; CLOSED: nothing was written to it */
    gp_checksum *checksum;
    void *buffer;
};

gp_status gp_files_part_create(gp_files_part **part, const gp_files *files, const char *folder) {
    *part = NULL;
    gp_files_part *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->files = files;
    made->folder = gp_copy_text(folder);
    made->descriptors = gp_allocate_array(files->shard_count, sizeof *made->descriptors);
    made->checksum = gp_checksum_create();
    made->buffer = gp_allocate(BUFFER_BYTES);
    for (size_t s = 0; made->descriptors && s < files->shard_count; s++)
        made->descriptors[s] = CLOSED;
    if (!made->folder || !made->descriptors || !made->checksum || !made->buffer) {
        gp_files_part_destroy(made);
        return GP_OUT_OF_MEMORY;
    }
    *part = made;
    return GP_OK;
}

static gp_status open_shard(gp_files_part *part, size_t shard) {
    if (part->descriptors[shard] != CLOSED) return GP_OK;
    char *path = gp_format_text("%s/%s", part->folder, part->files->shards[shard].name);
    if (!path) return GP_OUT_OF_MEMORY;
    gp_status status = GP_OK;
    part->descriptors[shard] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (part->descriptors[shard] < 0) status = gp_error(GP_IO, "'%s' could not be created: %s", path, strerror(errno));
    gp_free(path);
    return status;
}

/* Checksum and disk, while the bytes are in the cache. */
static gp_status write_bytes(gp_files_part *part, const gp_files_piece *piece, size_t at, const void *data,
                             size_t bytes) {
    const gp_files *files = part->files;
    size_t shard = files->shard[piece->tensor];
    gp_checksum_add(part->checksum, data, bytes);
    return gp_write_all_at(part->descriptors[shard], data, bytes, files->offset[piece->tensor] + piece->first + at,
                           files->shards[shard].name);
}

gp_status gp_files_part_write(gp_files_part *part, gp_files_piece *piece, const void *data, gp_safetensors_fill fill,
                              void *user, const _Atomic bool *cancelled) {
    size_t number = part->files->shard[piece->tensor], total = (size_t)piece->bytes;
    const gp_files_shard *shard = &part->files->shards[number];
    GP_TRY(open_shard(part, number));
    if (shard->first == piece->tensor && piece->first == 0)
        GP_TRY(gp_write_all_at(part->descriptors[number], shard->header, shard->header_bytes, 0, shard->name));
    gp_checksum_begin(part->checksum);
    for (size_t at = 0; at < total; at += BUFFER_BYTES) {
        size_t bytes = total - at < BUFFER_BYTES ? total - at : BUFFER_BYTES;
        if (cancelled && atomic_load(cancelled))
            return gp_error(GP_INTERRUPTED, "the writing of %s was given up", shard->name);
        if (!data) GP_TRY(fill(user, at, part->buffer, bytes));
        GP_TRY(write_bytes(part, piece, at, data ? (const char *)data + at : part->buffer, bytes));
    }
    piece->checksum = gp_checksum_end(part->checksum);
    return GP_OK;
}

gp_status gp_files_part_finish(gp_files_part *part) {
    for (size_t s = 0; s < part->files->shard_count; s++) {
        int descriptor = part->descriptors[s];
        if (descriptor == CLOSED) continue;
        part->descriptors[s] = CLOSED;
        int failure = fsync(descriptor) != 0 ? errno : 0;
        if (close(descriptor) != 0 && failure == 0) failure = errno;
        if (failure)
            return gp_error(GP_IO, "'%s' could not be written to the disk: %s", part->files->shards[s].name,
                            strerror(failure));
    }
    return GP_OK;
}

void gp_files_part_destroy(gp_files_part *part) {
    if (!part) return;
    for (size_t s = 0; part->descriptors && s < part->files->shard_count; s++)
        if (part->descriptors[s] != CLOSED) close(part->descriptors[s]);
    gp_free(part->descriptors);
    gp_free(part->folder);
    gp_free(part->buffer);
    gp_checksum_destroy(part->checksum);
    gp_free(part);
}
