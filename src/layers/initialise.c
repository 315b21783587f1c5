/* Initial values of parameters: a function of the seed and the parameter's full name, so that it does not matter who
 * draws them and in which order. */
#include "base/random.h"
#include "layers/model.h"

void gp_parameter_initialise(const gp_parameter_info *parameter, uint64_t seed, float *values) {
    int64_t count = gp_shape_elements(parameter->shape);
    float value = (float)parameter->init.value;
    switch (parameter->init.kind) {
    case GP_INIT_ZEROS:
    case GP_INIT_CONSTANT: {
        float constant = parameter->init.kind == GP_INIT_ZEROS ? 0.0f : value;
        for (int64_t i = 0; i < count; i++)
            values[i] = constant;
        return;
    }
    case GP_INIT_NORMAL:
        gp_random_fill_normal(values, count, seed, parameter->name);
        break;
    case GP_INIT_UNIFORM:
        gp_random_fill_uniform(values, count, seed, parameter->name);
        break;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] *= value;
}
