/* What the tests of the engine share: small models, mini-batches, engines with handy defaults, weights as one array. */
#ifndef GP_TESTS_PIPELINE_SUPPORT_H
#define GP_TESTS_PIPELINE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/engine.h"

/* Fails with the error message of this thread. */
#define assert_ok(call) test_assert_ok((call), #call, __FILE__, __LINE__)
void test_assert_ok(gp_status status, const char *call, const char *file, int line);

/* A GPT-2 of `layers` blocks: width 8, 2 heads, context 4, 11 tokens. */
gp_model *test_gpt(int64_t layers, double dropout, bool untied);
/* A BERT of `layers` blocks with the masked head; as many token types as tokens, so that random samples fit. Their
 * masks have holes. */
gp_model *test_bert(int64_t layers, double dropout);
/* A wider one, for which devices keep packed copies of the weights: width 64, 4 heads, context 16, 96 tokens. */
gp_model *test_wide_gpt(int64_t layers);
/* Samples f32[width]; layers of width -> width, squared error. Layer 0 keeps its output, which the layers in `recalls`
 * (ended by -1) add to theirs. Some layers have no parameters. */
gp_model *test_skips(int layers, int64_t width, const int *recalls);
/* Small layers that all have the weight of layer 0 (but every third, which has none). */
gp_model *test_shared(int layers, int64_t width);
/* Small layers, each with an operation that calls the test: see test_hook. */
gp_model *test_hooked(int layers, int64_t width);

enum { TEST_BACKWARD = 100 };

/* Called by every forward of the operation of layer `layer` in a model of test_hooked, and by every backward with layer
 * + TEST_BACKWARD, in the worker's thread; returns the operation's status. Set while no worker runs; NULL: GP_OK. */
typedef gp_status (*test_hook)(void *user, int layer, float *values, int64_t count);
void test_set_hook(test_hook hook, void *user);

/* Images of 6 x 6 pixels and 2 channels: `layers` residual layers of a convolution, batch norm with a rectifier, a
 * pooling, scaled channels and drop-path that grows; then the mean over pixels and a linear layer. */
gp_model *test_images(int layers, double drop_path);

/* A mini-batch for the model, a function of `seed`. */
void test_batch_create(gp_batch *batch, const gp_model *model, int64_t samples, uint64_t seed);
void test_batch_destroy(gp_batch *batch);

/* K stages, AdamW, the CPU device (the reference device when GPIPE_TEST_DEVICE=reference), seed 7. */
gp_engine_options test_options(const gp_model *model, size_t stages, int64_t batch, int micro_batches);
gp_step_options test_step_options(uint32_t step, double clip);

/* All parameters and states (or gradients) one behind the other; freed with gp_free. */
float *test_read_all(gp_engine *engine, const gp_model *model, bool gradients, size_t *count);

/* Creates an engine, initialises it, makes `steps` steps on fresh mini-batches of `samples` and returns the weights;
 * `loss` (may be NULL): of the last step. Checks that the high-water mark of every worker is what was planned. */
float *test_train(const gp_engine_options *options, int64_t samples, int steps, double clip, double *loss,
                  size_t *count);

void test_assert_same(const float *a, const float *b, size_t count, const char *what);

#endif
