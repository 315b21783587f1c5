/* Windows of a text: what they hold, that they are pure functions of the question, that evaluation covers a split. */
#include "temporary.h"

#include "base/memory.h"
#include "base/thread.h"
#include "gpipe/data.h"

typedef struct batch {
    gp_batch all;
    int64_t context;
} batch;

static batch batch_create(const gp_dataset *dataset, int64_t count) {
    batch b = {.context = gp_dataset_input_type(dataset).shape.dims[0]};
    assert_int_equal(gp_batch_create(&b.all, dataset, count), GP_OK);
    return b;
}

static void batch_destroy(batch *b) {
    gp_batch_destroy(&b->all);
}

static const int32_t *row(const gp_tensor *tensor, int64_t i) {
    return (const int32_t *)tensor->data + i * tensor->type.shape.dims[1];
}

static gp_dataset *create(const gp_text_options *options) {
    gp_dataset *dataset;
    gp_status status = gp_dataset_create_text(&dataset, options);
    if (status != GP_OK) print_error("%s\n", gp_error_message());
    assert_int_equal(status, GP_OK);
    return dataset;
}

/* A text whose n-th byte tells n, from several files, so that windows span them: a counter of three letters a-p. */
enum { FILES = 5, TRIPLES = 1000 };

static const char *write_counter(temporary *t) {
    char text[3 * TRIPLES + 1];
    for (int i = 0; i < TRIPLES; i++)
        memcpy(text + (size_t)3 * (size_t)i,
               (char[]){(char)('a' + i % 16), (char)('a' + i / 16 % 16), (char)('a' + i / 256)}, 3);
    static const size_t cuts[FILES + 1] = {0, 1, 10, 10, 1999, 3 * TRIPLES};
    for (int f = 0; f < FILES; f++) {
        char name[16];
        snprintf(name, sizeof name, "part%d.txt", f);
        temporary_write(t, name, text + cuts[f], cuts[f + 1] - cuts[f]);
    }
    return temporary_path(t, "part*.txt");
}

static void test_counts(void **state) {
    const char *pattern = write_counter(*state);
    for (int kind = 0; kind < 2; kind++) {
        gp_dataset *dataset = create(&(gp_text_options){
            .text = pattern, .tokenizer_kind = (gp_tokenizer_kind)kind, .validation = 0.1, .context = 8});
        assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), 2700);
        assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 300);
        assert_int_equal(gp_tokenizer_vocabulary(gp_dataset_tokenizer(dataset)), kind == GP_TOKENIZER_CHAR ? 16 : 256);
        assert_int_equal(gp_dataset_windows(dataset, GP_SPLIT_TRAIN), 338);     /* ceil(2699 / 8) */
        assert_int_equal(gp_dataset_windows(dataset, GP_SPLIT_VALIDATION), 38); /* ceil(299 / 8) */
        gp_dataset_destroy(dataset);
    }
    gp_dataset_destroy(NULL);
}

/* Walks the windows of a split and checks that the targets, decoded, are the split without its first character. */
static void check_coverage(const gp_dataset *dataset, gp_split split, const char *expected, size_t bytes) {
    int64_t windows = gp_dataset_windows(dataset, split), covered = 0, tokens = gp_dataset_count(dataset, split);
    assert_true((windows - 1) * gp_dataset_input_type(dataset).shape.dims[0] < tokens - 1);
    batch b = batch_create(dataset, 3);
    int32_t *targets = gp_allocate_array((size_t)tokens, sizeof *targets);
    for (int64_t first = 0; first < windows + 3; first += 3) {
        assert_int_equal(gp_dataset_window(dataset, split, first, 3, &b.all), GP_OK);
        const int32_t *input = b.all.inputs.data, *target = b.all.targets.data;
        for (int64_t i = 0; i < 3 * b.context; i++) {
            if (covered == tokens - 1) {
                assert_int_equal(input[i], 0);
                assert_int_equal(target[i], GP_IGNORED_TARGET);
            } else {
                if (covered > 0) assert_int_equal(input[i], targets[covered - 1]);
                targets[covered++] = target[i];
            }
        }
    }
    assert_int_equal(covered, tokens - 1);
    char *text = gp_allocate(bytes);
    size_t length;
    assert_int_equal(gp_tokenizer_decode(gp_dataset_tokenizer(dataset), targets, (size_t)covered, text, bytes, &length),
                     GP_OK);
    assert_int_equal(length, bytes);
    assert_memory_equal(text, expected, bytes);
    gp_free(text);
    gp_free(targets);
    batch_destroy(&b);
}

