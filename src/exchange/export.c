/* gpipe's weights in Hugging Face's layout: the tables of names read the other way. */
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "exchange/config_json.h"
#include "exchange/export_files.h"
#include "exchange/foreign.h"

#define SHARD_BYTES UINT64_C(5000000000) /* as transformers has it */

/* Tensors to be written, as many as GP_MOST_VIEWS for each parameter. */
typedef struct gp_exported {
    const gp_shards *weights;
    const char *path; /* of the weights, for messages */
    gp_naming naming;
    bool prefixed;
    gp_dtype dtype;
    uint64_t shard_bytes;
    gp_safetensors_entry *entries;
    gp_views *views;
    char (*names)[GP_FOREIGN_NAME];
    size_t count;
} gp_exported;

static gp_status find_own(const gp_exported *e, const gp_parameter_info *info, size_t *tensor) {
    char one[128], other[128];
    if (!gp_shards_find(e->weights, info->name, tensor))
        return gp_error(GP_INVALID, "%s has no tensor %s, which the model needs", e->path, info->name);
    gp_type type = gp_shards_type(e->weights, *tensor);
    if (gp_shape_equal(type.shape, info->shape)) return GP_OK;
    return gp_error(GP_INVALID, "%s: tensor %s is %s, but the model needs %s", e->path, info->name,
                    gp_type_format(type, one, sizeof one),
                    gp_type_format((gp_type){type.dtype, info->shape}, other, sizeof other));
}

static void add_part(gp_exported *e, const gp_naming_row *row, int64_t block, size_t part, size_t tensor,
                     gp_shape shape) {
    size_t i = e->count++;
    bool transposed = row->arrangement == GP_TRANSPOSED;
    if (row->arrangement == GP_SPLIT) shape.dims[0] /= GP_MOST_VIEWS;
    if (transposed) shape = gp_shape_of(2, (int64_t[]){shape.dims[1], shape.dims[0]});
    gp_view view = {.source = e->weights, .tensor = tensor, .rows = shape.dims[0], .transposed = transposed};
    view.columns = gp_shape_elements(shape) / view.rows;
    view.first_row = (int64_t)part * view.rows;
    e->views[i] = (gp_views){.views = {view}, .count = 1, .dtype = e->dtype};
    e->entries[i] = (gp_safetensors_entry){
        .name = gp_naming_format(&e->naming, row->foreign, e->prefixed, block, part, e->names[i]),
        .type = {e->dtype, shape},
        .fill = gp_views_fill,
        .user = &e->views[i]};
}

static gp_status add_parameter(gp_exported *e, const gp_parameter_info *info) {
    int64_t block = -1;
    size_t tensor = 0;
    const gp_naming_row *row = gp_naming_find(&e->naming, info->name, &block);
    if (!row) return gp_error(GP_FAILED, "no name is known for parameter %s", info->name);
    GP_TRY(find_own(e, info, &tensor));
    for (size_t part = 0; part < gp_naming_parts(row); part++)
        add_part(e, row, block, part, tensor, info->shape);
    return GP_OK;
}

static gp_status write_tensors(gp_exported *e, const gp_model *model, const char *folder) {
    size_t parameters = gp_model_tensors(model), most = GP_MOST_VIEWS * parameters;
    e->entries = gp_allocate_array(most, sizeof *e->entries);
    e->views = gp_allocate_array(most, sizeof *e->views);
    e->names = gp_allocate_array(most, sizeof *e->names);
    gp_status status = e->entries && e->views && e->names ? GP_OK : GP_OUT_OF_MEMORY;
    for (size_t p = 0; p < parameters && status == GP_OK; p++) {
        gp_parameter_info info = gp_model_tensor(model, p);
        status = add_parameter(e, &info);
    }
    if (status == GP_OK) status = gp_export_files(folder, e->entries, e->count, e->shard_bytes);
    gp_free(e->entries);
    gp_free(e->views);
    gp_free(e->names);
    return status;
}

static gp_status check_options(gp_family_options *family, const gp_export_options *options) {
    if (options->dtype != GP_F32 && options->dtype != GP_BF16 && options->dtype != GP_F16)
        return gp_error(GP_INVALID, "weights cannot be exported as %s: f32, bf16 and f16 are accepted",
                        gp_dtype_name(options->dtype));
    if (family->family == GP_FAMILY_GPT2 && family->gpt2.no_bias)
        return gp_error(GP_INVALID, "this GPT-2 has no biases (model.bias: false): Hugging Face's GPT-2 has them");
    return gp_family_resolve(family);
}

static gp_status export_to(const gp_family_options *family, const gp_shards *weights, const char *path,
                           const char *folder, const gp_export_options *options) {
    gp_bert_head head = family->bert.head;
    bool bert = family->family == GP_FAMILY_BERT;
    gp_exported e = {.weights = weights,
                     .path = path,
                     .dtype = options->dtype,
                     .shard_bytes = options->shard_bytes == 0            ? SHARD_BYTES
                                    : options->shard_bytes == UINT64_MAX ? 0
                                                                         : options->shard_bytes,
                     .naming = gp_family_naming(family),
                     .prefixed = true};
    if (bert && (head == GP_BERT_HIDDEN || head == GP_BERT_POOLED)) e.prefixed = false; /* as a BertModel has them */
    gp_model *model = NULL;
    char *config = gp_format_text("%s/config.json", folder);
    gp_status status = config ? gp_family_model(&model, family) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = write_tensors(&e, model, folder);
    if (status == GP_OK && family->family != GP_FAMILY_RESNET) status = gp_config_json_write(family, config, options);
    gp_model_destroy(model);
    gp_free(config);
    return status;
}

gp_status gp_export_huggingface(const gp_family_options *family, const char *weights, const char *folder,
                                const gp_export_options *options) {
    gp_export_options known;
    gp_family_options resolved = *family;
    gp_shards *shards = NULL;
    GP_TRY(gp_options_read(&known, sizeof known, options, "gp_export_options"));
    GP_TRY(check_options(&resolved, &known));
    GP_TRY(gp_shards_open(&shards, weights));
    gp_status status = export_to(&resolved, shards, weights, folder, &known);
    gp_shards_close(shards);
    return status;
}
