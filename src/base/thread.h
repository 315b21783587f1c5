/* Threads, time, and the event on which workers wait: spin briefly, then sleep (a hand-over through a futex alone costs
 * several microseconds, a short spin a tenth of one). */
#ifndef GP_BASE_THREAD_H
#define GP_BASE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpipe/status.h"

typedef struct gp_thread gp_thread;

/* Starts a thread. `cores` > 0 pins it to `cores` cores from number `first_core` among those that this process may use
 * (by hwloc; wraps around; a failure to pin is logged, not an error). cores = 0: not pinned. The thread does not
 * receive the program's signals (interrupt, terminate, hang-up, user 1 and 2). */
gp_status gp_thread_create(gp_thread **thread, void (*run)(void *), void *argument, int first_core, int cores);
/* Waits for the thread to end and frees it. Accepts NULL. */
void gp_thread_join(gp_thread *thread);

/* Cores that this process may use. */
int gp_core_count(void);

/* So many processes, this one among them, that are as busy share the processors that it may use (at first 1). */
void gp_threads_share_processors(int processes);

/* Seconds on a monotonic clock. */
double gp_seconds(void);

/* An event counter: waiters wait until it differs from a value they saw. */
typedef struct gp_event {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
} gp_event;

uint32_t gp_event_now(gp_event *event);
/* Wakes all who wait. */
void gp_event_signal(gp_event *event);
/* Returns true once the count differs from `seen`, false after `seconds` (negative: no limit). Spins a little first,
 * unless more threads of gp_thread_create are alive (in all processes that share) than there are processors to run
 * them. */
bool gp_event_wait(gp_event *event, uint32_t seen, double seconds);

#endif
