/* Messages and the live line share the terminal: whoever writes takes the line away first and draws it again after. */
#include "message.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "once.h"

enum { LINE = 512 };

/* The terminal is one for the whole process, so is what is known about it. */
static struct {
    pthread_mutex_t lock;
    gp_log_level level;
    FILE *log;
    bool shared;     /* the log is another process's */
    char line[LINE]; /* the live line as it stands; "": none */
    int color, terminal;
    bool (*speaks)(const void *user); /* NULL: yes */
    const void *speaker;
    int together; /* processes that do not know of each other; 0: this one has been told of the others */
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = GP_LOG_INFO};

static const char *prefix(gp_log_level level) {
    return level == GP_LOG_ERROR ? "gpipe: " : level == GP_LOG_WARNING ? "gpipe: warning: " : "";
}

static const char *color(gp_log_level level) {
    if (!terminal.color) return "";
    return level == GP_LOG_ERROR     ? "\033[31m"
           : level == GP_LOG_WARNING ? "\033[33m"
           : level == GP_LOG_DEBUG   ? "\033[2m"
                                     : "";
}

static bool is_shown(gp_log_level level) {
    return level <= terminal.level && (!terminal.speaks || terminal.speaks(terminal.speaker));
}

static void write_text(gp_log_level level, const char *text) {
    size_t length = strlen(text);
    const char *end = length > 0 && text[length - 1] == '\n' ? "" : "\n";
    pthread_mutex_lock(&terminal.lock);
    bool speaks = !terminal.speaks || terminal.speaks(terminal.speaker);
    if (terminal.log && (speaks || !terminal.shared)) {
        fprintf(terminal.log, "%s%s%s", prefix(level), text, end);
        fflush(terminal.log);
    }
    if (speaks && level <= terminal.level) {
        if (terminal.line[0]) fputs("\r\033[K", stderr);
        const char *start = color(level);
        fprintf(stderr, "%s%s%s%s%s", start, prefix(level), text, *start ? "\033[0m" : "", end);
        if (terminal.line[0]) fputs(terminal.line, stderr);
        fflush(stderr);
    }
    pthread_mutex_unlock(&terminal.lock);
}

static void write_message(gp_log_level level, const char *text) {
    pthread_mutex_lock(&terminal.lock);
    int others = level == GP_LOG_ERROR ? terminal.together - 1 : 0, hold = -1;
    pthread_mutex_unlock(&terminal.lock);
    if (others > 0 && !cli_once_first(text, &hold)) return;
    write_text(level, text);
    cli_once_linger(hold, others);
}

static void from_library(void *user, gp_log_level level, const char *message) {
    (void)user;
    write_message(level, message);
}

void cli_message_start(gp_log_level level) {
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    terminal.level = level;
    terminal.terminal = isatty(STDERR_FILENO) && !(kind && strcmp(kind, "dumb") == 0);
    terminal.color = terminal.terminal && !(no_color && *no_color);
    gp_log_set(from_library, NULL, level > GP_LOG_INFO ? level : GP_LOG_INFO);
}

void cli_message_speaker(bool (*speaks)(const void *user), const void *user) {
    pthread_mutex_lock(&terminal.lock);
    terminal.speaks = speaks;
    terminal.speaker = user;
    terminal.together = 0;
    pthread_mutex_unlock(&terminal.lock);
}

void cli_message_once(int processes) {
    terminal.together = processes;
}

void cli_message_log(FILE *file) {
    pthread_mutex_lock(&terminal.lock);
    terminal.log = file;
    terminal.shared = false;
    pthread_mutex_unlock(&terminal.lock);
}

void cli_message_shared_log(FILE *file) {
    cli_message_log(file);
    pthread_mutex_lock(&terminal.lock);
    terminal.shared = true;
    pthread_mutex_unlock(&terminal.lock);
}

void cli_message(gp_log_level level, const char *format, ...) {
    char fixed[1024], *text = fixed;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(fixed, sizeof fixed, format, arguments);
    va_end(arguments);
    char *large = length >= (int)sizeof fixed ? malloc((size_t)length + 1) : NULL;
    if (large) {
        va_start(arguments, format);
        vsnprintf(large, (size_t)length + 1, format, arguments);
        va_end(arguments);
        text = large;
    }
    write_message(level, text);
    free(large);
}

int cli_message_shows(gp_log_level level) {
    return level <= terminal.level;
}

int cli_fail(gp_status status) {
    const char *message = gp_error_message();
    bool told =
        status == GP_PEER_LOST && terminal.speaks; /* when it was noticed, which may have been the last chance */
    if (!told) cli_message(GP_LOG_ERROR, "%s", *message ? message : gp_status_text(status));
    return gp_status_exit(status);
}

int cli_live_possible(void) {
    return terminal.terminal && is_shown(GP_LOG_INFO);
}

/* Columns of the terminal, less one so that a full line does not wrap. */
static int columns(void) {
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col - 1;
    return 79;
}

void cli_live(const char *text) {
    if (!cli_live_possible()) return;
    pthread_mutex_lock(&terminal.lock);
    int width = columns();
    if (width >= LINE) width = LINE - 1;
    snprintf(terminal.line, sizeof terminal.line, "%.*s", width, text);
    fprintf(stderr, "\r\033[K%s", terminal.line);
    fflush(stderr);
    pthread_mutex_unlock(&terminal.lock);
}
