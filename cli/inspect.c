/* gpipe inspect: what is in a file of weights, tensor by tensor, and how two of them differ. */
#include "inspect.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "message.h"

/* Whether there is `name` in a folder; its path goes to `file`. */
static bool is_in(const char *folder, const char *name, char *file, size_t size) {
    struct stat information;
    int length = snprintf(file, size, "%s/%s", folder, name);
    return length > 0 && (size_t)length < size && stat(file, &information) == 0;
}

/* A folder stands for the weights in it: of a run (the latest), of a checkpoint, of transformers. `place` is what is
 * shown as the file. */
static gp_status resolve(const char *path, char *place, size_t size) {
    static const char *const names[] = {"checkpoints/latest", "model.safetensors", "model.safetensors.index.json"};
    struct stat information;
    char folder[4096];
    snprintf(place, size, "%s", path);
    if (stat(path, &information) != 0) return gp_error(GP_INVALID, "%s: there is no such file", path);
    if (!S_ISDIR(information.st_mode)) return GP_OK;
    snprintf(folder, sizeof folder, "%s", path);
    if (is_in(folder, names[0], place, size)) snprintf(folder, sizeof folder, "%s", place);
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        if (is_in(folder, names[i], place, size)) return GP_OK;
    }
    return gp_error(GP_INVALID,
                    "%s holds no weights: a safetensors file or an index of shards, a folder with model.safetensors, a "
                    "checkpoint of llm.c or a run directory is accepted",
                    path);
}

/* What the checkpoint around a file says about itself: nothing, where there is none. */
static bool read_state(const char *place, gp_checkpoint_state *state) {
    char folder[4096], file[4200];
    const char *slash = strrchr(place, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - place) : 1, slash ? place : ".");
    return is_in(folder, "state.json", file, sizeof file) && gp_checkpoint_read_state(folder, state) == GP_OK;
}

static gp_status inspect(const char *path, bool json) {
    gp_shards *file = NULL;
    gp_checkpoint_state state;
    char place[4096];
    gp_status status = resolve(path, place, sizeof place);
    if (status == GP_OK) status = gp_shards_open(&file, place);
    if (status == GP_OK) status = cli_inspect_tensors(file, place, read_state(place, &state) ? &state : NULL, json);
    gp_shards_close(file);
    return status;
}

static gp_status diff(const char *path_a, const char *path_b, bool json, bool *differ) {
    gp_shards *a = NULL, *b = NULL;
    char place_a[4096], place_b[4096];
    gp_status status = resolve(path_a, place_a, sizeof place_a);
    if (status == GP_OK) status = resolve(path_b, place_b, sizeof place_b);
    if (status == GP_OK) status = gp_shards_open(&a, place_a);
    if (status == GP_OK) status = gp_shards_open(&b, place_b);
    if (status == GP_OK) status = cli_inspect_diff(a, b, place_a, place_b, json, differ);
    gp_shards_close(a);
    gp_shards_close(b);
    return status;
}

static int run(const cli_arguments *arguments) {
    bool two = cli_given_flag(arguments, "diff"), json = cli_given_flag(arguments, "json"), differ = false;
    const char **words = arguments->words;
    gp_status status;
    if (two && cli_given_flag(arguments, "verify")) {
        status = gp_error(GP_INVALID, "inspect: --diff and --verify exclude each other");
    } else if (two && arguments->word_count < 2) {
        status = gp_error(GP_INVALID, "inspect: --diff needs two files");
    } else if (!two && arguments->word_count > 1) {
        status = gp_error(GP_INVALID, "inspect: two files are given: --diff compares them");
    } else if (cli_given_flag(arguments, "verify")) {
        return cli_inspect_verify(words[0], json);
    } else {
        status = two ? diff(words[0], words[1], json, &differ) : inspect(words[0], json);
    }
    if (status != GP_OK) return cli_fail(status);
    return differ ? 1 : 0;
}

static const cli_option options[] = {
    {"diff", 0, NULL, CLI_NO_VALUE, "compare two files; the status is 1 when they differ"},
    {"verify", 0, NULL, CLI_NO_VALUE, "read a checkpoint (or all of a run) as a whole and compare its checksums"},
    CLI_OPTION_JSON,
};

const cli_command cli_inspect = {
    .name = "inspect",
    .arguments = "FILE|DIR...",
    .least = 1,
    .most = 2,
    .kind = CLI_FILE,
    .summary = "what is in a file of weights, or how two of them differ",
    .description =
        "Prints the tensors of a safetensors file, of shards with an index, of a checkpoint of llm.c, or of a folder "
        "(of a run directory: its latest weights): type, norm, mean, smallest and largest element, how many are NaN or "
        "infinite; the file's metadata; and of a checkpoint where its training stands. A broken file is refused with a "
        "sentence. With --diff and two files: for every tensor that is not the same bit for bit the largest "
        "difference, "
        "the norm of the differences by the norm of the first, and how many elements differ.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
