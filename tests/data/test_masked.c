/* Masked text: what is hidden, how often, and that it depends on nothing but the question. */
#include "temporary.h"

#include <math.h>

#include "gpipe/data.h"

enum { CONTEXT = 18, WINDOW = CONTEXT - 2, LETTERS = 10, TEXT = 3005 };

/* Letters a to j in a fixed disorder. */
static const char *write_text(temporary *t) {
    static char text[TEXT + 1];
    uint32_t state = 1;
    for (int i = 0; i < TEXT; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = (char)('a' + (state >> 24) % LETTERS);
    }
    text[0] = 'a';
    for (int i = 1; i < LETTERS; i++)
        text[i] = (char)('a' + i);
    return temporary_write_text(t, "corpus.txt", text);
}

static gp_dataset *create(temporary *t, double share) {
    gp_text_options options = {.text = write_text(t), .validation = 0.2, .context = CONTEXT};
    gp_dataset *dataset = NULL;
    if (gp_dataset_create_masked(&dataset, &options, share) != GP_OK) fail_msg("%s", gp_error_message());
    return dataset;
}

typedef struct sample {
    int32_t tokens[CONTEXT], types[CONTEXT], mask[CONTEXT], targets[CONTEXT];
} sample;

static void read_samples(const gp_dataset *dataset, gp_split split, uint64_t seed, int64_t step, int64_t first,
                         int64_t count, sample *samples) {
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, count), GP_OK);
    gp_status status = step < 0 ? gp_dataset_window(dataset, split, first, count, &batch)
                                : gp_dataset_sample(dataset, split, seed, step, first, count, &batch);
    if (status != GP_OK) fail_msg("%s", gp_error_message());
    for (int64_t i = 0; i < count; i++) {
        memcpy(samples[i].tokens, (int32_t *)batch.inputs.data + i * 3 * CONTEXT, 3 * CONTEXT * sizeof(int32_t));
        memcpy(samples[i].targets, (int32_t *)batch.targets.data + i * CONTEXT, CONTEXT * sizeof(int32_t));
    }
    gp_batch_destroy(&batch);
}

static void test_a_sample(void **state) {
    gp_dataset *dataset = create(*state, 0.15);
    static sample samples[500];
    char text[64];
    assert_string_equal(gp_type_format(gp_dataset_input_type(dataset), text, sizeof text), "i32[3,18]");
    assert_string_equal(gp_type_format(gp_dataset_target_type(dataset), text, sizeof text), "i32[18]");
    gp_special_tokens special = gp_tokenizer_special(gp_dataset_tokenizer(dataset));
    assert_int_equal(special.begin, LETTERS); /* characters know no [CLS] */
    assert_int_equal(special.vocabulary, LETTERS + 3);
    int hidden = 0, masks = 0, kept = 0;
    read_samples(dataset, GP_SPLIT_TRAIN, 1, 3, 0, 500, samples);
    for (int s = 0; s < 500; s++) {
        assert_int_equal(samples[s].tokens[0], special.begin);
        assert_int_equal(samples[s].tokens[CONTEXT - 1], special.end);
        assert_int_equal(samples[s].targets[0], GP_IGNORED_TARGET);
        assert_int_equal(samples[s].targets[CONTEXT - 1], GP_IGNORED_TARGET);
        int here = 0;
        for (int i = 0; i < CONTEXT; i++) {
            assert_int_equal(samples[s].types[i], 0);
            assert_int_equal(samples[s].mask[i], 1);
            if (samples[s].targets[i] == GP_IGNORED_TARGET) continue;
            assert_in_range(samples[s].targets[i], 0, LETTERS - 1);
            here++;
            masks += samples[s].tokens[i] == special.mask;
            kept += samples[s].tokens[i] == samples[s].targets[i];
        }
        assert_true(here > 0);
        hidden += here;
    }
    /* 8,000 tokens, of which 15% are hidden, and at least one of each window (a window without has probability 7.4%):
     * 1,237 are expected, with a standard deviation of about 31; of those 80% are masks, 10% + 1% are as they were. */
    assert_in_range(hidden, 1237 - 130, 1237 + 130);
    assert_true(fabs(masks / (double)hidden - 0.8) < 0.05);
    assert_true(fabs(kept / (double)hidden - 0.11) < 0.04);
    gp_dataset_destroy(dataset);
}

