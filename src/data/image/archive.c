/* Only the library's own decoders are switched on: with all of them it would start programs for rare formats. */
#include "data/image/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>

#include "base/memory.h"
#include "base/status.h"

/* Pictures do not become smaller by packing. What unpacks to more than this is a bomb. */
static const int64_t most_ratio = 100, granted_bytes = (int64_t)1 << 30;

struct gp_archive {
    struct archive *reader;
    struct archive_entry *entry;
    const char *name;
    int64_t most_bytes; /* unpacked */
    int64_t at;         /* in the member */
};

static gp_status refuse(const gp_archive *archive) {
    const char *reason = archive_error_string(archive->reader);
    if (archive_errno(archive->reader) == ENOMEM) return gp_error(GP_OUT_OF_MEMORY, "no memory to read an archive");
    return gp_error(GP_INVALID, "'%s' cannot be read: %s", archive->name, reason ? reason : "it is damaged");
}

static void allow_formats(struct archive *reader, bool tar) {
    archive_read_support_filter_gzip(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_filter_lz4(reader);
    if (tar) {
        archive_read_support_format_tar(reader);
    } else {
        archive_read_support_format_raw(reader);
    }
}

gp_status gp_archive_open(gp_archive **archive, const gp_file_map *map, const char *name, bool tar) {
    *archive = NULL;
    gp_archive *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->name = name;
    made->most_bytes = granted_bytes + most_ratio * (int64_t)map->bytes;
    made->reader = archive_read_new();
    if (!made->reader) {
        gp_archive_close(made);
        return gp_error(GP_OUT_OF_MEMORY, "no memory to read an archive");
    }
    allow_formats(made->reader, tar);
    if (archive_read_open_memory(made->reader, map->data, map->bytes) != ARCHIVE_OK) {
        gp_status status = refuse(made);
        gp_archive_close(made);
        return status;
    }
    *archive = made;
    return GP_OK;
}

void gp_archive_close(gp_archive *archive) {
    if (!archive) return;
    if (archive->reader) archive_read_free(archive->reader);
    gp_free(archive);
}

static gp_status check_size(const gp_archive *archive) {
    if (archive_filter_bytes(archive->reader, 0) <= archive->most_bytes) return GP_OK;
    return gp_error(GP_INVALID,
                    "'%s' unpacks to more than %" PRId64 " bytes: %" PRId64 " and %" PRId64
                    " times its own size are accepted",
                    archive->name, archive->most_bytes, granted_bytes, most_ratio);
}

static bool is_file(struct archive_entry *entry) {
    return archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry);
}

gp_status gp_archive_next(gp_archive *archive, const char **member) {
    *member = NULL;
    do {
        int result = archive_read_next_header(archive->reader, &archive->entry);
        if (result == ARCHIVE_EOF) return GP_OK;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return refuse(archive);
        GP_TRY(check_size(archive));
    } while (!is_file(archive->entry));
    archive->at = 0;
    *member = archive_entry_pathname(archive->entry);
    /* A name in UTF-8 that the locale cannot say. */
    if (!*member) *member = archive_entry_pathname_utf8(archive->entry);
    return *member ? GP_OK : gp_error(GP_INVALID, "'%s' has a member without a name", archive->name);
}

gp_status gp_archive_piece(gp_archive *archive, const void **data, size_t *bytes) {
    la_int64_t offset = 0;
    int result = archive_read_data_block(archive->reader, data, bytes, &offset);
    if (result == ARCHIVE_EOF) {
        *bytes = 0;
        return GP_OK;
    }
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return refuse(archive);
    if (offset != archive->at)
        return gp_error(GP_INVALID, "'%s' has a member with holes (a sparse file), which is no picture", archive->name);
    archive->at += (int64_t)*bytes;
    return check_size(archive);
}
