/* The tree checked against the table of keys, and the settings handed to the library. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "config_value.h"
#include "gpipe/words.h"

/* ---- one key ---- */

static gp_status wrong_value(const cli_key *key, const cli_node *node) {
    char found[96];
    cli_text accepted = {0};
    cli_key_accepts(key, &accepted);
    gp_status status = cli_node_error(node, "%s is %s; accepted: %s", key->path,
                                      cli_node_describe(node, found, sizeof found), accepted.text ? accepted.text : "");
    cli_text_free(&accepted);
    return status;
}

static bool in_range(const cli_key *key, double value) {
    bool low = key->above ? value > key->low : value >= key->low;
    bool high = key->below ? value < key->high : value <= key->high;
    return low && high;
}

static bool read_pair(const cli_key *key, const cli_node *node, double *pair) {
    size_t count = 0;
    for (const cli_node *child = node->first; child; child = child->next, count++) {
        double value;
        if (count == 2 || !cli_value_number(child, &value) || !in_range(key, value)) return false;
        pair[count] = value;
    }
    return count == 2;
}

static bool read_integers(cli_config *config, const cli_key *key, const cli_node *node, cli_integers *integers) {
    size_t count = 0;
    for (const cli_node *child = node->first; child; child = child->next)
        count++;
    bool one = node->kind == CLI_SCALAR; /* a list of one may go without brackets */
    if (!one && (node->kind != CLI_SEQUENCE || count == 0)) return false;
    integers->values = cli_arena_take(&config->document.arena, (one ? 1 : count) * sizeof *integers->values);
    if (!integers->values) return false;
    integers->count = one;
    if (one) return cli_value_integer(node, integers->values) && in_range(key, (double)*integers->values);
    for (const cli_node *child = node->first; child; child = child->next) {
        int64_t *value = &integers->values[integers->count++];
        if (!cli_value_integer(child, value) || !in_range(key, (double)*value)) return false;
    }
    return true;
}

static bool read_numbers(cli_config *config, const cli_key *key, const cli_node *node, cli_numbers *numbers) {
    size_t count = node->kind == CLI_SCALAR; /* a list of one may go without brackets */
    for (const cli_node *child = node->first; child; child = child->next)
        count++;
    if (node->kind == CLI_MAPPING || count == 0) return false;
    numbers->values = cli_arena_take(&config->document.arena, count * sizeof *numbers->values);
    numbers->count = 0;
    if (!numbers->values) return false;
    for (const cli_node *child = node->first ? node->first : node; child; child = child->next) {
        double *value = &numbers->values[numbers->count++];
        if (!cli_value_number(child, value) || !in_range(key, *value)) return false;
        if (child == node) break;
    }
    return true;
}

static bool read_sizes(cli_config *config, const cli_node *node, cli_sizes *sizes) {
    size_t count = node->kind == CLI_SCALAR;
    for (const cli_node *child = node->first; child; child = child->next)
        count++;
    if (node->kind == CLI_MAPPING || count == 0) return false;
    sizes->values = cli_arena_take(&config->document.arena, count * sizeof *sizes->values);
    sizes->count = 0;
    if (!sizes->values) return false;
    for (const cli_node *child = node->first ? node->first : node; child; child = child->next) {
        if (!cli_value_bytes(child, &sizes->values[sizes->count++])) return false;
        if (child == node) break;
    }
    return true;
}

/* A number is a share; anything else is a path. */
static bool read_share(const cli_key *key, const cli_node *node, cli_share *share) {
    *share = (cli_share){0};
    if (node->kind != CLI_SCALAR || node->text[0] == '\0') return false;
    if (cli_value_number(node, &share->share)) return in_range(key, share->share);
    share->path = node->text;
    return true;
}

