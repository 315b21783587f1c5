/* Labelled examples in text files: a line each, as columns with tabs between or as JSON objects. */
#ifndef GP_DATA_EXAMPLES_H
#define GP_DATA_EXAMPLES_H

#include <jansson.h>

#include "data/corpus.h"
#include "gpipe/data.h"

enum { GP_MOST_COLUMNS = 64, GP_MOST_LINE_BYTES = 64 << 20 };

/* Where the parts of an example stand. */
typedef struct gp_example_names {
    const char *text, *pair, *label; /* names of columns or keys; NULL: one of the usual ones */
} gp_example_names;

/* A file, and how its lines are read. */
typedef struct gp_example_format {
    bool json;
    int text, pair, label; /* columns; pair -1: none */
    bool header;           /* the first line names the columns */
} gp_example_format;

/* A piece of text, not terminated. */
typedef struct gp_span {
    const char *text;
    size_t bytes;
} gp_span;

/* One example; points into its line, or into `object`. */
typedef struct gp_example {
    gp_span text, pair, label; /* pair.text NULL: none; label: a number is its digits */
    char digits[24];
    json_t *object;
} gp_example;

/* The format of a file: by its name (.tsv; .jsonl, .json), and for columns by its first line. Errors: GP_INVALID naming
 * the file. */
gp_status gp_example_format_find(gp_example_format *format, const gp_corpus_file *file, const gp_example_names *names);

/* The line that begins at `at`: its bytes without the end of the line; `*next` is where the next one begins. */
gp_span gp_example_line(const gp_corpus_file *file, size_t at, size_t *next);

/* Reads a line. Release the example in any case. Errors: GP_INVALID without the place: see gp_example_within. */
gp_status gp_example_parse(gp_example *example, const gp_example_format *format, const gp_example_names *names,
                           gp_span line);
void gp_example_release(gp_example *example);

/* Puts "file:line: " before the message; the line is counted. Returns `status`. */
gp_status gp_example_within(gp_status status, const gp_corpus_file *file, size_t at);

#endif
