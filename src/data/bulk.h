/* Encoding much text on several threads. One thread, the caller's, cuts the text into chunks and takes their ids in
 * order; the others encode. */
#ifndef GP_DATA_BULK_H
#define GP_DATA_BULK_H

#include "data/tokenizer.h"

/* Text that is encoded by itself: a part of a document, or several whole ones. */
typedef struct gp_chunk {
    const unsigned char *text;
    size_t bytes;
    const char *name;   /* of its file, for messages */
    size_t file;        /* its number */
    uint64_t offset;    /* in the file */
    bool continued;     /* documents are files: it is not the beginning of one */
    bool ends_document; /* documents are files: it is the end of one */
} gp_chunk;

typedef struct gp_encoded_chunk {
    const int32_t *ids;
    size_t count;
    int64_t documents; /* that end in it */
    size_t replaced;   /* places that were not UTF-8 */
    const gp_chunk *chunk;
} gp_encoded_chunk;

/* Where the text comes from and where the ids go. Both functions run on the caller's thread. */
typedef struct gp_bulk_ends {
    void *user;
    /* Fills in the next chunk; none, with `*there` false, at the end. Its text lives until the chunk was taken: `own`
     * is memory that lives so long. */
    gp_status (*next)(void *user, gp_buffer *own, gp_chunk *chunk, bool *there);
    /* Takes the ids of the chunks, in their order. */
    gp_status (*take)(void *user, const gp_encoded_chunk *encoded);
} gp_bulk_ends;

typedef struct gp_bulk_options {
    const gp_tokenizer *tokenizer;
    gp_documents documents;
    const char *field; /* of JSON lines: where the text is */
    int32_t end;       /* the id behind every document; -1: none */
    bool plain;        /* added tokens are ordinary text */
    int threads;       /* 0: as many as there are cores */
} gp_bulk_options;

enum { GP_CHUNK_BYTES = 1 << 20 };

/* Errors: what the functions return; GP_INVALID for text that the vocabulary cannot express or JSON that is none,
 * naming the file; GP_OUT_OF_MEMORY. */
gp_status gp_bulk_encode(const gp_bulk_options *options, const gp_bulk_ends *ends);

/* The length of the chunk at the beginning of a text; all of it when it cannot be cut. */
size_t gp_bulk_cut(const gp_bulk_options *options, const unsigned char *text, size_t bytes);

#endif
