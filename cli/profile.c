/* gpipe profile: seconds and operations of every layer. */
#include <jansson.h>
#include <stdio.h>

#include "commands.h"
#include "gpipe/words.h"
#include "json.h"
#include "message.h"
#include "session.h"

static double rate(const gp_profile_layer *layer) {
    double seconds = layer->forward + layer->backward;
    return seconds > 0 ? layer->flops / seconds : 0;
}

static void print_table(const gp_profile *profile, const gp_model *model) {
    gp_profile_layer sum = {0};
    printf("%5s  %-16s %12s %11s %12s %11s %10s %10s\n", "layer", "kind", "parameters", "forward ms", "recompute ms",
           "backward ms", "GFLOP", "GFLOP/s");
    for (size_t i = 0; i < profile->layer_count; i++) {
        const gp_profile_layer *layer = &profile->layers[i];
        printf("%5zu  %-16s %12lld %11.3f %12.3f %11.3f %10.4g %10.4g\n", i, gp_model_layer_kind(model, i),
               (long long)layer->parameters, 1e3 * layer->forward, 1e3 * layer->recompute, 1e3 * layer->backward,
               1e-9 * layer->flops, 1e-9 * rate(layer));
        sum.forward += layer->forward;
        sum.recompute += layer->recompute;
        sum.backward += layer->backward;
        sum.flops += layer->flops;
        sum.parameters += layer->parameters;
    }
    printf("%5s  %-16s %12lld %11.3f %12.3f %11.3f %10.4g %10.4g\n", "", "together", (long long)sum.parameters,
           1e3 * sum.forward, 1e3 * sum.recompute, 1e3 * sum.backward, 1e-9 * sum.flops, 1e-9 * rate(&sum));
    printf("for a micro-batch of %lld sample%s\n", (long long)profile->micro_batch,
           gp_plural(profile->micro_batch, "s"));
}

static gp_status print_json(const gp_profile *profile, const gp_model *model) {
    json_t *layers = json_array();
    for (size_t i = 0; i < profile->layer_count; i++) {
        const gp_profile_layer *layer = &profile->layers[i];
        json_array_append_new(layers, json_pack("{s:I, s:s, s:I, s:f, s:f, s:f, s:f}", "layer", (json_int_t)i, "kind",
                                                gp_model_layer_kind(model, i), "parameters",
                                                (json_int_t)layer->parameters, "forward", layer->forward, "recompute",
                                                layer->recompute, "backward", layer->backward, "flops", layer->flops));
    }
    json_t *object = json_pack("{s:I, s:o}", "micro_batch", (json_int_t)profile->micro_batch, "layers", layers);
    return cli_json_print(object);
}

static gp_status profile_model(cli_session *session, bool json) {
    gp_pipeline_options pipeline;
    gp_profile *profile = NULL;
    cli_session_pipeline(session, &pipeline);
    gp_status status = gp_profile_create(&profile, session->model, &pipeline);
    if (status == GP_OK && json) status = print_json(profile, session->model);
    if (status == GP_OK && !json) print_table(profile, session->model);
    gp_profile_destroy(profile);
    return status;
}

static int run(const cli_arguments *arguments) {
    cli_session session;
    gp_status status = cli_session_open(&session, arguments->words[0], arguments, CLI_DATA_FOR_VOCABULARY);
    if (status == GP_OK) status = profile_model(&session, cli_given_flag(arguments, "json"));
    int result = status == GP_OK ? 0 : cli_fail(status);
    cli_session_close(&session);
    return result;
}

static const cli_option options[] = {CLI_OPTION_SET, CLI_OPTION_JSON};

const cli_command cli_profile = {
    .name = "profile",
    .arguments = "run.yaml",
    .least = 1,
    .most = 1,
    .kind = CLI_FILE,
    .summary = "measured seconds and operations of every layer",
    .description = "Measures every layer of a configuration alone, for one micro-batch: the figures that partitions "
                   "are balanced by "
                   "(pipeline.balance: time).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
