/* The model of a configuration: one of the zoo, or built-in layers from a list, with `repeat` and layers inside layers.
 */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_keys.h"
#include "config_value.h"

enum { MOST_LAYERS = 100000, MOST_OPTIONS = 32 };

/* Layers made so far, in order; owned. */
typedef struct layer_list {
    gp_layer **layers;
    size_t count, capacity;
} layer_list;

typedef struct model_builder {
    const cli_config *config;
    size_t made; /* in all lists together: bounds what nested repeats can ask for */
} model_builder;

static void free_list(layer_list *list) {
    for (size_t i = 0; i < list->count; i++)
        gp_layer_destroy(list->layers[i]);
    free(list->layers);
}

static gp_status push(layer_list *list, gp_layer *layer) {
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 8;
        gp_layer **grown = realloc(list->layers, capacity * sizeof *grown);
        if (!grown) {
            gp_layer_destroy(layer);
            return gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
        }
        list->layers = grown;
        list->capacity = capacity;
    }
    list->layers[list->count++] = layer;
    return GP_OK;
}

/* The thread's message with the node's place in front. */
static gp_status placed(const cli_node *node, gp_status status) {
    char message[640];
    if (status != GP_INVALID) return status;
    strncpy(message, gp_error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    return cli_node_error(node, "%s", message);
}

/* ---- options of one layer ---- */

static const gp_option_info *find_option(const char *kind, const char *key) {
    size_t count;
    const gp_layer_info *kinds = gp_layer_kinds(&count);
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; strcmp(kinds[k].kind, kind) == 0 && i < kinds[k].option_count; i++) {
            if (strcmp(kinds[k].options[i].key, key) == 0) return &kinds[k].options[i];
        }
    }
    return NULL;
}

/* A list of scalars as "16, -1". */
static gp_status join(const cli_node *list, cli_arena *arena, const char **text) {
    cli_text joined = {0};
    for (const cli_node *child = list->first; child; child = child->next) {
        if (child->kind != CLI_SCALAR) {
            cli_text_free(&joined);
            return cli_node_error(child, "%s takes a list of plain values", list->key);
        }
        cli_text_add(&joined, "%s%s", joined.length ? ", " : "", child->text);
    }
    *text = joined.failed ? NULL : cli_arena_copy(arena, joined.text ? joined.text : "", joined.length);
    cli_text_free(&joined);
    return *text ? GP_OK : gp_error(GP_OUT_OF_MEMORY, "the system has no memory left");
}

/* By what the layer knows under that key, otherwise by what it looks like: the library then says what is wrong. */
static gp_status read_option(const model_builder *builder, const char *kind, const cli_node *node, cli_arena *arena,
                             gp_option *option) {
    const gp_option_info *info = find_option(kind, node->key);
    bool switched = false;
    bool wants_text = info && info->type == GP_OPTION_TEXT, wants_list = info && info->type == GP_OPTION_INTEGERS;
    *option = (gp_option){.key = node->key, .type = GP_OPTION_TEXT, .text = node->text};
    if (node->kind == CLI_SEQUENCE && (wants_text || wants_list)) return join(node, arena, &option->text);
    if (node->kind != CLI_SCALAR) return cli_node_error(node, "%s of layer %s is not a plain value", node->key, kind);
    if (wants_text) return GP_OK;
    bool vocabulary = strcmp(node->text, "vocabulary") == 0, classes = strcmp(node->text, "classes") == 0;
    if (info && info->type == GP_OPTION_INTEGER && (vocabulary || classes)) {
        option->type = GP_OPTION_INTEGER;
        option->integer = vocabulary ? builder->config->settings.model.input_vocabulary
                                     : builder->config->settings.model.input_classes;
        if (option->integer == 0)
            return cli_node_error(
                node, vocabulary ? "the vocabulary is not known: model.input.vocabulary or data.text is needed"
                                 : "the number of classes is not known: model.input.classes or data.images "
                                   "is needed");
    } else if (cli_value_integer(node, &option->integer)) {
        option->type = GP_OPTION_INTEGER;
    } else if (cli_value_number(node, &option->number)) {
        option->type = GP_OPTION_NUMBER;
    } else if (cli_value_boolean(node, &switched)) {
        option->type = GP_OPTION_BOOLEAN;
        option->integer = switched;
    }
    return GP_OK;
}

/* A layer that has a vocabulary gets the tokenizer's when the list does not say another one. */
static size_t add_vocabulary(const model_builder *builder, const char *kind, const cli_node *options, gp_option *list,
                             size_t count) {
    int64_t vocabulary = builder->config->settings.model.input_vocabulary;
    if (vocabulary == 0 || count == MOST_OPTIONS || !find_option(kind, "vocabulary") ||
        cli_node_find(options, "vocabulary"))
        return count;
    list[count] = (gp_option){.key = "vocabulary", .type = GP_OPTION_INTEGER, .integer = vocabulary};
    return count + 1;
}