/* Where nothing is hidden the window is the text's. */
static void test_the_text_is_below(void **state) {
    gp_dataset *dataset = create(*state, 0.15), *text = NULL;
    gp_text_options options = {.text = temporary_path(*state, "corpus.txt"), .validation = 0.2, .context = WINDOW};
    assert_int_equal(gp_dataset_create_text(&text, &options), GP_OK);
    gp_batch batch;
    sample one;
    assert_int_equal(gp_batch_create(&batch, text, 1), GP_OK);
    assert_int_equal(gp_dataset_sample(text, GP_SPLIT_TRAIN, 5, 7, 11, 1, &batch), GP_OK);
    read_samples(dataset, GP_SPLIT_TRAIN, 5, 7, 11, 1, &one);
    const int32_t *window = batch.inputs.data;
    for (int i = 0; i < WINDOW; i++) {
        int32_t target = one.targets[1 + i];
        assert_int_equal(target == GP_IGNORED_TARGET ? one.tokens[1 + i] : target, window[i]);
    }
    gp_batch_destroy(&batch);
    gp_dataset_destroy(text);
    gp_dataset_destroy(dataset);
}

static void test_pure(void **state) {
    gp_dataset *dataset = create(*state, 0.3);
    sample all[8], some[3], other[8];
    read_samples(dataset, GP_SPLIT_TRAIN, 5, 7, 0, 8, all);
    read_samples(dataset, GP_SPLIT_TRAIN, 5, 7, 4, 3, some);
    assert_memory_equal(all + 4, some, sizeof some);
    for (int change = 0; change < 3; change++) {
        read_samples(dataset, change == 2 ? GP_SPLIT_VALIDATION : GP_SPLIT_TRAIN, change == 0 ? 6 : 5,
                     change == 1 ? 8 : 7, 0, 8, other);
        for (int i = 0; i < 8; i++)
            assert_memory_not_equal(all[i].targets, other[i].targets, sizeof all[i].targets);
    }
    /* Only one of the two is wanted: where a worker holds the first or the last layer only. */
    gp_batch batch;
    assert_int_equal(gp_batch_create(&batch, dataset, 8), GP_OK);
    gp_batch inputs = batch, targets = batch;
    inputs.targets.data = NULL;
    targets.inputs.data = NULL;
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 5, 7, 0, 8, &inputs), GP_OK);
    assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 5, 7, 0, 8, &targets), GP_OK);
    for (int i = 0; i < 8; i++) {
        assert_memory_equal((int32_t *)batch.inputs.data + i * 3 * CONTEXT, all[i].tokens, 3 * CONTEXT * 4);
        assert_memory_equal((int32_t *)batch.targets.data + i * CONTEXT, all[i].targets, CONTEXT * 4);
    }
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

/* The last window is shorter, and beyond it there is nothing. */
static void test_windows(void **state) {
    gp_dataset *dataset = create(*state, 0.15);
    gp_special_tokens special = gp_tokenizer_special(gp_dataset_tokenizer(dataset));
    int64_t windows = gp_dataset_windows(dataset, GP_SPLIT_VALIDATION);
    int rest = (TEXT / 5 - 1) % WINDOW; /* 601 tokens, the last of which no window begins with */
    assert_int_equal(windows, (TEXT / 5 - 1 + WINDOW - 1) / WINDOW);
    sample two[2], again[2];
    read_samples(dataset, GP_SPLIT_VALIDATION, 0, -1, windows - 1, 2, two);
    for (int i = 0; i < CONTEXT; i++) {
        assert_int_equal(two[0].mask[i], i < rest + 2);
        assert_int_equal(two[1].mask[i], 0);
        assert_int_equal(two[1].tokens[i], 0);
        assert_int_equal(two[1].targets[i], GP_IGNORED_TARGET);
        if (i >= rest + 2) assert_int_equal(two[0].tokens[i], 0);
    }
    assert_int_equal(two[0].tokens[rest + 1], special.end);
    read_samples(dataset, GP_SPLIT_VALIDATION, 0, -1, windows - 1, 2, again);
    assert_memory_equal(two, again, sizeof two);
    gp_dataset_destroy(dataset);
}

