/* A text that grows: tables for people. */
#ifndef GP_TRAIN_PAGE_H
#define GP_TRAIN_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpipe/status.h"

/* Zeroed: empty. */
typedef struct gp_page {
    char *text;
    size_t length, capacity;
    bool failed;
} gp_page;

/* Adds at most 255 characters. */
void gp_page_add(gp_page *page, const char *format, ...) GP_PRINTF(2, 3);
/* Hands the text over; the page is empty then. Errors: GP_OUT_OF_MEMORY when adding failed. */
gp_status gp_page_finish(gp_page *page, char **text);

#endif
