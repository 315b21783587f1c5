/* Checkpoints on disk: the same bytes however many parts write them, in shards or not; damage of any file is found; the
 * folder of checkpoints keeps what it is told to keep. */
#include "temporary.h"

#include <sys/stat.h>

#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/shards.h"
#include "checkpoint/state.h"

enum { TENSORS = 7 };

static gp_type floats(int64_t elements) {
    return (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){elements})};
}

/* Odd sizes, two groups that take turns, one tensor of many pieces, an empty one, another dtype. */
static const struct {
    const char *group, *name;
    gp_dtype dtype;
    int64_t elements;
} list[TENSORS] = {{"model", "a.weight", GP_F32, 700000}, {"optimizer", "a.weight.first_moment", GP_F32, 31},
                   {"model", "a.bias", GP_F32, 3},        {"optimizer", "a.bias.first_moment", GP_F64, 5},
                   {"model", "b.mask", GP_U8, 9},         {"optimizer", "b.empty", GP_F32, 0},
                   {"model", "c.weight", GP_F32, 300000}};

static void make_tensors(gp_files_tensor *tensors) {
    for (int i = 0; i < TENSORS; i++) {
        gp_type type = floats(list[i].elements);
        type.dtype = list[i].dtype;
        tensors[i] = (gp_files_tensor){list[i].group, list[i].name, type};
    }
}

static gp_status fill(void *user, size_t offset, void *buffer, size_t bytes) {
    size_t tensor = *(const size_t *)user;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)((offset + i) * 2654435761u >> (9 + tensor));
    return GP_OK;
}

typedef struct piece_source {
    size_t tensor, first;
} piece_source;

static gp_status fill_piece(void *user, size_t offset, void *buffer, size_t bytes) {
    const piece_source *source = user;
    size_t tensor = source->tensor;
    return fill(&tensor, source->first + offset, buffer, bytes);
}

enum { MOST_PIECES = 3 * TENSORS };

/* Writes everything with `parts` parts, tensor t by part t % parts, but the first one by all of them together. */
static size_t write_files(const gp_files *files, const char *folder, int parts, gp_files_piece *pieces) {
    size_t count = 0;
    for (int p = 0; p < parts; p++) {
        gp_files_part *part;
        assert_int_equal(gp_files_part_create(&part, files, folder), GP_OK);
        for (size_t t = TENSORS; t-- > 0;) {
            uint64_t bytes = gp_type_bytes(files->tensors[t].type), first = 0;
            if (t > 0 && (int)t % parts != p) continue;
            if (t == 0) {
                first = bytes * (uint64_t)p / (uint64_t)parts;
                bytes = bytes * (uint64_t)(p + 1) / (uint64_t)parts - first;
            }
            pieces[count] = (gp_files_piece){.tensor = t, .first = first, .bytes = bytes};
            piece_source source = {t, first};
            assert_int_equal(gp_files_part_write(part, &pieces[count++], NULL, fill_piece, &source, NULL), GP_OK);
        }
        assert_int_equal(gp_files_part_finish(part), GP_OK);
        gp_files_part_destroy(part);
    }
    assert_int_equal(gp_files_write_indices(files, folder), GP_OK);
    return count;
}

static gp_checkpoint_state state_of(int64_t step) {
    return (gp_checkpoint_state){.step = step,
                                 .updates = step - 1,
                                 .samples = 12 * step,
                                 .steps = 1000,
                                 .seed = UINT64_MAX - 5,
                                 .schedule = "cosine",
                                 .lr = 0.1,
                                 .next_lr = 1.0 / 3,
                                 .best_step = step,
                                 .best = 2.0 / 3,
                                 .training_count = 77,
                                 .configuration = 0x0123456789abcdefu,
                                 .evaluation_pending = step % 2 == 1};
}

