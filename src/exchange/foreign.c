/* Models of other programs: opened, checked, written as gpipe's. */
#include "exchange/foreign.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "checkpoint/shards.h"
#include "exchange/config_json.h"
#include "gpipe/words.h"
#include "layers/model.h"
#include "models/zoo.h"

/* ---- what is at the path ---- */

/* A file in the folder of `path`, or in `path` when that is a folder. */
static char *beside(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    if (gp_is_folder(path)) return gp_format_text("%s/%s", path, name);
    return slash ? gp_format_text("%.*s/%s", (int)(slash - path), path, name) : gp_copy_text(name);
}

static bool has_file(const char *path, const char *name) {
    char *file = beside(path, name);
    bool found = file && gp_is_file(file);
    gp_free(file);
    return found;
}

/* What is often found instead of safetensors. */
static gp_status check_weights(const char *path) {
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5"};
    if (!gp_is_folder(path) || has_file(path, "model.safetensors") || has_file(path, "model.safetensors.index.json"))
        return GP_OK;
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        if (has_file(path, pickles[i]))
            return gp_error(GP_INVALID,
                            "%s has %s, which gpipe does not read: model.safetensors is accepted (save_pretrained of "
                            "transformers writes it)",
                            path, pickles[i]);
    }
    return gp_error(GP_INVALID, "%s has neither model.safetensors nor model.safetensors.index.json", path);
}

/* ---- opening ---- */

static gp_status open_llmc(gp_foreign *f, const gp_foreign_options *options) {
    const gp_llmc_sizes *sizes = gp_llmc_sizes_of(gp_shards_llmc(f->shards));
    if (options->choose_head)
        return gp_error(GP_INVALID, "%s is a GPT-2 of llm.c: only a bert has heads to choose from", f->path);
    f->format = "llm.c";
    f->family.family = GP_FAMILY_GPT2;
    f->family.gpt2 = (gp_gpt2_options){.layers = sizes->layers,
                                       .heads = sizes->heads,
                                       .width = sizes->width,
                                       .context = sizes->context,
                                       .vocabulary = sizes->vocabulary};
    GP_TRY(gp_zoo_resolve_gpt2(&f->family.gpt2));
    f->naming = gp_naming_llmc(&f->family.gpt2);
    return GP_OK;
}

static gp_status open_huggingface(gp_foreign *f, const gp_foreign_options *options) {
    f->format = "Hugging Face";
    GP_TRY(gp_config_json_read(&f->family, f->config, options));
    GP_TRY(gp_error_within(gp_family_resolve(&f->family), "'%s'", f->config));
    f->naming = gp_family_naming(&f->family);
    return GP_OK;
}

static bool has_tensor(const void *user, const char *name) {
    return gp_shards_find(user, name, NULL);
}

/* A ResNet under torchvision's names needs no configuration: its tensors say what it is. */
static bool find_resnet(gp_foreign *f, const char *path) {
    gp_shards *shards = NULL;
    size_t classifier = 0;
    if (gp_shards_open(&shards, path) != GP_OK) return false;
    const char *name = gp_naming_find_resnet(has_tensor, shards);
    if (!name || !gp_shards_find(shards, "fc.weight", &classifier)) {
        gp_shards_close(shards);
        return false;
    }
    gp_shape shape = gp_shards_type(shards, classifier).shape;
    f->shards = shards;
    f->format = "torchvision";
    f->family.family = GP_FAMILY_RESNET;
    f->family.resnet = (gp_resnet_options){.name = name, .classes = shape.rank > 0 ? shape.dims[0] : 0};
    return true;
}

static gp_status open_resnet(gp_foreign *f, const gp_foreign_options *options) {
    if (options->choose_head)
        return gp_error(GP_INVALID, "%s is a %s: only a bert has heads to choose from", f->path, f->family.resnet.name);
    GP_TRY(gp_family_resolve(&f->family));
    f->naming = gp_family_naming(&f->family);
    return GP_OK;
}

/* Before a model is built that large: a block has at least a tensor. */
static gp_status check_blocks(const gp_foreign *f) {
    size_t tensors = gp_shards_count(f->shards);
    if (f->naming.blocks <= (int64_t)tensors) return GP_OK;
    return gp_error(GP_INVALID, "'%s' tells of %lld layers, but %s has only %zu tensor%s", f->config,
                    (long long)f->naming.blocks, f->path, tensors, gp_plural((int64_t)tensors, "s"));
}

