/* Cutting messages for MPI, whose counts are ints: whatever the lengths, the pieces make up the message, sender and
 * receiver expect equally many, and none is longer than allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdint.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_up_the_message),
        cmocka_unit_test(long_messages_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
