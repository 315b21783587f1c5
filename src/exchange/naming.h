/* How other programs name the parameters of a family, and how they lay them out: tables, one row a parameter of a
 * block. */
#ifndef GP_EXCHANGE_NAMING_H
#define GP_EXCHANGE_NAMING_H

#include "gpipe/layer.h"

typedef enum gp_arrangement {
    GP_PLAIN,      /* the same shape */
    GP_TRANSPOSED, /* [in, out] instead of [out, in] */
    GP_PADDED,     /* perhaps with more rows behind */
    GP_SPLIT       /* three tensors, one below the other: '?' in the name is query, key, value */
} gp_arrangement;

/* `own` is the parameter's (or state's) name behind "layers.": "0." is the first layer, "*." a block (its number from 0
 * replaces the '*' of `foreign`; where blocks come in stages, "stage.number"), "+k." the k-th layer behind the blocks.
 * A foreign name that starts with '=' never has the prefix. `other`: an older name, in the same form; NULL: none. */
typedef struct gp_naming_row {
    const char *own, *foreign;
    gp_arrangement arrangement;
    const char *other;
} gp_naming_row;

enum { GP_MOST_TABLES = 3, GP_FOREIGN_NAME = 160 };

typedef struct gp_naming {
    const char *prefix; /* that whole models have before the encoder's names, for instance "transformer." */
    const gp_naming_row *tables[GP_MOST_TABLES];
    size_t counts[GP_MOST_TABLES];
    int64_t blocks, first; /* how many, and the layer that is the first of them */
    const int *stages;     /* blocks of each stage, ended by 0; NULL: no stages */
} gp_naming;

/* The row of a parameter, NULL when no table has one; `block` becomes its number (-1: in none). */
const gp_naming_row *gp_naming_find(const gp_naming *naming, const char *own, int64_t *block);
/* Writes a foreign name: `foreign` of a row with block and part (of GP_SPLIT) filled in, with the prefix when
 * `prefixed`, unless it never has it. Returns `name`. */
char *gp_naming_format(const gp_naming *naming, const char *foreign, bool prefixed, int64_t block, size_t part,
                       char name[GP_FOREIGN_NAME]);
/* Foreign tensors of a row. */
size_t gp_naming_parts(const gp_naming_row *row);

/* The families. `bert` may have any head. */
gp_naming gp_naming_gpt2(const gp_gpt2_options *options);
gp_naming gp_naming_bert(const gp_bert_options *options);
/* GPT-2 as llm.c has it. */
gp_naming gp_naming_llmc(const gp_gpt2_options *options);
/* By torchvision. A `name` that is none of a gp_resnet_options has no blocks. */
gp_naming gp_naming_resnet(const char *name);
/* The name of the ResNet with these tensors: NULL when they are of none. `has` answers whether there is a tensor. */
const char *gp_naming_find_resnet(bool (*has)(const void *user, const char *name), const void *user);

/* Whether whole models of the family may hold a tensor of this name beside the parameters: masks, positions, copies of
 * tied weights. It is passed over in silence. */
bool gp_naming_ignores(const char *name, bool tied);

#endif