static bool read_texts(cli_config *config, const cli_node *node, cli_texts *texts) {
    size_t count = 0;
    for (const cli_node *child = node->first; child; child = child->next)
        count++;
    bool one = node->kind == CLI_SCALAR; /* a list of one may go without brackets */
    *texts = (cli_texts){0};
    if (!one && node->kind != CLI_SEQUENCE) return false;
    if (!one && count == 0) return true; /* what --set takes a list of the file back with */
    texts->items = cli_arena_take(&config->document.arena, (one ? 1 : count) * sizeof *texts->items);
    if (!texts->items) return false;
    for (const cli_node *child = one ? node : node->first; child; child = one ? NULL : child->next) {
        if (child->kind != CLI_SCALAR || child->text[0] == '\0') return false;
        texts->items[texts->count++] = child->text;
    }
    return true;
}

/* Converts the node into the key's field; false when it is not what the key accepts. */
static bool read_value(cli_config *config, const cli_key *key, const cli_node *node) {
    void *field = (char *)&config->settings + key->offset;
    switch (key->type) {
    case CLI_KEY_INTEGER:
        return cli_value_integer(node, field) && in_range(key, (double)*(int64_t *)field);
    case CLI_KEY_NUMBER:
        return cli_value_number(node, field) && in_range(key, *(double *)field);
    case CLI_KEY_BOOLEAN:
        return cli_value_boolean(node, field);
    case CLI_KEY_TEXT:
        if (node->kind != CLI_SCALAR || node->text[0] == '\0') return false;
        *(const char **)field = node->text;
        return true;
    case CLI_KEY_CHOICE:
        *(int *)field = node->kind == CLI_SCALAR ? cli_choice_find(key->choices, node->text) : -1;
        return *(int *)field >= 0;
    case CLI_KEY_BYTES:
        return cli_value_bytes(node, field);
    case CLI_KEY_SIZES:
        return read_sizes(config, node, field);
    case CLI_KEY_PAIR:
        return read_pair(key, node, field);
    case CLI_KEY_NUMBERS:
        return read_numbers(config, key, node, field);
    case CLI_KEY_SHARE:
        return read_share(key, node, field);
    case CLI_KEY_TEXTS:
        return read_texts(config, node, field);
    case CLI_KEY_INTEGERS:
        return read_integers(config, key, node, field);
    case CLI_KEY_LAYERS:
        return node->kind == CLI_SEQUENCE && node->first;
    }
    return false;
}

/* ---- the tree ---- */

static gp_status unknown_key(const cli_config *config, const cli_node *node, const char *path) {
    const char *nearest = cli_key_nearest(path, config->use);
    const cli_key *other = cli_key_find(path, CLI_USE_ZOO);
    if (!config->custom && other) {
        cli_text models = {0};
        cli_key_models(other, &models);
        gp_status status = cli_node_key_error(node, "%s is a key of %s; this model is another one", path,
                                              models.text ? models.text : "others");
        cli_text_free(&models);
        return status;
    }
    cli_key_use others = config->custom ? CLI_USE_ZOO : CLI_USE_LAYERS;
    if (cli_key_find(path, others) || cli_key_is_group(path, others))
        return cli_node_key_error(node, "%s is a key of models %s; this one has %s", path,
                                  config->custom ? "of the zoo" : "given as layers",
                                  config->custom ? "a list of layers" : "a name");
    return cli_node_key_error(node, "unknown key %s; the nearest known one is %s", path, nearest ? nearest : "model");
}

static gp_status read_group(cli_config *config, const cli_node *group, const char *prefix, int depth);

static gp_status read_node(cli_config *config, const cli_node *node, const char *path, int depth) {
    char found[96];
    const cli_key *key = cli_key_find(path, config->use);
    if (key && cli_node_is_null(node)) return GP_OK; /* the default */
    if (key) return read_value(config, key, node) ? GP_OK : wrong_value(key, node);
    if (depth > 3 || !cli_key_is_group(path, config->use)) return unknown_key(config, node, path);
    if (cli_node_is_null(node)) return GP_OK;
    if (node->kind == CLI_MAPPING) return read_group(config, node, path, depth);
    return cli_node_error(node, "%s is %s; accepted: a mapping of keys (gpipe help config)", path,
                          cli_node_describe(node, found, sizeof found));
}

