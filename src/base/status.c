/* The error message of each thread and the log callback of the process.
 *
 * A message is kept per thread and not inside objects, so that a failing constructor has a place to leave its sentence.
 * It lives in a fixed buffer: reporting that memory ran out must not need memory. */
#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_SIZE = 2048 };

static _Thread_local char thread_message[MESSAGE_SIZE];

/* The receiver of the log: process-wide by contract (gp_log_set). The lock keeps its calls one at a time. */
static struct {
    pthread_mutex_t lock;
    gp_log_function function;
    void *user;
    gp_log_level highest;
} receiver = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *gp_status_text(gp_status status) {
    switch (status) {
#define STATUS_TEXT(name, number, exit_status, text)                                                                   \
    case name:                                                                                                         \
        return text;
        GP_STATUSES(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

int gp_status_exit(gp_status status) {
    switch (status) {
#define STATUS_EXIT(name, number, exit_status, text)                                                                   \
    case name:                                                                                                         \
        return exit_status;
        GP_STATUSES(STATUS_EXIT)
#undef STATUS_EXIT
    }
    return 1;
}

/* Formats into `text` and shows with "..." that a message was cut. */
static void format_message(char text[MESSAGE_SIZE], const char *format, va_list arguments) {
    int length = vsnprintf(text, MESSAGE_SIZE, format, arguments);
    if (length < 0) {
        text[0] = '\0';
    } else if (length >= MESSAGE_SIZE) {
        memcpy(text + MESSAGE_SIZE - 4, "...", 4);
    }
}

const char *gp_error_message(void) {
    return thread_message;
}

void gp_error_message_set(const char *message) {
    size_t length = strnlen(message, MESSAGE_SIZE - 1);
    memmove(thread_message, message, length);
    thread_message[length] = '\0';
}

#undef gp_error /* the analyser's, see gpipe/status.h */
gp_status gp_error(gp_status status, const char *format, ...) {
    char text[MESSAGE_SIZE]; /* apart from the kept one, which may be among the arguments */
    va_list arguments;
    va_start(arguments, format);
    format_message(text, format, arguments);
    va_end(arguments);
    gp_error_message_set(text);
    return status;
}

gp_status gp_error_within(gp_status status, const char *format, ...) {
    if (status == GP_OK) return status;
    char context[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    format_message(context, format, arguments);
    va_end(arguments);
    return gp_error(status, "%s: %s", context, thread_message);
}

void gp_log_set(gp_log_function function, void *user, gp_log_level highest) {
    pthread_mutex_lock(&receiver.lock);
    receiver.function = function;
    receiver.user = user;
    receiver.highest = highest;
    pthread_mutex_unlock(&receiver.lock);
}

void gp_log(gp_log_level level, const char *format, ...) {
    pthread_mutex_lock(&receiver.lock);
    if (receiver.function && level <= receiver.highest) {
        char text[MESSAGE_SIZE];
        va_list arguments;
        va_start(arguments, format);
        format_message(text, format, arguments);
        va_end(arguments);
        receiver.function(receiver.user, level, text);
    }
    pthread_mutex_unlock(&receiver.lock);
}

const char *gp_version(void) {
    return GP_VERSION_TEXT;
}
