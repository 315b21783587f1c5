/* Words of messages. */
#ifndef GPIPE_WORDS_H
#define GPIPE_WORDS_H

#include <stdint.h>

#include "gpipe/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What follows a noun: "" for one, else `ending`; for instance printf("%d worker%s", count, gp_plural(count, "s")). */
GP_API const char *gp_plural(int64_t count, const char *ending);

#ifdef __cplusplus
}
#endif
#endif
