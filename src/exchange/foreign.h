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
    size_t *anew; /* parameters */
    size_t anew_count;
};

/* Finds the tensors of every parameter: fills views, used, unused, anew (match.c). */
gp_status gp_foreign_match(gp_foreign *foreign);

/* A model of the family. */
gp_status gp_family_model(gp_model **model, const gp_family_options *family);

#endif
