/* The launcher's processes on a machine have one parent. Who is first takes a name in the abstract space of Unix
 * sockets, which is free again when the process has ended: nothing is left behind. */
#include "once.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* FNV-1a. */
static uint64_t digest(const char *text) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 0x100000001b3u;
    return sum;
}

bool cli_once_first(const char *text, int *hold) {
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* a name that begins with a zero is an abstract one */
    int number = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *hold = number;
    if (number < 0) return true;
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gpipe-says-%d-%ld-%016llx", (int)getuid(),
                          (long)getppid(), (unsigned long long)digest(text));
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(number, (const struct sockaddr *)&name, bytes) == 0) return true;
    bool second = errno == EADDRINUSE;
    if (second) sendto(number, "", 0, MSG_DONTWAIT, (const struct sockaddr *)&name, bytes); /* the first waits for it */
    close(number);
    *hold = -1;
    return !second;
}

void cli_once_linger(int hold, int others) {
    struct timeval limit = {.tv_sec = 5};
    char nothing[1];
    if (hold < 0) return;
    bool limited = setsockopt(hold, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0;
    while (limited && others-- > 0 && recv(hold, nothing, sizeof nothing, 0) >= 0)
        ;
    close(hold);
}
