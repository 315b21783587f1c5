/* Embedding: rows of a table picked by indices, and the gradient that adds into the rows. */
#include "graph/ops/ops_internal.h"

static gp_status embedding_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    const gp_cast_attributes *attributes = call->attributes;
    gp_type table = call->inputs[0], indices = call->inputs[1];
    if (table.dtype != GP_F32 || table.shape.rank != 2 || table.shape.dims[0] < 1)
        return gp_op_refuse(call, "table must be f32[n,width]");
    if (indices.dtype != GP_I32) return gp_op_refuse(call, "indices must be i32");
    if (indices.shape.rank >= GP_MAX_RANK)
        return gp_op_refuse(call, "indices must have rank %d or less", GP_MAX_RANK - 1);
    outputs[0] = (gp_type){attributes->dtype, indices.shape};
    outputs[0].shape.dims[outputs[0].shape.rank++] = table.shape.dims[1];
    if (!gp_type_is_activation(outputs[0]))
        return gp_op_refuse(call, "result of %s: f32 or bf16 is accepted", gp_dtype_name(attributes->dtype));
    return GP_OK;
}

static gp_status embedding_gradient(const gp_op_gradient *g) {
    if (!g->wanted[0]) return GP_OK;
    gp_embedding_gradient_attributes attributes = {gp_value_type(g->inputs[0]).shape.dims[0]};
    gp_value operands[] = {g->output_gradients[0], g->inputs[1]};
    g->input_gradients[0] = gp_apply(GP_OP_EMBEDDING_GRADIENT, &attributes, operands, 2);
    return GP_OK;
}

const gp_op_class gp_embedding_class = {.size = sizeof(gp_op_class),
                                        .name = "embedding",
                                        .attributes_size = sizeof(gp_cast_attributes),
                                        .infer = embedding_infer,
                                        .gradient = embedding_gradient,
                                        .flops = gp_flops_none};

static gp_status embedding_gradient_infer(const gp_op_call *call, gp_type *outputs) {
    GP_TRY(gp_op_expect(call, 2, 2, 1));
    const gp_embedding_gradient_attributes *attributes = call->attributes;
    gp_type dy = call->inputs[0], indices = call->inputs[1];
    if (!gp_type_is_activation(dy) || dy.shape.rank < 1 || indices.dtype != GP_I32 ||
        !gp_shape_equal(gp_shape_leading(dy.shape, 1), indices.shape))
        return gp_op_refuse(call, "dy must be f32 or bf16 [indices..., width]");
    outputs[0] = (gp_type){GP_F32, {2, {attributes->rows, gp_shape_last(dy.shape)}}};
    return GP_OK;
}

const gp_op_class gp_embedding_gradient_class = {.size = sizeof(gp_op_class),
                                                 .name = "embedding_gradient",
                                                 .attributes_size = sizeof(gp_embedding_gradient_attributes),
                                                 .infer = embedding_gradient_infer,
                                                 .flops = gp_flops_of_input};

gp_value gp_embedding(gp_value table, gp_value indices, gp_dtype dtype) {
    return gp_apply(GP_OP_EMBEDDING, &(gp_cast_attributes){dtype}, (gp_value[]){table, indices}, 2);
}
