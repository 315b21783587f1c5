/* Names of parameters in other programs: Hugging Face's transformers (GPT-2, BERT), torchvision (ResNets) and llm.c. */
#include "exchange/naming.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A linear map or a norm: weight and bias. */
#define PAIR(own, foreign, arrangement)                                                                                \
    {own "weight", foreign "weight", arrangement, NULL}, {                                                             \
        own "bias", foreign "bias", GP_PLAIN, NULL                                                                     \
    }
/* A norm, which files converted from TensorFlow call gamma and beta. */
#define NORM(own, foreign)                                                                                             \
    {own "weight", foreign "weight", GP_PLAIN, foreign "gamma"}, {                                                     \
        own "bias", foreign "bias", GP_PLAIN, foreign "beta"                                                           \
    }

/* GPT-2's linear maps are Conv1D there: [in, out]. */
static const gp_naming_row gpt2_rows[] = {
    {"0.token.weight", "wte.weight", GP_PLAIN, NULL},
    {"0.position.weight", "wpe.weight", GP_PLAIN, NULL},
    PAIR("*.norm1.", "h.*.ln_1.", GP_PLAIN),
    PAIR("*.attention.qkv.", "h.*.attn.c_attn.", GP_TRANSPOSED),
    PAIR("*.attention.projection.", "h.*.attn.c_proj.", GP_TRANSPOSED),
    PAIR("*.norm2.", "h.*.ln_2.", GP_PLAIN),
    PAIR("*.feed_forward.up.", "h.*.mlp.c_fc.", GP_TRANSPOSED),
    PAIR("*.feed_forward.down.", "h.*.mlp.c_proj.", GP_TRANSPOSED),
    PAIR("+1.", "ln_f.", GP_PLAIN),
    {"+2.weight", "=lm_head.weight", GP_PLAIN, NULL},
};

static const gp_naming_row bert_rows[] = {
    {"0.token.weight", "embeddings.word_embeddings.weight", GP_PLAIN, NULL},
    {"0.position.weight", "embeddings.position_embeddings.weight", GP_PLAIN, NULL},
    {"0.type.weight", "embeddings.token_type_embeddings.weight", GP_PLAIN, NULL},
    NORM("0.norm.", "embeddings.LayerNorm."),
    {"*.attention.qkv.weight", "encoder.layer.*.attention.self.?.weight", GP_SPLIT, NULL},
    {"*.attention.qkv.bias", "encoder.layer.*.attention.self.?.bias", GP_SPLIT, NULL},
    PAIR("*.attention.projection.", "encoder.layer.*.attention.output.dense.", GP_PLAIN),
    NORM("*.norm1.", "encoder.layer.*.attention.output.LayerNorm."),
    PAIR("*.feed_forward.up.", "encoder.layer.*.intermediate.dense.", GP_PLAIN),
    PAIR("*.feed_forward.down.", "encoder.layer.*.output.dense.", GP_PLAIN),
    NORM("*.norm2.", "encoder.layer.*.output.LayerNorm."),
};

static const gp_naming_row masked_rows[] = {
    PAIR("+1.", "=cls.predictions.transform.dense.", GP_PLAIN),
    NORM("+3.", "=cls.predictions.transform.LayerNorm."),
    {"+4.weight", "=cls.predictions.decoder.weight", GP_PLAIN, NULL},
    {"+4.bias", "=cls.predictions.bias", GP_PLAIN, "=cls.predictions.decoder.bias"},
};

/* Behind the blocks: the next sentence, then the masked head. */
static const gp_naming_row pretraining_rows[] = {
    PAIR("+1.pooler.", "pooler.dense.", GP_PLAIN),
    PAIR("+1.classifier.", "=cls.seq_relationship.", GP_PLAIN),
    PAIR("+2.", "=cls.predictions.transform.dense.", GP_PLAIN),
    NORM("+4.", "=cls.predictions.transform.LayerNorm."),
    {"+5.weight", "=cls.predictions.decoder.weight", GP_PLAIN, NULL},
    {"+5.bias", "=cls.predictions.bias", GP_PLAIN, "=cls.predictions.decoder.bias"},
};

static const gp_naming_row pooler_rows[] = {PAIR("+1.", "pooler.dense.", GP_PLAIN)};
static const gp_naming_row classifier_rows[] = {PAIR("+3.", "=classifier.", GP_PLAIN)};
static const gp_naming_row next_sentence_rows[] = {PAIR("+2.", "=cls.seq_relationship.", GP_PLAIN)};

