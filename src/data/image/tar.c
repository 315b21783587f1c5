/* Archives of folders of classes. One pass over the headers makes the list. Where the archive is plain, its images stay
 * where they are, in the map; a compressed one is unpacked to an unnamed file, since nobody can reach into the middle
 * of it. So samples are the same whatever form the data comes in, in any order. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/image/archive.h"
#include "data/image/collection.h"
#include "data/spool.h"

/* An encoded image. */
enum { MOST_MEMBER_BYTES = 1 << 28 };

typedef struct tar_reader {
    gp_collection *collection;
    gp_archive *archive;
    const char *path;
    const gp_file_map *map;
    gp_spool spool;
    bool decided, packed; /* whether the members lie in the map is known; they do not */
} tar_reader;

/* The folder that the member lies in is its class; "./" and doubled slashes do not count. */
static gp_status find_class(const tar_reader *tar, const char *member, char *class, size_t size, const char **file) {
    const char *begin = member, *folder = NULL;
    size_t length = 0;
    *file = member;
    if (member[0] == '/')
        return gp_error(GP_INVALID, "'%s' names a member by an absolute path, '%.200s': it is not used", tar->path,
                        member);
    for (;;) {
        size_t part = strcspn(begin, "/");
        if (part == 2 && begin[0] == '.' && begin[1] == '.')
            return gp_error(GP_INVALID, "'%s' has a member that leaves its folder by \"..\", '%.200s': it is not used",
                            tar->path, member);
        *file = begin;
        if (begin[part] == '\0') break;
        if (part > 0 && !(part == 1 && begin[0] == '.')) {
            folder = begin;
            length = part;
        }
        begin += part + 1;
    }
    if (length >= size)
        return gp_error(GP_INVALID, "'%s' has a folder with a name of %zu bytes: %zu are accepted for a class",
                        tar->path, length, size - 1);
    memcpy(class, folder ? folder : "", length);
    class[length] = '\0';
    return GP_OK;
}

static bool lies_in(const gp_file_map *map, const void *data) {
    uintptr_t at = (uintptr_t)data, begin = (uintptr_t)map->data;
    return at >= begin && at < begin + map->bytes;
}

static gp_status take_piece(tar_reader *tar, const void *data, size_t bytes, gp_image_item *item) {
    bool inside = lies_in(tar->map, data);
    if (!tar->decided) {
        tar->decided = true;
        tar->packed = !inside;
        if (tar->packed) GP_TRY(gp_spool_open(&tar->spool, "an unpacked archive"));
    }
    if (tar->packed != !inside)
        return gp_error(GP_INVALID, "'%s' has members in forms that do not go together", tar->path);
    if (bytes > (size_t)MOST_MEMBER_BYTES - item->bytes)
        return gp_error(GP_INVALID, "'%s' has an image of more than %d bytes: '%s'", tar->path, MOST_MEMBER_BYTES,
                        gp_collection_text(tar->collection, item->name));
    if (tar->packed) {
        if (item->bytes == 0) item->at = tar->spool.bytes;
        GP_TRY(gp_spool_write(&tar->spool, data, bytes));
    } else {
        uint64_t at = (uint64_t)((const unsigned char *)data - tar->map->data);
        if (item->bytes == 0) item->at = at;
        if (at != item->at + item->bytes)
            return gp_error(GP_INVALID, "'%s' has an image in pieces: '%s'", tar->path,
                            gp_collection_text(tar->collection, item->name));
    }
    item->bytes += (uint32_t)bytes;
    return GP_OK;
}

static gp_status take_member(tar_reader *tar, const char *member, const char *class) {
    gp_image_item item = {0};
    GP_TRY(gp_collection_class(tar->collection, class, &item.label));
    GP_TRY(gp_collection_name(tar->collection, member, &item.name));
    for (;;) {
        const void *data;
        size_t bytes;
        GP_TRY(gp_archive_piece(tar->archive, &data, &bytes));
        if (bytes == 0) break;
        GP_TRY(take_piece(tar, data, bytes, &item));
    }
    return gp_collection_add(tar->collection, item);
}

static gp_status take_members(tar_reader *tar) {
    for (;;) {
        const char *member, *file;
        char class[512];
        GP_TRY(gp_archive_next(tar->archive, &member));
        if (!member) return GP_OK;
        GP_TRY(find_class(tar, member, class, sizeof class, &file));
        if (!gp_image_named(file)) {
            tar->collection->ignored++;
            continue;
        }
        if (class[0] == '\0')
            return gp_error(GP_INVALID,
                            "'%s' has an image that lies in no folder, '%.200s': the folder's name is the "
                            "class",
                            tar->path, member);
        GP_TRY(take_member(tar, member, class));
    }
}

/* The images now lie in the unpacked file. */
static gp_status change_map(tar_reader *tar) {
    gp_image_source *source = &tar->collection->sources[tar->collection->source_count - 1];
    gp_file_map unpacked;
    if (!tar->packed) return GP_OK;
    GP_TRY(gp_spool_map(&tar->spool, &unpacked));
    gp_file_map_close(&source->map);
    source->map = unpacked;
    return GP_OK;
}

gp_status gp_collect_tar(gp_collection *collection, const char *path) {
    gp_file_map map;
    GP_TRY(gp_file_map_open(&map, path));
    GP_TRY(gp_collection_add_source(collection, GP_SOURCE_MAP, path, map));
    if (map.bytes == 0) return gp_error(GP_INVALID, "'%s' is empty", path);
    tar_reader tar = {.collection = collection, .path = path, .map = &map, .spool = {.descriptor = -1}};
    gp_status status = gp_archive_open(&tar.archive, &map, path, true);
    if (status == GP_OK) status = take_members(&tar);
    gp_archive_close(tar.archive);
    if (status == GP_OK) status = change_map(&tar);
    gp_spool_close(&tar.spool);
    return status;
}