/* Writes step-N into the folder; the path is freed by the caller. */
static char *make_checkpoint(const char *checkpoints, int64_t step, uint64_t shard_bytes, int parts) {
    gp_files_tensor tensors[TENSORS];
    gp_files_piece pieces[MOST_PIECES];
    gp_files files;
    char *folder;
    gp_checkpoint_state saved = state_of(step);
    make_tensors(tensors);
    assert_int_equal(gp_files_create(&files, tensors, TENSORS, shard_bytes), GP_OK);
    assert_int_equal(gp_catalog_begin(checkpoints, step, files.bytes, &folder), GP_OK);
    size_t count = write_files(&files, folder, parts, pieces);
    assert_int_equal(gp_state_write(folder, &saved, &files, pieces, count), GP_OK);
    assert_int_equal(gp_catalog_commit(checkpoints, step, folder), GP_OK);
    gp_files_destroy(&files);
    gp_free(folder);
    return gp_format_text("%s/step-%lld", checkpoints, (long long)step);
}

static void remove_all(temporary *t, const char *run) {
    char command[600];
    (void)t;
    snprintf(command, sizeof command, "rm -rf '%s/checkpoints'", run);
    assert_int_equal(system(command), 0);
}

static char *path_in(const char *folder, const char *name) {
    char *path = gp_format_text("%s/%s", folder, name);
    assert_non_null(path);
    return path;
}

static void assert_same_file(const char *left, const char *right, const char *name) {
    char *one = path_in(left, name), *two = path_in(right, name);
    size_t bytes, others;
    char *data = temporary_read(one, &bytes), *other = temporary_read(two, &others);
    assert_int_equal(bytes, others);
    assert_memory_equal(data, other, bytes);
    free(data);
    free(other);
    gp_free(one);
    gp_free(two);
}

/* ---- files ---- */

