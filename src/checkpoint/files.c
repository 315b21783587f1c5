/* Laying tensors out over files. */
#include "checkpoint/files.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/header.h"

/* ---- the order ---- */

/* What lies in the files is this list, cut into shards: group by group, in a group as a header wants it. */
typedef struct layout_list {
    gp_safetensors_entry *entries; /* of all tensors */
    size_t *groups;                /* where each group begins in files->order; group_count + 1 */
    size_t group_count;
} layout_list;

static gp_status list_groups(gp_files *files, layout_list *list) {
    bool *listed = gp_allocate_array(files->count, sizeof *listed);
    list->groups = gp_allocate_array(files->count + 1, sizeof *list->groups);
    if (!listed || !list->groups) {
        gp_free(listed);
        return GP_OUT_OF_MEMORY;
    }
    size_t placed = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (listed[i]) continue;
        list->groups[list->group_count++] = placed;
        for (size_t t = i; t < files->count; t++) {
            if (listed[t] || strcmp(files->tensors[t].group, files->tensors[i].group) != 0) continue;
            listed[t] = true;
            files->order[placed++] = t;
        }
    }
    list->groups[list->group_count] = placed;
    gp_free(listed);
    return GP_OK;
}

/* Sorts files->order[first..end-1] as a header wants it. */
static gp_status sort_group(gp_files *files, const layout_list *list, size_t first, size_t end) {
    size_t count = end - first;
    gp_safetensors_entry *entries = gp_allocate_array(count, sizeof *entries);
    for (size_t i = 0; entries && i < count; i++)
        entries[i] = list->entries[files->order[first + i]];
    size_t *order = entries ? gp_header_order(entries, count) : NULL;
    for (size_t i = 0; order && i < count; i++)
        order[i] = files->order[first + order[i]];
    if (order && count > 0) memcpy(files->order + first, order, count * sizeof *order);
    gp_status status = order ? GP_OK : GP_OUT_OF_MEMORY;
    gp_free(entries);
    gp_free(order);
    return status;
}

/* ---- shards ---- */

static uint64_t bytes_of(const gp_files *files, size_t tensor) {
    return gp_type_bytes(files->tensors[tensor].type);
}

/* The end of the shard that begins at `first`. */
static size_t shard_end(const gp_files *files, size_t first, size_t end, uint64_t most) {
    uint64_t sum = bytes_of(files, files->order[first]);
    size_t at = first + 1;
    while (at < end && (most == 0 || bytes_of(files, files->order[at]) <= most - (sum < most ? sum : most)))
        sum += bytes_of(files, files->order[at++]);
    return at;
}

static gp_status fill_shard(gp_files *files, gp_files_shard *shard, const layout_list *list) {
    static const char *const keys[] = {"format", "gpipe_version"};
    const gp_safetensors_pair metadata[] = {{keys[0], "gpipe"}, {keys[1], gp_version()}};
    GP_TRY(gp_header_format(&shard->header, &shard->header_bytes, list->entries, shard->tensors, shard->count, metadata,
                            2));
    uint64_t at = shard->header_bytes;
    shard->first = shard->tensors[0];
    for (size_t i = 0; i < shard->count; i++) {
        if (at == shard->header_bytes) shard->first = shard->tensors[i];
        files->shard[shard->tensors[i]] = (size_t)(shard - files->shards);
        files->offset[shard->tensors[i]] = at;
        at += bytes_of(files, shard->tensors[i]);
    }
    shard->bytes = at;
    files->bytes += at;
    return GP_OK;
}

static gp_status make_group(gp_files *files, const layout_list *list, size_t first, size_t end, uint64_t most) {
    size_t before = files->shard_count, total = 0;
    const char *group = files->tensors[files->order[first]].group;
    GP_TRY(sort_group(files, list, first, end));
    for (size_t at = first; at < end; at = shard_end(files, at, end, most))
        total++;
    for (size_t at = first; at < end;) {
        gp_files_shard *shard = &files->shards[files->shard_count++];
        size_t next = shard_end(files, at, end, most);
        shard->group = group;
        shard->only = total == 1;
        shard->name = total == 1
                          ? gp_format_text("%s.safetensors", group)
                          : gp_format_text("%s-%05zu-of-%05zu.safetensors", group, files->shard_count - before, total);
        shard->tensors = files->order + at;
        shard->count = next - at;
        if (!shard->name) return GP_OUT_OF_MEMORY;
        GP_TRY(gp_error_within(fill_shard(files, shard, list), "%s", shard->name));
        at = next;
    }
    return GP_OK;
}

