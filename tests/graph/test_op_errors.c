/* What operations refuse. Every message starts with the operation's name and holds the types that were found. */
#include <math.h>

#include "build.h"

static int begin(void **state) {
    *state = new_graph(true);
    return 0;
}

static int end(void **state) {
    gp_graph_destroy(*state);
    return 0;
}

static void test_linear(void **state) {
    gp_graph *g = *state;
    static const char *const bad[][3] = {
        {"f32[4,8]", "f32[5,7]", "f32[5]"},  {"f32[4,8]", "f32[5,8]", "f32[6]"},  {"f32[4,8]", "f32[8]", "f32[5]"},
        {"f32[]", "f32[5,8]", "f32[5]"},     {"i32[4,8]", "f32[5,8]", "f32[5]"},  {"f64[4,8]", "f32[5,8]", "f32[5]"},
        {"f32[4,8]", "bf16[5,8]", "f32[5]"}, {"f32[4,8]", "f32[5,8]", "bf16[5]"}, {"f32[4,8]", "f32[5,8]", "f32[1,5]"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gp_value y = gp_linear(given(g, bad[i][0]), given(g, bad[i][1]), given(g, bad[i][2]));
        assert_refused(y, "linear", bad[i][0], bad[i][1]);
    }
    assert_refused(gp_linear(given(g, "f32[4]"), gp_none(), gp_none()), "linear", "f32[4], none", "operand 1");
}

static void test_matmul(void **state) {
    gp_graph *g = *state;
    static const char *const bad[][2] = {{"f32[3,4]", "f32[5,6]"},     {"f32[4]", "f32[4,6]"},
                                         {"f32[3,4]", "bf16[4,6]"},    {"i32[3,4]", "i32[4,6]"},
                                         {"f32[2,3,4]", "f32[3,4,6]"}, {"f32[3,4]", "f32[4]"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(gp_matmul(given(g, bad[i][0]), given(g, bad[i][1]), NULL), "matmul", bad[i][0], bad[i][1]);
    gp_matmul_options transposed = {true, false};
    assert_refused(gp_matmul(given(g, "f32[3,4]"), given(g, "f32[4,6]"), &transposed), "matmul", "f32[3,4]",
                   "3 (a transposed) and 4");
}

static void test_elementwise(void **state) {
    gp_graph *g = *state;
    gp_value (*const operations[])(gp_value, gp_value) = {gp_add, gp_sub, gp_mul, gp_div};
    static const char *const names[] = {"add", "sub", "mul", "div"};
    for (size_t i = 0; i < 4; i++) {
        assert_refused(operations[i](given(g, "f32[4,3]"), given(g, "f32[4]")), names[i], "f32[4,3]", "f32[4]");
        assert_refused(operations[i](given(g, "f32[4]"), given(g, "i32[4]")), names[i], "f32[4]", "i32[4]");
        assert_refused(operations[i](given(g, "f16[4]"), given(g, "f32[4]")), names[i], "f16[4]", "f32[4]");
    }
    gp_value x = given(g, "f32[4,3]");
    assert_refused(gp_bias(x, given(g, "f32[4]")), "bias", "f32[4,3]", "f32[4]");
    assert_refused(gp_bias(x, given(g, "f32[4,3]")), "bias", "f32[4,3]", NULL);
    assert_refused(gp_bias(given(g, "f32[]"), given(g, "f32[1]")), "bias", "f32[]", "f32[1]");
    assert_refused(gp_scale(given(g, "i32[4]"), 2.0), "scale", "i32[4]", NULL);
    assert_refused(gp_cast(x, GP_I32), "cast", "f32[4,3]", "i32");
    assert_refused(gp_cast(given(g, "u8[4]"), GP_F32), "cast", "u8[4]", NULL);
    assert_refused(gp_relu(given(g, "i32[4]")), "activation", "i32[4]", NULL);
}

static void test_norms(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[4,8]"), w = parameter(g, "f32[8]"), wrong = parameter(g, "f32[7]");
    assert_refused(gp_layer_norm(x, wrong, w, 1e-5), "layer_norm", "f32[4,8]", "f32[7]");
    assert_refused(gp_layer_norm(x, w, wrong, 1e-5), "layer_norm", "f32[4,8]", "f32[7]");
    assert_refused(gp_layer_norm(x, w, w, -1.0), "layer_norm", "f32[4,8]", "epsilon is -1");
    assert_refused(gp_layer_norm(x, w, w, (double)NAN), "layer_norm", "f32[4,8]", "epsilon");
    assert_refused(gp_layer_norm(given(g, "f32[]"), w, w, 0), "layer_norm", "f32[]", "f32[8]");
    assert_refused(gp_layer_norm(given(g, "f32[4,0]"), parameter(g, "f32[0]"), gp_none(), 0), "layer_norm", "f32[4,0]",
                   NULL);
    assert_refused(gp_rms_norm(x, wrong, 1e-5), "rms_norm", "f32[4,8]", "f32[7]");
    assert_refused(gp_rms_norm(x, given(g, "bf16[8]"), 1e-5), "rms_norm", "f32[4,8]", "bf16[8]");
    assert_refused(gp_softmax(given(g, "i32[4,8]")), "softmax", "i32[4,8]", NULL);
    assert_refused(gp_softmax(given(g, "f32[]")), "softmax", "f32[]", NULL);
}

static void test_attention(void **state) {
    gp_graph *g = *state;
    gp_value qkv = given(g, "f32[2,5,36]");
    assert_refused(gp_attention(qkv, NULL), "attention", "heads", NULL);
    static const gp_attention_options bad[] = {{.heads = 0},
                                               {.heads = -1},
                                               {.heads = 5},
                                               {.heads = 24},
                                               {.heads = 3, .dropout = 1.0},
                                               {.heads = 3, .dropout = -0.1},
                                               {.heads = 3, .scale = -1.0},
                                               {.heads = 3, .scale = (double)INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(gp_attention(qkv, &bad[i]), "attention", "f32[2,5,36]", NULL);
    gp_attention_options good = {.heads = 1};
    assert_refused(gp_attention(given(g, "f32[2,5,35]"), &good), "attention", "f32[2,5,35]", NULL);
    assert_refused(gp_attention(given(g, "f32[5,36]"), &good), "attention", "f32[5,36]", NULL);
    assert_refused(gp_attention(given(g, "f32[]"), &good), "attention", "f32[]", NULL);
    gp_attention_options full = {.heads = 1, .full = true};
    assert_refused(gp_attention_masked(qkv, given(g, "i32[2,5]"), &good), "attention", "full attention", NULL);
    assert_refused(gp_attention_masked(qkv, given(g, "i32[2,4]"), &full), "attention", "i32[2,4]", NULL);
    assert_refused(gp_attention_masked(qkv, given(g, "f32[2,5]"), &full), "attention", "mask must be i32", NULL);
    assert_refused(gp_attention(given(g, "f32[2,5,0]"), &good), "attention", "f32[2,5,0]", NULL);
}

static void test_embedding_and_dropout(void **state) {
    gp_graph *g = *state;
    gp_value table = parameter(g, "f32[100,12]"), indices = given(g, "i32[2,5]");
    assert_refused(gp_embedding(given(g, "bf16[9,2]"), indices, GP_F32), "embedding", "bf16[9,2]", "i32[2,5]");
    assert_refused(gp_embedding(table, given(g, "f32[2]"), GP_F32), "embedding", "f32[100,12]", "f32[2]");
    assert_refused(gp_embedding(table, given(g, "i32[1,1,1,1,1,1]"), GP_F32), "embedding", "i32[1,1,1,1,1,1]", NULL);
    assert_refused(gp_embedding(table, indices, GP_I32), "embedding", "f32[100,12]", "result of i32");
    assert_refused(gp_embedding(given(g, "f32[0,12]"), indices, GP_F32), "embedding", "f32[0,12]", NULL);
    gp_value x = given(g, "f32[4,3]");
    static const double bad[] = {-0.1, 1.0, 1.5, (double)NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(gp_dropout(x, bad[i]), "dropout", "f32[4,3]", "p is");
    assert_refused(gp_dropout(given(g, "f32[]"), 0.5), "dropout", "f32[]", NULL);
}

static void test_shape_operations(void **state) {
    gp_graph *g = *state;
    gp_value x = given(g, "f32[2,3,4]");
    static const gp_shape bad[] = {
        {2, {-1, 5}}, {2, {-1, -1}}, {2, {-2, 12}}, {1, {23}}, {2, {-1, 0}}, {7, {24}}, {2, {INT64_MAX, INT64_MAX}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(gp_reshape(x, bad[i]), "reshape", "f32[2,3,4]", "f32[");
    assert_refused(gp_transpose(x, (int[]){0, 1, 1}), "transpose", "f32[2,3,4]", "entry 2");
    assert_refused(gp_transpose(x, (int[]){0, 3, 1}), "transpose", "f32[2,3,4]", "entry 1");
    assert_refused(gp_transpose(x, (int[]){-1, 0, 1}), "transpose", "f32[2,3,4]", "entry 0");
    assert_refused(gp_slice(x, 3, 0, 1), "slice", "f32[2,3,4]", "axis 3");
    assert_refused(gp_slice(x, -4, 0, 1), "slice", "f32[2,3,4]", "axis -4");
    static const int64_t ranges[][2] = {{-1, 2}, {2, 2}, {3, 2}, {0, 5}, {4, 5}, {INT64_MIN, INT64_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        assert_refused(gp_slice(x, 2, ranges[i][0], ranges[i][1]), "slice", "f32[2,3,4]", "<= 4");
    gp_value other = given(g, "f32[2,5,5]"), flat = given(g, "f32[24]"), bf16 = given(g, "bf16[2,3,4]");
    assert_refused(gp_concatenate((gp_value[]){x, other}, 2, 1), "concatenate", "f32[2,3,4]", "f32[2,5,5]");
    assert_refused(gp_concatenate((gp_value[]){x, flat}, 2, 0), "concatenate", "f32[2,3,4]", "f32[24]");
    assert_refused(gp_concatenate((gp_value[]){x, bf16}, 2, 0), "concatenate", "f32[2,3,4]", "bf16[2,3,4]");
    assert_refused(gp_concatenate((gp_value[]){x, x}, 2, 3), "concatenate", "f32[2,3,4]", "axis 3");
    gp_value nine[] = {x, x, x, x, x, x, x, x, x};
    assert_refused(gp_concatenate(nine, 9, 0), "concatenate", "9 inputs", NULL);
}

static void test_sums_and_losses(void **state) {
    gp_graph *g = *state;
    assert_refused(gp_sum(given(g, "f32[2,3]"), 2, true), "sum", "f32[2,3]", "axis 2");
    assert_refused(gp_mean(given(g, "f32[2,3]"), -3, true), "mean", "f32[2,3]", "axis -3");
    assert_refused(gp_mean(given(g, "f32[2,0]"), 1, true), "mean", "f32[2,0]", "empty");
    assert_refused(gp_sum(given(g, "i32[2,3]"), 1, true), "reduce_to", "i32[2,3]", NULL);
    gp_value logits = given(g, "f32[2,3,10]"), targets = given(g, "i32[2,3]");
    assert_refused(gp_cross_entropy(logits, given(g, "i32[6]"), gp_none(), NULL), "cross_entropy", "f32[2,3,10]",
                   "i32[6]");
    assert_refused(gp_cross_entropy(logits, given(g, "f32[2,3]"), gp_none(), NULL), "cross_entropy", "f32[2,3,10]",
                   "f32[2,3]");
    assert_refused(gp_cross_entropy(logits, targets, given(g, "f32[2]"), NULL), "cross_entropy", "i32[2,3]", "f32[2]");
    gp_cross_entropy_options smoothing = {.label_smoothing = 1.0};
    assert_refused(gp_cross_entropy(logits, targets, gp_none(), &smoothing), "cross_entropy", "f32[2,3,10]", "none");
    assert_refused(gp_squared_error(given(g, "f32[4,3]"), given(g, "f32[4,2]")), "squared_error", "f32[4,3]",
                   "f32[4,2]");
    assert_refused(gp_squared_error(given(g, "f32[]"), given(g, "f32[]")), "squared_error", "f32[]", NULL);
    assert_refused(gp_squared_error(given(g, "f32[4]"), given(g, "i32[4]")), "squared_error", "f32[4]", "i32[4]");
}

/* The operations that only gradient rules and programs apply check their operands just the same. */
static void test_internal_operations(void **state) {
    gp_graph *g = *state;
    static const struct {
        gp_op_id id;
        size_t outputs;
        const char *types[6];
    } bad[] = {
        {GP_OP_LINEAR_INPUT_GRADIENT, 1, {"f32[4,5]", "f32[6,8]"}},
        {GP_OP_LINEAR_WEIGHT_GRADIENT, 1, {"f32[4,5]", "f32[3,8]"}},
        {GP_OP_LINEAR_WEIGHT_GRADIENT, 1, {"f32[4,5]", "bf16[4,8]"}},
        {GP_OP_ACTIVATION_GRADIENT, 1, {"f32[4,5]", "bf16[4,5]"}},
        {GP_OP_LAYER_NORM_GRADIENT, 1, {"f32[4,5]", "f32[4,5]", "f32[5]", "f32[4]", "f32[5]"}},
        {GP_OP_LAYER_NORM_WEIGHT_GRADIENT, 2, {"f32[4,5]", "f32[4,6]", "f32[4]", "f32[4]"}},
        {GP_OP_RMS_NORM_GRADIENT, 1, {"f32[4,5]", "f32[4,5]", "f32[4]", "f32[4]"}},
        {GP_OP_RMS_NORM_WEIGHT_GRADIENT, 1, {"f32[4,5]", "f32[4,5]", "f32[5]"}},
        {GP_OP_SOFTMAX_GRADIENT, 1, {"f32[4,5]", "f32[5]"}},
        {GP_OP_ATTENTION_GRADIENT, 1, {"f32[2,5,4]", "f32[2,5,12]", "f32[2,5,4]", "f32[2,5]"}},
        {GP_OP_EMBEDDING_GRADIENT, 1, {"f32[4,5]", "i32[3]"}},
        {GP_OP_SLICE_GRADIENT, 1, {"f32[4,5]"}},
        {GP_OP_REDUCE_TO, 1, {"f32[4,5]"}},
        {GP_OP_BROADCAST_TO, 1, {"f32[4,5]"}},
        {GP_OP_CROSS_ENTROPY_GRADIENT, 1, {"f32[4,5]", "i32[4]", "f32[4]", "f32[5]", "f32[]"}},
        {GP_OP_CROSS_ENTROPY_GRADIENT, 1, {"f32[4,5]", "i32[4]"}},
        {GP_OP_SQUARED_ERROR_GRADIENT, 1, {"f32[4,5]", "f32[4,5]", "f32[1]"}},
        {GP_OP_ACCUMULATE, 1, {"i32[4]"}},
        {GP_OP_ADD, 1, {"f32[4]"}},
        {GP_OP_ADD, 1, {"f32[4]", "f32[4]", "f32[4]"}},
        {GP_OP_ADD, 2, {"f32[4]", "f32[4]"}},
    };
    /* Read as the attributes of whichever operation it is: axis 0, one head, shape [7,7] do not fit any of them. */
    static const gp_attention_attributes one_head = {.heads = 1, .scale = 1.0};
    static const gp_slice_attributes slice = {.axis = 0, .begin = 0, .end = 3, .length = 9};
    static const gp_shape_attributes shape = {.shape = {2, {7, 7}}, .dtype = GP_F32};
    static const unsigned char zeros[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gp_value inputs[6], outputs[2];
        size_t count = 0;
        for (; count < 6 && bad[i].types[count]; count++)
            inputs[count] = given(g, bad[i].types[count]);
        const void *attributes = bad[i].id == GP_OP_ATTENTION_GRADIENT ? (const void *)&one_head
                                 : bad[i].id == GP_OP_SLICE_GRADIENT   ? (const void *)&slice
                                 : bad[i].id == GP_OP_REDUCE_TO || bad[i].id == GP_OP_BROADCAST_TO
                                     ? (const void *)&shape
                                     : zeros;
        gp_op_apply(gp_op_class_of(bad[i].id), attributes, inputs, count, outputs, bad[i].outputs);
        assert_refused(outputs[0], gp_op_name(bad[i].id), bad[i].types[0], bad[i].types[count - 1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_linear, begin, end),
        cmocka_unit_test_setup_teardown(test_matmul, begin, end),
        cmocka_unit_test_setup_teardown(test_elementwise, begin, end),
        cmocka_unit_test_setup_teardown(test_norms, begin, end),
        cmocka_unit_test_setup_teardown(test_attention, begin, end),
        cmocka_unit_test_setup_teardown(test_embedding_and_dropout, begin, end),
        cmocka_unit_test_setup_teardown(test_shape_operations, begin, end),
        cmocka_unit_test_setup_teardown(test_sums_and_losses, begin, end),
        cmocka_unit_test_setup_teardown(test_internal_operations, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