/* An ASCII text and one whose characters take 1 to 4 bytes, with any rest in the last window. */
static void test_evaluation_covers_the_split(void **state) {
    static const struct {
        const char *train;
        const char *validation;
        int64_t train_tokens;
    } texts[] = {
        {"abcdefghijklmnopqrstuvwxyzAB", "CDEFGHIJKLMNOPQRSTUVWXYZ0123", 28},
        {"aé世😀béa世😀baé世😀", "bbé世😀baé世😀aaé世", 14},
    };
    for (size_t i = 0; i < 2; i++) {
        char joined[256];
        snprintf(joined, sizeof joined, "%s%s", texts[i].train, texts[i].validation);
        const char *path = temporary_write_text(*state, "text", joined);
        for (int64_t context = 1; context <= 12; context++) {
            gp_dataset *dataset = create(&(gp_text_options){.text = path, .validation = 0.5, .context = context});
            assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), texts[i].train_tokens);
            assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), texts[i].train_tokens);
            /* The first character of either half takes one byte, and is no target. */
            check_coverage(dataset, GP_SPLIT_TRAIN, texts[i].train + 1, strlen(texts[i].train) - 1);
            check_coverage(dataset, GP_SPLIT_VALIDATION, texts[i].validation + 1, strlen(texts[i].validation) - 1);
            gp_dataset_destroy(dataset);
        }
    }
}

/* Reads the number that three letters of the counter give, at a window that starts at any byte. */
static int64_t place_of(const int32_t *window, char lowest) {
    for (int64_t start = 0; start < 3; start++) { /* start: bytes until a triple begins */
        int64_t value = 0, next = 0;
        for (int d = 2; d >= 0; d--) {
            value = value * 16 + (window[start + d] - lowest);
            next = next * 16 + (window[start + 3 + d] - lowest);
        }
        if (next == value + 1 && value * 3 >= start) return value * 3 - start;
    }
    return -1;
}

static void test_random_windows(void **state) {
    enum { CONTEXT = 9, COUNT = 64, STEPS = 100 };
    for (int kind = 0; kind < 2; kind++) {
        gp_dataset *dataset = create(&(gp_text_options){.text = write_counter(*state),
                                                        .tokenizer_kind = (gp_tokenizer_kind)kind,
                                                        .validation = 0.1,
                                                        .context = CONTEXT});
        char lowest = kind == GP_TOKENIZER_CHAR ? 0 : 'a';
        batch b = batch_create(dataset, COUNT);
        int64_t least = INT64_MAX, most = -1;
        double sum = 0;
        for (int64_t step = 0; step < STEPS; step++) {
            assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 0, COUNT, &b.all), GP_OK);
            for (int64_t i = 0; i < COUNT; i++) {
                int64_t place = place_of(row(&b.all.inputs, i), lowest);
                assert_true(place >= 0 && place + CONTEXT < 2700);
                least = place < least ? place : least;
                most = place > most ? place : most;
                sum += (double)place;
                for (int64_t j = 0; j + 1 < CONTEXT; j++)
                    assert_int_equal(row(&b.all.inputs, i)[j + 1], row(&b.all.targets, i)[j]);
            }
        }
        /* All starts 0 to 2690 are possible; 6400 draws have a mean within five standard errors. */
        assert_true(least < 20 && most > 2670);
        double mean = sum / (STEPS * COUNT), error = 2691 / 3.4641 / 80;
        assert_true(mean > 1345 - 5 * error && mean < 1345 + 5 * error);
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_VALIDATION, 1, 0, 0, COUNT, &b.all), GP_OK);
        for (int64_t i = 0; i < COUNT; i++)
            assert_true(place_of(row(&b.all.inputs, i), lowest) >= 2700);
        batch_destroy(&b);
        gp_dataset_destroy(dataset);
    }
}