/* ---- layers ---- */

static gp_status build_list(model_builder *builder, const cli_node *list, layer_list *layers);

static gp_status check_inside(const cli_node *node, const char *kind, const cli_node *list) {
    char found[96];
    if (!list) return cli_node_error(node, "%s needs layers: a list of layers", kind);
    if (list->kind == CLI_SEQUENCE) return GP_OK;
    return cli_node_error(list, "layers of %s is %s; accepted: a list of layers", kind,
                          cli_node_describe(list, found, sizeof found));
}

static gp_status create_layer(model_builder *builder, const cli_node *node, const char *kind, const cli_node *options,
                              cli_arena *arena, layer_list *children, gp_layer **layer) {
    gp_option list[MOST_OPTIONS];
    size_t count = 0;
    for (const cli_node *child = options ? options->first : NULL; child; child = child->next) {
        if (strcmp(child->key, "layers") == 0) {
            gp_status status = check_inside(child, kind, child);
            if (status == GP_OK) status = build_list(builder, child, children);
            if (status != GP_OK) return status;
            continue;
        }
        if (count == MOST_OPTIONS) return cli_node_error(child, "layer %s has too many options", kind);
        if (cli_node_is_null(child)) continue;
        gp_status status = read_option(builder, kind, child, arena, &list[count++]);
        if (status != GP_OK) return status;
    }
    count = add_vocabulary(builder, kind, options, list, count);
    size_t child_count = children->count;
    children->count = 0; /* they are the layer's from here */
    return placed(node, gp_layer_create_builtin(layer, kind, list, count, children->layers, child_count));
}

static gp_status build_layer(model_builder *builder, const cli_node *node, const char *kind, const cli_node *options,
                             layer_list *layers) {
    cli_arena arena = {0};
    layer_list children = {0};
    gp_layer *layer = NULL;
    if (builder->made++ >= MOST_LAYERS) return cli_node_error(node, "the model has more than %d layers", MOST_LAYERS);
    gp_status status = create_layer(builder, node, kind, options, &arena, &children, &layer);
    if (status == GP_OK) status = push(layers, layer);
    free_list(&children);
    cli_arena_free(&arena);
    return status;
}

static gp_status build_repeat(model_builder *builder, const cli_node *node, const cli_node *options,
                              layer_list *layers) {
    const cli_node *times_node = cli_node_find(options, "times"), *inside = cli_node_find(options, "layers");
    char found[96];
    int64_t times = 0;
    for (const cli_node *child = options ? options->first : NULL; child; child = child->next) {
        if (child != times_node && child != inside)
            return cli_node_key_error(child, "repeat has no option \"%s\"; accepted: times, layers", child->key);
    }
    if (!times_node) return cli_node_error(node, "repeat needs times: how often its layers come");
    if (!cli_value_integer(times_node, &times) || times < 1)
        return cli_node_error(times_node, "times of repeat is %s; accepted: an integer, 1 or more",
                              cli_node_describe(times_node, found, sizeof found));
    gp_status status = check_inside(node, "repeat", inside);
    if (status == GP_OK && !inside->first) status = cli_node_error(inside, "repeat needs at least one layer inside");
    for (int64_t i = 0; status == GP_OK && i < times; i++)
        status = build_list(builder, inside, layers);
    return status;
}

/* One entry of a list: "- relu", "- linear: {features: 10}", "- repeat: {times: 2, layers: [...]}". */
static gp_status build_entry(model_builder *builder, const cli_node *entry, layer_list *layers) {
    char found[96];
    const cli_node *options = NULL;
    const char *kind = entry->text;
    if (entry->kind == CLI_MAPPING && entry->first && !entry->first->next) {
        kind = entry->first->key;
        options = entry->first;
    } else if (entry->kind != CLI_SCALAR || cli_node_is_null(entry)) {
        return cli_node_error(entry, "found %s%s; accepted: a layer, for instance \"linear: {features: 10}\"",
                              cli_node_describe(entry, found, sizeof found),
                              entry->kind == CLI_MAPPING ? " with another number of keys than one" : "");
    }
    if (options && options->kind != CLI_MAPPING && !cli_node_is_null(options))
        return cli_node_error(options, "%s is %s; accepted: its options, for instance {features: 10}", kind,
                              cli_node_describe(options, found, sizeof found));
    if (options && options->kind != CLI_MAPPING) options = NULL;
    if (strcmp(kind, "repeat") == 0) return build_repeat(builder, entry, options, layers);
    return build_layer(builder, entry, kind, options, layers);
}

