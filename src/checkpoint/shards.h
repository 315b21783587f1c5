/* Inside the library: files that belong together by their base name. */
#ifndef GP_CHECKPOINT_SHARDS_H
#define GP_CHECKPOINT_SHARDS_H

#include "gpipe/checkpoint.h"

/* Opens <folder>/<base>.safetensors, or the shards of <folder>/<base>.safetensors.index.json. */
gp_status gp_shards_open_base(gp_shards **shards, const char *folder, const char *base);

#endif
