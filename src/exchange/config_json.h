/* config.json of Hugging Face's transformers, read and written. */
#ifndef GP_EXCHANGE_CONFIG_JSON_H
#define GP_EXCHANGE_CONFIG_JSON_H

#include "gpipe/exchange.h"

/* Reads the sizes. Errors: GP_INVALID naming file and key, what was found, what is accepted. */
gp_status gp_config_json_read(gp_family_options *family, const char *path, const gp_foreign_options *options);
/* Replaces the file as a whole. */
gp_status gp_config_json_write(const gp_family_options *family, const char *path, const gp_export_options *options);

#endif