static void test_errors(void **state) {
    gp_text_options options = {.text = write_text(*state), .context = CONTEXT};
    gp_dataset *dataset = NULL;
    assert_int_equal(gp_dataset_create_masked(&dataset, &options, 0), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "share of masked tokens is 0"));
    assert_int_equal(gp_dataset_create_masked(&dataset, &options, NAN), GP_INVALID);
    options.context = 2;
    assert_int_equal(gp_dataset_create_masked(&dataset, &options, 0.15), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "at least 3 tokens are needed"));
    options.context = 10000;
    assert_int_equal(gp_dataset_create_masked(&dataset, &options, 0.15), GP_INVALID);
    assert_non_null(strstr(gp_error_message(), "too short"));
    assert_int_equal(gp_dataset_create_masked(&dataset, NULL, 0.15), GP_INVALID);
    assert_null(dataset);
}

#define TEST_IN(function) cmocka_unit_test_setup_teardown(function, temporary_create, temporary_destroy)

/* ---- two parts ---- */

enum { PAIRED = 64, LETTERS_APART = 20, LONG = 4000 };

/* Token files would do as well; here a text that counts: place i has letter i % 20 of the alphabet, in rows that show
 * where a window comes from. */
static gp_dataset *create_pairs(temporary *t, gp_sampling sampling) {
    static char text[LONG + 1];
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % LETTERS_APART);
    gp_text_options options = {.text = temporary_write_text(t, "pairs.txt", text),
                               .validation = 0.25,
                               .context = PAIRED - 3,
                               .batch = 8,
                               .sampling = sampling};
    gp_dataset *windows = NULL, *dataset = NULL;
    assert_int_equal(gp_dataset_create_text(&windows, &options), GP_OK);
    if (gp_dataset_create_masked_windows(&dataset, windows, &(gp_masked_options){.pairs = true}) != GP_OK)
        fail_msg("%s", gp_error_message());
    return dataset;
}

/* The token that was at a place before it was hidden. */
static int32_t token_at(const int32_t *tokens, const int32_t *targets, int place) {
    return targets[place] == GP_IGNORED_TARGET ? tokens[place] : targets[place];
}

/* Checks the form of a sample and returns its answer. */
static int32_t check_pair(const int32_t *tokens, const int32_t *targets, gp_special_tokens special) {
    const int32_t *types = tokens + PAIRED, *mask = tokens + 2 * PAIRED;
    int first = 1, end = PAIRED;
    while (end > 0 && !mask[end - 1])
        end--;
    while (tokens[first] != special.end)
        first++;
    assert_int_equal(tokens[0], special.begin);
    assert_int_equal(tokens[end - 1], special.end);
    assert_int_equal(targets[first], GP_IGNORED_TARGET);
    for (int i = 0; i < PAIRED; i++)
        assert_int_equal(types[i], i > first && i < end);
    for (int i = 2; i < end - 1; i++) { /* both parts run on in themselves */
        if (i == first || i == first + 1) continue;
        assert_int_equal(token_at(tokens, targets, i), (token_at(tokens, targets, i - 1) + 1) % LETTERS_APART);
    }
    bool follows = token_at(tokens, targets, first + 1) == (token_at(tokens, targets, first - 1) + 1) % LETTERS_APART;
    int32_t answer = targets[PAIRED];
    assert_in_range(answer, 0, 1);
    if (answer == 0) assert_true(follows);
    assert_in_range(first - 1, (PAIRED - 3) / 4, 3 * (PAIRED - 3) / 4 + 1);
    return answer + 2 * (answer == 1 && follows); /* by chance */
}

