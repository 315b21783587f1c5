/* Loaded before the library (LD_PRELOAD): a gpipe that says it is of another version. */
#include "gpipe/gpipe.h"

const char *gp_version(void) {
    return "0.0.1";
}
