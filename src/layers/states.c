/* What a forward calls about states: they are declared by name as parameters are, but are inputs of the graph that
 * nothing differentiates; whoever runs the graph changes them, with the moments that it is told to follow. */
#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "layers/builder.h"

bool gp_builder_training(const gp_builder *builder) {
    return builder->graph->training;
}

/* Declares under the full name that is in the builder's path. */
static gp_status declare_state(gp_builder *builder, gp_shape shape, const gp_init *init, gp_value *value) {
    size_t state;
    GP_TRY(gp_shape_check(shape));
    GP_TRY(gp_model_reserve((void **)&builder->states, builder->state_count, &builder->state_capacity,
                            sizeof *builder->states));
    GP_TRY(builder->state(builder, builder->path, shape, init, &state));
    *value = gp_graph_input(builder->graph, (gp_type){GP_F32, shape});
    builder->states[builder->state_count++] = (gp_built_state){state, *value};
    return GP_OK;
}

gp_value gp_builder_state(gp_builder *builder, const char *name, gp_shape shape, const gp_init *init) {
    static const gp_init zeros = {GP_INIT_ZEROS, 0};
    gp_value value = gp_none();
    size_t used;
    if (!name || !*name) return gp_builder_error(builder, "a state has no name");
    gp_status status = gp_builder_full_name(builder, "state", name, &used);
    if (status == GP_OK) {
        status = gp_error_within(declare_state(builder, shape, init ? init : &zeros, &value), "state %s", name);
        builder->path[used] = '\0';
    }
    return status == GP_OK ? value : gp_builder_fail(builder, status);
}

/* ---- moments ---- */

static gp_status find_state(const gp_builder *builder, gp_value value, size_t *state) {
    for (size_t i = 0; i < builder->state_count; i++) {
        if (builder->states[i].value.index != value.index) continue;
        *state = builder->states[i].state;
        return GP_OK;
    }
    return gp_error(GP_INVALID, "what shall follow moments is no state of this layer");
}

/* That a value of the forward can be followed by the state. */
static gp_status check_moment(const gp_builder *builder, const char *what, gp_value value, gp_value state) {
    gp_type found = gp_value_type(value), wanted = gp_value_type(state);
    char one[160], other[160];
    bool computed = gp_value_valid(value) && builder->graph->values[value.index].kind == GP_VALUE_RESULT;
    if (computed && gp_type_equal(found, wanted)) return GP_OK;
    return gp_error(GP_INVALID, "the %s that a state follows is %s%s; a computed %s is accepted", what,
                    gp_type_format(found, one, sizeof one), computed ? "" : " and not computed",
                    gp_type_format(wanted, other, sizeof other));
}

static gp_status follow(gp_builder *builder, const gp_value states[2], const gp_value values[2], double decay) {
    gp_moments moments = {.layer = builder->layer, .decay = decay};
    GP_TRY(find_state(builder, states[0], &moments.mean));
    GP_TRY(find_state(builder, states[1], &moments.variance));
    if (moments.mean == moments.variance) return gp_error(GP_INVALID, "one state cannot follow mean and variance");
    if (!builder->graph->training) return gp_error(GP_INVALID, "states follow moments in training only");
    if (!(decay >= 0 && decay <= 1))
        return gp_error(GP_INVALID, "the decay of moving averages is %g: 0 to 1 is accepted", decay);
    GP_TRY(check_moment(builder, "mean", values[0], states[0]));
    GP_TRY(check_moment(builder, "variance", values[1], states[1]));
    if (!gp_shape_equal(gp_value_type(states[0]).shape, gp_value_type(states[1]).shape))
        return gp_error(GP_INVALID, "the states that follow mean and variance differ in shape");
    return builder->moments(builder, &moments, values[0], values[1]);
}

void gp_builder_moving_moments(gp_builder *builder, gp_value moving_mean, gp_value moving_variance, gp_value mean,
                               gp_value variance, double decay) {
    gp_value states[] = {moving_mean, moving_variance}, values[] = {mean, variance};
    if (gp_graph_status(builder->graph) != GP_OK) return; /* something failed before */
    gp_status status = follow(builder, states, values, decay);
    if (status != GP_OK) gp_builder_fail(builder, status);
}
