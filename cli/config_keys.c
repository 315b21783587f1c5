/* One row a key. Later work adds rows and does not rename them. */
#include "config_keys.h"

#include <stdio.h>
#include <string.h>

#include "config_value.h"

#define AT(field)  offsetof(cli_settings, field)
#define MOST       2147483647.0
#define MOST_STEPS 1e15

#define INTEGER(path, field, use, least, most, standard, help)                                                         \
    { path, CLI_KEY_INTEGER, use, AT(field), least, most, false, false, NULL, standard, help }
#define NUMBER(path, field, use, least, most, above, below, standard, help)                                            \
    { path, CLI_KEY_NUMBER, use, AT(field), least, most, above, below, NULL, standard, help }
#define BOOLEAN(path, field, use, standard, help)                                                                      \
    { path, CLI_KEY_BOOLEAN, use, AT(field), 0, 0, false, false, NULL, standard, help }
#define TEXT(path, field, use, standard, help)                                                                         \
    { path, CLI_KEY_TEXT, use, AT(field), 0, 0, false, false, NULL, standard, help }
#define CHOICE(path, field, use, choices, standard, help)                                                              \
    { path, CLI_KEY_CHOICE, use, AT(field), 0, 0, false, false, choices, standard, help }
#define ANY    CLI_USE_ALWAYS
#define ZOO    CLI_USE_ZOO
#define OWN    CLI_USE_LAYERS
#define GPT2   CLI_USE_GPT2
#define BERT   CLI_USE_BERT
#define IMAGES CLI_USE_IMAGES
#define AMOEBA CLI_USE_AMOEBANET
#define CIFAR  CLI_USE_RESNET_CIFAR
#define UNET   CLI_USE_UNET
#define MLP    CLI_USE_MLP