/* Starts at both ends occur: a text with two possible starts, and one with a single one. */
static void test_ends_are_reached(void **state) {
    const char *path = temporary_write_text(*state, "text", "abcd");
    for (int64_t context = 2; context <= 3; context++) {
        gp_dataset *dataset = create(&(gp_text_options){.text = path, .context = context});
        batch b = batch_create(dataset, 64);
        int seen[4] = {0};
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 3, 5, 0, 64, &b.all), GP_OK);
        for (int64_t i = 0; i < 64; i++)
            seen[row(&b.all.inputs, i)[0]]++;
        assert_true(seen[0] > 0);
        assert_int_equal(seen[1] > 0, context == 2);
        assert_int_equal(seen[2], 0);
        batch_destroy(&b);
        gp_dataset_destroy(dataset);
    }
}

/* Any way of asking for a mini-batch gives the same mini-batch; another seed or step another one. */
static void test_samples_are_counted(void **state) {
    gp_dataset *dataset = create(&(gp_text_options){.text = write_counter(*state), .validation = 0.1, .context = 16});
    batch all = batch_create(dataset, 7), one = batch_create(dataset, 1), other = batch_create(dataset, 7);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 9, 3, 0, 7, &all.all), GP_OK);
    for (int64_t i = 6; i >= 0; i--) {
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 9, 3, i, 1, &one.all), GP_OK);
        assert_memory_equal(one.all.inputs.data, row(&all.all.inputs, i), 16 * 4);
        assert_memory_equal(one.all.targets.data, row(&all.all.targets, i), 16 * 4);
    }
    const struct {
        uint64_t seed;
        int64_t step;
    } others[] = {{10, 3}, {9, 4}, {9, 3 + (1LL << 32)}, {9 + (1ULL << 32), 3}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, others[i].seed, others[i].step, 0, 7, &other.all),
                         GP_OK);
        assert_true(memcmp(other.all.inputs.data, all.all.inputs.data, gp_type_bytes(all.all.inputs.type)) != 0);
    }
    batch_destroy(&all);
    batch_destroy(&one);
    batch_destroy(&other);
    gp_dataset_destroy(dataset);
}

static void test_sequential(void **state) {
    gp_dataset *dataset = create(&(gp_text_options){.text = write_counter(*state),
                                                    .tokenizer_kind = GP_TOKENIZER_BYTE,
                                                    .context = 100,
                                                    .sampling = GP_SAMPLING_SEQUENTIAL,
                                                    .batch = 4});
    batch b = batch_create(dataset, 2);
    /* 3000 tokens have 29 whole windows with their targets. */
    for (int64_t number = 0; number < 80; number += 2) {
        assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, number / 4, number % 4, 2, &b.all), GP_OK);
        assert_int_equal(place_of(row(&b.all.inputs, 0), 'a'), number % 29 * 100);
        assert_int_equal(place_of(row(&b.all.inputs, 1), 'a'), (number + 1) % 29 * 100);
    }
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, INT64_MAX / 2, 0, 2, &b.all), GP_INVALID);
    batch_destroy(&b);
    gp_dataset_destroy(dataset);
}

