/* Fuzzing: state.json of a checkpoint, beside a file of weights. Whatever is an object gets the checksum that belongs
 * to it: a writer that lies can do that too, and what is behind the checksum has to be reached. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/state.h"

const char *const fuzz_file = "state.json";
const size_t fuzz_fixed = (size_t)1 << 20, fuzz_factor = 600;

enum { DEPTH = 8 };

static void sign(const char *path, const uint8_t *data, size_t bytes) {
    size_t deepest = 0, depth = 0;
    for (size_t i = 0; i < bytes; i++) { /* what recursion could not hold is left as it is */
        depth += data[i] == '[' || data[i] == '{';
        depth -= depth > 0 && (data[i] == ']' || data[i] == '}');
        if (depth > deepest) deepest = depth;
    }
    json_t *object = deepest <= DEPTH ? json_loadb((const char *)data, bytes, 0, NULL) : NULL;
    char own[GP_CHECKSUM_TEXT];
    if (json_is_object(object)) {
        json_object_del(object, "checksum");
        char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
        if (text)
            json_object_set_new(object, "checksum",
                                json_string(gp_checksum_format(gp_checksum_of(text, strlen(text)), own)));
        free(text);
        json_dump_file(object, path, JSON_REAL_PRECISION(17));
    }
    json_decref(object);
}

static void write_weights(const char *path) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    uint64_t length = sizeof header - 1;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(&length, 8, 1, file) != 1 || fwrite(header, 1, length, file) != length ||
        fwrite("weights", 1, 8, file) != 8 || fclose(file) != 0)
        abort();
}

void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes) {
    char weights[512];
    gp_checkpoint *checkpoint = NULL;
    gp_checkpoint_state state;
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    (void)gp_checkpoint_read_state(folder, &state);
    sign(path, data, bytes);
    write_weights(weights);
    if (gp_checkpoint_open(&checkpoint, folder) == GP_OK) gp_checkpoint_close(checkpoint);
    (void)gp_checkpoint_verify(folder, NULL, NULL);
    unlink(weights);
}