static const cli_key keys[] = {
    CHOICE("model.name", model.name, ZOO,
           "gpt2|bert|amoebanet_d|amoebanet_b|resnet18|resnet34|resnet50|resnet101|resnet152|resnet_cifar|senet154|"
           "se_resnet50|googlenet|vgg16|unet|mlp",
           NULL, "a model of the zoo"),
    INTEGER("model.layers", model.layers, GPT2 | BERT, 1, 20000, "12", "transformer blocks"),
    INTEGER("model.heads", model.heads, GPT2 | BERT, 1, MOST, "12", "attention heads; they divide the width"),
    INTEGER("model.width", model.width, GPT2 | BERT, 1, MOST, "768", "elements of an activation"),
    INTEGER("model.vocabulary", model.vocabulary, GPT2 | BERT, 1, MOST, "",
            "number of tokens; default: the tokenizer's"),
    INTEGER("model.positions", model.positions, GPT2 | BERT, 1, MOST, "",
            "rows of the table of positions; default: model.context"),
    NUMBER("model.dropout", model.dropout, GPT2 | BERT, 0, 1, false, true, "0.0",
           "probability of dropping an element, on embeddings, attention and residual branches"),
    BOOLEAN("model.tied", model.tied, GPT2 | BERT, "true", "the head uses the token embedding's weights"),
    INTEGER("model.context", model.context, GPT2, 1, MOST, "1024", "tokens of a window"),
    BOOLEAN("model.bias", model.bias, GPT2, "true", "linear layers and norms have a bias"),
    INTEGER("model.context", model.context, BERT, 3, MOST, "512", "tokens of a sample, [CLS] and [SEP] among them"),
    INTEGER("model.feed_forward", model.feed_forward, BERT, 1, MOST, "",
            "elements between the two linear maps of a block; default: 4 times the width"),
    CHOICE(
        "model.head", model.head, BERT, "masked|classify|next_sentence|pooled|hidden|pretraining", "masked",
        "behind the encoder: masked tokens, classes of samples, whether a sentence follows another; pretraining: "
        "masked "
        "tokens and whether the second part of a sample follows the first; pooled and hidden give features, for gpipe "
        "predict"),
    INTEGER("model.classes", model.classes, BERT, 2, MOST, "", "of head classify; default: those of the data"),
    INTEGER("model.types", model.types, BERT, 1, MOST, "2", "token types: parts of a sample"),
    CHOICE("model.activation", model.activation, BERT, "gelu|gelu_tanh|relu|silu", "gelu", "inside a block"),
    NUMBER("model.epsilon", model.epsilon, BERT, 0, 1, true, false, "1e-12", "of the norms"),
    INTEGER("model.classes", model.classes, IMAGES, 1, MOST, "",
            "number of classes; default: those of data.images, else 1000 (resnet_cifar, mlp: 10; unet: 2)"),
    {"model.image", CLI_KEY_INTEGERS, IMAGES, AT(model.image), 1, MOST, false, false, NULL, "",
     "size of the images: 224, or [height, width], or [height, width, channels]; default: 224 (resnet_cifar: 32, unet: "
     "192, mlp: [28, 28, 1]), of 3 channels"},
    INTEGER("model.layers", model.layers, AMOEBA, 1, 20000, "18",
            "L: normal cells; reductions come before cells L/3 and 2L/3"),
    INTEGER("model.filters", model.filters, AMOEBA, 16, 1048576, "256",
            "D: channels inside a normal cell before the first reduction, a multiple of 8"),
    CHOICE(
        "model.stem", model.stem, AMOEBA, "tensorflow|torchgpipe|cifar", "tensorflow",
        "tensorflow: 3x3 of stride 2 to 32 channels, two reduction cells; torchgpipe: its form, twice as wide there; "
        "cifar: 3x3 to 32 channels, the image keeps its size"),
    NUMBER("model.auxiliary", model.auxiliary, AMOEBA, 0, 1e6, false, true, "0.0",
           "weight of an auxiliary classifier's loss in training, behind two thirds of the cells; 0: none; published: "
           "0.4"),
    NUMBER("model.dropout", model.dropout, AMOEBA | CLI_USE_VGG16, 0, 1, false, true, "0.5",
           "before the classifier; vgg16: behind both hidden linear maps"),
    NUMBER("model.dropout", model.dropout, CLI_USE_SENET154 | CLI_USE_GOOGLENET, 0, 1, false, true, "0.2",
           "before the classifier"),
    NUMBER("model.dropout", model.dropout, MLP, 0, 1, false, true, "0.0", "behind each hidden layer"),
    NUMBER("model.drop_path", model.drop_path, AMOEBA, 0, 1, false, true, "0.0",
           "probability of dropping an operation's result at the end of training; it grows from 0"),
    NUMBER("model.batch_norm_decay", model.batch_norm_decay, AMOEBA, 0, 1, true, true, "",
           "of the moving averages; default: 0.9997, as published (other stems: 0.9); short runs want less"),
    INTEGER("model.depth", model.depth, CIFAR, 8, 20000, "20", "6n + 2 layers with weights: 20, 32, 44, 56, 110"),
    INTEGER("model.width", model.width, CIFAR, 1, 1048576, "16", "channels of the first of the three stages"),
    INTEGER("model.depth", model.depth, UNET, 1, 20000, "5", "B: convolutions on each level"),
    INTEGER("model.channels", model.channels, UNET, 2, 1048576, "64",
            "C: channels on the first level, doubled on each further one"),
    INTEGER("model.levels", model.levels, UNET, 1, 16, "5", "times that the image is halved"),
    INTEGER("model.layers", model.layers, MLP, 0, 20000, "2", "hidden layers"),
    INTEGER("model.width", model.width, MLP, 1, MOST, "256", "features of a hidden layer"),
    {"model.layers", CLI_KEY_LAYERS, OWN, 0, 0, 0, false, false, NULL, NULL,
     "instead of a name: a list of layers (see gpipe help layers), each \"kind: {options}\", or \"repeat: {times, "
     "layers}\"; the word vocabulary stands for the number of tokens, the word classes for that of classes"},
    {"model.input.shape", CLI_KEY_INTEGERS, OWN, AT(model.shape), 1, MOST, false, false, NULL, NULL,
     "dimensions of a sample, for text the number of tokens of a window: [64]"},
    CHOICE("model.input.dtype", model.dtype, OWN, "i32|f32", "i32", "elements of a sample: i32 for tokens"),
    INTEGER("model.input.vocabulary", model.input_vocabulary, OWN, 1, MOST, "",
            "number of tokens; default: the tokenizer's"),
    INTEGER("model.input.classes", model.input_classes, OWN, 1, MOST, "",
            "what the word classes stands for in layers; default: the number of classes of data.images"),
    CHOICE("model.loss.name", model.loss, OWN | IMAGES, "cross_entropy|squared_error", "cross_entropy",
           "the loss behind the last layer"),
    NUMBER("model.loss.label_smoothing", model.label_smoothing, OWN | IMAGES, 0, 1, false, true, "0.0",
           "share of the target's probability that is spread over all classes (cross_entropy)"),

    BOOLEAN("data.random", data.random, ANY, "false",
            "random samples of the model's shape, to plan and to measure with; nothing can be learned from them"),
    TEXT("data.text", data.text, ANY, "", "the corpus: a file, or a pattern such as texts/*.txt"),
    TEXT("data.examples", data.examples, ANY, "",
         "labelled texts to classify: *.tsv (columns with tabs between) or *.jsonl (an object a line)"),
    TEXT("data.text_field", data.text_field, ANY, "", "column or key of the text; default: text, sentence, sentence1"),
    TEXT("data.pair_field", data.pair_field, ANY, "",
         "column or key of a second text; default: pair, text_pair, sentence2 where there is one"),
    TEXT("data.label_field", data.label_field, ANY, "", "column or key of the label; default: label, class"),
    TEXT("data.tokens", data.tokens, ANY, "",
         "instead of a text: token files (of gpipe tokenize, of llm.c, or nanoGPT's *.bin), a file or a pattern"),
    TEXT("data.validation_tokens", data.validation_tokens, ANY, "",
         "token files for validation; default: a share of data.tokens"),
    CHOICE("data.token_type", data.token_type, ANY, "auto|u16|u32", "auto",
           "of token files without header; auto: u16 when the vocabulary is at most 65536"),
    TEXT("data.tokenizer", data.tokenizer, ANY, "",
         "char: the text's characters (default for text); byte: the 256 bytes; or the folder or file of a tokenizer: "
         "tokenizer.json, vocab.json and merges.txt (GPT-2), vocab.txt (BERT)"),
    NUMBER("data.masked", data.masked, ANY, 0, 1, false, false, "",
           "share of the tokens that are hidden and have to be guessed; default: 0.15 for bert with head masked or "
           "pretraining, else 0: "
           "the next token has to be guessed"),
    TEXT("data.images", data.images, ANY, "",
         "instead of a text: images to classify: a folder with a folder for every class, .tar archives of such (also "
         ".tar.gz and so on), CIFAR's .bin files, or MNIST's ...-images-idx3-ubyte (also .gz); a path or a pattern"),
    CHOICE("data.format", data.format, ANY, "auto|folder|tar|cifar10|cifar100|idx", "auto",
           "of the images; auto: by their names"),
    TEXT("data.labels", data.labels, ANY, "",
         "file of labels of IDX images; default: the images' name with labels-idx1 in it"),
    {"data.validation", CLI_KEY_SHARE, ANY, AT(data.validation), 0, 1, false, true, NULL, "0.1",
     "share of the tokens, from the end, or of the images of each class, that is kept for validation; or the path of "
     "other images"},
    TEXT("data.validation_labels", data.validation_labels, ANY, "", "as labels, of the validation images"),
    CHOICE("data.sampling", data.sampling, ANY, "random|sequential", "random",
           "windows of text from anywhere and images in a new order every epoch, or one after the other"),
    INTEGER("data.window", data.window, ANY, 0, MOST_STEPS, "0",
            "shuffled images stay within a window of so many, so that slow disks read forward; 0: all are shuffled"),
    {"data.mean", CLI_KEY_NUMBERS, ANY, AT(data.mean), -1e6, 1e6, false, false, NULL, "",
     "of the channels, taken away from bytes / 255; default, with neither mean nor std: ImageNet's, [0.485, 0.456, "
     "0.406], grey 0.5"},
    {"data.std", CLI_KEY_NUMBERS, ANY, AT(data.deviation), 0, 1e6, true, false, NULL, "",
     "standard deviation of the channels, divided by; default, with neither mean nor std: ImageNet's, [0.229, 0.224, "
     "0.225], grey 0.25"},
    INTEGER("data.resize", data.resize, ANY, 1, 16384, "",
            "evaluation: pixels that the shorter side of an image becomes before the middle is cut out; default: as "
            "the model takes, 8/7 of that with crop: resized"),
    BOOLEAN("data.mirror", data.mirror, ANY, "false",
            "evaluations judge every image together with its mirror image, by the mean of the outputs for both"),
    INTEGER(
        "data.shift", data.shift, ANY, 0, 16384, "0",
        "evaluations judge every image (with mirror also its mirror image) also moved by so many pixels, once up and "
        "left, once down and right, by the mean of the outputs; less than the shorter side of the model's images"),
    CHOICE("data.augment.crop", data.augment.crop, ANY, "centre|pad|resized", "centre",
           "part of a training image that is taken: the middle; the middle shifted by up to pad pixels; or one of "
           "random size and shape"),
    INTEGER("data.augment.pad", data.augment.pad, ANY, 1, 16384, "", "pixels; default: an eighth of the shorter side"),
    {"data.augment.scale", CLI_KEY_PAIR, ANY, AT(data.augment.scale), 0, 1, true, false, NULL, "[0.08, 1]",
     "share of the area (crop: resized)"},
    {"data.augment.ratio", CLI_KEY_PAIR, ANY, AT(data.augment.ratio), 0, 100, true, false, NULL, "[0.75, 1.3333333]",
     "width to height (crop: resized)"},
    BOOLEAN("data.augment.flip", data.augment.flip, ANY, "false", "turn left and right round, half of the time"),
    BOOLEAN(
        "data.augment.alternate", data.augment.alternate, ANY, "false",
        "with flip: chance decides in the first epoch only; after it each epoch shows the other side of every image"),
    INTEGER("data.augment.operations", data.augment.operations, ANY, 0, 100, "0", "RandAugment: how many out of 14"),
    NUMBER("data.augment.magnitude", data.augment.magnitude, ANY, 0, 30, false, false, "9", "RandAugment: how strong"),
    NUMBER("data.augment.brightness", data.augment.brightness, ANY, 0, 1, false, false, "0.0",
           "factor from 1 - x to 1 + x"),
    NUMBER("data.augment.contrast", data.augment.contrast, ANY, 0, 1, false, false, "0.0",
           "factor from 1 - x to 1 + x"),
    NUMBER("data.augment.saturation", data.augment.saturation, ANY, 0, 1, false, false, "0.0",
           "factor from 1 - x to 1 + x"),
    NUMBER("data.augment.hue", data.augment.hue, ANY, 0, 0.5, false, false, "0.0", "turn by up to x of a full circle"),
    INTEGER("data.augment.cutout", data.augment.cutout, ANY, 0, 16384, "0",
            "side of a square that takes the mean colour; 0: none"),
    NUMBER("data.augment.mixup", data.augment.mixup, ANY, 0, 100, false, false, "0.0",
           "images are mixed in pairs, and their labels, by shares out of Beta(x, x); 0: not"),
    CHOICE("data.corrupt", data.corrupt, ANY, "fail|skip", "fail",
           "when an image cannot be decoded: stop, or name it, count it and take another"),
    INTEGER("data.most_pixels", data.most_pixels, ANY, 1, 4294836225.0, "67108864",
            "images with more count as corrupt: a limit of memory, three bytes a pixel for each thread"),
    INTEGER("data.threads", data.threads, ANY, 0, 256, "0", "that make images ahead of the training; 0: all cores"),

    INTEGER("pipeline.partitions", pipeline.partitions, ANY, 1, 16384, "1", "K: workers that the layers are cut over"),
    INTEGER("pipeline.workers_per_rank", pipeline.workers_per_rank, ANY, 0, 90, "0",
            "started by mpirun or srun: workers (threads) of each process; 0: 1"),
    INTEGER("pipeline.replicas", pipeline.replicas, ANY, 1, 65536, "1",
            "D: copies of the pipeline that share every mini-batch (data parallelism)"),
    INTEGER("pipeline.micro_batches", pipeline.micro_batches, ANY, 1, 1048576, "1",
            "M: parts that each mini-batch (each replica's share of it) is cut into"),
    TEXT("pipeline.schedule", pipeline.schedule, ANY, "gpipe",
         "gpipe, 1f1b, naive, or a file with a schedule (a path with / or ending in .txt)"),
    CHOICE("pipeline.recompute", pipeline.recompute, ANY, "except_last|always|never", "except_last",
           "for which micro-batches activations are thrown away and computed again"),
    CHOICE("pipeline.granularity", pipeline.granularity, ANY, "stage|layer", "stage",
           "what recomputation keeps: the input of a stage, or of each layer"),
    CHOICE("pipeline.balance", pipeline.balance, ANY, "time|flops|parameters", "time",
           "what the partitions share evenly: measured time, operations, or parameters"),
    {"pipeline.stages", CLI_KEY_INTEGERS, ANY, AT(pipeline.stages), 1, MOST, false, false, NULL, "",
     "layers of each partition by hand, for instance [3, 4]; default: by balance"},
    {"pipeline.speeds", CLI_KEY_NUMBERS, ANY, AT(pipeline.speeds), 1e-3, 1e3, false, false, NULL, "",
     "workers that are not equally fast: the speed of each partition's, or of each worker, replica by replica, "
     "relative "
     "to what is measured, for instance [1, 0.5]; default: equal (on several machines: measured, with balance: time)"},
    NUMBER("pipeline.report_after", pipeline.report_after, ANY, 0, 1e9, true, false, "30",
           "seconds after which a wait is reported: who waits for whom"),

    CHOICE("device.type", device.type, ANY, "cpu|reference", "cpu",
           "cpu, or reference: plain loops in double precision, for checking"),
    CHOICE("device.precision", device.precision, ANY, "f32|bf16", "f32", "of activations and of weights in products"),
    {"device.memory", CLI_KEY_SIZES, ANY, AT(device.memory), 0, 0, false, false, NULL, "none",
     "limit of each worker, for instance 512MiB or 8GiB; or a list for workers that differ, for each partition or for "
     "each worker, replica by replica: [8GiB, 4GiB]"},
    INTEGER("device.threads", device.threads, ANY, 1, 4096, "1", "cores of each worker"),

    CHOICE("optimizer.name", optimizer.name, ANY, "adamw|adam|sgd|rmsprop", "adamw", "how gradients become updates"),
    NUMBER("optimizer.lr", optimizer.lr, ANY, 0, 1e30, true, false, "",
           "learning rate; default: 1e-3 (sgd, rmsprop: 1e-2)"),
    {"optimizer.betas", CLI_KEY_PAIR, ANY, AT(optimizer.betas), 0, 1, true, true, NULL, "[0.9, 0.999]",
     "decay of the two moments (adam, adamw); the second is that of rmsprop, 0.9 by default"},
    NUMBER("optimizer.epsilon", optimizer.epsilon, ANY, 0, 1, true, false, "1e-8",
           "added to the root of the second moment (adam, adamw, rmsprop)"),
    NUMBER("optimizer.weight_decay", optimizer.weight_decay, ANY, 0, 1e9, false, false, "0.0",
           "of parameters with two or more dimensions"),
    NUMBER("optimizer.momentum", optimizer.momentum, ANY, 0, 1, false, true, "0.0", "of sgd and rmsprop"),
    BOOLEAN("optimizer.nesterov", optimizer.nesterov, ANY, "false", "look ahead by the momentum (sgd)"),
    NUMBER("optimizer.clip", optimizer.clip, ANY, 0, 1e30, false, false, "0.0",
           "largest norm of the whole gradient; 0: no limit"),
    BOOLEAN("optimizer.shard", optimizer.shard, ANY, "false",
            "with replicas: each keeps the optimizer state of its part of every parameter only (ZeRO 1)"),
    BOOLEAN("optimizer.epsilon_inside", optimizer.epsilon_inside, ANY, "false",
            "rmsprop: epsilon is added under the root and the second moment starts at 1, as in TensorFlow and the "
            "AmoebaNet paper; false: as in PyTorch"),
    NUMBER("optimizer.average", optimizer.average, ANY, 0, 1, false, true, "0.0",
           "decay of an average of the weights (EMA) that evaluations see and checkpoints hold beside the weights; 0: "
           "none. After n updates the decay is at most (1 + n) / (10 + n)"),
    NUMBER("optimizer.layer_decay", optimizer.layer_decay, ANY, 0, 1, true, false, "1.0",
           "factor of the learning rate for each layer that lies further from the last one"),
    {"optimizer.lr_factors", CLI_KEY_TEXTS, ANY, AT(optimizer.lr_factors), 0, 0, false, false, NULL, "",
     "factors of the learning rate for parameters by name, pattern or head, for instance [\"layers.0.*=0.1\"]; the "
     "first "
     "match counts"},
    CHOICE("optimizer.schedule.name", optimizer.schedule.name, ANY,
           "constant|linear|cosine|step|exponential|inverse_sqrt", "constant", "the learning rate after the warm-up"),
    INTEGER("optimizer.schedule.warmup", optimizer.schedule.warmup, ANY, 0, MOST_STEPS, "0",
            "steps in which the learning rate rises from 0"),
    NUMBER("optimizer.schedule.min_lr", optimizer.schedule.min_lr, ANY, 0, 1e9, false, false, "0.0",
           "the learning rate does not fall below it"),
    INTEGER("optimizer.schedule.every", optimizer.schedule.every, ANY, 1, MOST_STEPS, "1",
            "steps between two multiplications by gamma (step, exponential)"),
    NUMBER("optimizer.schedule.gamma", optimizer.schedule.gamma, ANY, 0, 1, true, false, "0.1",
           "factor of the learning rate (step, exponential)"),

    INTEGER("train.batch", train.batch, ANY, 1, MOST, "8", "samples of a mini-batch"),
    INTEGER("train.steps", train.steps, ANY, 1, MOST, "1000", "optimizer steps"),
    INTEGER("train.seed", train.seed, ANY, 0, 9e15, "0", "of initial parameters, dropout and data"),
    INTEGER("train.eval_every", train.eval_every, ANY, 0, MOST, "0", "steps between evaluations; 0: only at the end"),
    INTEGER("train.eval_windows", train.eval_windows, ANY, 0, MOST_STEPS, "0",
            "windows of the evaluations on the way; 0: the whole split. The last one covers the whole split"),
    TEXT("train.init_from", train.init_from, ANY, "",
         "weights to start from instead of random ones: a run directory, a checkpoint, or a safetensors file or index"),
    {"train.replace", CLI_KEY_TEXTS, ANY, AT(train.replace), 0, 0, false, false, NULL, "",
     "parameters that do not come from init_from but start anew, by name or pattern, or [head]: the last layer with "
     "parameters"},
    {"train.freeze", CLI_KEY_TEXTS, ANY, AT(train.freeze), 0, 0, false, false, NULL, "",
     "parameters that are not trained, by name or pattern or head, for instance [\"layers.0.*\"]"},
    INTEGER("train.patience", train.patience, ANY, 0, MOST, "0",
            "evaluations (every eval_every steps) without a better validation loss after which the run ends early; 0: "
            "never"),
    TEXT("train.out", train.out, ANY, "", "run directory; default: runs/ and the configuration's name"),
    CHOICE("train.on_nan", train.on_nan, ANY, "stop|skip", "stop",
           "when loss or gradients are not finite: stop, or skip that update"),
    BOOLEAN("train.trace", train.trace, ANY, "false",
            "write trace.json: the last step's actions, for chrome://tracing or Perfetto"),

    INTEGER("checkpoint.every", checkpoint.every, ANY, 0, MOST, "0", "steps between checkpoints; 0: only at the end"),
    INTEGER("checkpoint.keep", checkpoint.keep, ANY, 1, MOST, "2", "newest checkpoints kept, besides the best"),
    INTEGER("checkpoint.keep_every", checkpoint.keep_every, ANY, 0, MOST, "0",
            "checkpoints of steps that this number divides are kept for good; 0: none"),
    BOOLEAN("checkpoint.best", checkpoint.best, ANY, "true",
            "a checkpoint also for each new best validation loss, kept as long as it is the best"),
    BOOLEAN("checkpoint.background", checkpoint.background, ANY, "true",
            "checkpoints on the way (every) are written from a copy in memory while training goes on; false: training "
            "waits and needs no memory for the copy"),
    {"checkpoint.shard_size", CLI_KEY_BYTES, ANY, AT(checkpoint.shard_size), 0, 0, false, false, NULL, "5GB",
     "larger weights or optimizer state are split over several files with an index"},
};

