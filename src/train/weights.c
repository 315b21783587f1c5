/* Parameters, states and gradients in files: plain f32 under the model's names, whatever the partitioning. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "gpipe/checkpoint.h"
#include "pipeline/save.h"
#include "train/names.h"
#include "train/trainer.h"

typedef enum tensor_kind { PARAMETER, GRADIENT, STATE } tensor_kind;

/* One tensor that is read from the engine when the writer gets to it; `values` holds it while it is written. */
typedef struct tensor_source {
    gp_trainer *trainer;
    tensor_kind kind;
    size_t index;   /* of the parameter or state */
    float **values; /* scratch shared by all sources, as large as the largest tensor */
} tensor_source;

static gp_status read_tensor(const tensor_source *source) {
    gp_engine *engine = source->trainer->engine;
    switch (source->kind) {
    case GRADIENT:
        return gp_engine_read_gradient(engine, source->index, *source->values);
    case STATE:
        return gp_engine_read_state(engine, source->index, *source->values);
    default:
        return gp_engine_read_parameter(engine, source->index, *source->values);
    }
}

static gp_status fill_from_engine(void *user, size_t offset, void *buffer, size_t bytes) {
    const tensor_source *source = user;
    if (offset == 0) GP_TRY(read_tensor(source));
    memcpy(buffer, (const char *)*source->values + offset, bytes);
    return GP_OK;
}

/* What is written to one file. */
typedef struct weights_file {
    gp_safetensors_entry *entries;
    tensor_source *sources;
    char **names; /* that were made here; NULL entries otherwise */
    float *values;
    size_t count;
} weights_file;

/* Room for the largest tensor. */
static float *values_create(const gp_model *model) {
    int64_t largest = 0;
    for (size_t p = 0; p < gp_model_parameters(model); p++) {
        int64_t elements = gp_shape_elements(gp_model_parameter(model, p).shape);
        if (elements > largest) largest = elements;
    }
    for (size_t s = 0; s < gp_model_states(model); s++) {
        int64_t elements = gp_shape_elements(gp_model_state(model, s).shape);
        if (elements > largest) largest = elements;
    }
    return gp_allocate_array((size_t)largest, sizeof(float));
}

static gp_status weights_file_create(weights_file *file, const gp_model *model, size_t capacity) {
    memset(file, 0, sizeof *file);
    file->entries = gp_allocate_array(capacity, sizeof *file->entries);
    file->sources = gp_allocate_array(capacity, sizeof *file->sources);
    file->names = gp_allocate_array(capacity, sizeof *file->names);
    file->values = values_create(model);
    return file->entries && file->sources && file->names && file->values ? GP_OK : GP_OUT_OF_MEMORY;
}

static void weights_file_destroy(weights_file *file) {
    for (size_t i = 0; file->names && i < file->count; i++) {
        gp_free(file->names[i]);
    }
    gp_free(file->entries);
    gp_free(file->sources);
    gp_free(file->names);
    gp_free(file->values);
}

static gp_status add_from_engine(weights_file *file, gp_trainer *trainer, tensor_kind kind, size_t index,
                                 const char *prefix) {
    const gp_model *model = trainer->model;
    const char *name = kind == STATE ? gp_model_state(model, index).name : gp_model_parameter(model, index).name;
    gp_shape shape = kind == STATE ? gp_model_state(model, index).shape : gp_model_parameter(model, index).shape;
    size_t i = file->count++;
    file->names[i] = gp_format_text("%s%s", prefix, name);
    if (!file->names[i]) return GP_OUT_OF_MEMORY;
    file->sources[i] = (tensor_source){trainer, kind, index, &file->values};
    file->entries[i] = (gp_safetensors_entry){
        .name = file->names[i], .type = {GP_F32, shape}, .fill = fill_from_engine, .user = &file->sources[i]};
    return GP_OK;
}

static void add_tensor(weights_file *file, const char *name, const gp_tensor *tensor) {
    file->entries[file->count++] = (gp_safetensors_entry){.name = name, .type = tensor->type, .data = tensor->data};
}

/* One process writes the file; the others give it what they hold as it gets there. */
static gp_status write_file(gp_trainer *trainer, weights_file *file, const char *path,
                            const gp_safetensors_pair *metadata, size_t pairs) {
    gp_status status = GP_OK;
    if (gp_trainer_writes(trainer)) {
        status = gp_safetensors_write(path, file->entries, file->count, metadata, pairs);
        status = gp_engine_fail(trainer->engine, status); /* the others wait for it to ask for more */
    }
    for (size_t i = 0; !gp_trainer_writes(trainer) && status == GP_OK && i < file->count; i++)
        if (file->entries[i].fill) status = read_tensor(file->entries[i].user);
    return gp_engine_agree(trainer->engine, status, false, NULL);
}

gp_status gp_trainer_save(gp_trainer *trainer, const char *path) {
    size_t count = gp_model_parameters(trainer->model), states = gp_model_states(trainer->model);
    const gp_safetensors_pair metadata[] = {{"format", "gpipe"}, {"gpipe_version", gp_version()}};
    weights_file file;
    gp_status status = weights_file_create(&file, trainer->model, count + states);
    for (size_t p = 0; status == GP_OK && p < count; p++) {
        status = add_from_engine(&file, trainer, PARAMETER, p, "");
    }
    for (size_t s = 0; status == GP_OK && s < states; s++) {
        status = add_from_engine(&file, trainer, STATE, s, "");
    }
    if (status == GP_OK) status = write_file(trainer, &file, path, metadata, 2);
    weights_file_destroy(&file);
    return status;
}

