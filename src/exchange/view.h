/* A part of a tensor in a file, seen in another layout: some of its rows, or the transpose. What importing and
 * exporting move is read through views, piece by piece, so that no tensor is ever whole in memory. */
#ifndef GP_EXCHANGE_VIEW_H
#define GP_EXCHANGE_VIEW_H

#include "gpipe/checkpoint.h"

/* Elements [rows, columns] of a tensor of `source`: its rows from first_row on, or the transpose of the whole. A tensor
 * of more dimensions than two is rows of what lies behind the first one, a vector has one column. */
typedef struct gp_view {
    const gp_shards *source;
    size_t tensor;
    int64_t rows, columns, first_row;
    bool transposed;
} gp_view;

/* Elements first .. first + count - 1 of the view (row-major), converted. They must exist. */
gp_status gp_view_read(const gp_view *view, int64_t first, int64_t count, gp_dtype dtype, void *destination);

enum { GP_MOST_VIEWS = 3 };

/* Views one below the other: a tensor that is to be written. */
typedef struct gp_views {
    gp_view views[GP_MOST_VIEWS];
    size_t count;
    gp_dtype dtype; /* in which it is written */
} gp_views;

/* A gp_safetensors_fill; `user` is a gp_views. */
gp_status gp_views_fill(void *user, size_t offset, void *buffer, size_t bytes);

#endif
