/* Writing a whole file: the header is built and checked first, then the tensors stream through one buffer, so that a
 * model larger than memory can be written by whoever can produce it piece by piece. */
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"

enum { PIECE_BYTES = 1 << 20 };

static gp_status check_entry(const gp_safetensors_entry *entry, size_t number) {
    GP_TRY(gp_header_check_entry(entry, number));
    if (entry->data || entry->fill || gp_type_bytes(entry->type) == 0) return GP_OK;
    return gp_error(GP_INVALID, "tensor '%s' has neither data nor a function that fills", entry->name);
}

static gp_status write_tensor(gp_file_writer *writer, const gp_safetensors_entry *entry, void *buffer) {
    size_t bytes = gp_type_bytes(entry->type);
    if (entry->data) return gp_file_writer_write(writer, entry->data, bytes);
    for (size_t offset = 0; offset < bytes; offset += PIECE_BYTES) {
        size_t piece = bytes - offset < PIECE_BYTES ? bytes - offset : PIECE_BYTES;
        GP_TRY(gp_error_within(entry->fill(entry->user, offset, buffer, piece), "tensor '%s'", entry->name));
        GP_TRY(gp_file_writer_write(writer, buffer, piece));
    }
    return GP_OK;
}

static gp_status write_contents(gp_file_writer *writer, const gp_safetensors_entry *entries, const size_t *order,
                                size_t count) {
    void *buffer = gp_allocate(PIECE_BYTES);
    gp_status status = buffer ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && status == GP_OK; i++)
        status = write_tensor(writer, &entries[order[i]], buffer);
    gp_free(buffer);
    return status;
}

static gp_status write_file(const char *path, const char *header, size_t header_bytes,
                            const gp_safetensors_entry *entries, const size_t *order, size_t count) {
    gp_file_writer *writer;
    GP_TRY(gp_file_writer_create(&writer, path));
    gp_status status = gp_file_writer_write(writer, header, header_bytes);
    if (status == GP_OK) status = write_contents(writer, entries, order, count);
    if (status == GP_OK) status = gp_file_writer_commit(writer);
    gp_file_writer_destroy(writer);
    return status;
}

gp_status gp_safetensors_write(const char *path, const gp_safetensors_entry *entries, size_t count,
                               const gp_safetensors_pair *metadata, size_t metadata_count) {
    gp_status status = GP_OK;
    char *header = NULL;
    size_t header_bytes = 0;
    for (size_t i = 0; i < count && status == GP_OK; i++)
        status = check_entry(&entries[i], i);
    size_t *order = status == GP_OK ? gp_header_order(entries, count) : NULL;
    if (status == GP_OK && !order) status = GP_OUT_OF_MEMORY;
    if (status == GP_OK)
        status = gp_header_format(&header, &header_bytes, entries, order, count, metadata, metadata_count);
    if (status == GP_OK) status = write_file(path, header, header_bytes, entries, order, count);
    gp_free(order);
    gp_free(header);
    return gp_error_within(status, "'%s' was not written", path);
}
