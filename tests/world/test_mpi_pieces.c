/* Cutting messages for MPI, whose counts are ints: whatever the lengths, the pieces make up the message, sender and
 * receiver expect equally many, and none is longer than allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "world/mpi/inside.h"

static void check(size_t message, size_t slot, size_t largest) {
    int pieces = gp_mpi_pieces(slot, largest);
    size_t sum = 0;
    assert_true(pieces >= 1);
    for (int i = 0; i < pieces; i++) {
        size_t sent = gp_mpi_piece_bytes(message, i, largest), expected = gp_mpi_piece_bytes(slot, i, largest);
        assert_true(sent <= largest);
        assert_true(sent <= expected); /* a receive may be longer than what comes, never shorter */
        if (sent > 0) assert_true((size_t)i * largest == sum);
        sum += sent;
    }
    assert_true(sum == message);
    assert_int_equal(gp_mpi_piece_bytes(message, pieces, largest), 0);
}

static void pieces_make_up_the_message(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, 63, 64, 65, 1023, 1024, 1025, 4096, 4097};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t s = l; s < sizeof lengths / sizeof *lengths; s++)
            for (size_t largest = 1; largest <= 1024; largest *= 2)
                check(lengths[l], lengths[s], largest);
}

/* Lengths around what an int can count, and far beyond. */
static void long_messages_are_cut(void **state) {
    (void)state;
    size_t largest = GP_MPI_LARGEST, int_most = INT_MAX;
    assert_true(largest <= int_most);
    const size_t lengths[] = {largest - 1,      largest,          largest + 1,        int_most,       int_most + 1,
                              2 * int_most + 2, 2 * int_most + 3, (size_t)5000 << 20, (size_t)1 << 40};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        check(lengths[l], lengths[l], largest);
        check(0, lengths[l], largest);
        check(lengths[l] / 3, lengths[l], largest);
    }
    assert_int_equal(gp_mpi_pieces((size_t)3 << 30, largest), 3);
    assert_int_equal(gp_mpi_pieces(((size_t)3 << 30) + 1, largest), 4);
    assert_int_equal(gp_mpi_piece_bytes(((size_t)3 << 30) + 1, 3, largest), 1);
}

/* An MPI that takes a few messages and then no more. */
static int left;

static int take_message(gp_mpi_comm *comm, gp_mpi_pool *pool, const void *data, int bytes, int to, int tag,
                        void *user) {
    (void)comm, (void)pool, (void)data, (void)bytes, (void)to, (void)tag, (void)user;
    return left-- > 0 ? 0 : 1;
}

static int take_receive(gp_mpi_comm *comm, gp_mpi_pool *pool, void *data, int bytes, int from, int tag, void *user) {
    return take_message(comm, pool, data, bytes, from, tag, user);
}

static void describe(int error, char *text, size_t size) {
    snprintf(text, size, "error %d", error);
}

/* What is counted as under way is what will finish: who waits for the rest would wait for ever. */
static void pieces_that_were_not_begun_are_not_awaited(void **state) {
    static const gp_mpi_calls calls = {.send = take_message, .receive = take_receive, .describe = describe};
    char data[100] = {0};
    (void)state;
    for (int begun = 0; begun <= 4; begun++) {
        gp_cluster cluster = {.calls = &calls, .largest = 25};
        gp_mpi_transfer sending = {.world = NULL}, receiving = {.world = NULL};
        gp_status expected = begun == 4 ? GP_OK : GP_FAILED;
        left = begun;
        assert_int_equal(gp_mpi_send(&cluster, NULL, data, 90, 100, 1, 0, &sending), expected);
        assert_int_equal(atomic_load(&sending.pending), begun);
        assert_int_equal(atomic_load(&cluster.sends), begun);
        assert_true(sending.sends);
        left = begun;
        assert_int_equal(gp_mpi_receive(&cluster, NULL, data, 100, 1, 0, &receiving), expected);
        assert_int_equal(atomic_load(&receiving.pending), begun);
        assert_false(receiving.sends);
        assert_int_equal(atomic_load(&cluster.sends), begun);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_up_the_message),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(pieces_that_were_not_begun_are_not_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