gp_status gp_trainer_save_gradients(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                                    const gp_tensor *weights, const char *path) {
    size_t count = gp_model_parameters(trainer->model);
    gp_batch batch = {.inputs = *inputs, .targets = *targets};
    gp_step_result result = {0};
    double loss = 0;
    gp_tensor loss_tensor = {.type = {GP_F64, {0}}, .data = &loss};
    weights_file file = {0};
    if (weights) batch.weights = *weights;
    if (trainer->inference)
        return gp_error(GP_INVALID, "this trainer was made without an optimizer: it has no gradients");
    GP_TRY(gp_engine_gradients(trainer->engine, &batch, (uint32_t)trainer->step, &result));
    loss = result.loss;
    gp_status status = weights_file_create(&file, trainer->model, 2 * count + 4);
    for (size_t p = 0; status == GP_OK && p < count; p++) {
        status = add_from_engine(&file, trainer, PARAMETER, p, "parameters.");
        if (status == GP_OK) status = add_from_engine(&file, trainer, GRADIENT, p, "gradients.");
    }
    if (status == GP_OK) {
        add_tensor(&file, "inputs", inputs);
        add_tensor(&file, "targets", targets);
        add_tensor(&file, "loss", &loss_tensor);
        if (batch.weights.data) add_tensor(&file, "weights", weights);
        status = write_file(trainer, &file, path, NULL, 0);
    }
    weights_file_destroy(&file);
    return status;
}

/* Reads the tensor `name` of the file, which must have this shape. */
static gp_status read_from_file(const gp_shards *file, const char *path, const char *name, gp_shape shape,
                                float *values) {
    char found[96], wanted[96];
    size_t index;
    if (!gp_shards_find(file, name, &index))
        return gp_error(GP_INVALID, "%s has no tensor %s, which the model needs", path, name);
    gp_type type = gp_shards_type(file, index);
    if (!gp_shape_equal(type.shape, shape))
        return gp_error(GP_INVALID, "%s: tensor %s is %s, but the model needs %s", path, name,
                        gp_type_format(type, found, sizeof found),
                        gp_type_format((gp_type){GP_F32, shape}, wanted, sizeof wanted));
    return gp_shards_read(file, index, 0, (size_t)gp_shape_elements(shape), GP_F32, values);
}

static gp_status load_parameter(gp_trainer *trainer, const gp_shards *file, const char *path, size_t parameter,
                                float *values) {
    gp_parameter_info info = gp_model_parameter(trainer->model, parameter);
    GP_TRY(read_from_file(file, path, info.name, info.shape, values));
    return gp_engine_write_parameter(trainer->engine, parameter, values);
}

static gp_status load_state(gp_trainer *trainer, const gp_shards *file, const char *path, size_t state, float *values) {
    gp_state_info info = gp_model_state(trainer->model, state);
    GP_TRY(read_from_file(file, path, info.name, info.shape, values));
    return gp_engine_write_state(trainer->engine, state, values);
}

static bool is_excepted(const gp_model *model, const char *name, const char *const *patterns, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (gp_name_matches(model, patterns[i], name)) return true;
    return false;
}

static gp_status load_all(gp_trainer *trainer, const gp_shards *file, const char *path, const char *const *patterns,
                          size_t count, float *values) {
    const gp_model *model = trainer->model;
    for (size_t p = 0; p < gp_model_parameters(model); p++)
        if (!is_excepted(model, gp_model_parameter(model, p).name, patterns, count))
            GP_TRY(load_parameter(trainer, file, path, p, values));
    for (size_t s = 0; s < gp_model_states(model); s++)
        if (!is_excepted(model, gp_model_state(model, s).name, patterns, count))
            GP_TRY(load_state(trainer, file, path, s, values));
    return GP_OK;
}

/* Each worker reads what it holds. */
static gp_status load_together(gp_trainer *trainer, const char *path) {
    gp_shards *file = NULL;
    gp_status status = gp_engine_agree(trainer->engine, gp_shards_open(&file, path), false, NULL);
    if (status == GP_OK) status = gp_error_within(gp_engine_load_weights(trainer->engine, file), "%s", path);
    gp_shards_close(file);
    return status;
}

gp_status gp_trainer_load_except(gp_trainer *trainer, const char *path, const char *const *patterns, size_t count) {
    gp_shards *file = NULL;
    float *values = NULL;
    for (size_t i = 0; i < count; i++)
        GP_TRY(gp_names_check(trainer->model, patterns[i]));
    if (trainer->layout.engine.cluster && count == 0) return load_together(trainer, path);
    gp_status status = gp_shards_open(&file, path);
    if (status == GP_OK && !(values = values_create(trainer->model))) status = GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = load_all(trainer, file, path, patterns, count, values);
    gp_free(values);
    gp_shards_close(file);
    return gp_engine_agree(trainer->engine, status, false, NULL);
}

gp_status gp_trainer_load(gp_trainer *trainer, const char *path) {
    return gp_trainer_load_except(trainer, path, NULL, 0);
}
