/* Inside the room: tensors into model.safetensors, or into shards with an index. */
#ifndef GP_EXCHANGE_EXPORT_FILES_H
#define GP_EXCHANGE_EXPORT_FILES_H

#include "gpipe/checkpoint.h"

/* Writes the tensors, whose order is kept, to `folder`: as model.safetensors when they take at most `shard_bytes` (0:
 * no limit), else as model-00001-of-0000N.safetensors and so on with model.safetensors.index.json. Then removes what
 * another division had left there, since a reader would not know which to believe, and what killed processes were
 * writing. Errors: as gp_safetensors_write. */
gp_status gp_export_files(const char *folder, const gp_safetensors_entry *entries, size_t count, uint64_t shard_bytes);

#endif
