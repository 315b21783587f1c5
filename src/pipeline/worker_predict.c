/* What a classifier says about the samples of an evaluation: the last stages rank the right class among their outputs,
 * and all workers gather what they found, so that any of them can report. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/worker.h"

int64_t gp_model_classes(const gp_model *model) {
    gp_type output = gp_model_output_type(model), target = gp_model_target_type(model);
    bool floats = output.dtype == GP_F32 || output.dtype == GP_BF16;
    bool labels = target.dtype == GP_I32 && target.shape.rank <= 1;
    return floats && labels && output.shape.rank == 1 ? output.shape.dims[0] : 0;
}

gp_status gp_worker_allocate_predictions(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    if (!engine->options.predictions) return GP_OK;
    size_t most = (size_t)gp_engine_largest_share(engine, engine->options.batch);
    size_t largest = (most - 1) / (size_t)engine->options.micro_batches + 1;
    size_t classes = (size_t)gp_model_classes(engine->options.model);
    worker->predicted = gp_allocate_array(most, sizeof *worker->predicted);
    worker->predictions = gp_allocate_array(most * engine->total, sizeof *worker->predictions);
    if (!worker->predicted || !worker->predictions) return GP_OUT_OF_MEMORY;
    if (!worker->stage->is_last) return GP_OK;
    worker->logits = gp_allocate_array(most * classes, sizeof(float));
    worker->view = gp_allocate_array(largest * classes, sizeof(float));
    return worker->logits && worker->view ? GP_OK : GP_OUT_OF_MEMORY;
}

void gp_worker_release_predictions(gp_worker *worker) {
    gp_free(worker->predicted);
    gp_free(worker->predictions);
    gp_free(worker->logits);
    gp_free(worker->view);
}

/* Of equal logits the first comes first; NaN comes last. */
static bool comes_before(const float *logits, int64_t a, int64_t b) {
    bool a_is = logits[a] == logits[a], b_is = logits[b] == logits[b];
    if (a_is != b_is) return a_is;
    return logits[a] > logits[b] || (!(logits[a] < logits[b]) && a < b);
}

static gp_prediction rank(const float *logits, int64_t classes, int32_t label) {
    gp_prediction made = {.label = label >= 0 && label < classes ? label : -1};
    for (int64_t c = 1; c < classes; c++)
        if (comes_before(logits, c, made.predicted)) made.predicted = (int32_t)c;
    for (int64_t c = 0; made.label >= 0 && c < classes; c++)
        made.rank += comes_before(logits, c, label);
    return made;
}

/* The outputs for `samples` of a micro-batch, added to those of the views before. */
static gp_status take_outputs(gp_worker *worker, int64_t samples, int64_t classes, float *logits) {
    bool again = worker->engine->command.again;
    GP_TRY(gp_worker_download_output(worker, samples, again ? worker->view : logits));
    for (int64_t i = 0; again && i < samples * classes; i++)
        logits[i] += worker->view[i];
    return GP_OK;
}

gp_status gp_worker_predict(gp_worker *worker, int micro_batch) {
    const gp_engine *engine = worker->engine;
    const gp_share *share = gp_worker_share(worker);
    const gp_tensor *targets = &engine->command.batch->targets;
    int64_t classes = gp_model_classes(engine->options.model), first = share->first_samples[micro_batch];
    int64_t labels = gp_shape_elements(gp_model_target_type(engine->options.model).shape);
    int64_t place = first - share->first_sample;
    float *logits = worker->logits + place * classes;
    GP_TRY(take_outputs(worker, share->sizes[micro_batch], classes, logits));
    for (int64_t s = 0; s < share->sizes[micro_batch]; s++) {
        int32_t label = ((const int32_t *)targets->data)[(first + s) * labels];
        worker->predicted[place + s] = rank(logits + s * classes, classes, label);
    }
    return GP_OK;
}

gp_status gp_worker_gather_predictions(gp_worker *worker) {
    const gp_engine *engine = worker->engine;
    size_t most = (size_t)gp_engine_largest_share(engine, engine->options.batch);
    return gp_world_all_gather(engine->world, worker->number, worker->predicted, most * sizeof *worker->predicted,
                               worker->predictions);
}

const gp_prediction *gp_engine_prediction(const gp_engine *engine, int64_t sample) {
    const gp_worker *worker = &engine->workers[0];
    size_t most = (size_t)gp_engine_largest_share(engine, engine->options.batch), replica = 0;
    if (!worker->predictions) return NULL;
    while (sample >= engine->shares[replica].first_sample + engine->shares[replica].samples)
        replica++;
    size_t last = (replica + 1) * engine->options.stages - 1;
    return &worker->predictions[last * most + (size_t)(sample - engine->shares[replica].first_sample)];
}
