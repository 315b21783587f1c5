/* A ring of slots: the caller's thread fills them in order, workers take the next filled one, the caller's thread
 * empties them in order. Nobody waits while there is work for him. */
#include "data/bulk.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "data/cut.h"

enum { MESSAGE_BYTES = 512 };

typedef struct slot {
    gp_chunk chunk;
    gp_buffer own;
    gp_ids ids;
    int64_t documents;
    size_t replaced;
    gp_status status;
    char message[MESSAGE_BYTES];
    _Atomic bool done;
} slot;

typedef struct bulk {
    const gp_bulk_options *options;
    const gp_bulk_ends *ends;
    slot *slots;
    size_t slot_count;
    _Atomic uint64_t filled, claimed; /* chunks so far */
    _Atomic bool over;
    gp_event work, done;
} bulk;

/* ---- one chunk, by a worker ---- */

typedef struct worker {
    bulk *bulk;
    gp_thread *thread;
    gp_encoding encoding;
} worker;

static gp_status add_document(worker *w, slot *s, const void *text, size_t bytes) {
    const gp_bulk_options *options = w->bulk->options;
    w->encoding.continued = false;
    GP_TRY(gp_encoding_add(&w->encoding, options->tokenizer, text, bytes));
    s->documents++;
    return options->end >= 0 ? gp_ids_add(&w->encoding.ids, options->end) : GP_OK;
}

static gp_status encode_part(worker *w, slot *s) {
    const gp_bulk_options *options = w->bulk->options;
    w->encoding.continued = s->chunk.continued;
    GP_TRY(gp_encoding_add(&w->encoding, options->tokenizer, s->chunk.text, s->chunk.bytes));
    if (!s->chunk.ends_document) return GP_OK;
    s->documents++;
    return options->end >= 0 ? gp_ids_add(&w->encoding.ids, options->end) : GP_OK;
}

static gp_status encode_lines(worker *w, slot *s) {
    const unsigned char *text = s->chunk.text;
    for (size_t at = 0, end; at < s->chunk.bytes;) {
        size_t next = gp_line_end(text, s->chunk.bytes, at, &end);
        if (!gp_line_is_blank(text + at, end - at)) GP_TRY(add_document(w, s, text + at, end - at));
        at = next;
    }
    return GP_OK;
}

/* Runs of lines that are not blank, without the last line end. */
static gp_status encode_paragraphs(worker *w, slot *s) {
    const unsigned char *text = s->chunk.text;
    size_t begin = 0, last = 0; /* of the current paragraph; none while last is not behind begin */
    for (size_t at = 0, end; at < s->chunk.bytes;) {
        size_t next = gp_line_end(text, s->chunk.bytes, at, &end);
        if (gp_line_is_blank(text + at, end - at)) {
            if (last > begin) GP_TRY(add_document(w, s, text + begin, last - begin));
            begin = last = next;
        } else {
            last = end;
        }
        at = next;
    }
    return last > begin ? add_document(w, s, text + begin, last - begin) : GP_OK;
}

static gp_status encode_json_line(worker *w, slot *s, size_t at, size_t bytes) {
    json_error_t error;
    const char *field = w->bulk->options->field;
    json_t *object = json_loadb((const char *)s->chunk.text + at, bytes, JSON_REJECT_DUPLICATES, &error);
    const json_t *text = json_object_get(object, field);
    gp_status status;
    if (!object) {
        status = gp_error(GP_INVALID, "the line at byte %" PRIu64 " is not valid JSON: %s", s->chunk.offset + at,
                          error.text);
    } else if (!json_is_string(text)) {
        status = gp_error(GP_INVALID, "the line at byte %" PRIu64 " is no object with a text \"%s\"",
                          s->chunk.offset + at, field);
    } else {
        status = add_document(w, s, json_string_value(text), json_string_length(text));
    }
    json_decref(object);
    return status;
}

static gp_status encode_json(worker *w, slot *s) {
    for (size_t at = 0, end; at < s->chunk.bytes;) {
        size_t next = gp_line_end(s->chunk.text, s->chunk.bytes, at, &end);
        if (!gp_line_is_blank(s->chunk.text + at, end - at)) GP_TRY(encode_json_line(w, s, at, end - at));
        at = next;
    }
    return GP_OK;
}

static gp_status encode_chunk(worker *w, slot *s) {
    switch (w->bulk->options->documents) {
    case GP_DOCUMENT_FILE:
        return encode_part(w, s);
    case GP_DOCUMENT_LINE:
        return encode_lines(w, s);
    case GP_DOCUMENT_PARAGRAPH:
        return encode_paragraphs(w, s);
    case GP_DOCUMENT_JSON:
        return encode_json(w, s);
    }
    return gp_error(GP_INVALID, "there are no documents of kind %d", (int)w->bulk->options->documents);
}

