/* Compiled against an installed gpipe: trains a tiny network to add two numbers and checks that the loss falls. */
#include <gpipe/gpipe.h>
#include <stdio.h>

static gp_status make_model(gp_model **model) {
    gp_layer *layers[3];
    gp_option hidden = {.key = "features", .type = GP_OPTION_INTEGER, .integer = 16};
    gp_option last = {.key = "features", .type = GP_OPTION_INTEGER, .integer = 1};
    gp_loss loss = {.kind = GP_LOSS_SQUARED_ERROR};
    gp_status status = gp_model_create(model, (gp_type){GP_F32, gp_shape_of(1, (int64_t[]){2})});
    if (status == GP_OK) status = gp_layer_create_builtin(&layers[0], "linear", &hidden, 1, NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layers[0]);
    if (status == GP_OK) status = gp_layer_create_builtin(&layers[1], "tanh", NULL, 0, NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layers[1]);
    if (status == GP_OK) status = gp_layer_create_builtin(&layers[2], "linear", &last, 1, NULL, 0);
    if (status == GP_OK) status = gp_model_add(*model, layers[2]);
    if (status == GP_OK) status = gp_model_set_loss(*model, &loss);
    return status == GP_OK ? gp_model_finish(*model) : status;
}

int main(void) {
    float x[8][2], y[8][1];
    gp_tensor inputs = {{GP_F32, gp_shape_of(2, (int64_t[]){8, 2})}, x};
    gp_tensor targets = {{GP_F32, gp_shape_of(2, (int64_t[]){8, 1})}, y};
    gp_pipeline_options pipeline = {.partitions = 2, .micro_batches = 4, .batch = 8, .balance = GP_BALANCE_PARAMETERS};
    gp_optimizer_options optimizer = {.lr = 0.02};
    gp_model *model = NULL;
    gp_trainer *trainer = NULL;
    gp_step_metrics first = {0}, last = {0};
    for (int i = 0; i < 8; i++) {
        x[i][0] = (float)(i & 3) / 4;
        x[i][1] = (float)(i >> 2) / 2;
        y[i][0] = x[i][0] + x[i][1];
    }
    gp_status status = make_model(&model);
    if (status == GP_OK) status = gp_trainer_create(&trainer, model, &pipeline, &optimizer, 100);
    if (status == GP_OK) status = gp_trainer_step(trainer, &inputs, &targets, NULL, &first);
    for (int step = 1; status == GP_OK && step < 100; step++) {
        status = gp_trainer_step(trainer, &inputs, &targets, NULL, &last);
    }
    if (status != GP_OK) fprintf(stderr, "program: %s\n", gp_error_message());
    if (status == GP_OK) printf("gpipe %s: loss %.4f -> %.4f\n", gp_version(), first.loss, last.loss);
    gp_trainer_destroy(trainer);
    gp_model_destroy(model);
    return status == GP_OK && last.loss < 0.1 * first.loss ? 0 : 1;
}