static void test_parts_do_not_show(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    char *one = make_checkpoint(checkpoints, 1, 0, 1), *three = make_checkpoint(checkpoints, 3, 0, 3);
    assert_same_file(one, three, "model.safetensors");
    assert_same_file(one, three, "optimizer.safetensors");
    gp_shards *shards;
    size_t index;
    assert_int_equal(gp_shards_open(&shards, one), GP_OK);
    assert_int_equal(gp_shards_count(shards), 4);
    unsigned char expected[12];
    size_t number = 2;
    fill(&number, 0, expected, sizeof expected);
    assert_true(gp_shards_find(shards, "a.bias", &index));
    assert_memory_equal(gp_shards_data(shards, index), expected, sizeof expected);
    gp_shards_close(shards);
    gp_free(one);
    gp_free(three);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_shards_are_cut_by_size(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    char *whole = make_checkpoint(checkpoints, 1, 0, 2), *cut = make_checkpoint(checkpoints, 2, 1200015, 2);
    static const char *const names[] = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                                        "optimizer.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_in(cut, names[i]);
        assert_int_equal(access(path, F_OK), 0);
        gp_free(path);
    }
    gp_shards *one, *many;
    assert_int_equal(gp_shards_open(&one, whole), GP_OK);
    assert_int_equal(gp_shards_open(&many, cut), GP_OK);
    assert_int_equal(gp_shards_count(one), gp_shards_count(many));
    for (size_t i = 0; i < gp_shards_count(one); i++) {
        assert_string_equal(gp_shards_name(one, i), gp_shards_name(many, i));
        assert_true(gp_type_equal(gp_shards_type(one, i), gp_shards_type(many, i)));
        assert_memory_equal(gp_shards_data(one, i), gp_shards_data(many, i), gp_type_bytes(gp_shards_type(one, i)));
    }
    gp_shards_close(one);
    gp_shards_close(many);
    assert_int_equal(gp_checkpoint_verify(cut, NULL, NULL), GP_OK);
    gp_free(whole);
    gp_free(cut);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_a_name_twice_is_refused(void **state) {
    (void)state;
    gp_files files;
    const gp_files_tensor twice[] = {
        {"model", "a", floats(2)}, {"optimizer", "a", floats(2)}, {"model", "a", floats(3)}};
    assert_int_equal(gp_files_create(&files, twice, 3, 1), GP_INVALID);
    assert_message_has(gp_error_message(), "'a' is there twice");
    assert_int_equal(gp_files_create(&files, twice, 2, 1), GP_OK);
    gp_files_destroy(&files);
}

/* What nobody wrote, or two, must not pass for a whole checkpoint. */
static void test_pieces_must_fit_together(void **state) {
    (void)state;
    gp_files files;
    const gp_files_tensor tensors[] = {{"model", "a", floats(4)}, {"model", "b", floats(2)}};
    gp_files_piece good[] = {{1, 0, 8, 0}, {0, 12, 4, 0}, {0, 0, 12, 0}};
    gp_files_piece missing[] = {{0, 0, 16, 0}}, gap[] = {{0, 0, 8, 0}, {0, 12, 4, 0}, {1, 0, 8, 0}};
    gp_files_piece twice[] = {{0, 0, 16, 0}, {1, 0, 8, 0}, {1, 0, 8, 0}};
    assert_int_equal(gp_files_create(&files, tensors, 2, 0), GP_OK);
    assert_int_equal(gp_files_check_pieces(&files, good, 3), GP_OK);
    assert_int_equal(good[0].bytes, 12);
    assert_int_equal(gp_files_check_pieces(&files, missing, 1), GP_FAILED);
    assert_int_equal(gp_files_check_pieces(&files, gap, 3), GP_FAILED);
    assert_int_equal(gp_files_check_pieces(&files, twice, 3), GP_FAILED);
    assert_message_has(gp_error_message(), "tensor b was not written once");
    gp_files_destroy(&files);
}

static void test_every_failing_allocation_is_told(void **state) {
    (void)state;
    gp_files_tensor tensors[TENSORS];
    gp_status status = GP_OUT_OF_MEMORY;
    make_tensors(tensors);
    for (uint64_t n = 1; status != GP_OK; n++) {
        gp_files files;
        gp_allocation_fail_at(n);
        status = gp_files_create(&files, tensors, TENSORS, 1200015);
        gp_allocation_fail_at(0);
        if (status == GP_OK) gp_files_destroy(&files);
        if (status != GP_OK) assert_int_equal(status, GP_OUT_OF_MEMORY);
    }
}

/* ---- state ---- */

static void test_state_comes_back(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    gp_checkpoint_state found, saved = state_of(3);
    char *folder = make_checkpoint(checkpoints, 3, 0, 1);
    assert_int_equal(gp_checkpoint_read_state(folder, &found), GP_OK);
    snprintf(saved.version, sizeof saved.version, "%s", gp_version());
    assert_int_equal(found.step, saved.step);
    assert_int_equal(found.updates, saved.updates);
    assert_int_equal(found.samples, saved.samples);
    assert_int_equal(found.steps, saved.steps);
    assert_true(found.seed == saved.seed);
    assert_true(found.lr == saved.lr && found.next_lr == saved.next_lr && found.best == saved.best);
    assert_int_equal(found.best_step, saved.best_step);
    assert_int_equal(found.training_count, saved.training_count);
    assert_true(found.configuration == saved.configuration);
    assert_true(found.evaluation_pending);
    assert_string_equal(found.schedule, saved.schedule);
    assert_string_equal(found.version, saved.version);
    gp_free(folder);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

/* Every byte of state.json in turn: what is then said is never believed. Blanks between two words mean nothing, nor do
 * digits beyond what a double holds. */
static void test_damaged_state_is_refused(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    char *folder = make_checkpoint(checkpoints, 3, 0, 1), *path = path_in(folder, "state.json");
    size_t bytes;
    char *text = temporary_read(path, &bytes);
    gp_checkpoint_state whole;
    size_t refused = 0;
    assert_int_equal(gp_checkpoint_read_state(folder, &whole), GP_OK);
    for (size_t i = 0; i < bytes; i++) {
        gp_checkpoint_state found;
        char was = text[i];
        if (was == ' ' || was == '\n') continue;
        text[i] = (char)(was ^ 1);
        FILE *file = fopen(path, "wb");
        assert_int_equal(fwrite(text, 1, bytes, file), bytes);
        fclose(file);
        gp_status status = gp_checkpoint_read_state(folder, &found);
        if (status == GP_OK) {
            assert_memory_equal(&found, &whole, sizeof found);
        } else {
            assert_int_equal(status, GP_INVALID);
            assert_message_has(gp_error_message(), "state.json");
            refused++;
        }
        text[i] = was;
    }
    assert_true(refused > bytes / 2);
    free(text);
    gp_free(path);
    gp_free(folder);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_other_formats_are_refused(void **state) {
    temporary *t = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "not valid JSON"},
        {"{}", "\"format\" is not"},
        {"{\"format\": \"gpipe checkpoint\"}", "\"format_version\" is not"},
        {"{\"format\": \"gpipe checkpoint\", \"format_version\": 99}", "knows up to 1"},
        {"{\"format\": \"gpipe checkpoint\", \"format_version\": 1, \"checksum\": 3}", "damaged"},
        {"{\"format\": [[[[[]]]]]}", "nested deeper"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_checkpoint_state found;
        temporary_write_text(t, "state.json", cases[i].text);
        assert_int_equal(gp_checkpoint_read_state(t->folder, &found), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].message);
    }
}

/* What somebody wrote so: the checksum is right, the numbers are not. */
static void test_impossible_numbers_are_refused(void **state) {
    temporary *t = *state;
    static const struct {
        const char *in, *key, *value, *message; /* in NULL: at the top */
    } cases[] = {
        {NULL, "step", "-1", "\"step\" is -1: 0 to 1000000000000000 is accepted"},
        {NULL, "step", "1152921504606846976", "\"step\" is 1152921504606846976: 0 to"},
        {NULL, "step", "9223372036854775807", "\"step\" is 9223372036854775807: 0 to"},
        {NULL, "step", "2.5", "\"step\" is not a whole number"},
        {NULL, "updates", "9", "\"updates\" is 9: 0 to 8 is accepted"},
        {NULL, "updates", "-9", "\"updates\" is -9: 0 to 8 is accepted"},
        {NULL, "samples", "9223372036854775807", "\"samples\" is"},
        {"best", "step", "9", "\"best\": \"step\" is 9: 0 to 8 is accepted"},
        {"learning_rate", "steps", "9223372036854775807", "\"learning_rate\": \"steps\" is"},
        {"learning_rate", "lr", "-0.5", "\"learning_rate\": \"lr\" is not a number of 0 or more"},
        {"learning_rate", "next", "null", "\"learning_rate\": \"next\" is not"},
        {"data", "training_count", "-1", "\"training_count\" is -1"},
        {"data", "validation_count", "1152921504606846977", "\"validation_count\" is 1152921504606846977"},
    };
    char *checkpoints = path_in(t->folder, "checkpoints");
    char *folder = make_checkpoint(checkpoints, 8, 0, 1), *path = path_in(folder, "state.json");
    json_t *good = json_load_file(path, 0, NULL);
    assert_non_null(good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = json_deep_copy(good);
        json_t *in = cases[i].in ? json_object_get(object, cases[i].in) : object;
        gp_checkpoint_state found;
        char own[GP_CHECKSUM_TEXT];
        json_object_set_new(in, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        json_object_del(object, "checksum");
        char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
        json_object_set_new(object, "checksum",
                            json_string(gp_checksum_format(gp_checksum_of(text, strlen(text)), own)));
        assert_int_equal(json_dump_file(object, path, JSON_REAL_PRECISION(17)), 0);
        assert_int_equal(gp_checkpoint_read_state(folder, &found), GP_INVALID);
        assert_message_has(gp_error_message(), cases[i].message);
        free(text);
        json_decref(object);
    }
    json_decref(good);
    gp_free(path);
    gp_free(folder);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

/* ---- damage ---- */

typedef struct visits {
    int count, damaged;
    char last[64];
} visits;

static bool visit(void *user, const char *file, const char *tensor, uint64_t bytes, bool damaged) {
    visits *v = user;
    (void)file;
    (void)bytes;
    v->count++;
    v->damaged += damaged;
    if (damaged) snprintf(v->last, sizeof v->last, "%s", tensor);
    return true;
}

static void change_byte(const char *folder, const char *name, long at) {
    char *path = path_in(folder, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 64, file);
    assert_int_equal(fclose(file), 0);
    gp_free(path);
}

static void test_damage_is_found(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    char *folder = make_checkpoint(checkpoints, 4, 0, 2), *model = path_in(folder, "model.safetensors");
    visits v = {0};
    assert_int_equal(gp_checkpoint_verify(folder, visit, &v), GP_OK);
    assert_int_equal(v.count, TENSORS);
    change_byte(folder, "model.safetensors", -1); /* the last tensor is the one of bytes */
    assert_int_equal(gp_checkpoint_verify(folder, visit, memset(&v, 0, sizeof v)), GP_INVALID);
    assert_message_has(gp_error_message(), "tensor b.mask of ");
    assert_int_equal(v.count, TENSORS);
    assert_int_equal(v.damaged, 1);
    assert_string_equal(v.last, "b.mask");
    change_byte(folder, "model.safetensors", -1);
    change_byte(folder, "optimizer.safetensors", 30); /* in the header */
    assert_int_equal(gp_checkpoint_verify(folder, NULL, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "optimizer.safetensors");
    change_byte(folder, "optimizer.safetensors", 30);
    assert_int_equal(gp_checkpoint_verify(folder, NULL, NULL), GP_OK);
    assert_int_equal(truncate(model, 1000), 0);
    assert_int_equal(gp_checkpoint_verify(folder, NULL, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "model.safetensors' has 1000 bytes, but 4000");
    unlink(model);
    assert_int_equal(gp_checkpoint_verify(folder, NULL, NULL), GP_INVALID);
    assert_message_has(gp_error_message(), "model.safetensors' is missing");
    gp_free(model);
    gp_free(folder);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

/* ---- the folder of checkpoints ---- */

static void make_step(const char *checkpoints, int64_t step) {
    gp_free(make_checkpoint(checkpoints, step, 0, 1));
}

static void assert_steps(const char *checkpoints, const char *expected) {
    int64_t *steps;
    size_t count;
    char text[200] = "";
    assert_int_equal(gp_catalog_list(checkpoints, &steps, &count), GP_OK);
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? " " : "", (long long)steps[i]);
    gp_free(steps);
    assert_string_equal(text, expected);
}

static void test_pruning(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    static const int64_t steps[] = {2, 4, 6, 8, 10, 12, 14, 30};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        make_step(checkpoints, steps[i]);
    assert_steps(checkpoints, "30 14 12 10 8 6 4 2");
    gp_catalog_prune(checkpoints, &(gp_catalog_policy){.keep = 3, .keep_every = 5, .latest = 14, .best = 4});
    assert_steps(checkpoints, "14 12 10 8 4"); /* 10 by keep_every, 4 the best, 30 of another run */
    gp_catalog_prune(checkpoints, &(gp_catalog_policy){.keep = 1, .latest = 14, .best = 14});
    assert_steps(checkpoints, "14");
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

/* What has the name of a checkpoint and is none neither counts among those that are kept nor goes. */
static void test_what_is_no_checkpoint_does_not_count(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    make_step(checkpoints, 2);
    make_step(checkpoints, 4);
    make_step(checkpoints, 6);
    char *file = path_in(checkpoints, "step-9"), *zeros = path_in(checkpoints, "step-007");
    char *dangling = path_in(checkpoints, "step-8");
    temporary_write_text(t, "checkpoints/step-9", "");
    assert_int_equal(mkdir(zeros, 0777), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_steps(checkpoints, "6 4 2");
    gp_catalog_prune(checkpoints, &(gp_catalog_policy){.keep = 2, .latest = 6, .best = -1});
    assert_steps(checkpoints, "6 4");
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(access(zeros, F_OK), 0);
    gp_free(dangling);
    gp_free(zeros);
    gp_free(file);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

/* Removing leaves what others put there, under the name that they put it in. */
static void test_removing_keeps_what_is_not_ours(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    make_step(checkpoints, 2);
    make_step(checkpoints, 4);
    char *notes = path_in(checkpoints, "step-2/notes.txt"), *own = path_in(checkpoints, "step-2/state.json");
    temporary_write_text(t, "checkpoints/step-2/notes.txt", "mine");
    gp_checkpoint_remove(t->folder, 0);
    assert_steps(checkpoints, "2");
    assert_int_equal(access(notes, F_OK), 0);
    assert_int_not_equal(access(own, F_OK), 0);
    gp_free(own);
    gp_free(notes);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_what_is_no_link_is_refused(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints"), *latest = path_in(checkpoints, "latest");
    assert_int_equal(gp_catalog_create(checkpoints), GP_OK);
    assert_int_equal(gp_catalog_link(checkpoints, GP_CATALOG_LATEST, 3), GP_OK);
    assert_int_equal(gp_catalog_create(checkpoints), GP_OK);
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(mkdir(latest, 0777), 0);
    assert_int_equal(gp_catalog_create(checkpoints), GP_INVALID);
    assert_message_has(gp_error_message(), "latest' is no link");
    assert_int_equal(gp_catalog_link(checkpoints, GP_CATALOG_LATEST, 4), GP_IO);
    char *fresh = path_in(checkpoints, ".latest.new");
    assert_int_not_equal(access(fresh, F_OK), 0);
    gp_free(fresh);
    gp_free(latest);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_newest_whole_one_is_found(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints");
    char folder[512], *eight;
    int64_t step;
    assert_int_equal(gp_checkpoint_find_newest(t->folder, &step, NULL, 0), GP_OK);
    assert_int_equal(step, -1);
    make_step(checkpoints, 2);
    make_step(checkpoints, 6);
    eight = make_checkpoint(checkpoints, 8, 0, 1);
    char *half = path_in(checkpoints, ".step-9.new"), *empty = path_in(checkpoints, "step-11");
    assert_int_equal(mkdir(half, 0777), 0);
    assert_int_equal(mkdir(empty, 0777), 0);
    assert_int_equal(gp_checkpoint_find_newest(t->folder, &step, folder, sizeof folder), GP_OK);
    assert_int_equal(step, 8);
    assert_string_equal(folder, eight);
    change_byte(eight, "state.json", 40);
    assert_int_equal(gp_checkpoint_find_newest(t->folder, &step, folder, sizeof folder), GP_OK);
    assert_int_equal(step, 6);
    assert_int_equal(gp_checkpoint_find_newest(t->folder, &step, folder, 5), GP_INVALID);
    make_step(checkpoints, 8); /* the damaged one is replaced */
    assert_int_equal(gp_checkpoint_find_newest(t->folder, &step, NULL, 0), GP_OK);
    assert_int_equal(step, 8);
    gp_catalog_clean(checkpoints);
    assert_int_not_equal(access(half, F_OK), 0);
    gp_free(half);
    gp_free(empty);
    gp_free(eight);
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

static void test_a_disk_without_room_is_told(void **state) {
    temporary *t = *state;
    char *checkpoints = path_in(t->folder, "checkpoints"), *folder;
    assert_int_equal(gp_catalog_begin(checkpoints, 3, UINT64_C(1) << 60, &folder), GP_IO);
    assert_null(folder);
    assert_message_has(gp_error_message(), "free, but a checkpoint needs");
    assert_steps(checkpoints, "");
    remove_all(t, t->folder);
    gp_free(checkpoints);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temporary_create, temporary_destroy)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_parts_do_not_show),
        TEST(test_shards_are_cut_by_size),
        TEST(test_a_name_twice_is_refused),
        TEST(test_pieces_must_fit_together),
        TEST(test_every_failing_allocation_is_told),
        TEST(test_state_comes_back),
        TEST(test_damaged_state_is_refused),
        TEST(test_other_formats_are_refused),
        TEST(test_impossible_numbers_are_refused),
        TEST(test_damage_is_found),
        TEST(test_pruning),
        TEST(test_what_is_no_checkpoint_does_not_count),
        TEST(test_removing_keeps_what_is_not_ours),
        TEST(test_what_is_no_link_is_refused),
        TEST(test_newest_whole_one_is_found),
        TEST(test_a_disk_without_room_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
