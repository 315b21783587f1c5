/* Inside the library: forwarding of errors and logging. The public half is gpipe/status.h. */
#ifndef GP_BASE_STATUS_H
#define GP_BASE_STATUS_H

#include "gpipe/status.h"

/* Returns from the function with the status of `call` unless it is GP_OK. A macro because it returns. */
#define GP_TRY(call)                                                                                                   \
    do {                                                                                                               \
        gp_status gp_try_status_ = (call);                                                                             \
        if (gp_try_status_ != GP_OK) return gp_try_status_;                                                            \
    } while (0)

/* Sets the calling thread's message as it is (how a worker's error is handed to the caller's thread). */
void gp_error_message_set(const char *message);

/* Hands a message to the installed log callback. Thread-safe. */
void gp_log(gp_log_level level, const char *format, ...) GP_PRINTF(2, 3);

#endif
