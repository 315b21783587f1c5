/* Tensors in files: the safetensors format (Hugging Face), read and written; and the checkpoints of a run.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header {name: {dtype, shape, data_offsets},
 * "__metadata__": {text: text}}, and the tensors' bytes one after the other. Names are the model's, never the
 * partition's. */
#ifndef GPIPE_CHECKPOINT_H
#define GPIPE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpipe/status.h"
#include "gpipe/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes bytes `offset` to `offset + bytes` of a tensor into `buffer`. Called for consecutive pieces, from the thread
 * that calls gp_safetensors_write. A status other than GP_OK stops the writing and is returned. */
typedef gp_status (*gp_safetensors_fill)(void *user, size_t offset, void *buffer, size_t bytes);

/* A tensor to be written: its bytes come from `data`, or, where that is NULL, piece by piece from `fill`. */
typedef struct gp_safetensors_entry {
    const char *name; /* UTF-8 without control characters */
    gp_type type;
    const void *data;
    gp_safetensors_fill fill;
    void *user; /* for `fill` */
} gp_safetensors_entry;

/* A pair of texts (UTF-8) kept beside the tensors. */
typedef struct gp_safetensors_pair {
    const char *key;
    const char *value;
} gp_safetensors_pair;

/* Writes a whole file, or leaves what was at `path` as it is: the bytes go to a temporary name in the same folder,
 * reach the disk, and are renamed. The tensors lie in the file by decreasing size of element, else as given, each one
 * aligned to its element, the first to 64 bytes; `fill` is called in that order. The same arguments give the same
 * bytes. Errors: GP_INVALID (a name twice, not UTF-8, reserved; a bad type; neither data nor fill; something at
 * `path` that is no regular file), GP_IO,
 * GP_OUT_OF_MEMORY, and what `fill` returns. Thread-safe. */
GP_API gp_status gp_safetensors_write(const char *path, const gp_safetensors_entry *entries, size_t count,
                                      const gp_safetensors_pair *metadata, size_t metadata_count);

/* An open file: the header read and checked, the tensors mapped into memory, read only when they are looked at. Nobody
 * may shorten the file meanwhile (gp_safetensors_write never does: it replaces). All functions below may be called from
 * any number of threads. */
typedef struct gp_safetensors gp_safetensors;

/* Errors: GP_INVALID when there is no such file or it is not a valid safetensors file of at most GP_MAX_RANK dimensions
 * and the dtypes of gpipe (F32 BF16 F16 F64 I32 I64 U8); GP_IO when it cannot be read; GP_OUT_OF_MEMORY. On error
 * `*file` is NULL. */
GP_API gp_status gp_safetensors_open(gp_safetensors **file, const char *path);
/* Unmaps: the pointers that the file gave are no longer valid. Accepts NULL. */
GP_API void gp_safetensors_close(gp_safetensors *file);

/* Tensors are numbered from 0 as they lie in the file. An index must be below the count. */
GP_API size_t gp_safetensors_count(const gp_safetensors *file);
GP_API const char *gp_safetensors_name(const gp_safetensors *file, size_t index);
GP_API gp_type gp_safetensors_type(const gp_safetensors *file, size_t index);
/* The tensor's bytes in the map. In a file of another writer they may be unaligned: see gp_safetensors_read. */
GP_API const void *gp_safetensors_data(const gp_safetensors *file, size_t index);
/* Whether there is a tensor `name`; its number goes to `index`, which may be NULL. */
GP_API bool gp_safetensors_find(const gp_safetensors *file, const char *name, size_t *index);

/* Converts `count` elements of a tensor from number `first` to `dtype` (as gp_convert) into `destination`, however they
 * are aligned in the file. Errors: GP_INVALID when the range leaves the tensor. */
GP_API gp_status gp_safetensors_read(const gp_safetensors *file, size_t index, size_t first, size_t count,
                                     gp_dtype dtype, void *destination);

/* The pairs of texts in the file. A number must be below the count. */
GP_API size_t gp_safetensors_metadata_count(const gp_safetensors *file);
GP_API gp_safetensors_pair gp_safetensors_metadata(const gp_safetensors *file, size_t index);
/* The text at `key`; NULL when there is none. */
GP_API const char *gp_safetensors_metadata_find(const gp_safetensors *file, const char *key);

/* The format's name of a dtype, for instance "BF16". */
GP_API const char *gp_safetensors_dtype_name(gp_dtype dtype);

/* ---- several files as one ----
 *
 * Large models come in shards: model-00001-of-00002.safetensors and so on, with an index model.safetensors.index.json
 * {"weight_map": {tensor: file}} (Hugging Face). The functions are those of one file, and so are their rules. */
typedef struct gp_shards gp_shards;