enum { KEYS = sizeof keys / sizeof *keys };

/* Keys, and groups of keys. What is not named here must be the same when a run is resumed. */
static const char *const may_change[] = {
    "data.text", /* files may have moved; how much data there is must be the same */
    "data.tokens",         "data.validation_tokens", "data.mirror",        "data.shift", /* evaluations only */
    "pipeline.partitions", "pipeline.schedule",      "pipeline.recompute", "pipeline.granularity",
    "pipeline.balance",    "pipeline.stages",        "pipeline.speeds",    "pipeline.report_after",
    "device.memory",       "device.threads",         "optimizer.lr",       "optimizer.weight_decay",
    "optimizer.clip",      "optimizer.schedule",     "optimizer.shard",    "train.steps",
    "train.eval_every",    "train.eval_windows",     "train.init_from",    "train.replace",
    "train.out",           "train.on_nan",           "train.patience",     "train.trace",
    "checkpoint",
};

bool cli_key_may_change(const cli_key *key) {
    for (size_t i = 0; i < sizeof may_change / sizeof *may_change; i++) {
        size_t length = strlen(may_change[i]);
        bool begins = strncmp(key->path, may_change[i], length) == 0;
        if (begins && (key->path[length] == '\0' || key->path[length] == '.')) return true;
    }
    return false;
}

