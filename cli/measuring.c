/* A live line that names the layer, or plain lines of what takes long. */
#include "measuring.h"

#include <stdio.h>

#include "message.h"
#include "progress.h"

static const double line_every = 5.0;

static void tell(void *user, size_t layer, size_t layers, const char *kind) {
    cli_measuring *measuring = user;
    char line[160];
    if (layer == layers) {
        if (cli_live_possible()) cli_live("");
        return;
    }
    snprintf(line, sizeof line, "measuring layer %zu of %zu (%s) with %lld sample%s", layer + 1, layers, kind,
             (long long)measuring->samples, measuring->samples == 1 ? "" : "s");
    if (cli_live_possible()) {
        cli_live(line);
        return;
    }
    double now = cli_now();
    if (measuring->last_line == 0) measuring->last_line = now;
    if (now - measuring->last_line < line_every) return;
    cli_message(GP_LOG_INFO, "%s", line);
    measuring->last_line = now;
}

void cli_measuring_start(cli_measuring *measuring, gp_pipeline_options *options) {
    int replicas = options->replicas > 1 ? options->replicas : 1;
    int64_t share = (options->batch + replicas - 1) / replicas, sizes = options->micro_batches;
    if (sizes < 1) sizes = 1;
    *measuring = (cli_measuring){.samples = (share + sizes - 1) / sizes};
    options->measuring = tell;
    options->measuring_user = measuring;
}
