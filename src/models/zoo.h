/* What the families of the zoo share: options of built-in layers, layers appended to a model, sizes with defaults. */
#ifndef GP_MODELS_ZOO_H
#define GP_MODELS_ZOO_H

#include "gpipe/layer.h"

gp_option gp_zoo_integer(const char *key, int64_t value);
gp_option gp_zoo_number(const char *key, double value);
gp_option gp_zoo_boolean(const char *key, bool value);
gp_option gp_zoo_text(const char *key, const char *text);

/* Appends a built-in layer. */
gp_status gp_zoo_add(gp_model *model, const char *kind, const gp_option *options, size_t count);

/* 0 becomes the standard; errors name family and key: GP_INVALID outside 1..INT32_MAX. */
gp_status gp_zoo_size(const char *family, const char *key, int64_t *value, int64_t standard);
/* A probability: 0 or more and less than 1. */
gp_status gp_zoo_dropout(const char *family, const char *key, double value);

/* Checks the options of a family and fills in what is 0. */
gp_status gp_zoo_resolve_gpt2(gp_gpt2_options *options);
gp_status gp_zoo_resolve_bert(gp_bert_options *options);

/* Finishes a model whose layers were added with `status`; on failure it is destroyed and `*model` is NULL. */
gp_status gp_zoo_finish(gp_model **model, gp_model *created, gp_status status);

#endif