void cli_key_heading(const cli_key *key, cli_text *text) {
    size_t length = strcspn(key->path, ".");
    cli_text_add_bytes(text, key->path, length);
    if (key->use == CLI_USE_ZOO) cli_text_add(text, ", one of the zoo");
    if (key->use == CLI_USE_LAYERS) cli_text_add(text, ", given as a list of layers");
    if (key->use != CLI_USE_ALWAYS && key->use != CLI_USE_ZOO && key->use != CLI_USE_LAYERS) {
        cli_text_add(text, " of ");
        cli_key_models(key, text);
    }
}

void cli_key_models(const cli_key *key, cli_text *text) {
    char word[64];
    bool first = true;
    if (key->use == CLI_USE_ALWAYS) return;
    for (int i = 0; *cli_choice_word(keys[0].choices, i, word, sizeof word); i++) {
        if (!(key->use & CLI_USE_GPT2 << i)) continue;
        cli_text_add(text, "%s%s", first ? "" : ", ", word);
        first = false;
    }
}

bool cli_key_begins(const cli_key *key) {
    const cli_key *before = key > keys ? key - 1 : NULL;
    size_t length = strcspn(key->path, ".");
    return !before || before->use != key->use || strncmp(before->path, key->path, length + 1) != 0;
}

const cli_key *cli_keys(size_t *count) {
    *count = KEYS;
    return keys;
}