static gp_status read_group(cli_config *config, const cli_node *group, const char *prefix, int depth) {
    for (const cli_node *child = group->first; child; child = child->next) {
        char path[256];
        int length = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", child->key);
        if (length < 0 || (size_t)length >= sizeof path)
            return cli_node_key_error(child, "unknown key %.60s...", child->key);
        gp_status status = read_node(config, child, path, depth + 1);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

static gp_status fill_default(cli_config *config, const cli_key *key) {
    cli_document standard = {0};
    char line[128];
    if (!key->standard || key->standard[0] == '\0') return GP_OK;
    int length = snprintf(line, sizeof line, "value: %s", key->standard);
    gp_status status = cli_document_parse(&standard, "default", line, (size_t)length);
    const cli_node *node = cli_node_find(standard.root, "value");
    if (status == GP_OK && key->type == CLI_KEY_TEXT) {
        *(const char **)((char *)&config->settings + key->offset) = key->standard;
    } else if (status == GP_OK && !read_value(config, key, node)) {
        status = wrong_value(key, node);
    }
    cli_document_free(&standard);
    return status;
}

static gp_status fill_defaults(cli_config *config) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (!(keys[i].use & config->use)) continue;
        gp_status status = fill_default(config, &keys[i]);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

/* The required keys of a model are there. */
static gp_status check_required(const cli_config *config) {
    size_t count;
    const cli_key *keys = cli_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].standard || !(keys[i].use & config->use)) continue;
        if (!cli_config_node(config, keys[i].path))
            return cli_config_error(config, "model", "%s is missing: %s", keys[i].path, keys[i].help);
    }
    return GP_OK;
}

/* ---- what the table cannot say ---- */

static bool is_file(const char *schedule) {
    size_t length = strlen(schedule);
    return strchr(schedule, '/') || (length > 4 && strcmp(schedule + length - 4, ".txt") == 0);
}

static gp_status read_schedule(cli_config *config) {
    enum { MOST_BYTES = 64 << 20 };
    const char *path = config->settings.pipeline.schedule;
    gp_schedule_kind kind;
    cli_text text = {0};
    char reason[512];
    if (!is_file(path)) {
        if (gp_schedule_kind_by_name(path, &kind) == GP_OK) return GP_OK;
        return cli_config_error(config, "pipeline.schedule",
                                "pipeline.schedule is \"%s\"; accepted: gpipe, 1f1b, naive, or the path of a schedule "
                                "file (with a / or ending in .txt)",
                                path);
    }
    gp_status status = cli_text_read(&text, path, MOST_BYTES);
    config->schedule = text.text;
    if (status != GP_INVALID) return status;
    snprintf(reason, sizeof reason, "%s", gp_error_message());
    return cli_config_error(config, "pipeline.schedule", "%s", reason);
}

static gp_status check_schedule(cli_config *config) {
    gp_schedule *schedule = NULL;
    if (!config->schedule) return GP_OK;
    const char *path = config->settings.pipeline.schedule;
    gp_status status = gp_schedule_parse(&schedule, config->schedule);
    if (status == GP_OK) status = gp_schedule_check(schedule, 0);
    if (status != GP_OK) {
        status = gp_error_within(status, "%s", path);
    } else if (gp_schedule_stages(schedule) != config->settings.pipeline.partitions) {
        status = cli_config_error(config, "pipeline.schedule",
                                  "%s is a schedule of %d worker%s, but pipeline.partitions is %lld", path,
                                  gp_schedule_stages(schedule), gp_plural(gp_schedule_stages(schedule), "s"),
                                  (long long)config->settings.pipeline.partitions);
    } else if (gp_schedule_micro_batches(schedule) != config->settings.pipeline.micro_batches) {
        status = cli_config_error(
            config, "pipeline.schedule", "%s is a schedule of %d micro-batch%s, but pipeline.micro_batches is %lld",
            path, gp_schedule_micro_batches(schedule), gp_plural(gp_schedule_micro_batches(schedule), "es"),
            (long long)config->settings.pipeline.micro_batches);
    }
    gp_schedule_destroy(schedule);
    return status;
}

