/* Evaluation through the same stages as training, without dropout. */
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "data/dataset.h"
#include "train/trainer.h"

gp_status gp_trainer_evaluate(gp_trainer *trainer, const gp_tensor *inputs, const gp_tensor *targets,
                              const gp_tensor *weights, double *loss_sum, double *weight) {
    gp_batch batch = {.inputs = *inputs, .targets = *targets};
    double loss = 0, count = 0;
    if (weights) batch.weights = *weights;
    GP_TRY(gp_engine_evaluate(trainer->engine, &batch, &loss, &count));
    *loss_sum += loss;
    *weight += count;
    return GP_OK;
}

gp_status gp_trainer_forward(gp_trainer *trainer, const gp_tensor *inputs, gp_tensor *outputs) {
    return gp_engine_forward(trainer->engine, inputs, outputs);
}

int64_t gp_model_class_count(const gp_model *model) {
    return gp_model_classes(model);
}

/* ---- a whole split ---- */

static void count_predictions(const gp_trainer *trainer, int64_t samples, gp_evaluation *sum) {
    for (int64_t s = 0; s < samples; s++) {
        const gp_prediction *found = gp_engine_prediction(trainer->engine, s);
        if (found->label < 0) continue;
        sum->samples++;
        sum->top1 += found->rank < 1;
        sum->top5 += found->rank < 5;
        if (sum->confusion) sum->confusion[found->label * sum->classes + found->predicted]++;
    }
}

gp_status gp_trainer_watch_evaluations(gp_trainer *trainer, const gp_evaluation_watch *watch) {
    return gp_options_read(&trainer->watch, sizeof trainer->watch, watch, "gp_evaluation_watch");
}

/* What one evaluation of a split works with. */
typedef struct evaluation {
    gp_trainer *trainer;
    const gp_dataset *dataset;
    gp_tensor view;       /* of the images of a batch; no memory where there is one view, or no images */
    int64_t done, passes; /* of a mini-batch, or a view of it, through the network */
    gp_evaluation sum;
} evaluation;

/* GP_INTERRUPTED when somebody wants to stop, in any process. */
static gp_status before_pass(evaluation *e) {
    const gp_evaluation_watch *watch = &e->trainer->watch;
    if (watch->on_progress) watch->on_progress(watch->user, e->done, e->passes);
    e->done++;
    if (!watch->should_stop) return GP_OK;
    bool stop = watch->should_stop(watch->user);
    GP_TRY(gp_engine_agree(e->trainer->engine, GP_OK, stop, &stop));
    return stop ? gp_error(GP_INTERRUPTED, "the evaluation was interrupted") : GP_OK;
}

static gp_status evaluate_batch(evaluation *e, const gp_batch *batch) {
    gp_trainer *trainer = e->trainer;
    int views = gp_dataset_views(e->dataset);
    double loss = 0;
    GP_TRY(before_pass(e));
    GP_TRY(gp_trainer_evaluate(trainer, &batch->inputs, &batch->targets, &batch->weights, &loss, &e->sum.weight));
    for (int i = 1; i < views; i++) {
        double more, weight;
        GP_TRY(before_pass(e));
        gp_batch other = {.inputs = e->view, .targets = batch->targets, .weights = batch->weights};
        gp_images_view(e->dataset, i, &batch->inputs, &other.inputs);
        GP_TRY(gp_engine_evaluate_view(trainer->engine, &other, &more, &weight));
        loss += more;
    }
    e->sum.loss += loss / views;
    if (e->sum.classes > 0) count_predictions(trainer, batch->inputs.type.shape.dims[0], &e->sum);
    return GP_OK;
}

static gp_status evaluate_batches(evaluation *e, gp_loader *loader) {
    for (;;) {
        gp_batch *batch;
        GP_TRY(gp_engine_fail(e->trainer->engine, gp_loader_next(loader, &batch)));
        if (!batch) return GP_OK;
        GP_TRY(evaluate_batch(e, batch));
    }
}

/* Opens what the evaluation needs; the loader may be there after an error too. */
static gp_status start(evaluation *e, const gp_loader_options *options, gp_loader **loader) {
    size_t bytes = (size_t)options->samples * gp_type_bytes(gp_dataset_input_type(e->dataset));
    bool needed = gp_dataset_views(e->dataset) > 1 && !options->no_inputs;
    if (needed && !(e->view.data = gp_allocate(bytes))) return GP_OUT_OF_MEMORY;
    return gp_loader_create(loader, e->dataset, options);
}

gp_status gp_trainer_evaluate_split(gp_trainer *trainer, const gp_dataset *dataset, gp_split split, int64_t most,
                                    gp_evaluation *found) {
    int64_t windows = gp_dataset_windows(dataset, split), batch = trainer->layout.engine.batch;
    gp_loader_options options = {.size = sizeof options, .split = split, .evaluation = true};
    evaluation e = {.trainer = trainer, .dataset = dataset};
    gp_loader *loader = NULL;
    GP_TRY(gp_options_read(&e.sum, sizeof e.sum, found, "gp_evaluation"));
    e.sum = (gp_evaluation){.size = e.sum.size, .confusion = e.sum.confusion};
    e.sum.classes = gp_model_classes(trainer->model);
    if (windows < 1) return gp_error(GP_INVALID, "the split has no window to evaluate on");
    options.count = most > 0 && most < windows ? most : windows;
    options.samples = batch < options.count ? batch : options.count;
    e.passes = (options.count + options.samples - 1) / options.samples * gp_dataset_views(dataset);
    int64_t first_read, read;
    gp_engine_inputs_read(trainer->engine, options.samples, &first_read, &read);
    options.no_inputs = read == 0;
    gp_status status = gp_engine_fail(trainer->engine, start(&e, &options, &loader));
    if (status == GP_OK) status = evaluate_batches(&e, loader);
    gp_loader_destroy(loader);
    gp_free(e.view.data);
    e.sum.loss = e.sum.weight > 0 ? e.sum.loss / e.sum.weight : 0;
    if (status == GP_OK && found) gp_options_write(found, &e.sum, sizeof e.sum);
    return status;
}
