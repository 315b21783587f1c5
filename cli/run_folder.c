/* A run never overwrites another one unless it is told to; then only files that gpipe itself writes are removed. */
#include "run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "gpipe/checkpoint.h"

#define FRESH_CONFIG ".config.yaml.new" /* the configuration while it is written */

/* ---- removing a former run ---- */

static void remove_in(const char *folder, const char *name) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length > 0 && (size_t)length < sizeof path) unlink(path);
}

/* "report.json.1234-0.tmp": what a killed process was writing. */
static bool is_unfinished(const char *entry, const char *name) {
    size_t length = strlen(name), whole = strlen(entry);
    return whole > length + 4 && strncmp(entry, name, length) == 0 && entry[length] == '.' &&
           strcmp(entry + whole - 4, ".tmp") == 0;
}

static void remove_unfinished(const char *run, const char *name) {
    DIR *list = opendir(run);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (is_unfinished(entry->d_name, name)) unlinkat(dirfd(list), entry->d_name, 0);
    if (list) closedir(list);
}

static const char *const files[] = {"tokenizer.json", "classes.json", "metrics.jsonl", "report.json", "trace.json"};

enum { FILES = sizeof files / sizeof *files };

/* Not the configuration, which the new one replaces: it is what makes the folder a run, should this be killed. Not the
 * log, by which the folder is held. */
void cli_run_folder_clear(const char *run) {
    gp_checkpoint_remove(run, 0);
    for (size_t i = 0; i < FILES; i++) {
        remove_in(run, files[i]);
        remove_unfinished(run, files[i]);
    }
}

/* ---- making the folder ---- */

static bool is_empty_file(DIR *list, const char *name) {
    struct stat information;
    return fstatat(dirfd(list), name, &information, 0) == 0 && S_ISREG(information.st_mode) && information.st_size == 0;
}

/* What a run that was killed while it wrote its configuration leaves is nothing yet: that, and a log without a word. */
static bool has_entries(const char *path) {
    static const char *const nothing[] = {".", "..", FRESH_CONFIG};
    DIR *list = opendir(path);
    bool found = false;
    if (!list) return false;
    for (struct dirent *entry; !found && (entry = readdir(list));) {
        found = true;
        for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
            found = found && strcmp(entry->d_name, nothing[i]) != 0;
        if (strcmp(entry->d_name, "log.txt") == 0 && is_empty_file(list, "log.txt")) found = false;
    }
    closedir(list);
    return found;
}

static bool is_own(const char *entry) {
    static const char *const names[] = {".", "..", "checkpoints", "log.txt", FRESH_CONFIG};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(entry, names[i]) == 0) return true;
    for (size_t i = 0; i < FILES; i++)
        if (strcmp(entry, files[i]) == 0 || is_unfinished(entry, files[i])) return true;
    return false;
}

/* What an import or a run that was killed before it wrote its configuration leaves: gpipe's own files and no others. */
static bool has_only_own(const char *path) {
    DIR *list = opendir(path);
    bool own = list != NULL;
    for (struct dirent *entry; own && (entry = readdir(list));)
        own = is_own(entry->d_name);
    if (list) closedir(list);
    return own;
}

static bool is_run(const char *path) {
    char config[4096];
    struct stat information;
    int length = snprintf(config, sizeof config, "%s/config.yaml", path);
    return length > 0 && (size_t)length < sizeof config && (stat(config, &information) == 0 || has_only_own(path));
}

static gp_status make_parents(const char *path, bool *made) {
    char part[4096];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) return gp_error(GP_INVALID, "train.out is empty or too long a path");
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        *made = mkdir(part, 0777) == 0;
        if (!*made && errno != EEXIST)
            return gp_error(GP_INVALID, "train.out: %s could not be created: %s", part, strerror(errno));
    }
    return GP_OK;
}

