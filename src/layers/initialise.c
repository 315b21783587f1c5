/* Initial values of parameters and states: a function of the seed and the full name, so that it does not matter who
 * draws them and in which order. */
#include "base/random.h"
#include "layers/model.h"

/* Each output of weights[outputs, inputs, ...] that has an input of its number begins as that input. */
static void set_identity(gp_shape shape, float *values) {
    int64_t outputs = shape.dims[0], inputs = shape.dims[1], window = 1, middle = 0;
    for (int axis = 2; axis < shape.rank; axis++) {
        middle = middle * shape.dims[axis] + (shape.dims[axis] - 1) / 2;
        window *= shape.dims[axis];
    }
    for (int64_t o = 0; o < outputs && o < inputs; o++) {
        float *weights = values + o * inputs * window;
        for (int64_t i = 0; i < inputs * window; i++)
            weights[i] = i == o * window + middle ? 1.0f : 0.0f;
    }
}

static void initialise(const char *name, gp_shape shape, const gp_init *init, uint64_t seed, float *values) {
    int64_t count = gp_shape_elements(shape);
    float value = (float)init->value;
    switch (init->kind) {
    case GP_INIT_ZEROS:
    case GP_INIT_CONSTANT: {
        float constant = init->kind == GP_INIT_ZEROS ? 0.0f : value;
        for (int64_t i = 0; i < count; i++)
            values[i] = constant;
        return;
    }
    case GP_INIT_NORMAL:
        gp_random_fill_normal(values, count, seed, name);
        break;
    case GP_INIT_TRUNCATED_NORMAL:
        gp_random_fill_truncated_normal(values, count, seed, name);
        break;
    case GP_INIT_UNIFORM:
    case GP_INIT_IDENTITY:
        gp_random_fill_uniform(values, count, seed, name);
        break;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] *= value;
    if (init->kind == GP_INIT_IDENTITY) set_identity(shape, values);
}

void gp_parameter_initialise(const gp_parameter_info *parameter, uint64_t seed, float *values) {
    initialise(parameter->name, parameter->shape, &parameter->init, seed, values);
}

void gp_state_initialise(const gp_state_info *state, uint64_t seed, float *values) {
    initialise(state->name, state->shape, &state->init, seed, values);
}
