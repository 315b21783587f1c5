/* The loss at the end of a model: the type of its targets, its weight, its operations. It works on f32 or bf16 outputs
 * and is always summed in f32. */
#include <inttypes.h>

#include "base/status.h"
#include "graph/graph.h"
#include "layers/structure.h"

/* Of a sample whose loss is mixed. */
enum { LABELS = 2 };

gp_type gp_model_target_type(const gp_model *model) {
    gp_type type = model->output;
    if (model->loss.kind == GP_LOSS_CROSS_ENTROPY) {
        if (type.shape.rank > 0) type.shape.rank--;
        type.dtype = GP_I32;
        if (model->loss.mixed) type.shape.dims[type.shape.rank++] = LABELS;
        if (model->aside) type.shape.dims[0]++;
    }
    return type;
}

gp_status gp_model_check_loss(const gp_model *model) {
    char text[160];
    gp_type_format(model->output, text, sizeof text);
    if (!gp_dtype_is_float(model->output.dtype))
        return gp_error(GP_INVALID, "the loss needs floating-point outputs, the last layer returns %s a sample", text);
    if (model->loss.kind == GP_LOSS_CROSS_ENTROPY && model->output.shape.rank < 1)
        return gp_error(GP_INVALID, "cross_entropy needs classes as last dimension, the last layer returns %s a sample",
                        text);
    if (model->loss.mixed && (model->loss.kind != GP_LOSS_CROSS_ENTROPY || model->output.shape.rank >= GP_MAX_RANK - 1))
        return gp_error(GP_INVALID, "mixed labels are for cross_entropy of outputs with at most %d dimensions a sample",
                        GP_MAX_RANK - 2);
    if (model->aside && (model->loss.kind != GP_LOSS_CROSS_ENTROPY || model->loss.mixed))
        return gp_error(GP_INVALID, "an auxiliary output with targets of its own is for cross_entropy of plain labels");
    return GP_OK;
}

/* The targets of the rows, or those of the auxiliary output, which stand behind them. */
static gp_value take_targets(const gp_model *model, gp_value targets, bool auxiliary) {
    int64_t rows = model->output.shape.dims[0];
    if (!model->aside || !gp_value_valid(targets)) return targets;
    if (!auxiliary) return gp_slice(targets, 1, 0, rows);
    return gp_reshape(gp_slice(targets, 1, rows, rows + 1), gp_shape_of(1, gp_value_type(targets).shape.dims));
}

/* The first or second of the labels of all samples, or of their weights. */
static gp_value take_label(gp_value labels, int64_t which) {
    if (!gp_value_valid(labels)) return labels;
    gp_shape shape = gp_value_type(labels).shape;
    shape.rank--;
    return gp_reshape(gp_slice(labels, shape.rank, which, which + 1), shape);
}

static gp_value mixed_loss(const gp_model *model, const gp_built *built, gp_value output) {
    gp_value sum = gp_none();
    for (int64_t i = 0; i < LABELS; i++) {
        gp_value loss = gp_cross_entropy(output, take_label(built->targets, i), take_label(built->weights, i),
                                         &model->loss.cross_entropy);
        sum = i == 0 ? loss : gp_add(sum, loss);
    }
    return sum;
}

/* The loss of one value: the model's output or an auxiliary one. */
static gp_value loss_of(const gp_model *model, const gp_built *built, gp_value output, bool auxiliary) {
    if (model->loss.mixed) return mixed_loss(model, built, output);
    if (model->loss.kind == GP_LOSS_CROSS_ENTROPY)
        return gp_cross_entropy(output, take_targets(model, built->targets, auxiliary), built->weights,
                                &model->loss.cross_entropy);
    if (gp_value_type(output).dtype != GP_F32) output = gp_cast(output, GP_F32);
    return gp_squared_error(output, built->targets);
}

gp_status gp_model_build_loss(const gp_model *model, const gp_build_options *options, gp_built *built) {
    gp_graph *graph = built->graph;
    gp_type target = gp_type_with_batch(gp_model_target_type(model), options->batch);
    gp_graph_begin_layer(graph, (int32_t)model->layer_count);
    built->targets = gp_graph_input(graph, target);
    if (options->loss_weights && model->loss.kind != GP_LOSS_CROSS_ENTROPY)
        return gp_error(GP_INVALID, "loss squared_error takes no weights");
    if (options->loss_weights && model->aside)
        return gp_error(GP_INVALID, "an auxiliary output with targets of its own takes no weights");
    if (options->loss_weights) built->weights = gp_graph_input(graph, (gp_type){GP_F32, target.shape});
    built->loss = loss_of(model, built, built->output, false);
    if (options->training && gp_value_valid(built->auxiliary)) {
        gp_value auxiliary = loss_of(model, built, built->auxiliary, true);
        built->loss = gp_add(built->loss, gp_scale(auxiliary, built->auxiliary_weight));
    }
    return gp_error_within(gp_graph_status(graph), "loss");
}

double gp_model_loss_weight(const gp_model *model, const gp_tensor *targets, const gp_tensor *weights, int64_t first,
                            int64_t count) {
    if (model->loss.kind != GP_LOSS_CROSS_ENTROPY) return (double)count;
    const gp_cross_entropy_options *options = &model->loss.cross_entropy;
    int64_t rows = gp_shape_elements(gp_model_target_type(model).shape);
    const int32_t *target = (const int32_t *)targets->data + first * rows;
    const float *weight = weights && weights->data ? (const float *)weights->data + first * rows : NULL;
    double sum = 0;
    for (int64_t i = 0; i < count * rows; i++) {
        if (model->aside && i % rows == rows - 1) continue; /* the auxiliary output's */
        if (!options->has_ignored || target[i] != options->ignored) sum += weight ? (double)weight[i] : 1.0;
    }
    return sum;
}