static gp_status check_stages(cli_config *config) {
    const cli_integers *stages = &config->settings.pipeline.stages;
    if (stages->count == 0) return GP_OK;
    if ((int64_t)stages->count != config->settings.pipeline.partitions)
        return cli_config_error(config, "pipeline.stages",
                                "pipeline.stages has %zu entr%s, but pipeline.partitions is %lld", stages->count,
                                stages->count == 1 ? "y" : "ies", (long long)config->settings.pipeline.partitions);
    config->stages = calloc(stages->count, sizeof *config->stages);
    if (!config->stages) return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
    for (size_t i = 0; i < stages->count; i++)
        config->stages[i] = (size_t)stages->values[i];
    return GP_OK;
}

static gp_status check_masked(cli_config *config) {
    cli_settings *s = &config->settings;
    if (!cli_config_hides(config)) return GP_OK;
    if (!cli_config_node(config, "data.masked")) s->data.masked = 0.15;
    if (s->data.masked > 0) return GP_OK;
    return cli_config_error(config, "data.masked",
                            "data.masked is 0, but bert with head masked or pretraining learns from nothing else");
}

static gp_status check_optimizer(cli_config *config) {
    cli_settings *s = &config->settings;
    bool adam = s->optimizer.name == GP_OPTIMIZER_ADAM || s->optimizer.name == GP_OPTIMIZER_ADAMW;
    if (s->optimizer.lr == 0) s->optimizer.lr = adam ? 1e-3 : 1e-2;
    if (!adam && !cli_config_node(config, "optimizer.betas")) s->optimizer.betas[1] = 0.9;
    if (s->optimizer.nesterov && s->optimizer.momentum == 0)
        return cli_config_error(config, "optimizer.nesterov", "optimizer.nesterov needs optimizer.momentum above 0");
    if (s->optimizer.schedule.min_lr > s->optimizer.lr)
        return cli_config_error(config, "optimizer.schedule.min_lr",
                                "optimizer.schedule.min_lr is %g, above optimizer.lr, which is %g",
                                s->optimizer.schedule.min_lr, s->optimizer.lr);
    if (s->train.replace.count > 0 && !s->train.init_from)
        return cli_config_error(config, "train.replace",
                                "train.replace needs train.init_from: there is nothing to replace");
    return cli_config_read_groups(config);
}

static void default_tokenizer(cli_config *config) {
    cli_settings *s = &config->settings;
    if (!s->data.tokenizer && s->data.text) s->data.tokenizer = "char";
}

/* runs/NAME for a configuration NAME.yaml. */
static gp_status default_out(cli_config *config, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    int length = dot && dot != name ? (int)(dot - name) : (int)strlen(name);
    if (!config->settings.train.out)
        config->settings.train.out = cli_arena_format(&config->document.arena, "runs/%.*s", length, name);
    return config->settings.train.out ? GP_OK : GP_OUT_OF_MEMORY;
}

/* ---- loading ---- */

static gp_status choose_model(cli_config *config) {
    const cli_node *model = cli_node_find(config->document.root, "model");
    const cli_node *layers = cli_node_find(model, "layers"), *name = cli_node_find(model, "name");
    config->custom = layers && layers->kind == CLI_SEQUENCE;
    if (!model)
        return gp_error(GP_INVALID,
                        "%s: model is missing: a name of the zoo (gpt2) with its sizes, or a list of layers",
                        config->document.root->origin);
    config->use = config->custom ? CLI_USE_LAYERS : CLI_USE_GPT2;
    if (config->custom || !name) return GP_OK;
    char found[96];
    const char *names = cli_key_find("model.name", CLI_USE_ZOO)->choices;
    int place = name->kind == CLI_SCALAR ? cli_choice_find(names, name->text) : -1;
    if (place >= 0) {
        config->use = CLI_USE_GPT2 << place;
        return GP_OK;
    }
    cli_text accepted = {0};
    cli_key_accepts(cli_key_find("model.name", CLI_USE_ZOO), &accepted);
    gp_status status = cli_node_error(name, "model.name is %s; accepted: %s, or a list of layers instead of a name",
                                      cli_node_describe(name, found, sizeof found), accepted.text ? accepted.text : "");
    cli_text_free(&accepted);
    return status;
}

