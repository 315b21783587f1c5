/* Several safetensors files as one, by the index that Hugging Face's tools write; and a checkpoint of llm.c (llmc.c) as
 * such a file. The index is a file that nobody vouches for: what it names must lie in its own folder and be there. */
#include "checkpoint/shards.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"
#include "checkpoint/llmc.h"

typedef struct shard {
    char *path;
    gp_safetensors *file;
} shard;

typedef struct entry {
    const char *name; /* the file's */
    gp_type type;
    const unsigned char *data;
    size_t file; /* number among the files */
} entry;

struct gp_shards {
    shard *files;
    size_t file_count, file_capacity;
    entry *entries; /* by name */
    size_t count;
    gp_llmc *llmc; /* instead of files; NULL: none */
};

/* ---- files ---- */

/* The number of the file with that path; opened when it is new. */
static gp_status open_file(gp_shards *shards, const char *path, size_t *number) {
    for (size_t i = shards->file_count; i-- > 0;) { /* neighbours in an index mostly lie in the same file */
        *number = i;
        if (strcmp(shards->files[i].path, path) == 0) return GP_OK;
    }
    if (shards->file_count == shards->file_capacity) {
        size_t capacity = 2 * shards->file_capacity + 4;
        shard *grown = gp_grow_array(shards->files, shards->file_capacity, capacity, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        shards->files = grown;
        shards->file_capacity = capacity;
    }
    shard *made = &shards->files[shards->file_count];
    made->path = gp_copy_text(path);
    if (!made->path) return GP_OUT_OF_MEMORY;
    *number = shards->file_count++;
    return gp_safetensors_open(&made->file, path);
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static entry entry_of(const gp_shards *shards, size_t number, size_t tensor) {
    const gp_safetensors *file = shards->files[number].file;
    return (entry){gp_safetensors_name(file, tensor), gp_safetensors_type(file, tensor),
                   gp_safetensors_data(file, tensor), number};
}

static gp_status open_llmc(gp_shards *shards, const char *path) {
    GP_TRY(gp_llmc_open(&shards->llmc, path));
    const gp_llmc_tensor *tensors = gp_llmc_tensors(shards->llmc, &shards->count);
    shards->entries = gp_allocate_array(shards->count, sizeof *shards->entries);
    if (!shards->entries) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < shards->count; i++)
        shards->entries[i] = (entry){tensors[i].name, tensors[i].type, tensors[i].data, 0};
    qsort(shards->entries, shards->count, sizeof *shards->entries, compare_entries);
    return GP_OK;
}

static gp_status open_single(gp_shards *shards, const char *path) {
    size_t number = 0;
    GP_TRY(open_file(shards, path, &number));
    const gp_safetensors *file = shards->files[number].file;
    shards->count = gp_safetensors_count(file);
    shards->entries = gp_allocate_array(shards->count, sizeof *shards->entries);
    if (!shards->entries) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < shards->count; i++)
        shards->entries[i] = entry_of(shards, number, i);
    qsort(shards->entries, shards->count, sizeof *shards->entries, compare_entries);
    return GP_OK;
}

/* ---- the index ---- */

static gp_status check_file_name(const char *name) {
    size_t length = strlen(name);
    bool plain = gp_header_name_is_printable(name) && !strchr(name, '/') && name[0] != '.';
    if (plain && length > 12 && strcmp(name + length - 12, ".safetensors") == 0) return GP_OK;
    return gp_error(GP_INVALID, "it names the file '%.80s': a safetensors file in the same folder is accepted",
                    gp_header_name_is_printable(name) ? name : "(text with control characters)");
}

static gp_status add_entry(gp_shards *shards, const char *folder, const char *name, const json_t *value) {
    const char *file = json_string_value(value);
    size_t number = 0, tensor = 0;
    if (!gp_header_name_is_printable(name)) return gp_error(GP_INVALID, "a tensor's name has control characters");
    if (!file) return gp_error(GP_INVALID, "tensor '%s' has no file name", name);
    GP_TRY(check_file_name(file));
    char *path = gp_format_text("%s%s", folder, file);
    gp_status status = path ? open_file(shards, path, &number) : GP_OUT_OF_MEMORY;
    gp_free(path);
    GP_TRY(status);
    if (!gp_safetensors_find(shards->files[number].file, name, &tensor))
        return gp_error(GP_INVALID, "tensor '%s' is not in %s, where it is said to be", name, file);
    shards->entries[shards->count++] = entry_of(shards, number, tensor);
    return GP_OK;
}

static gp_status read_index(gp_shards *shards, const char *folder, const json_t *index) {
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) return gp_error(GP_INVALID, "it has no \"weight_map\" object");
    shards->entries = gp_allocate_array(json_object_size(map), sizeof *shards->entries);
    if (!shards->entries) return GP_OUT_OF_MEMORY;
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        GP_TRY(add_entry(shards, folder, name, value));
    }
    qsort(shards->entries, shards->count, sizeof *shards->entries, compare_entries);
    return GP_OK;
}

