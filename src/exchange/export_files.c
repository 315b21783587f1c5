/* The files of an export. Each is replaced as a whole, the index last, so that an index never names what is not there.
 */
#include "exchange/export_files.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/files.h"

#define GROUP "model"

static gp_status write_shard(const char *folder, const gp_files_shard *shard, const gp_safetensors_entry *entries) {
    const gp_safetensors_pair metadata[] = {{"format", "pt"}}; /* what transformers asks for */
    char *path = gp_format_text("%s/%s", folder, shard->name);
    gp_safetensors_entry *own = gp_allocate_array(shard->count, sizeof *own);
    gp_status status = path && own ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t i = 0; status == GP_OK && i < shard->count; i++)
        own[i] = entries[shard->tensors[i]];
    if (status == GP_OK) status = gp_safetensors_write(path, own, shard->count, metadata, 1);
    gp_free(path);
    gp_free(own);
    return status;
}

/* ---- what was there ---- */

/* ".1234-0.tmp": of a file that a killed process was writing. */
static bool is_unfinished(const char *end) {
    int length = 0;
    (void)sscanf(end, ".%*[0-9]-%*[0-9].tmp%n", &length);
    return length > 0 && end[length] == '\0';
}

/* What is behind the name of a file that an export writes; NULL for other files. */
static const char *end_of(const char *name) {
    static const char *const names[] = {GROUP ".safetensors.index.json", GROUP ".safetensors", "config.json"};
    int end = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return name + strlen(names[i]);
    (void)sscanf(name, GROUP "-%*5[0-9]-of-%*5[0-9].safetensors%n", &end);
    return end > 0 ? name + end : NULL;
}

static bool is_written(const gp_files *files, const char *name) {
    if (files->shard_count > 1 && strcmp(name, GROUP ".safetensors.index.json") == 0) return true;
    for (size_t s = 0; s < files->shard_count; s++)
        if (strcmp(files->shards[s].name, name) == 0) return true;
    return false;
}

static bool is_stale(const gp_files *files, const char *name) {
    const char *end = end_of(name);
    if (!end) return false;
    if (is_unfinished(end)) return true;
    return *end == '\0' && strcmp(name, "config.json") != 0 && !is_written(files, name);
}

static void remove_others(const gp_files *files, const char *folder) {
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (is_stale(files, entry->d_name)) unlinkat(dirfd(list), entry->d_name, 0);
    if (list) closedir(list);
}

/* ---- all of it ---- */

static gp_status write_all(const gp_files *files, const char *folder, const gp_safetensors_entry *entries) {
    uint64_t available = gp_folder_free_bytes(folder);
    char needed[16], there[16];
    if (available < files->bytes)
        return gp_error(GP_IO, "'%s' has %s left, but the weights take %s", folder,
                        gp_bytes_format((size_t)available, there, sizeof there),
                        gp_bytes_format((size_t)files->bytes, needed, sizeof needed));
    for (size_t s = 0; s < files->shard_count; s++)
        GP_TRY(write_shard(folder, &files->shards[s], entries));
    GP_TRY(gp_files_write_indices(files, folder));
    remove_others(files, folder);
    return GP_OK;
}

gp_status gp_export_files(const char *folder, const gp_safetensors_entry *entries, size_t count, uint64_t shard_bytes) {
    gp_files files;
    gp_files_tensor *tensors = gp_allocate_array(count, sizeof *tensors);
    if (!tensors) return GP_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        tensors[i] = (gp_files_tensor){GROUP, entries[i].name, entries[i].type};
    gp_status status = gp_files_create(&files, tensors, count, shard_bytes);
    if (status == GP_OK) {
        status = write_all(&files, folder, entries);
        gp_files_destroy(&files);
    }
    gp_free(tensors);
    return status;
}