static gp_status apply_options(cli_config *config, const cli_config_options *options) {
    char origin[512];
    for (size_t i = 0; i < options->set_count; i++) {
        gp_status status = cli_document_set(&config->document, options->sets[i]);
        if (status != GP_OK) return status;
    }
    if (!options->text) return GP_OK;
    snprintf(origin, sizeof origin, "%s %s", options->option, options->text);
    return cli_document_set_text(&config->document, origin, options->key, options->text);
}

/* Of partitions and replicas what is left open is worked out from the number of processes. What does not fit them is
 * refused by the library. */
static void fill_grid(cli_config *config, int ranks) {
    cli_settings *s = &config->settings;
    if (ranks <= 1) return;
    int64_t each = s->pipeline.workers_per_rank > 0 ? s->pipeline.workers_per_rank : 1, workers = ranks * each;
    bool partitions = cli_config_node(config, "pipeline.partitions") != NULL;
    bool replicas = cli_config_node(config, "pipeline.replicas") != NULL;
    if (!partitions && workers % s->pipeline.replicas == 0) s->pipeline.partitions = workers / s->pipeline.replicas;
    if (partitions && !replicas && workers % s->pipeline.partitions == 0)
        s->pipeline.replicas = workers / s->pipeline.partitions;
}

/* What follows once the tree is there. */
static gp_status finish(cli_config *config, const char *path, const cli_config_options *options, gp_status status) {
    if (status == GP_OK) status = apply_options(config, options);
    if (status == GP_OK) status = choose_model(config);
    if (status == GP_OK) status = fill_defaults(config);
    if (status == GP_OK) status = read_group(config, config->document.root, "", 0);
    if (status == GP_OK) status = check_required(config);
    if (status == GP_OK) status = check_masked(config);
    if (status == GP_OK) status = cli_config_check_images(config);
    if (status == GP_OK) status = cli_config_check_examples(config);
    if (status == GP_OK) status = check_optimizer(config);
    if (status == GP_OK) default_tokenizer(config);
    if (status == GP_OK) fill_grid(config, options->ranks);
    if (status == GP_OK) status = check_stages(config);
    if (status == GP_OK && !options->any_schedule) status = read_schedule(config);
    if (status == GP_OK) status = check_schedule(config);
    return status == GP_OK ? default_out(config, path) : status;
}

gp_status cli_config_load(cli_config *config, const char *path, const cli_config_options *options) {
    memset(config, 0, sizeof *config);
    return finish(config, path, options, cli_document_load(&config->document, path));
}

gp_status cli_config_parse(cli_config *config, const char *origin, const char *text,
                           const cli_config_options *options) {
    memset(config, 0, sizeof *config);
    return finish(config, origin, options, cli_document_parse(&config->document, origin, text, strlen(text)));
}

gp_status cli_config_defaults(cli_config *config, const cli_config *like) {
    memset(config, 0, sizeof *config);
    config->custom = like->custom;
    config->use = like->use;
    return fill_defaults(config);
}

void cli_config_free(cli_config *config) {
    free(config->schedule);
    free(config->stages);
    cli_document_free(&config->document);
    memset(config, 0, sizeof *config);
}

const cli_node *cli_config_node(const cli_config *config, const char *path) {
    const cli_node *node = config->document.root;
    while (node && *path) {
        char word[128];
        size_t length = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)length, path);
        node = cli_node_find(node, word);
        path += length + (path[length] == '.');
    }
    return node && cli_node_is_null(node) ? NULL : node;
}

