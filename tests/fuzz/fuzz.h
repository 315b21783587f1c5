/* What fuzzing targets share: the input as a file, and a bound on memory in proportion to it.
 *
 * A target is a function that reads whatever the file holds. Built with GPIPE_FUZZ it is driven by libFuzzer; in every
 * other build its kept inputs (tests/fuzz/<target>/) are replayed as a test. */
#ifndef GP_TESTS_FUZZ_H
#define GP_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Of the target: reads the file at `path`, in the folder `folder` of its own. The input is also at hand as bytes. */
void fuzz_one(const char *folder, const char *path, const uint8_t *data, size_t bytes);

/* Of the target: the name that its file must have, and memory that any input may take: `fixed` bytes and `factor` for
 * each of its own. */
extern const char *const fuzz_file;
extern const size_t fuzz_fixed, fuzz_factor;

#endif
