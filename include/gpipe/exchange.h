/* Weights in and out: models of other programs become models of gpipe and the other way round.
 *
 * Known are Hugging Face's layout (a folder with config.json and safetensors, whole or in shards, f32, bf16 or f16) for
 * GPT-2 and BERT, and ResNets under torchvision's names, both ways; and checkpoints of llm.c, for reading. Files are
 * mapped and converted tensor by tensor, piece by piece: no process holds a model, let alone twice. */
#ifndef GPIPE_EXCHANGE_H
#define GPIPE_EXCHANGE_H

#include "gpipe/checkpoint.h"
#include "gpipe/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gp_family { GP_FAMILY_GPT2, GP_FAMILY_BERT, GP_FAMILY_RESNET } gp_family;

/* A ResNet of gp_model_create_named. */
typedef struct gp_resnet_options {
    const char *name; /* "resnet18", "resnet34", "resnet50", "resnet101" or "resnet152" */
    int64_t classes;  /* [1000] */
} gp_resnet_options;

/* What a zoo model is made with: the options of its family count. */
typedef struct gp_family_options {
    gp_family family;
    gp_gpt2_options gpt2;
    gp_bert_options bert;     /* its activation is a constant text of the library */
    gp_resnet_options resnet; /* so is its name */
} gp_family_options;

/* ---- in ---- */

typedef struct gp_foreign_options {
    size_t size;       /* sizeof, or 0 */
    bool choose_head;  /* `head` instead of what config.json says; parameters of the head that the files lack start anew
                        */
    gp_bert_head head; /* BERT only */
    int64_t classes;   /* of head classify; 0: as config.json says */
    uint64_t seed;     /* of parameters that start anew */
} gp_foreign_options;

/* A model of another program: its sizes, and its weights, mapped. Immutable: may be read by any number of threads. */
typedef struct gp_foreign gp_foreign;

/* Opens a folder with config.json and weights, a safetensors file or an index beside its config.json, a checkpoint of
 * llm.c, or weights of a ResNet under torchvision's names, which its tensors tell. Finds every tensor that the model
 * needs and checks its shape. `options` may be NULL. Errors: GP_INVALID with a sentence that names the file, and the
 * key of config.json, or the tensor and both shapes: an unknown architecture, a setting that gpipe's models do not
 * have, a tensor that is missing or has another shape; GP_IO; GP_OUT_OF_MEMORY. On error `*foreign` is NULL. */
GP_API gp_status gp_foreign_open(gp_foreign **foreign, const char *path, const gp_foreign_options *options);
/* Accepts NULL. */
GP_API void gp_foreign_close(gp_foreign *foreign);

/* "Hugging Face", "torchvision" or "llm.c". */
GP_API const char *gp_foreign_format(const gp_foreign *foreign);
GP_API const gp_family_options *gp_foreign_family(const gp_foreign *foreign);
/* The finished model, owned by the foreign one. */
GP_API const gp_model *gp_foreign_model(const gp_foreign *foreign);

/* Tensors in the files that the model does not use (without masks, positions and copies of tied weights), and
 * parameters of the model that the files lack and that start anew. A number must be below the count. */
GP_API size_t gp_foreign_unused_count(const gp_foreign *foreign);
GP_API const char *gp_foreign_unused(const gp_foreign *foreign, size_t index);
GP_API size_t gp_foreign_new_count(const gp_foreign *foreign);
GP_API const char *gp_foreign_new(const gp_foreign *foreign, size_t index);

/* Writes the weights as gpipe keeps them (f32, its own names) to a safetensors file, replacing it as a whole. */
GP_API gp_status gp_foreign_write(const gp_foreign *foreign, const char *path);

/* ---- out ---- */

typedef struct gp_export_options {
    size_t size;          /* sizeof, or 0 */
    gp_dtype dtype;       /* GP_F32 (0), GP_BF16 or GP_F16 */
    double dropout;       /* written to config.json */
    uint64_t shard_bytes; /* of tensors in a file; larger weights come in shards with an index. 0: 5 GB; UINT64_MAX: no
                             limit */
} gp_export_options;

/* Writes weights of gpipe (a path for gp_shards_open) into a folder, which exists, in Hugging Face's layout:
 * config.json and model.safetensors, or its shards and their index; of a ResNet model.safetensors alone, under
 * torchvision's names. `family` says which model they are of. `options` may be NULL. Importing the folder gives the
 * same weights, bit for bit, in f32. Errors: GP_INVALID naming a tensor that is missing or has another shape; GP_IO;
 * GP_OUT_OF_MEMORY. */
GP_API gp_status gp_export_huggingface(const gp_family_options *family, const char *weights, const char *folder,
                                       const gp_export_options *options);

#ifdef __cplusplus
}
#endif
#endif