/* The configuration before the weights: it is small, and says best what is wrong with a folder. */
static gp_status open_path(gp_foreign *f, const char *path, const gp_foreign_options *options) {
    bool llmc = gp_is_file(path) && gp_llmc_is(path);
    f->path = gp_copy_text(path);
    f->config = llmc ? NULL : beside(path, "config.json");
    if (!f->path || (!llmc && !f->config)) return GP_OUT_OF_MEMORY;
    if (llmc) {
        GP_TRY(gp_shards_open(&f->shards, path));
        return open_llmc(f, options);
    }
    if (!gp_is_folder(path) && !gp_is_file(path))
        return gp_error(GP_INVALID, "%s: there is no such file or folder", path);
    if (find_resnet(f, path)) return open_resnet(f, options);
    if (!gp_is_file(f->config))
        return gp_error(GP_INVALID,
                        "%s: there is no config.json: a folder of transformers with one, a checkpoint of llm.c, or a "
                        "ResNet under torchvision's names is accepted",
                        path);
    GP_TRY(open_huggingface(f, options));
    GP_TRY(check_weights(path));
    GP_TRY(gp_shards_open(&f->shards, path));
    return check_blocks(f);
}

gp_status gp_foreign_open(gp_foreign **foreign, const char *path, const gp_foreign_options *options) {
    gp_foreign_options known;
    *foreign = NULL;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_foreign_options"));
    gp_foreign *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    made->head_chosen = known.choose_head;
    made->seed = known.seed;
    gp_status status = open_path(made, path, &known);
    if (status == GP_OK) status = gp_family_model(&made->model, &made->family);
    if (status == GP_OK) status = gp_foreign_match(made);
    if (status != GP_OK) {
        gp_foreign_close(made);
        return status;
    }
    *foreign = made;
    return GP_OK;
}

void gp_foreign_close(gp_foreign *f) {
    if (!f) return;
    gp_model_destroy(f->model);
    gp_shards_close(f->shards);
    gp_free(f->config);
    gp_free(f->path);
    gp_free(f->views);
    gp_free(f->used);
    gp_free(f->unused);
    gp_free(f->anew);
    gp_free(f);
}

/* ---- questions ---- */

const char *gp_foreign_format(const gp_foreign *f) {
    return f->format;
}

const gp_family_options *gp_foreign_family(const gp_foreign *f) {
    return &f->family;
}

const gp_model *gp_foreign_model(const gp_foreign *f) {
    return f->model;
}

size_t gp_foreign_unused_count(const gp_foreign *f) {
    return f->unused_count;
}

const char *gp_foreign_unused(const gp_foreign *f, size_t index) {
    return gp_shards_name(f->shards, f->unused[index]);
}

size_t gp_foreign_new_count(const gp_foreign *f) {
    return f->anew_count;
}

const char *gp_foreign_new(const gp_foreign *f, size_t index) {
    return gp_model_tensor(f->model, f->anew[index]).name;
}

/* ---- writing ---- */

/* A parameter that starts anew: made when the writer gets to it. */
typedef struct fresh {
    const gp_foreign *foreign;
    gp_parameter_info info;
    float *values; /* NULL between two parameters */
} fresh;

static gp_status fill_fresh(void *user, size_t offset, void *buffer, size_t bytes) {
    fresh *f = user;
    size_t all = gp_type_bytes((gp_type){GP_F32, f->info.shape});
    if (offset == 0) {
        f->values = gp_allocate(all);
        if (!f->values) return GP_OUT_OF_MEMORY;
        gp_parameter_initialise(&f->info, f->foreign->seed, f->values);
    }
    memcpy(buffer, (const char *)f->values + offset, bytes);
    if (offset + bytes < all) return GP_OK;
    gp_free(f->values);
    f->values = NULL;
    return GP_OK;
}

static gp_status write_all(const gp_foreign *f, const char *path, gp_safetensors_entry *entries, gp_views *views,
                           fresh *made) {
    const gp_safetensors_pair metadata[] = {{"format", "gpipe"}, {"gpipe_version", gp_version()}};
    size_t count = gp_model_tensors(f->model);
    for (size_t p = 0; p < count; p++) {
        gp_parameter_info info = gp_model_tensor(f->model, p);
        entries[p] = (gp_safetensors_entry){.name = info.name, .type = {GP_F32, info.shape}};
        entries[p].fill = gp_views_fill;
        entries[p].user = &views[p];
        if (f->views[p].count == 0) {
            made[p] = (fresh){f, info, NULL};
            entries[p].fill = fill_fresh;
            entries[p].user = &made[p];
        }
    }
    return gp_safetensors_write(path, entries, count, metadata, 2);
}

gp_status gp_foreign_write(const gp_foreign *f, const char *path) {
    size_t count = gp_model_tensors(f->model);
    gp_safetensors_entry *entries = gp_allocate_array(count, sizeof *entries);
    fresh *made = gp_allocate_array(count, sizeof *made);
    gp_status status = entries && made ? write_all(f, path, entries, f->views, made) : GP_OUT_OF_MEMORY;
    for (size_t p = 0; made && p < count; p++)
        gp_free(made[p].values); /* of one that was being written */
    gp_free(entries);
    gp_free(made);
    return status;
}