static gp_status build_list(model_builder *builder, const cli_node *list, layer_list *layers) {
    for (const cli_node *entry = list->first; entry; entry = entry->next) {
        gp_status status = build_entry(builder, entry, layers);
        if (status != GP_OK) return status;
    }
    return GP_OK;
}

/* ---- models ---- */

static gp_status add_layers(const cli_config *config, gp_model *model) {
    model_builder builder = {.config = config};
    layer_list layers = {0};
    gp_status status = build_list(&builder, cli_config_node(config, "model.layers"), &layers);
    size_t i = 0;
    while (status == GP_OK && i < layers.count)
        status = gp_model_add(model, layers.layers[i++]);
    for (; i < layers.count; i++)
        gp_layer_destroy(layers.layers[i]);
    free(layers.layers);
    return status;
}

static gp_loss loss_of(const cli_config *config) {
    const cli_settings *s = &config->settings;
    return (gp_loss){.kind = (gp_loss_kind)s->model.loss,
                     .cross_entropy = {.label_smoothing = s->model.label_smoothing,
                                       .has_ignored = true,
                                       .ignored = GP_IGNORED_TARGET},
                     .mixed = cli_config_mixes(config)};
}

static gp_status create_custom(const cli_config *config, gp_model **model) {
    const cli_settings *s = &config->settings;
    gp_loss loss = loss_of(config);
    if (s->model.shape.count >= GP_MAX_RANK)
        return cli_config_error(config, "model.input.shape",
                                "model.input.shape has %zu dimensions; at most %d are accepted", s->model.shape.count,
                                GP_MAX_RANK - 1);
    gp_type sample = {s->model.dtype == 0 ? GP_I32 : GP_F32,
                      gp_shape_of((int)s->model.shape.count, s->model.shape.values)};
    gp_status status = gp_model_create(model, sample);
    if (status == GP_OK) status = add_layers(config, *model);
    if (status == GP_OK) status = gp_model_set_loss(*model, &loss);
    if (status == GP_OK) status = placed(cli_config_node(config, "model.layers"), gp_model_finish(*model));
    return status;
}

void cli_config_gpt2(const cli_config *config, gp_gpt2_options *options) {
    const cli_settings *s = &config->settings;
    *options = (gp_gpt2_options){
        .layers = s->model.layers,
        .heads = s->model.heads,
        .width = s->model.width,
        .context = s->model.context,
        .vocabulary = s->model.vocabulary,
        .dropout = s->model.dropout,
        .untied = !s->model.tied,
        .no_bias = !s->model.bias,
        .positions = s->model.positions,
    };
}

static gp_status create_gpt2(const cli_config *config, gp_model **model) {
    gp_gpt2_options options;
    cli_config_gpt2(config, &options);
    return placed(cli_config_node(config, "model"), gp_model_create_gpt2(model, &options));
}

void cli_config_bert(const cli_config *config, gp_bert_options *options) {
    static const char *const activations[] = {"gelu", "gelu_tanh", "relu", "silu"}; /* as the key's words */
    const cli_settings *s = &config->settings;
    bool classes = s->model.head == GP_BERT_CLASSIFY;
    *options = (gp_bert_options){
        .layers = s->model.layers,
        .heads = s->model.heads,
        .width = s->model.width,
        .feed_forward = s->model.feed_forward,
        .context = s->model.context,
        .positions = s->model.positions,
        .vocabulary = s->model.vocabulary,
        .types = s->model.types,
        .dropout = s->model.dropout,
        .epsilon = s->model.epsilon,
        .activation = activations[s->model.activation],
        .head = (gp_bert_head)s->model.head,
        .classes = classes ? s->model.classes : 0,
        .untied = !s->model.tied,
        .next_sentence = s->data.masked * (double)s->model.context, /* as much as what is hidden */
    };
}

static gp_status create_bert(const cli_config *config, gp_model **model) {
    gp_bert_options options;
    cli_config_bert(config, &options);
    if (options.head == GP_BERT_CLASSIFY && options.classes == 0)
        return cli_config_error(config, "model", "the classes are not known: model.classes or data.examples is needed");
    return placed(cli_config_node(config, "model"), gp_model_create_bert(model, &options));
}

static gp_status create_named(const cli_config *config, gp_model **model) {
    gp_loss loss = loss_of(config);
    return placed(cli_config_node(config, "model"), cli_config_named_model(config, &loss, model));
}

gp_status cli_config_model(const cli_config *config, gp_model **model) {
    gp_status status;
    *model = NULL;
    if (config->use == CLI_USE_BERT) {
        status = create_bert(config, model);
    } else if (config->use & CLI_USE_IMAGES) {
        status = create_named(config, model);
    } else {
        status = config->custom ? create_custom(config, model) : create_gpt2(config, model);
    }
    if (status == GP_OK) return GP_OK;
    gp_model_destroy(*model);
    *model = NULL;
    return status;
}