static gp_status lay_out(gp_files *files, layout_list *list, uint64_t shard_bytes) {
    files->shard = gp_allocate_array(files->count, sizeof *files->shard);
    files->offset = gp_allocate_array(files->count, sizeof *files->offset);
    files->order = gp_allocate_array(files->count, sizeof *files->order);
    files->shards = gp_allocate_array(files->count, sizeof *files->shards);
    list->entries = gp_allocate_array(files->count, sizeof *list->entries);
    if (!files->shard || !files->offset || !files->order || !files->shards || !list->entries) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < files->count; i++) {
        list->entries[i] = (gp_safetensors_entry){.name = files->tensors[i].name, .type = files->tensors[i].type};
        GP_TRY(gp_header_check_entry(&list->entries[i], i));
    }
    GP_TRY(list_groups(files, list));
    for (size_t g = 0; g < list->group_count; g++)
        GP_TRY(make_group(files, list, list->groups[g], list->groups[g + 1], shard_bytes));
    return GP_OK;
}

/* A name twice in a group shows in a header, but not when it falls into two shards. */
static int compare_tensors(const void *a, const void *b, void *tensors) {
    const gp_files_tensor *x = (const gp_files_tensor *)tensors + *(const size_t *)a;
    const gp_files_tensor *y = (const gp_files_tensor *)tensors + *(const size_t *)b;
    int order = strcmp(x->group, y->group);
    return order ? order : strcmp(x->name, y->name);
}

static gp_status check_names(const gp_files_tensor *tensors, size_t count) {
    size_t *order = gp_allocate_array(count, sizeof *order);
    gp_status status = order ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; order && i < count; i++)
        order[i] = i;
    if (order) qsort_r(order, count, sizeof *order, compare_tensors, (void *)tensors);
    for (size_t i = 1; status == GP_OK && i < count; i++)
        if (compare_tensors(&order[i - 1], &order[i], (void *)tensors) == 0)
            status = gp_error(GP_INVALID, "tensor '%s' is there twice", tensors[order[i]].name);
    gp_free(order);
    return status;
}

gp_status gp_files_create(gp_files *files, const gp_files_tensor *tensors, size_t count, uint64_t shard_bytes) {
    layout_list list = {0};
    *files = (gp_files){.tensors = tensors, .count = count};
    gp_status status = check_names(tensors, count);
    if (status == GP_OK) status = lay_out(files, &list, shard_bytes);
    gp_free(list.entries);
    gp_free(list.groups);
    if (status != GP_OK) gp_files_destroy(files);
    return status;
}

void gp_files_destroy(gp_files *files) {
    for (size_t i = 0; files->shards && i < files->shard_count; i++) {
        gp_free(files->shards[i].name);
        gp_free(files->shards[i].header);
    }
    gp_free(files->shards);
    gp_free(files->shard);
    gp_free(files->offset);
    gp_free(files->order);
    *files = (gp_files){0};
}

/* ---- pieces ---- */

static int compare_pieces(const void *a, const void *b) {
    const gp_files_piece *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

gp_status gp_files_check_pieces(const gp_files *files, gp_files_piece *pieces, size_t count) {
    size_t at = 0;
    if (count > 0) qsort(pieces, count, sizeof *pieces, compare_pieces);
    for (size_t t = 0; t < files->count; t++) {
        uint64_t end = 0;
        for (; at < count && pieces[at].tensor == t && pieces[at].first == end; at++)
            end += pieces[at].bytes;
        if (end != bytes_of(files, t) || (at < count && pieces[at].tensor == t))
            return gp_error(GP_FAILED, "tensor %s was not written once, but in pieces that do not fit together",
                            files->tensors[t].name);
    }
    return GP_OK;
}

/* ---- indices ---- */

static gp_status write_index(const gp_files *files, const char *folder, const char *group) {
    json_t *map = json_object();
    uint64_t total = 0;
    for (size_t s = 0; s < files->shard_count; s++) {
        const gp_files_shard *shard = &files->shards[s];
        if (strcmp(shard->group, group) != 0) continue;
        for (size_t i = 0; i < shard->count; i++) {
            json_object_set_new(map, files->tensors[shard->tensors[i]].name, json_string(shard->name));
            total += bytes_of(files, shard->tensors[i]);
        }
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *text = index ? json_dumps(index, JSON_INDENT(2)) : NULL;
    char *path = gp_format_text("%s/%s.safetensors.index.json", folder, group);
    gp_status status = GP_OUT_OF_MEMORY;
    if (text && path) {
        status = gp_file_write_text(path, text);
    } else {
        gp_error(GP_OUT_OF_MEMORY, "the system has no memory left for the index of %s", group);
    }
    json_decref(index);
    free(text);
    gp_free(path);
    return status;
}

gp_status gp_files_write_indices(const gp_files *files, const char *folder) {
    for (size_t s = 0; s < files->shard_count; s++) {
        const gp_files_shard *shard = &files->shards[s];
        bool first = s == 0 || strcmp(files->shards[s - 1].group, shard->group) != 0;
        if (first && !shard->only) GP_TRY(write_index(files, folder, shard->group));
    }
    return GP_OK;
}
