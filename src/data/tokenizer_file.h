/* Reading tokenizer files of several formats; each kind reads its own part. Messages begin with "its" or "it": the
 * caller puts the file's name in front. */
#ifndef GP_DATA_TOKENIZER_FILE_H
#define GP_DATA_TOKENIZER_FILE_H

#include <jansson.h>

#include "base/file.h"
#include "data/subword.h"

#define GP_TOKENIZER_FORMAT "gpipe tokenizer"

enum { GP_TOKENIZER_VERSION = 1 };

/* A tokenizer.json as the package `tokenizers` writes it, whose model is of the kind. */
gp_status gp_bpe_read_json(gp_tokenizer **tokenizer, const json_t *object);
gp_status gp_wordpiece_read_json(gp_tokenizer **tokenizer, const json_t *object);

/* vocab.json and merges.txt, as GPT-2 was published. */
gp_status gp_bpe_read_files(gp_tokenizer **tokenizer, const json_t *vocabulary, const gp_file_map *merges);

/* vocab.txt, as BERT was published, and tokenizer_config.json, which may be NULL. */
gp_status gp_wordpiece_read_list(gp_tokenizer **tokenizer, const gp_file_map *list, const json_t *config);

/* Parts that both kinds have. The object {"token": id, ...} of a vocabulary, into an empty one. */
gp_status gp_subword_read_vocabulary(gp_vocabulary *vocabulary, const json_t *object, size_t more);
/* The "added_tokens" of a tokenizer.json (may be NULL), into a filled vocabulary. */
gp_status gp_subword_read_added(gp_vocabulary *vocabulary, const json_t *list);
/* What a tokenizer.json says of them. Both NULL when memory is out. */
json_t *gp_subword_describe_vocabulary(const gp_vocabulary *vocabulary);
json_t *gp_subword_describe_added(const gp_vocabulary *vocabulary);

/* The text of a JSON tree, which is released; freed with gp_free, NULL when memory is out or the tree is NULL. */
char *gp_json_describe(json_t *tree);

/* Looks up a text or a switch of an object; `fallback` when it is missing, null, or of another type. */
const char *gp_json_text(const json_t *object, const char *key, const char *fallback);
bool gp_json_flag(const json_t *object, const char *key, bool fallback);

#endif
