/* What most commands begin with: the configuration, the data, the model, a trainer. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "arguments.h"
#include "config.h"
#include "measuring.h"

typedef struct cli_session {
    cli_config config;
    gp_tokenizer *tokenizer; /* of a run; NULL: the data set's own */
    gp_classes *classes;     /* of a run; NULL: the data set's own */
    bool only_validation;    /* the training split is not needed */
    gp_dataset *dataset;
    gp_model *model;
    gp_trainer *trainer;
    gp_cluster *cluster; /* borrowed; NULL: this process works alone */
    cli_measuring measuring;
} cli_session;

/* Whether the data is opened: it must be there; only when the vocabulary is not known without it; not at all. */
typedef enum cli_data_use { CLI_DATA_NEEDED, CLI_DATA_FOR_VOCABULARY, CLI_DATA_UNUSED } cli_data_use;

/* Configuration, data and model; --set and --out of `arguments` are applied. Close it in any case. */
gp_status cli_session_open(cli_session *session, const char *path, const cli_arguments *arguments, cli_data_use data);
/* The same for a run that goes on: the configuration at `path` with the run's directory as its own, its tokenizer or
 * classes; the data is needed. */
gp_status cli_session_open_resumed(cli_session *session, const char *path, const char *run,
                                   const cli_arguments *arguments);
/* The same from a run directory (config.yaml, and tokenizer.json or classes.json); --data of `arguments` is applied,
 * and with `all_of_it` the training split is all of the data. */
gp_status cli_session_open_run(cli_session *session, const char *folder, const cli_arguments *arguments, bool all_of_it,
                               cli_data_use data);
/* A trainer without optimizer, for batches of `batch` samples, with the weights of a run. `checkpoint`: "latest",
 * "best", "step-N", or a safetensors file. */
gp_status cli_session_load_weights(cli_session *session, const char *folder, const char *checkpoint, int64_t batch);
/* The path of a checkpoint's weights, for gp_shards_open. Errors: GP_INVALID when there is nothing. */
gp_status cli_session_weights_path(const char *folder, const char *checkpoint, char *path, size_t size);
/* The options of the session's pipeline, its cluster among them, and that it is told what is measured. */
void cli_session_pipeline(cli_session *session, gp_pipeline_options *options);
void cli_session_close(cli_session *session);

/* A text from the library to stdout, freed. */
gp_status cli_print_text(char *text);

#endif
