/* Reading through views. A transpose reads runs of the source and scatters them into the piece at hand: a piece of a
 * megabyte covers many rows, so a run is long enough. */
#include "exchange/view.h"

#include <string.h>

#include "base/status.h"

enum { RUN = 512 };

/* Writes element i of `run` to destination element i * stride. */
static void scatter(const unsigned char *run, int64_t count, int64_t stride, size_t size, unsigned char *destination) {
    for (int64_t i = 0; i < count; i++) {
        memcpy(destination + (size_t)(i * stride) * size, run + (size_t)i * size, size);
    }
}

/* Column c of the view is a row of the source. The piece holds its rows from..to - 1. */
static gp_status read_column(const gp_view *view, int64_t first, int64_t c, int64_t from, int64_t to, gp_dtype dtype,
                             unsigned char *destination) {
    unsigned char run[RUN * 8];
    size_t size = gp_dtype_bytes(dtype);
    for (int64_t r = from; r < to; r += RUN) {
        int64_t count = to - r < RUN ? to - r : RUN;
        GP_TRY(gp_shards_read(view->source, view->tensor, (size_t)(c * view->rows + r), (size_t)count, dtype, run));
        scatter(run, count, view->columns, size, destination + (size_t)(r * view->columns + c - first) * size);
    }
    return GP_OK;
}

static gp_status read_transposed(const gp_view *view, int64_t first, int64_t count, gp_dtype dtype,
                                 unsigned char *destination) {
    int64_t end = first + count, columns = view->columns;
    for (int64_t c = 0; c < columns; c++) {
        int64_t from = first > c ? (first - c + columns - 1) / columns : 0;
        int64_t to = end > c ? (end - c + columns - 1) / columns : 0;
        if (from < to) GP_TRY(read_column(view, first, c, from, to, dtype, destination));
    }
    return GP_OK;
}

gp_status gp_view_read(const gp_view *view, int64_t first, int64_t count, gp_dtype dtype, void *destination) {
    if (view->transposed) return read_transposed(view, first, count, dtype, destination);
    size_t begin = (size_t)(view->first_row * view->columns + first);
    return gp_shards_read(view->source, view->tensor, begin, (size_t)count, dtype, destination);
}

gp_status gp_views_fill(void *user, size_t offset, void *buffer, size_t bytes) {
    const gp_views *views = user;
    size_t size = gp_dtype_bytes(views->dtype);
    int64_t first = (int64_t)(offset / size), left = (int64_t)(bytes / size), begin = 0;
    unsigned char *to = buffer;
    for (size_t i = 0; i < views->count && left > 0; i++) {
        const gp_view *view = &views->views[i];
        int64_t elements = view->rows * view->columns, here = first - begin;
        begin += elements;
        if (here >= elements) continue;
        int64_t count = elements - here < left ? elements - here : left;
        GP_TRY(gp_view_read(view, here, count, views->dtype, to));
        to += (size_t)count * size;
        first += count;
        left -= count;
    }
    return GP_OK;
}
