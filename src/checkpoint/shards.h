/* Inside the library: files that belong together by their base name, and what is behind them. */
#ifndef GP_CHECKPOINT_SHARDS_H
#define GP_CHECKPOINT_SHARDS_H

#include "checkpoint/llmc.h"

/* Opens <folder>/<base>.safetensors, or the shards of <folder>/<base>.safetensors.index.json. */
gp_status gp_shards_open_base(gp_shards **shards, const char *folder, const char *base);
/* Number of the file that a tensor lies in (of gp_shards_file). */
size_t gp_shards_file_of(const gp_shards *shards, size_t index);

/* The checkpoint of llm.c behind them; NULL: they are safetensors files. */
const gp_llmc *gp_shards_llmc(const gp_shards *shards);

#endif