static const gp_naming_row llmc_rows[] = {
    {"0.token.weight", "wte", GP_PADDED, NULL},
    {"0.position.weight", "wpe", GP_PLAIN, NULL},
    {"*.norm1.weight", "h.*.ln1w", GP_PLAIN, NULL},
    {"*.norm1.bias", "h.*.ln1b", GP_PLAIN, NULL},
    {"*.attention.qkv.weight", "h.*.qkvw", GP_PLAIN, NULL},
    {"*.attention.qkv.bias", "h.*.qkvb", GP_PLAIN, NULL},
    {"*.attention.projection.weight", "h.*.attprojw", GP_PLAIN, NULL},
    {"*.attention.projection.bias", "h.*.attprojb", GP_PLAIN, NULL},
    {"*.norm2.weight", "h.*.ln2w", GP_PLAIN, NULL},
    {"*.norm2.bias", "h.*.ln2b", GP_PLAIN, NULL},
    {"*.feed_forward.up.weight", "h.*.fcw", GP_PLAIN, NULL},
    {"*.feed_forward.up.bias", "h.*.fcb", GP_PLAIN, NULL},
    {"*.feed_forward.down.weight", "h.*.fcprojw", GP_PLAIN, NULL},
    {"*.feed_forward.down.bias", "h.*.fcprojb", GP_PLAIN, NULL},
    {"+1.weight", "lnfw", GP_PLAIN, NULL},
    {"+1.bias", "lnfb", GP_PLAIN, NULL},
};

/* A batch norm with its moving averages. */
#define MOMENTS(own, foreign)                                                                                          \
    PAIR(own, foreign, GP_PLAIN), {own "moving_mean", foreign "running_mean", GP_PLAIN, NULL}, {                       \
        own "moving_variance", foreign "running_var", GP_PLAIN, NULL                                                   \
    }
/* A convolution without bias and the batch norm behind it. */
#define CONVOLUTION(own, conv, norm) {own "conv.weight", conv ".weight", GP_PLAIN, NULL}, MOMENTS(own "norm.", norm ".")

static const gp_naming_row resnet_rows[] = {
    CONVOLUTION("0.", "conv1", "bn1"),
    CONVOLUTION("*.branch0.", "layer*.conv1", "layer*.bn1"),
    CONVOLUTION("*.branch1.", "layer*.conv2", "layer*.bn2"),
    CONVOLUTION("*.branch2.", "layer*.conv3", "layer*.bn3"),
    CONVOLUTION("*.shortcut.", "layer*.downsample.0", "layer*.downsample.1"),
    PAIR("+1.", "fc.", GP_PLAIN),
};

enum { STAGES = 4 };

typedef struct resnet {
    const char *name;
    int stages[STAGES + 1];
    bool bottleneck;
} resnet;

static const resnet resnets[] = {{"resnet18", {2, 2, 2, 2}, false},
                                 {"resnet34", {3, 4, 6, 3}, false},
                                 {"resnet50", {3, 4, 6, 3}, true},
                                 {"resnet101", {3, 4, 23, 3}, true},
                                 {"resnet152", {3, 8, 36, 3}, true}};

/* ---- families ---- */

gp_naming gp_naming_gpt2(const gp_gpt2_options *options) {
    return (gp_naming){.prefix = "transformer.",
                       .tables = {gpt2_rows},
                       .counts = {COUNT(gpt2_rows)},
                       .blocks = options->layers,
                       .first = 1};
}

gp_naming gp_naming_llmc(const gp_gpt2_options *options) {
    return (gp_naming){
        .prefix = "", .tables = {llmc_rows}, .counts = {COUNT(llmc_rows)}, .blocks = options->layers, .first = 1};
}

/* The layers before the blocks are the first convolution and a pool. */
gp_naming gp_naming_resnet(const char *name) {
    gp_naming naming = {.prefix = "", .tables = {resnet_rows}, .counts = {COUNT(resnet_rows)}, .first = 2};
    for (size_t i = 0; i < COUNT(resnets); i++) {
        if (strcmp(resnets[i].name, name) != 0) continue;
        naming.stages = resnets[i].stages;
        for (int stage = 0; stage < STAGES; stage++)
            naming.blocks += resnets[i].stages[stage];
    }
    return naming;
}

/* The last block of every stage is there, and none behind it. */
static bool has_stages(const resnet *of, bool (*has)(const void *user, const char *name), const void *user) {
    char name[64];
    for (int stage = 0; stage < STAGES; stage++) {
        snprintf(name, sizeof name, "layer%d.%d.conv1.weight", stage + 1, of->stages[stage] - 1);
        if (!has(user, name)) return false;
        snprintf(name, sizeof name, "layer%d.%d.conv1.weight", stage + 1, of->stages[stage]);
        if (has(user, name)) return false;
    }
    return has(user, "layer1.0.conv3.weight") == of->bottleneck;
}