/* `path`: a safetensors file; an index (a name that ends in .json), whose files lie beside it; a folder that holds
 * model.safetensors or model.safetensors.index.json, or the same of the name average, which is preferred (the average
 * of the weights, by which a run that keeps one is judged); a run directory, which stands for its latest checkpoint; or
 * a checkpoint of llm.c (version 3 or 5), whose tensors get the names of its code with the layer in front (wte, wpe,
 * h.0.ln1w, h.0.qkvw, ... lnfb). Tensors that the index does not name are not there. Errors: as gp_safetensors_open,
 * and GP_INVALID for an index that is none, that names a file outside its folder or a tensor that its file lacks. On
 * error `*shards` is NULL. */
GP_API gp_status gp_shards_open(gp_shards **shards, const char *path);
GP_API void gp_shards_close(gp_shards *shards); /* accepts NULL */
/* Tensors are numbered from 0 by name (as strcmp orders). An index must be below the count. */
GP_API size_t gp_shards_count(const gp_shards *shards);
GP_API const char *gp_shards_name(const gp_shards *shards, size_t index);
GP_API gp_type gp_shards_type(const gp_shards *shards, size_t index);
GP_API const void *gp_shards_data(const gp_shards *shards, size_t index);
GP_API bool gp_shards_find(const gp_shards *shards, const char *name, size_t *index);
GP_API gp_status gp_shards_read(const gp_shards *shards, size_t index, size_t first, size_t count, gp_dtype dtype,
                                void *destination);
/* What kind of file it is: "safetensors" or "llm.c". */
GP_API const char *gp_shards_kind(const gp_shards *shards);
/* The open safetensors files, and the path of each, for metadata and messages. */
GP_API size_t gp_shards_file_count(const gp_shards *shards);
GP_API const gp_safetensors *gp_shards_file(const gp_shards *shards, size_t file, const char **path);

/* ---- checkpoints ----
 *
 * A checkpoint is a folder step-N with everything that training goes on from: model.safetensors (weights, and what
 * layers remember), optimizer.safetensors (moments, by parameter name), both perhaps in shards, and state.json. The
 * folder gets its name when all of it is on the disk: a folder step-N is whole. Nothing in it depends on how many
 * workers wrote it. */

enum { GP_CHECKPOINT_TEXT = 32 };

/* What state.json says. */
typedef struct gp_checkpoint_state {
    int64_t step;                      /* steps made */
    int64_t updates;                   /* those that changed the weights: a step that was not finite does not */
    int64_t samples;                   /* seen in training */
    int64_t steps;                     /* planned length of training, for the learning rate */
    uint64_t seed;                     /* random numbers are a function of seed and step: that is their position */
    char schedule[GP_CHECKPOINT_TEXT]; /* of the learning rate */
    double lr, next_lr;                /* the rate of optimizer options; the one of the step that follows */
    int64_t best_step;                 /* of the best validation loss; -1: none was measured */
    double best;                       /* that loss */
    int64_t training_count, validation_count; /* of the data: tokens, images */
    uint64_t configuration;                   /* a hash of what may not change; 0: not known */
    bool evaluation_pending;                  /* the step's evaluation was interrupted */
    char version[GP_CHECKPOINT_TEXT];         /* of the gpipe that wrote it */
} gp_checkpoint_state;

/* Reads the state.json of a folder step-N. Errors: GP_INVALID when there is none, or it is damaged or of a newer
 * format; GP_IO, GP_OUT_OF_MEMORY. */
GP_API gp_status gp_checkpoint_read_state(const char *folder, gp_checkpoint_state *state);

/* Finds the newest checkpoint of a run directory whose state can be read and whose files are all there with their
 * sizes: its step, or -1. Damaged ones on the way are told as warnings. `folder` (may be NULL) gets the path, at most
 * `size` bytes. Errors: GP_INVALID (the path is longer), GP_OUT_OF_MEMORY. */
GP_API gp_status gp_checkpoint_find_newest(const char *run, int64_t *step, char *folder, size_t size);

/* Removes the checkpoints of a run directory from step `first` on, what killed processes left unfinished, and the links
 * that then point nowhere; only files that gpipe itself writes. With `first` 0 the folder `checkpoints` goes too. */
GP_API void gp_checkpoint_remove(const char *run, int64_t first);
/* The newest step before `step` of a run directory for which there is a folder step-N, whatever is in it; -1: none.
 * INT64_MAX gives the newest of all, and its answers one after the other the rest. */
GP_API int64_t gp_checkpoint_before(const char *run, int64_t step);

/* Called for each tensor that was read: `damaged` says that its checksum is not the one in state.json. Returns false to
 * stop. */
typedef bool (*gp_checkpoint_visit)(void *user, const char *file, const char *tensor, uint64_t bytes, bool damaged);

/* Reads a checkpoint as a whole and compares every checksum. `visit` may be NULL. Errors: GP_INVALID naming the first
 * file or tensor that is missing or damaged. */
GP_API gp_status gp_checkpoint_verify(const char *folder, gp_checkpoint_visit visit, void *user);

#ifdef __cplusplus
}
#endif
#endif