gp_status cli_run_folder_prepare(const char *path, bool force, bool *made) {
    struct stat information;
    *made = false;
    bool exists = stat(path, &information) == 0;
    if (exists && !S_ISDIR(information.st_mode))
        return gp_error(GP_INVALID, "train.out: %s is not a directory; choose another one with --out DIR", path);
    if (exists && has_entries(path)) {
        if (!force)
            return gp_error(
                GP_INVALID,
                "%s exists and is not empty: choose another run directory with --out DIR (or --set train.out=DIR), "
                "or replace the run in it with --force",
                path);
        if (!is_run(path))
            return gp_error(GP_INVALID,
                            "%s is not a run of gpipe (there is no config.yaml in it): --force replaces only runs; "
                            "choose another run directory with --out DIR",
                            path);
    }
    gp_status status = make_parents(path, made);
    if (status == GP_OK && access(path, W_OK | X_OK) != 0)
        status = gp_error(GP_INVALID, "train.out: %s cannot be written to: %s", path, strerror(errno));
    return status;
}

/* ---- describing the run ---- */

static gp_status open_in(FILE **file, const char *folder, const char *name, const char *mode) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    *file = NULL;
    if (length < 0 || (size_t)length >= sizeof path) return gp_error(GP_INVALID, "the path %s is too long", folder);
    return cli_file_open(file, path, mode);
}

/* Written beside and renamed: a run whose configuration is torn could not go on. */
static gp_status replace_config(const char *folder, const char *text) {
    char fresh[4096], path[4096];
    int length = snprintf(fresh, sizeof fresh, "%s/" FRESH_CONFIG, folder);
    if (length < 0 || (size_t)length >= sizeof fresh) return gp_error(GP_INVALID, "the path %s is too long", folder);
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    FILE *file;
    gp_status status = open_in(&file, folder, FRESH_CONFIG, "w");
    if (status != GP_OK) return status;
    bool written = fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = fclose(file) == 0 && written;
    if (written && rename(fresh, path) == 0) return GP_OK;
    status = gp_error(GP_IO, "%s could not be written: %s", path, strerror(errno));
    unlink(fresh);
    return status;
}

gp_status cli_run_folder_write_config(const char *folder, const cli_config *config) {
    cli_text text = {0};
    gp_status status = cli_config_write(config, true, &text);
    if (status == GP_OK) status = replace_config(folder, text.text);
    cli_text_free(&text);
    return status;
}

/* What the numbers of the data mean: the tokenizer, the list of classes. */
static gp_status write_names(const char *path, const gp_dataset *dataset) {
    char file[4096];
    const gp_tokenizer *tokenizer = gp_dataset_tokenizer(dataset);
    const gp_classes *classes = gp_dataset_classes(dataset);
    int length = snprintf(file, sizeof file, "%s/tokenizer.json", path);
    if (length < 0 || (size_t)length >= sizeof file) return gp_error(GP_INVALID, "the path %s is too long", path);
    gp_status status = tokenizer ? gp_tokenizer_save(tokenizer, file) : GP_OK;
    snprintf(file, sizeof file, "%s/classes.json", path);
    return status == GP_OK && classes ? gp_classes_save(classes, file) : status;
}

/* The lock goes with the process, however it ends. A file system without locks has none. */
gp_status cli_run_folder_hold(const char *path, FILE **log) {
    gp_status status = open_in(log, path, "log.txt", "a");
    if (status != GP_OK) return status;
    if (flock(fileno(*log), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return GP_OK;
    fclose(*log);
    *log = NULL;
    return gp_error(GP_INVALID, "another process is training in this run directory: it holds %s/log.txt", path);
}

void cli_run_folder_drop_log(const char *path, FILE *log) {
    remove_in(path, "log.txt");
    fclose(log);
}

gp_status cli_run_folder_describe(const char *path, const cli_session *session, FILE *log) {
    gp_status status = cli_run_folder_write_config(path, &session->config);
    if (status == GP_OK) status = write_names(path, session->dataset);
    if (status == GP_OK && ftruncate(fileno(log), 0) != 0) /* of the run that was here before */
        status = gp_error(GP_IO, "%s/log.txt could not be written: %s", path, strerror(errno));
    return status;
}