const cli_key *cli_key_find(const char *path, cli_key_use use) {
    for (size_t i = 0; i < KEYS; i++) {
        if ((keys[i].use & use) && strcmp(keys[i].path, path) == 0) return &keys[i];
    }
    return NULL;
}

bool cli_key_is_group(const char *path, cli_key_use use) {
    size_t length = strlen(path);
    for (size_t i = 0; i < KEYS; i++) {
        if ((keys[i].use & use) && strncmp(keys[i].path, path, length) == 0 && keys[i].path[length] == '.') return true;
    }
    return false;
}

static const char *leaf(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Groups of a path that are the beginning of another one count as much as its last word: a key in the wrong group
 * ("train.lr") is near to the right one, so is a misspelt one in the right group. */
static size_t distance(const char *path, const char *known) {
    size_t words = cli_edit_distance(leaf(path), leaf(known)), whole = cli_edit_distance(path, known);
    return 3 * words + whole;
}

const char *cli_key_nearest(const char *path, cli_key_use use) {
    const char *nearest = NULL;
    size_t best = 0;
    static const char *const groups[] = {"model", "data", "pipeline", "device", "optimizer", "train", "checkpoint"};
    if (!strchr(path, '.')) { /* a top-level key */
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            size_t here = cli_edit_distance(path, groups[i]);
            if (nearest && here >= best) continue;
            nearest = groups[i];
            best = here;
        }
        if (best <= 3) return nearest;
        nearest = NULL;
    }
    for (size_t i = 0; i < KEYS; i++) {
        size_t here = distance(path, keys[i].path);
        if (!(keys[i].use & use) || (nearest && here >= best)) continue;
        nearest = keys[i].path;
        best = here;
    }
    return nearest;
}

