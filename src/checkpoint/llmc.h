/* Checkpoints of llm.c (a GPT-2 in one file, github.com/karpathy/llm.c, train_gpt2.py: write_model), for reading.
 *
 * A file is 256 little-endian 32-bit integers (magic 20240326; version 3: f32, 5: bf16; longest sequence, vocabulary,
 * layers, heads, width, padded vocabulary), then the parameters without names, those of a kind for all layers side by
 * side. Linear maps are [out, in], as in gpipe. The tensors are named here as llm.c's code names them, with the layer
 * in front: wte, wpe, h.0.ln1w, h.0.qkvw, ... lnfb; wte has the padded vocabulary's rows. */
#ifndef GP_CHECKPOINT_LLMC_H
#define GP_CHECKPOINT_LLMC_H

#include "gpipe/checkpoint.h"

typedef struct gp_llmc gp_llmc;

typedef struct gp_llmc_sizes {
    int32_t version, context, vocabulary, layers, heads, width, padded_vocabulary;
} gp_llmc_sizes;

typedef struct gp_llmc_tensor {
    char *name;
    gp_type type;
    const unsigned char *data;
} gp_llmc_tensor;

/* Whether a file begins with the magic number. */
bool gp_llmc_is(const char *path);

/* Maps and checks the file: its size must be what the header says. Errors: GP_INVALID naming what was found; GP_IO;
 * GP_OUT_OF_MEMORY. */
gp_status gp_llmc_open(gp_llmc **file, const char *path);
void gp_llmc_close(gp_llmc *file); /* accepts NULL */

const gp_llmc_sizes *gp_llmc_sizes_of(const gp_llmc *file);
/* As they lie in the file, those of a kind layer by layer; owned by the file. */
const gp_llmc_tensor *gp_llmc_tensors(const gp_llmc *file, size_t *count);

#endif
