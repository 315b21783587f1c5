/* Which tensor of another program's files is which parameter: by the family's table of names, with every shape checked.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "exchange/foreign.h"

/* Where the sizes come from, for messages. */
static const char *says(const gp_foreign *f) {
    if (f->family.family == GP_FAMILY_RESNET) return f->family.resnet.name;
    return f->config ? f->config : "its header";
}

/* A row of the table for one parameter. */
typedef struct place {
    const gp_naming_row *row;
    int64_t block;
} place;

static place place_of(const gp_foreign *f, const char *own) {
    place at;
    at.row = gp_naming_find(&f->naming, own, &at.block);
    return at;
}

static bool find_name(const gp_foreign *f, const char *foreign, int64_t block, size_t part, size_t *tensor,
                      char name[GP_FOREIGN_NAME]) {
    return gp_shards_find(f->shards, gp_naming_format(&f->naming, foreign, f->prefixed, block, part, name), tensor);
}

/* The tensor of a part: by its name or by its older one. `name` becomes the first that was looked for. */
static bool find_part(const gp_foreign *f, const place *at, size_t part, size_t *tensor, char name[GP_FOREIGN_NAME]) {
    char other[GP_FOREIGN_NAME];
    if (find_name(f, at->row->foreign, at->block, part, tensor, name)) return true;
    return at->row->other && find_name(f, at->row->other, at->block, part, tensor, other);
}

/* The part of a parameter's shape that one foreign tensor has. */
static gp_shape part_shape(const gp_naming_row *row, gp_shape shape) {
    if (row->arrangement == GP_SPLIT) shape.dims[0] /= GP_MOST_VIEWS;
    if (row->arrangement == GP_TRANSPOSED) {
        int64_t rows = shape.dims[0];
        shape.dims[0] = shape.dims[1];
        shape.dims[1] = rows;
    }
    return shape;
}

static gp_status check_shape(const gp_foreign *f, const gp_naming_row *row, size_t tensor, gp_shape wanted) {
    gp_type type = gp_shards_type(f->shards, tensor);
    gp_shape found = type.shape;
    char one[128], other[128];
    if (row->arrangement == GP_PADDED && found.rank == wanted.rank && found.dims[0] > wanted.dims[0])
        found.dims[0] = wanted.dims[0];
    if (!gp_dtype_is_float(type.dtype))
        return gp_error(GP_INVALID, "%s: tensor %s is %s: f32, bf16, f16 and f64 are accepted", f->path,
                        gp_shards_name(f->shards, tensor), gp_type_format(type, one, sizeof one));
    if (gp_shape_equal(found, wanted)) return GP_OK;
    return gp_error(GP_INVALID, "%s: tensor %s is %s, but the sizes in %s ask for %s", f->path,
                    gp_shards_name(f->shards, tensor), gp_type_format(type, one, sizeof one), says(f),
                    gp_type_format((gp_type){type.dtype, wanted}, other, sizeof other));
}

static gp_status add_view(gp_foreign *f, const place *at, size_t tensor, gp_shape shape, gp_views *views) {
    gp_shape wanted = part_shape(at->row, shape);
    GP_TRY(check_shape(f, at->row, tensor, wanted));
    bool transposed = at->row->arrangement == GP_TRANSPOSED;
    int64_t rows = transposed ? wanted.dims[1] : wanted.dims[0];
    views->views[views->count++] = (gp_view){.source = f->shards,
                                             .tensor = tensor,
                                             .rows = rows,
                                             .columns = gp_shape_elements(wanted) / rows,
                                             .transposed = transposed};
    f->used[tensor] = true;
    return GP_OK;
}

static gp_status match_parameter(gp_foreign *f, size_t parameter) {
    gp_parameter_info info = gp_model_tensor(f->model, parameter);
    gp_views *views = &f->views[parameter];
    char name[GP_FOREIGN_NAME];
    place at = place_of(f, info.name);
    if (!at.row) return gp_error(GP_FAILED, "no name is known for parameter %s", info.name);
    views->dtype = GP_F32;
    for (size_t part = 0; part < gp_naming_parts(at.row); part++) {
        size_t tensor = 0;
        if (find_part(f, &at, part, &tensor, name)) {
            GP_TRY(add_view(f, &at, tensor, info.shape, views));
            continue;
        }
        bool of_head = (int64_t)info.layer >= f->naming.first + f->naming.blocks;
        if (!(f->head_chosen && of_head))
            return gp_error(GP_INVALID, "%s has no tensor %s, which the sizes in %s ask for", f->path, name, says(f));
        f->anew[f->anew_count++] = parameter;
        return GP_OK;
    }
    return GP_OK;
}

/* Whether the encoder's names have the prefix: looked up for the first parameter, the token embedding. */
static gp_status find_prefix(gp_foreign *f) {
    gp_parameter_info info = gp_model_tensor(f->model, 0);
    char name[GP_FOREIGN_NAME], plain[GP_FOREIGN_NAME];
    size_t tensor;
    place at = place_of(f, info.name);
    if (!at.row) return gp_error(GP_FAILED, "no name is known for parameter %s", info.name);
    f->prefixed = true;
    if (find_part(f, &at, 0, &tensor, name)) return GP_OK;
    f->prefixed = false;
    if (find_part(f, &at, 0, &tensor, plain)) return GP_OK;
    return gp_error(GP_INVALID, "%s has neither a tensor %s nor %s: it is no %s", f->path, name, plain,
                    gp_family_name(f->family.family));
}

static void list_unused(gp_foreign *f) {
    bool tied = f->family.family == GP_FAMILY_GPT2 ? !f->family.gpt2.untied : !f->family.bert.untied;
    for (size_t i = 0; i < gp_shards_count(f->shards); i++) {
        if (!f->used[i] && !gp_naming_ignores(gp_shards_name(f->shards, i), tied)) f->unused[f->unused_count++] = i;
    }
}

gp_status gp_foreign_match(gp_foreign *f) {
    size_t parameters = gp_model_tensors(f->model), tensors = gp_shards_count(f->shards);
    f->views = gp_allocate_array(parameters, sizeof *f->views);
    f->anew = gp_allocate_array(parameters, sizeof *f->anew);
    f->used = gp_allocate_array(tensors, sizeof *f->used);
    f->unused = gp_allocate_array(tensors, sizeof *f->unused);
    if (!f->views || !f->anew || !f->used || !f->unused) return GP_OUT_OF_MEMORY;
    GP_TRY(find_prefix(f));
    for (size_t p = 0; p < parameters; p++)
        GP_TRY(match_parameter(f, p));
    list_unused(f);
    return GP_OK;
}