static void test_pairs(void **state) {
    static const gp_sampling samplings[] = {GP_SAMPLING_RANDOM, GP_SAMPLING_SEQUENTIAL};
    enum { SAMPLES = 400 };
    char text[64];
    for (int k = 0; k < 2; k++) {
        gp_dataset *dataset = create_pairs(*state, samplings[k]);
        gp_special_tokens special = gp_tokenizer_special(gp_dataset_tokenizer(dataset));
        assert_string_equal(gp_type_format(gp_dataset_input_type(dataset), text, sizeof text), "i32[3,64]");
        assert_string_equal(gp_type_format(gp_dataset_target_type(dataset), text, sizeof text), "i32[65]");
        int others = 0, chance = 0;
        gp_batch batch, again;
        assert_int_equal(gp_batch_create(&batch, dataset, 8), GP_OK);
        assert_int_equal(gp_batch_create(&again, dataset, 3), GP_OK);
        for (int step = 0; step < SAMPLES / 8; step++) {
            assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 0, 8, &batch), GP_OK);
            assert_int_equal(gp_dataset_sample(dataset, GP_SPLIT_TRAIN, 1, step, 4, 3, &again), GP_OK);
            assert_memory_equal(again.inputs.data, (int32_t *)batch.inputs.data + 4 * 3 * PAIRED, 9 * PAIRED * 4);
            assert_memory_equal(again.targets.data, (int32_t *)batch.targets.data + 4 * (PAIRED + 1),
                                3 * (PAIRED + 1) * 4);
            for (int s = 0; s < 8; s++) {
                int32_t found = check_pair((int32_t *)batch.inputs.data + s * 3 * PAIRED,
                                           (int32_t *)batch.targets.data + s * (PAIRED + 1), special);
                others += found != 0;
                chance += found > 1;
            }
        }
        assert_in_range(others, SAMPLES / 2 - 50, SAMPLES / 2 + 50); /* five deviations */
        assert_true(chance < others / 3);                            /* one in twenty */
        gp_batch_destroy(&batch);
        gp_batch_destroy(&again);
        gp_dataset_destroy(dataset);
    }
}

/* Evaluation goes through all windows; the last one is short, perhaps too short for two parts. */
static void test_pairs_of_the_validation(void **state) {
    gp_dataset *dataset = create_pairs(*state, GP_SAMPLING_RANDOM);
    gp_special_tokens special = gp_tokenizer_special(gp_dataset_tokenizer(dataset));
    int64_t windows = gp_dataset_windows(dataset, GP_SPLIT_VALIDATION);
    gp_batch batch;
    int seen[2] = {0};
    assert_int_equal(gp_batch_create(&batch, dataset, windows), GP_OK);
    assert_int_equal(gp_dataset_window(dataset, GP_SPLIT_VALIDATION, 0, windows, &batch), GP_OK);
    for (int64_t w = 0; w + 1 < windows; w++)
        seen[check_pair((int32_t *)batch.inputs.data + w * 3 * PAIRED, (int32_t *)batch.targets.data + w * (PAIRED + 1),
                        special) != 0]++;
    assert_true(seen[0] > 0 && seen[1] > 0);
    gp_batch_destroy(&batch);
    gp_dataset_destroy(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_IN(test_a_sample),
        TEST_IN(test_the_text_is_below),
        TEST_IN(test_pure),
        TEST_IN(test_windows),
        TEST_IN(test_errors),
        TEST_IN(test_pairs),
        TEST_IN(test_pairs_of_the_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