const char *gp_naming_find_resnet(bool (*has)(const void *user, const char *name), const void *user) {
    if (!has(user, "conv1.weight") || !has(user, "fc.weight")) return NULL;
    for (size_t i = 0; i < COUNT(resnets); i++) {
        if (has_stages(&resnets[i], has, user)) return resnets[i].name;
    }
    return NULL;
}

static void add_table(gp_naming *naming, size_t place, const gp_naming_row *table, size_t count) {
    naming->tables[place] = table;
    naming->counts[place] = count;
}

gp_naming gp_naming_bert(const gp_bert_options *options) {
    gp_naming naming = {.prefix = "bert.", .blocks = options->layers, .first = 1};
    add_table(&naming, 0, bert_rows, COUNT(bert_rows));
    if (options->head == GP_BERT_MASKED) {
        add_table(&naming, 1, masked_rows, COUNT(masked_rows));
    } else if (options->head == GP_BERT_PRETRAINING) {
        add_table(&naming, 1, pretraining_rows, COUNT(pretraining_rows));
    } else if (options->head != GP_BERT_HIDDEN) {
        add_table(&naming, 1, pooler_rows, COUNT(pooler_rows));
    }
    if (options->head == GP_BERT_CLASSIFY) add_table(&naming, 2, classifier_rows, COUNT(classifier_rows));
    if (options->head == GP_BERT_NEXT_SENTENCE) add_table(&naming, 2, next_sentence_rows, COUNT(next_sentence_rows));
    return naming;
}

/* ---- looking up ---- */

/* The name's part behind "layers.N.", and N; NULL for another form. */
static const char *split_name(const char *own, int64_t *layer) {
    char *end = NULL;
    if (strncmp(own, "layers.", 7) != 0) return NULL;
    *layer = strtoll(own + 7, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

const gp_naming_row *gp_naming_find(const gp_naming *naming, const char *own, int64_t *block) {
    char wanted[GP_FOREIGN_NAME];
    int64_t layer = 0;
    const char *rest = split_name(own, &layer);
    if (!rest) return NULL;
    int64_t behind = naming->first + naming->blocks;
    *block = layer >= naming->first && layer < behind ? layer - naming->first : -1;
    if (layer == 0) {
        snprintf(wanted, sizeof wanted, "0.%s", rest);
    } else if (*block >= 0) {
        snprintf(wanted, sizeof wanted, "*.%s", rest);
    } else {
        snprintf(wanted, sizeof wanted, "+%" PRId64 ".%s", layer - behind + 1, rest);
    }
    for (size_t t = 0; t < GP_MOST_TABLES; t++) {
        for (size_t i = 0; i < naming->counts[t]; i++) {
            if (strcmp(naming->tables[t][i].own, wanted) == 0) return &naming->tables[t][i];
        }
    }
    return NULL;
}

size_t gp_naming_parts(const gp_naming_row *row) {
    return row->arrangement == GP_SPLIT ? 3 : 1;
}

/* "3", or "1.0" where blocks come in stages. */
static size_t format_block(const gp_naming *naming, int64_t block, char *text, size_t size) {
    int stage = 0;
    if (!naming->stages) return (size_t)snprintf(text, size, "%lld", (long long)block);
    while (naming->stages[stage + 1] && block >= naming->stages[stage])
        block -= naming->stages[stage++];
    return (size_t)snprintf(text, size, "%d.%lld", stage + 1, (long long)block);
}

char *gp_naming_format(const gp_naming *naming, const char *foreign, bool prefixed, int64_t block, size_t part,
                       char name[GP_FOREIGN_NAME]) {
    static const char *const parts[] = {"query", "key", "value"};
    bool absolute = *foreign == '=';
    size_t at = (size_t)snprintf(name, GP_FOREIGN_NAME, "%s", prefixed && !absolute ? naming->prefix : "");
    for (const char *c = foreign + absolute; *c && at + 24 < GP_FOREIGN_NAME; c++) {
        if (*c == '*') {
            at += format_block(naming, block, name + at, GP_FOREIGN_NAME - at);
        } else if (*c == '?') {
            at += (size_t)snprintf(name + at, GP_FOREIGN_NAME - at, "%s", parts[part]);
        } else {
            name[at++] = *c;
        }
    }
    name[at] = '\0';
    return name;
}

bool gp_naming_ignores(const char *name, bool tied) {
    static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", "embeddings.position_ids",
                                          ".num_batches_tracked"};
    static const char *const copies[] = {"lm_head.weight", "cls.predictions.decoder.weight",
                                         "cls.predictions.decoder.bias"};
    for (size_t i = 0; i < COUNT(buffers); i++) {
        if (gp_ends_in(name, buffers[i])) return true;
    }
    for (size_t i = 0; tied && i < COUNT(copies); i++) {
        if (strcmp(name, copies[i]) == 0) return true;
    }
    return false;
}