/* The part of a path up to its last slash. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? gp_format_text("%.*s", (int)(slash - path + 1), path) : gp_copy_text("");
}

static gp_status parse_index(json_t **index, const gp_file_map *map) {
    *index = NULL;
    if (map->bytes > GP_HEADER_MAX_BYTES)
        return gp_error(GP_INVALID, "it has %zu bytes: up to %d are accepted", map->bytes, (int)GP_HEADER_MAX_BYTES);
    return gp_header_parse(index, (const char *)map->data, map->bytes, "the index");
}

static gp_status open_index(gp_shards *shards, const char *path) {
    gp_file_map map;
    json_t *index = NULL;
    char *folder = folder_of(path);
    if (!folder) return GP_OUT_OF_MEMORY;
    gp_status status = gp_file_map_open(&map, path);
    if (status == GP_OK) {
        status = parse_index(&index, &map);
        if (status == GP_OK) status = read_index(shards, folder, index);
        gp_error_within(status, "'%s' is not an index that can be read", path);
    }
    json_decref(index);
    gp_file_map_close(&map);
    gp_free(folder);
    return status;
}

/* ---- opening ---- */

static bool is_there(const char *path) {
    struct stat information;
    return stat(path, &information) == 0;
}

static gp_status open_path(gp_shards **shards, const char *path) {
    *shards = NULL;
    gp_shards *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    gp_status status;
    if (gp_llmc_is(path)) {
        status = open_llmc(made, path);
    } else {
        status = gp_ends_in(path, ".json") ? open_index(made, path) : open_single(made, path);
    }
    if (status != GP_OK) {
        gp_shards_close(made);
        return status;
    }
    *shards = made;
    return GP_OK;
}

gp_status gp_shards_open_base(gp_shards **shards, const char *folder, const char *base) {
    char *single = gp_format_text("%s/%s.safetensors", folder, base);
    char *index = gp_format_text("%s/%s.safetensors.index.json", folder, base);
    gp_status status = GP_OUT_OF_MEMORY;
    *shards = NULL;
    if (single && index) {
        bool sharded = !is_there(single) && is_there(index);
        status = open_path(shards, sharded ? index : single);
    }
    gp_free(single);
    gp_free(index);
    return status;
}

/* What a folder with weights is opened as: where a run kept an average of its weights, that is what it was judged by.
 */
static const char *base_of(const char *folder) {
    char *single = gp_format_text("%s/average.safetensors", folder);
    char *index = gp_format_text("%s/average.safetensors.index.json", folder);
    bool averages = single && index && (is_there(single) || is_there(index));
    gp_free(single);
    gp_free(index);
    return averages ? "average" : "model";
}

gp_status gp_shards_open(gp_shards **shards, const char *path) {
    *shards = NULL;
    if (!gp_is_folder(path)) return open_path(shards, path);
    char *latest = gp_format_text("%s/checkpoints/latest", path);
    if (!latest) return GP_OUT_OF_MEMORY;
    const char *folder = gp_is_folder(latest) ? latest : path;
    gp_status status = gp_shards_open_base(shards, folder, base_of(folder));
    gp_free(latest);
    return status;
}

void gp_shards_close(gp_shards *shards) {
    if (!shards) return;
    for (size_t i = 0; i < shards->file_count; i++) {
        gp_safetensors_close(shards->files[i].file);
        gp_free(shards->files[i].path);
    }
    gp_llmc_close(shards->llmc);
    gp_free(shards->files);
    gp_free(shards->entries);
    gp_free(shards);
}

/* ---- tensors ---- */

size_t gp_shards_count(const gp_shards *shards) {
    return shards->count;
}

const char *gp_shards_name(const gp_shards *shards, size_t index) {
    return shards->entries[index].name;
}

gp_type gp_shards_type(const gp_shards *shards, size_t index) {
    return shards->entries[index].type;
}

const void *gp_shards_data(const gp_shards *shards, size_t index) {
    return shards->entries[index].data;
}

bool gp_shards_find(const gp_shards *shards, const char *name, size_t *index) {
    entry wanted = {.name = name};
    const entry *found = bsearch(&wanted, shards->entries, shards->count, sizeof *shards->entries, compare_entries);
    if (found && index) *index = (size_t)(found - shards->entries);
    return found != NULL;
}

gp_status gp_shards_read(const gp_shards *shards, size_t index, size_t first, size_t count, gp_dtype dtype,
                         void *destination) {
    const entry *tensor = &shards->entries[index];
    size_t elements = (size_t)gp_shape_elements(tensor->type.shape);
    if (first > elements || count > elements - first)
        return gp_error(GP_INVALID, "elements %zu to %zu of tensor '%s' were asked for: it has %zu", first,
                        first + count, tensor->name, elements);
    gp_convert_unaligned(destination, dtype, tensor->data + first * gp_dtype_bytes(tensor->type.dtype),
                         tensor->type.dtype, count);
    return GP_OK;
}

size_t gp_shards_file_of(const gp_shards *shards, size_t index) {
    return shards->entries[index].file;
}

size_t gp_shards_file_count(const gp_shards *shards) {
    return shards->file_count;
}

const char *gp_shards_kind(const gp_shards *shards) {
    return shards->llmc ? "llm.c" : "safetensors";
}

const gp_llmc *gp_shards_llmc(const gp_shards *shards) {
    return shards->llmc;
}

const gp_safetensors *gp_shards_file(const gp_shards *shards, size_t file, const char **path) {
    if (path) *path = shards->files[file].path;
    return shards->files[file].file;
}
