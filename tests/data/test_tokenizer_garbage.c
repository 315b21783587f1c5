/* Tokenizer files with anything in them: each is loaded or refused with a sentence, and what was loaded works. The
 * fuzzing targets (tests/fuzz) look further; this runs everywhere. */
#include "subword_files.h"

enum { ROUNDS = 150 };

/* Changes a text in a few places: bytes, runs that are cut out or repeated, digits. */
static size_t mutate(uint64_t *state, const char *from, size_t bytes, char *to) {
    memcpy(to, from, bytes);
    for (uint32_t changes = 1 + next_number(state) % 4; changes > 0 && bytes > 4; changes--) {
        size_t at = next_number(state) % (bytes - 1),
               length = 1 + next_number(state) % (bytes - at < 40 ? bytes - at : 40);
        switch (next_number(state) % 5) {
        case 0:
            to[at] = (char)next_number(state);
            break;
        case 1:
            memmove(to + at, to + at + length, bytes - at - length);
            bytes -= length;
            break;
        case 2:
            memmove(to + bytes - length, to + at, length);
            break;
        case 3:
            to[at] = "{}[]\",:0 \n-\\"[next_number(state) % 12];
            break;
        default:
            bytes = at + 1;
        }
    }
    return bytes;
}

static void use(const gp_tokenizer *tokenizer, uint64_t *state) {
    char text[200];
    int32_t ids[1000];
    size_t count, bytes;
    random_text(state, text, sizeof text);
    if (gp_tokenizer_encode(tokenizer, text, sizeof text, ids, 1000, &count) != GP_OK) return;
    for (size_t i = 0; i < count; i++)
        assert_in_range(ids[i], 0, gp_tokenizer_vocabulary(tokenizer) - 1);
    assert_int_equal(gp_tokenizer_decode(tokenizer, ids, count, NULL, 0, &bytes), GP_OK);
}

/* Loads the tokenizer at `path` with changes of its file `name` inside. */
static void check_mutations(temporary *t, const char *name, const char *path) {
    size_t bytes;
    char *good = temporary_read(temporary_path(t, name), &bytes), *bad = malloc(bytes + 1);
    assert_non_null(bad);
    uint64_t state = 41;
    for (int round = 0; round < ROUNDS; round++) {
        gp_tokenizer *tokenizer;
        temporary_write(t, name, bad, mutate(&state, good, bytes, bad));
        gp_status status = gp_tokenizer_load(&tokenizer, path);
        assert_int_equal(status == GP_OK, tokenizer != NULL);
        if (status == GP_OK) {
            use(tokenizer, &state);
        } else {
            assert_int_equal(status, GP_INVALID);
            assert_true(strlen(gp_error_message()) > 20);
        }
        gp_tokenizer_destroy(tokenizer);
    }
    temporary_write(t, name, good, bytes);
    free(good);
    free(bad);
}

static void test_mutations(void **state) {
    temporary *t = *state;
    tiny_bpe *tiny = tiny_bpe_create(1);
    tiny_bpe_write_files(t, tiny);
    tiny_bpe_destroy(tiny);
    char *bpe = strdup(temporary_path(t, "vocab.json")), *list = strdup(temporary_path(t, "words.txt"));
    temporary_write_text(t, "words.txt", tiny_words);
    gp_tokenizer *tokenizers[] = {load_tokenizer(bpe), load_tokenizer(list)};
    char *saved[] = {strdup(temporary_path(t, "bpe.json")), strdup(temporary_path(t, "words.json"))};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(gp_tokenizer_save(tokenizers[i], saved[i]), GP_OK);
        gp_tokenizer_destroy(tokenizers[i]);
    }
    check_mutations(t, "vocab.json", bpe);
    check_mutations(t, "merges.txt", bpe);
    check_mutations(t, "bpe.json", saved[0]);
    check_mutations(t, "words.txt", list);
    check_mutations(t, "words.json", saved[1]);
    free(saved[0]);
    free(saved[1]);
    free(bpe);
    free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mutations, temporary_create, temporary_destroy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
