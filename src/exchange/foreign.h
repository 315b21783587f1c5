/* Inside the room: a model of another program, opened. */
#ifndef GP_EXCHANGE_FOREIGN_H
#define GP_EXCHANGE_FOREIGN_H

#include "exchange/naming.h"
#include "exchange/view.h"
#include "gpipe/exchange.h"

struct gp_foreign {
    const char *format;
    char *config; /* path of config.json; NULL: none */
    gp_family_options family;
    gp_naming naming;
    gp_model *model;
    gp_shards *shards;
    char *path;       /* of the weights, for messages */
    bool prefixed;    /* the encoder's names have the family's prefix */
    bool head_chosen; /* parameters behind the blocks may be missing */
    uint64_t seed;
    gp_views *views; /* by parameter; count 0: starts anew */
    bool *used;      /* by tensor of `shards` */
    size_t *unused;  /* tensors */
    size_t unused_count;
    size_t *anew; /* tensors of the model */
    size_t anew_count;
};

/* Finds the tensors of every parameter: fills views, used, unused, anew (match.c). */
gp_status gp_foreign_match(gp_foreign *foreign);

/* ---- family.c ---- */

/* "gpt2", "bert", "resnet". */
const char *gp_family_name(gp_family family);
/* Checks the options and fills in what is 0. */
gp_status gp_family_resolve(gp_family_options *family);
gp_status gp_family_model(gp_model **model, const gp_family_options *family);
/* The family's names: Hugging Face's, torchvision's. */
gp_naming gp_family_naming(const gp_family_options *family);

/* What a model keeps in files: its parameters, then its states (of which name, shape, layer and init are known). */
size_t gp_model_tensors(const gp_model *model);
gp_parameter_info gp_model_tensor(const gp_model *model, size_t index);

#endif
