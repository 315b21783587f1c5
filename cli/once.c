/* The launcher's processes on a machine have one parent. Who is first takes a name in the abstract space of Unix
 * sockets, which is free again when the process has ended: nothing is left behind. The others go only when the first
 * tells them that it has spoken: launchers end all processes as soon as one has failed, the first too. */
#include "once.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 5, TRIES = 100, WAITING = 1024 };

typedef struct place {
    struct sockaddr_un name;
    socklen_t bytes;
} place;

/* FNV-1a. */
static uint64_t digest(const char *text) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 0x100000001b3u;
    return sum;
}

static place place_of(const char *text) {
    place made = {.name.sun_family = AF_UNIX}; /* a name that begins with a zero is an abstract one */
    int length = snprintf(made.name.sun_path + 1, sizeof made.name.sun_path - 1, "gpipe-says-%d-%ld-%016llx",
                          (int)getuid(), (long)getppid(), (unsigned long long)digest(text));
    made.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return made;
}

/* A socket whose calls give up after a while, or -1. */
static int open_socket(void) {
    struct timeval limit = {.tv_sec = SECONDS};
    int number = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (number < 0) return -1;
    if (setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0)
        return number;
    close(number);
    return -1;
}

typedef enum answer { SAID, GONE, SILENT } answer;

/* Waits until the first has spoken; GONE: there is none any more, or not yet. */
static answer ask_first(const place *where) {
    char byte;
    int number = open_socket();
    if (number < 0) return SILENT;
    answer found = SILENT;
    if (connect(number, (const struct sockaddr *)&where->name, where->bytes) == 0) {
        ssize_t got = recv(number, &byte, 1, 0);
        found = got == 1 ? SAID : got == 0 || errno == ECONNRESET ? GONE : SILENT;
    } else if (errno == ECONNREFUSED) {
        found = GONE;
    }
    close(number);
    return found;
}

/* The descriptor that keeps the place, or -1; `taken`: another process has it. */
static int take(const place *where, bool *taken) {
    *taken = false;
    int number = open_socket();
    if (number < 0) return -1;
    if (bind(number, (const struct sockaddr *)&where->name, where->bytes) == 0 && listen(number, WAITING) == 0)
        return number;
    *taken = errno == EADDRINUSE;
    close(number);
    return -1;
}

bool cli_once_first(const char *text, int *hold) {
    place where = place_of(text);
    *hold = -1;
    for (int tries = 0; tries < TRIES; tries++) {
        bool taken;
        *hold = take(&where, &taken);
        if (!taken) return true;
        answer found = ask_first(&where);
        if (found != GONE) return found != SAID;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return true;
}

void cli_once_linger(int hold, int others) {
    if (hold < 0) return;
    for (int other; others > 0 && (other = accept(hold, NULL, NULL)) >= 0; others--) {
        send(other, "", 1, MSG_NOSIGNAL);
        close(other);
    }
    close(hold);
}