/* A vocabulary of more than 65536 characters takes ids of four bytes. */
static void test_large_vocabulary(void **state) {
    enum { CHARACTERS = 70000 };
    char *text = malloc(4 * CHARACTERS);
    assert_non_null(text);
    for (uint32_t i = 0; i < CHARACTERS; i++)
        memcpy(text + (size_t)4 * i,
               (char[]){(char)0xF0, (char)(0x90 + (i >> 12)), (char)(0x80 | (i >> 6 & 63)), (char)(0x80 | (i & 63))},
               4);
    const char *path = temporary_write(*state, "many", text, 4 * CHARACTERS);
    free(text);
    gp_dataset *dataset = create(&(gp_text_options){.text = path, .context = 1000});
    assert_int_equal(gp_tokenizer_vocabulary(gp_dataset_tokenizer(dataset)), CHARACTERS);
    batch b = batch_create(dataset, 1);
    for (int64_t window = 0; window < 69; window++) {
        assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, window, 1, &b.all), GP_OK);
        for (int64_t i = 0; i < 1000; i++)
            assert_int_equal(row(&b.all.inputs, 0)[i], window * 1000 + i);
    }
    batch_destroy(&b);
    gp_dataset_destroy(dataset);
}

/* Many threads ask at once, nothing is allocated, everybody gets the same. */
typedef struct asker {
    const gp_dataset *dataset;
    batch b;
    bool same;
    const int32_t *expected;
} asker;

static void ask(void *argument) {
    asker *a = argument;
    a->same = true;
    for (int i = 0; i < 50; i++) {
        gp_status status = gp_dataset_sample(a->dataset, GP_SPLIT_TRAIN, 4, 2, 0, 8, &a->b.all);
        a->same = a->same && status == GP_OK && memcmp(a->b.all.inputs.data, a->expected, 8 * 32 * 4) == 0;
    }
}

static void test_threads_and_allocations(void **state) {
    gp_dataset *dataset = create(&(gp_text_options){.text = write_counter(*state), .context = 32});
    batch b = batch_create(dataset, 8);
    uint64_t before = gp_allocation_count();
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 4, 2, 0, 8, &b.all), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_TRAIN, 0, 8, &b.all), GP_OK);
    assert_int_equal(gp_allocation_count(), before);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 4, 2, 0, 8, &b.all), GP_OK);
    asker askers[3];
    gp_thread *threads[3];
    for (int i = 0; i < 3; i++) {
        askers[i] = (asker){.dataset = dataset, .b = batch_create(dataset, 8), .expected = b.all.inputs.data};
        assert_int_equal(gp_thread_create(&threads[i], ask, &askers[i], 0, 0), GP_OK);
    }
    for (int i = 0; i < 3; i++) {
        gp_thread_join(threads[i]);
        assert_true(askers[i].same);
        batch_destroy(&askers[i].b);
    }
    batch_destroy(&b);
    gp_dataset_destroy(dataset);
}

static void test_shakespeare(void **state) {
    (void)state;
    const char *folder = getenv("GPIPE_DATA");
    if (!folder) {
        print_message("skipped: GPIPE_DATA names no folder with tinyshakespeare/input.txt\n");
        skip();
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/tinyshakespeare/input.txt", folder);
    if (access(path, R_OK) != 0) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    gp_dataset *dataset = create(&(gp_text_options){.text = path, .validation = 0.1, .context = 64});
    assert_int_equal(gp_tokenizer_vocabulary(gp_dataset_tokenizer(dataset)), 65);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_TRAIN), 1003854);
    assert_int_equal(gp_dataset_count(dataset, GP_SPLIT_VALIDATION), 1115394 - 1003854);
    assert_int_equal(gp_dataset_windows(dataset, GP_SPLIT_VALIDATION), 1743);
    gp_dataset_destroy(dataset);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temporary_create, temporary_destroy)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_counts),
        WITH_FOLDER(test_evaluation_covers_the_split),
        WITH_FOLDER(test_random_windows),
        WITH_FOLDER(test_ends_are_reached),
        WITH_FOLDER(test_samples_are_counted),
        WITH_FOLDER(test_sequential),
        WITH_FOLDER(test_large_vocabulary),
        WITH_FOLDER(test_threads_and_allocations),
        cmocka_unit_test(test_shakespeare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
