/* Lines are formatted into a buffer first: none of a table is long. */
#include "train/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

void gp_page_add(gp_page *page, const char *format, ...) {
    va_list arguments;
    char line[256];
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t length = strlen(line), needed = page->length + length + 1;
    if (needed > page->capacity) {
        size_t capacity = 2 * needed + 256;
        char *grown = gp_grow_array(page->text, page->capacity, capacity, 1);
        if (!grown) page->failed = true;
        if (page->failed) return;
        page->text = grown;
        page->capacity = capacity;
    }
    memcpy(page->text + page->length, line, length + 1);
    page->length += length;
}

gp_status gp_page_finish(gp_page *page, char **text) {
    *text = page->text;
    bool failed = page->failed;
    if (failed) gp_free(page->text);
    if (failed) *text = NULL;
    *page = (gp_page){0};
    return failed ? GP_OUT_OF_MEMORY : GP_OK;
}