gp_status cli_config_error(const cli_config *config, const char *path, const char *format, ...) {
    char message[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const cli_node *node = cli_config_node(config, path);
    if (node) return cli_node_error(node, "%s", message);
    return gp_error(GP_INVALID, "%s: %s", config->document.root->origin, message);
}

gp_status cli_config_within(const cli_config *config, const char *path, gp_status status) {
    char message[640];
    if (status != GP_INVALID) return status;
    snprintf(message, sizeof message, "%s", gp_error_message());
    return cli_config_error(config, path, "%s", message);
}

/* ---- the library's options ---- */

void cli_config_pipeline(const cli_config *config, gp_pipeline_options *options) {
    const cli_settings *s = &config->settings;
    gp_schedule_kind kind = GP_SCHEDULE_GPIPE;
    if (!is_file(s->pipeline.schedule)) gp_schedule_kind_by_name(s->pipeline.schedule, &kind);
    *options = (gp_pipeline_options){
        .size = sizeof *options,
        .partitions = (int)s->pipeline.partitions,
        .micro_batches = (int)s->pipeline.micro_batches,
        .batch = s->train.batch,
        .schedule = kind,
        .schedule_text = config->schedule,
        .recompute = (gp_recompute)s->pipeline.recompute,
        .recompute_by_layer = s->pipeline.granularity == 1,
        .balance = (gp_balance)s->pipeline.balance,
        .stage_layers = config->stages,
        .device = {.size = sizeof(gp_device_options),
                   .type = (gp_device_type)s->device.type,
                   .memory = s->device.memory.count == 1 ? s->device.memory.values[0] : 0,
                   .threads = (int)s->device.threads},
        .precision = s->device.precision == 1 ? GP_BF16 : GP_F32,
        .loss_weights = cli_config_mixes(config),
        .report_after = s->pipeline.report_after,
        .seed = (uint64_t)s->train.seed,
        .replicas = (int)s->pipeline.replicas,
        .shard_optimizer = s->optimizer.shard,
        .workers_per_rank = (int)s->pipeline.workers_per_rank,
        .snapshot = s->checkpoint.every > 0 && s->checkpoint.background,
        .memory_limits = s->device.memory.count > 1 ? s->device.memory.values : NULL,
        .memory_limit_count = s->device.memory.count,
        .speeds = s->pipeline.speeds.count > 0 ? s->pipeline.speeds.values : NULL,
        .speed_count = s->pipeline.speeds.count,
    };
}

void cli_config_optimizer(const cli_config *config, gp_optimizer_options *options) {
    const cli_settings *s = &config->settings;
    *options = (gp_optimizer_options){
        .size = sizeof *options,
        .kind = (gp_optimizer_kind)s->optimizer.name,
        .lr = s->optimizer.lr,
        .beta1 = s->optimizer.betas[0],
        .beta2 = s->optimizer.betas[1],
        .epsilon = s->optimizer.epsilon,
        .weight_decay = s->optimizer.weight_decay,
        .momentum = s->optimizer.momentum,
        .nesterov = s->optimizer.nesterov,
        .clip = s->optimizer.clip,
        .epsilon_inside = s->optimizer.epsilon_inside,
        .average = s->optimizer.average,
        .layer_decay = s->optimizer.layer_decay,
        .groups = config->groups,
        .group_count = config->group_count,
        .schedule = {.kind = (gp_decay_kind)s->optimizer.schedule.name,
                     .warmup = s->optimizer.schedule.warmup,
                     .every = s->optimizer.schedule.every,
                     .min_lr = s->optimizer.schedule.min_lr,
                     .gamma = s->optimizer.schedule.gamma},
    };
}

void cli_config_run(const cli_config *config, gp_run_options *options) {
    const cli_settings *s = &config->settings;
    *options = (gp_run_options){
        .size = sizeof *options,
        .steps = s->train.steps,
        .eval_every = s->train.eval_every,
        .eval_windows = s->train.eval_windows,
        .out = s->train.out,
        .checkpoint_every = s->checkpoint.every,
        .keep = s->checkpoint.keep,
        .keep_every = s->checkpoint.keep_every,
        .forget_best = !s->checkpoint.best,
        .shard_bytes = s->checkpoint.shard_size ? s->checkpoint.shard_size : UINT64_MAX,
        .patience = s->train.patience,
        .trace = s->train.trace,
        .skip_not_finite = s->train.on_nan == 1,
        .seed = (uint64_t)s->train.seed,
    };
}
