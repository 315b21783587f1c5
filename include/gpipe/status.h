/* Status codes, the error message of a thread, the log callback and the version.
 *
 * Everything in gpipe that can fail returns a gp_status; the sentence that explains it is kept per thread and read
 * with gp_error_message(). The library prints nothing, never exits and never aborts. */
#ifndef GPIPE_STATUS_H
#define GPIPE_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GP_API                 __attribute__((visibility("default")))
#define GP_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define GP_API
#define GP_PRINTF(text, first)
#endif

/* Every status: name, number, exit status of the program, short text. */
#define GP_STATUSES(X)                                                                                                 \
    X(GP_OK, 0, 0, "done")                                                                                             \
    X(GP_FAILED, 1, 1, "failure while running")                                                                        \
    X(GP_INVALID, 2, 2, "invalid argument, configuration or input")                                                    \
    X(GP_DOES_NOT_FIT, 3, 3, "does not fit the memory")                                                                \
    X(GP_PEER_LOST, 4, 4, "a peer was lost")                                                                           \
    X(GP_DIVERGED, 5, 5, "diverged: NaN or infinity")                                                                  \
    X(GP_OUT_OF_MEMORY, 6, 3, "the system has no memory left")                                                         \
    X(GP_IO, 7, 1, "a file could not be read or written")                                                              \
    X(GP_INTERRUPTED, 8, 130, "interrupted")                                                                           \
    X(GP_ABORTED, 9, 1, "stopped because another worker failed")                                                       \
    X(GP_TIMEOUT, 10, 4, "waited too long for a peer")

typedef enum gp_status {
#define GP_STATUS_ENUM(name, number, exit_status, text) name = number,
    GP_STATUSES(GP_STATUS_ENUM)
#undef GP_STATUS_ENUM
} gp_status;

/* The short text of a status; never NULL. Thread-safe. */
GP_API const char *gp_status_text(gp_status status);

/* The exit status that a program should end with (see GP_STATUSES). Thread-safe. */
GP_API int gp_status_exit(gp_status status);

/* The sentence that explains the last failure in the calling thread; "" when there was none. Owned by the thread, valid
 * until its next failing call. */
GP_API const char *gp_error_message(void);

/* Sets the calling thread's message and returns `status`: for the functions of a user's own layers and ops. */
GP_API gp_status gp_error(gp_status status, const char *format, ...) GP_PRINTF(2, 3);
#ifdef __clang_analyzer__ /* tells the analyser what is returned */
#define gp_error(status, ...) (gp_error(status, __VA_ARGS__), (status))
#endif

/* Puts "context: " before the calling thread's message and returns `status` unchanged; does nothing for GP_OK. */
GP_API gp_status gp_error_within(gp_status status, const char *format, ...) GP_PRINTF(2, 3);

typedef enum gp_log_level { GP_LOG_ERROR, GP_LOG_WARNING, GP_LOG_INFO, GP_LOG_DEBUG } gp_log_level;

/* Receives the library's messages. May be called from any thread, one call at a time. `message` has no newline. */
typedef void (*gp_log_function)(void *user, gp_log_level level, const char *message);

/* Installs the receiver of messages for the whole process (NULL: none, the default) and the highest level passed on.
 * Not to be called while workers run. */
GP_API void gp_log_set(gp_log_function function, void *user, gp_log_level highest);

/* Writes bytes for people, for instance "812 B", "1.5 KiB" or "7.98 GiB" (three digits), and returns `text`. */
GP_API char *gp_bytes_format(size_t bytes, char *text, size_t size);

/* The version of the library that is running, for instance "0.1.0". */
GP_API const char *gp_version(void);

#ifdef __cplusplus
}
#endif
#endif
