/* What the benchmarks share: medians, random token batches, options of the command line, failure. */
#ifndef GP_BENCH_COMMON_H
#define GP_BENCH_COMMON_H

#include "gpipe/gpipe.h"

/* Ends the benchmark with the library's message unless the status is GP_OK. */
void bench_check(gp_status status, const char *what);
/* With --help prints how the benchmark is called and ends it. `usage` names every option, as "[--batch=4] [--json]",
 * and "[PATH SIDE]" where there may be two words that are no options: all else is refused with status 2. */
void bench_usage(int count, char **arguments, const char *program, const char *usage);
/* The value of "--name=value" as a number, or `fallback`. What is no number from 0 to 1e9 ends the benchmark with
 * status 2. */
double bench_option(int count, char **arguments, const char *name, double fallback);
/* The same of what is counted: what is no whole number from 1 to 1e9 ends the benchmark with status 2. */
int bench_count(int count, char **arguments, const char *name, int fallback);
/* The same from 1 to `most`. */
int bench_count_to(int count, char **arguments, const char *name, int fallback, int most);
/* The value of "--name=value" as it stands, or NULL. */
const char *bench_text(int count, char **arguments, const char *name);
/* The status of a benchmark that measured `measured` things of those whose name contains "--only=TEXT": 2, after saying
 * so, when there were none. */
int bench_found(const char *only, int measured);
/* Which of two values "--name=value" has, 0 or 1; -1: it is not given. Any other ends the benchmark with status 2. */
int bench_choice(int count, char **arguments, const char *name, const char *first, const char *second);
/* Whether "--name" was given. */
bool bench_flag(int count, char **arguments, const char *name);
double bench_seconds(void);
/* Of all threads of this process. */
double bench_processor_seconds(void);
/* Binds the calling thread, and what it starts, to the core with this number among those it may use; < 0: nothing. */
void bench_pin(int core);
/* Sorts the values. */
double bench_median(double *values, size_t count);
/* i32[samples, context] of tokens below `vocabulary`, the same for the same seed. */
gp_tensor bench_tokens(int64_t samples, int64_t context, int64_t vocabulary, unsigned seed);
/* One line that names the machine, to stdout. */
void bench_print_machine(void);

#endif