static void add_range(const cli_key *key, cli_text *text) {
    bool open = key->type == CLI_KEY_INTEGER && key->high >= MOST_STEPS; /* nobody comes near */
    if (key->low == key->high) {
        cli_text_add(text, " %.10g", key->low);
    } else if (open) {
        cli_text_add(text, key->above ? " above %.10g" : ", %.10g or more", key->low);
    } else {
        cli_text_add(text, key->above ? " above %.10g" : " from %.10g", key->low);
        cli_text_add(text, key->below ? " and below %.10g" : " to %.10g", key->high);
    }
}

void cli_key_accepts(const cli_key *key, cli_text *text) {
    char word[64];
    switch (key->type) {
    case CLI_KEY_INTEGER:
        cli_text_add(text, key->low == key->high ? "only" : "an integer");
        add_range(key, text);
        break;
    case CLI_KEY_NUMBER:
        cli_text_add(text, "a number");
        add_range(key, text);
        break;
    case CLI_KEY_BOOLEAN:
        cli_text_add(text, "true or false");
        break;
    case CLI_KEY_TEXT:
        cli_text_add(text, "a text");
        break;
    case CLI_KEY_CHOICE:
        for (int i = 0; *cli_choice_word(key->choices, i, word, sizeof word); i++)
            cli_text_add(text, "%s%s", i ? ", " : "one of ", word);
        break;
    case CLI_KEY_BYTES:
        cli_text_add(text, "bytes with a unit, for instance 512MiB or 8GiB, or none");
        break;
    case CLI_KEY_SIZES:
        cli_text_add(text, "bytes with a unit, for instance 512MiB or 8GiB, or none, or a list of such");
        break;
    case CLI_KEY_PAIR:
        cli_text_add(text, "a list of two numbers");
        add_range(key, text);
        break;
    case CLI_KEY_NUMBERS:
        cli_text_add(text, "a number or a list of numbers");
        add_range(key, text);
        break;
    case CLI_KEY_SHARE:
        cli_text_add(text, "a path, or a number");
        add_range(key, text);
        break;
    case CLI_KEY_TEXTS:
        cli_text_add(text, "a list of texts");
        break;
    case CLI_KEY_INTEGERS:
        cli_text_add(text, "a list of integers");
        add_range(key, text);
        break;
    case CLI_KEY_LAYERS:
        cli_text_add(text, "a list of layers");
        break;
    }
}
