/* Dropout. Its gradient is the same operation on dy: the same attributes give the same mask, which is never stored. */
#include <string.h>

#include "graph/ops/ops_internal.h"

static gp_status dropout_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 1, 1, 1));
    const gp_dropout_attributes *attributes = call->attributes;
    if (!gp_type_is_activation(call->inputs[0]) || call->inputs[0].shape.rank < 1)
        return gp_op_refuse(call, "x must be f32 or bf16 [batch, ...]");
    if (!(attributes->p >= 0.0 && attributes->p < 1.0))
        return gp_op_refuse(call, "p is %g: 0 or more and less than 1 is accepted", attributes->p);
    outputs[0] = call->inputs[0];
    return GP_OK;
}

static gp_status dropout_gradient(const gp_op_gradient *g) {
    g->input_gradients[0] = gp_apply(GP_OP_DROPOUT, g->attributes, g->output_gradients, 1);
    return GP_OK;
}

static double dropout_flops(const gp_op_call *call) {
    return 10.0 * gp_elements(call->outputs[0]); /* ten rounds of Philox for four numbers */
}

const gp_op_class gp_dropout_class = {.size = sizeof(gp_op_class),
                                      .name = "dropout",
                                      .attributes_size = sizeof(gp_dropout_attributes),
                                      .infer = dropout_infer,
                                      .gradient = dropout_gradient,
                                      .flops = dropout_flops,
                                      .in_place = 1};

gp_value gp_dropout(gp_value x, double p) {
    if (!gp_value_valid(x)) return gp_invalid_like(x);
    bool accepted = p >= 0.0 && p < 1.0;
    if (accepted && (p == 0.0 || !x.graph->training)) return x;
    gp_dropout_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.p = p;
    if (accepted) attributes.use = gp_graph_next_use(x.graph);
    return gp_apply(GP_OP_DROPOUT, &attributes, &x, 1);
}