/* Encodes a slot; its ids change places with the worker's, so that neither has to be copied. */
static void process(worker *w, slot *s) {
    w->encoding.ids = s->ids;
    w->encoding.ids.count = 0;
    w->encoding.replaced = 0;
    s->documents = 0;
    s->status = gp_error_within(encode_chunk(w, s), "'%s'", s->chunk.name);
    if (s->status != GP_OK) strncpy(s->message, gp_error_message(), MESSAGE_BYTES - 1);
    s->replaced = w->encoding.replaced;
    s->ids = w->encoding.ids;
    w->encoding.ids = (gp_ids){0};
    atomic_store(&s->done, true);
    gp_event_signal(&w->bulk->done);
}

/* Takes the next filled slot; NULL when there is none. */
static slot *claim(bulk *b) {
    uint64_t next = atomic_load(&b->claimed);
    while (next < atomic_load(&b->filled)) {
        if (atomic_compare_exchange_weak(&b->claimed, &next, next + 1)) return &b->slots[next % b->slot_count];
    }
    return NULL;
}

static void work(void *argument) {
    worker *w = argument;
    bulk *b = w->bulk;
    for (;;) {
        uint32_t seen = gp_event_now(&b->work);
        slot *s = claim(b);
        if (s) {
            process(w, s);
        } else if (atomic_load(&b->over)) {
            break;
        } else {
            gp_event_wait(&b->work, seen, -1);
        }
    }
}

/* ---- the caller's thread ---- */

/* Waits for a chunk and hands its ids on. */
static gp_status take(bulk *b, slot *s) {
    for (;;) {
        uint32_t seen = gp_event_now(&b->done);
        if (atomic_load(&s->done)) break;
        gp_event_wait(&b->done, seen, -1);
    }
    if (s->status != GP_OK) {
        gp_error_message_set(s->message);
        return s->status;
    }
    gp_encoded_chunk encoded = {s->ids.list, s->ids.count, s->documents, s->replaced, &s->chunk};
    return b->ends->take(b->ends->user, &encoded);
}

static gp_status feed(bulk *b) {
    uint64_t taken = 0, filled = 0;
    for (bool there = true; there || taken < filled;) {
        slot *s = &b->slots[filled % b->slot_count];
        if (there && filled - taken < b->slot_count) {
            s->chunk = (gp_chunk){0};
            atomic_store(&s->done, false);
            GP_TRY(b->ends->next(b->ends->user, &s->own, &s->chunk, &there));
            if (!there) continue;
            atomic_store(&b->filled, ++filled);
            gp_event_signal(&b->work);
        } else {
            GP_TRY(take(b, &b->slots[taken++ % b->slot_count]));
        }
    }
    return GP_OK;
}

static void free_slots(bulk *b) {
    for (size_t i = 0; b->slots && i < b->slot_count; i++) {
        gp_buffer_free(&b->slots[i].own);
        gp_ids_free(&b->slots[i].ids);
    }
    gp_free(b->slots);
}

static gp_status run(bulk *b, worker *workers, int threads) {
    gp_status status = GP_OK;
    for (int i = 0; i < threads && status == GP_OK; i++) {
        workers[i].bulk = b;
        status = gp_thread_create(&workers[i].thread, work, &workers[i], 0, 0);
    }
    if (status == GP_OK) status = feed(b);
    /* After a failure chunks may be left that nobody wants. */
    if (status != GP_OK) atomic_store(&b->claimed, atomic_load(&b->filled));
    atomic_store(&b->over, true);
    gp_event_signal(&b->work);
    for (int i = 0; i < threads; i++) {
        gp_thread_join(workers[i].thread);
        gp_encoding_free(&workers[i].encoding);
    }
    return status;
}

gp_status gp_bulk_encode(const gp_bulk_options *options, const gp_bulk_ends *ends) {
    int threads = options->threads > 0 ? options->threads : gp_core_count();
    bulk b = {.options = options, .ends = ends, .slot_count = 2 * (size_t)threads + 1};
    worker *workers = gp_allocate_array((size_t)threads, sizeof *workers);
    b.slots = gp_allocate_array(b.slot_count, sizeof *b.slots);
    for (int i = 0; workers && i < threads; i++)
        workers[i].encoding.plain = options->plain;
    gp_status status = workers && b.slots ? run(&b, workers, threads) : GP_OUT_OF_MEMORY;
    free_slots(&b);
    gp_free(workers);
    return status;
}

size_t gp_bulk_cut(const gp_bulk_options *options, const unsigned char *text, size_t bytes) {
    if (bytes <= GP_CHUNK_BYTES) return bytes;
    switch (options->documents) {
    case GP_DOCUMENT_FILE:
        return gp_cut_text(options->tokenizer, text, bytes, GP_CHUNK_BYTES);
    case GP_DOCUMENT_LINE:
    case GP_DOCUMENT_JSON:
        return gp_cut_lines(text, bytes, GP_CHUNK_BYTES);
    case GP_DOCUMENT_PARAGRAPH:
        return gp_cut_paragraphs(text, bytes, GP_CHUNK_BYTES);
    }
    return bytes;
}
