/* Threads pinned to cores, the clock, and the event on which workers wait.
 *
 * Pinning takes whole cores (all hardware threads of one), since two workers on one core would share its vector units.
 * The event spins before it sleeps, but only where somebody else can run meanwhile: with more threads than processors,
 * a spinning waiter takes the time of the very thread it waits for. */
#include "base/thread.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

enum { SPINS = 2000 };

struct gp_thread {
    pthread_t id;
    void (*run)(void *);
    void *argument;
    int first_core;
    int cores;
};

/* What the machine offers this process: found once, then only read. `topology` is NULL when hwloc could not tell. */
static struct {
    pthread_once_t once;
    hwloc_topology_t topology;
    hwloc_cpuset_t allowed;
    int cores;
    int processors;
} machine = {.once = PTHREAD_ONCE_INIT};

/* Threads of gp_thread_create that have not ended: decides whether spinning pays. */
static _Atomic int running_threads;

/* Processes that have as many, on the same processors. */
static _Atomic int sharing_processes = 1;

/* The processors this process was started on: those of its first thread, which gpipe never pins. */
static hwloc_cpuset_t allowed_processors(hwloc_topology_t topology) {
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    if (!allowed) return NULL;
    if (hwloc_linux_get_tid_cpubind(topology, getpid(), allowed) != 0) {
        hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology));
    }
    hwloc_bitmap_and(allowed, allowed, hwloc_topology_get_topology_cpuset(topology));
    return allowed;
}

static bool discover_topology(hwloc_topology_t topology) {
    /* Only cores and their processors: looking for caches and devices takes longer than a small run. */
    if (hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0) return false;
    if (hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0) return false;
    if (hwloc_topology_load(topology) != 0) return false;
    machine.allowed = allowed_processors(topology);
    if (!machine.allowed || hwloc_bitmap_iszero(machine.allowed)) return false;
    machine.processors = hwloc_bitmap_weight(machine.allowed);
    return true;
}

static bool core_is_allowed(hwloc_obj_t core) {
    return hwloc_bitmap_intersects(core->cpuset, machine.allowed);
}

static void discover_machine(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine.processors = online > 0 ? (int)online : 1;
    machine.cores = machine.processors;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return;
    if (!discover_topology(topology)) {
        hwloc_topology_destroy(topology);
        return;
    }
    machine.topology = topology;
    int cores = 0;
    for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));)
        cores += core_is_allowed(core);
    machine.cores = cores > 0 ? cores : machine.processors;
}

/* Adds the processors of the number-th allowed core (or processor, where the system does not tell of cores). */
static void add_core(hwloc_cpuset_t set, hwloc_obj_type_t type, int number) {
    for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(machine.topology, type, core));) {
        if (!core_is_allowed(core) || number-- > 0) continue;
        hwloc_bitmap_or(set, set, core->cpuset);
        return;
    }
}

/* Pins the calling thread. */
static bool pin(int first_core, int cores) {
    if (!machine.topology) return false;
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (!set) return false;
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(machine.topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    for (int i = 0; i < cores && i < machine.cores; i++)
        add_core(set, type, (first_core % machine.cores + i) % machine.cores);
    hwloc_bitmap_and(set, set, machine.allowed);
    bool pinned = hwloc_set_cpubind(machine.topology, set, HWLOC_CPUBIND_THREAD) == 0;
    hwloc_bitmap_free(set);
    return pinned;
}

static void *thread_main(void *argument) {
    gp_thread *thread = argument;
    if (thread->cores > 0 && !pin(thread->first_core, thread->cores)) {
        gp_log(GP_LOG_WARNING, "a thread could not be pinned to %d core(s) from core %d: %s", thread->cores,
               thread->first_core, strerror(errno));
    }
    thread->run(thread->argument);
    atomic_fetch_sub(&running_threads, 1);
    return NULL;
}

/* Starts the thread with the program's signals blocked, so that its handlers run in threads of its own. */
static int start_without_signals(gp_thread *thread) {
    static const int program_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t blocked, previous;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof program_signals / sizeof program_signals[0]; i++)
        sigaddset(&blocked, program_signals[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &previous);
    int failure = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return failure;
}

gp_status gp_thread_create(gp_thread **thread, void (*run)(void *), void *argument, int first_core, int cores) {
    *thread = NULL;
    if (first_core < 0 || cores < 0) {
        return gp_error(GP_INVALID, "a thread cannot be pinned to %d cores from core %d: both must be 0 or more", cores,
                        first_core);
    }
    pthread_once(&machine.once, discover_machine);
    gp_thread *made = gp_allocate(sizeof *made);
    if (!made) return GP_OUT_OF_MEMORY;
    *made = (gp_thread){.run = run, .argument = argument, .first_core = first_core, .cores = cores};
    atomic_fetch_add(&running_threads, 1);
    int failure = start_without_signals(made);
    if (failure != 0) {
        atomic_fetch_sub(&running_threads, 1);
        gp_free(made);
        return gp_error(GP_FAILED, "a thread could not be started: %s", strerror(failure));
    }
    *thread = made;
    return GP_OK;
}

void gp_thread_join(gp_thread *thread) {
    if (!thread) return;
    pthread_join(thread->id, NULL);
    gp_free(thread);
}

int gp_core_count(void) {
    pthread_once(&machine.once, discover_machine);
    return machine.cores;
}

void gp_threads_share_processors(int processes) {
    atomic_store(&sharing_processes, processes);
}

double gp_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint32_t gp_event_now(gp_event *event) {
    return atomic_load(&event->count);
}

void gp_event_signal(gp_event *event) {
    atomic_fetch_add(&event->count, 1);
    if (atomic_load(&event->sleepers) == 0) return;
    syscall(SYS_futex, &event->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool spinning_pays(void) {
    pthread_once(&machine.once, discover_machine);
    int threads = atomic_load_explicit(&running_threads, memory_order_relaxed);
    int processes = atomic_load_explicit(&sharing_processes, memory_order_relaxed);
    return machine.processors >= 2 && threads <= machine.processors / processes;
}

static bool spin(gp_event *event, uint32_t seen) {
    bool pays = spinning_pays();
    for (int i = 0; pays && i < SPINS; i++) {
        if (atomic_load(&event->count) != seen) return true;
        pause_briefly();
    }
    return atomic_load(&event->count) != seen;
}

/* Sleeps until the count is no longer `seen` or the deadline (seconds on the clock; negative: none) has passed. The
 * sleeper announces itself before the system compares the count, and a signaller counts before it looks for sleepers:
 * one of them always sees the other. */
static bool sleep_until(gp_event *event, uint32_t seen, double deadline) {
    atomic_fetch_add(&event->sleepers, 1);
    bool changed;
    while (!(changed = atomic_load(&event->count) != seen)) {
        struct timespec left, *limit = NULL;
        if (deadline >= 0) {
            double seconds = deadline - gp_seconds();
            if (seconds <= 0) break;
            if (seconds > 3600) seconds = 3600; /* keeps the conversion in range; the loop goes on */
            left.tv_sec = (time_t)seconds;
            left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
            limit = &left;
        }
        syscall(SYS_futex, &event->count, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
    }
    atomic_fetch_sub(&event->sleepers, 1);
    return changed;
}

bool gp_event_wait(gp_event *event, uint32_t seen, double seconds) {
    if (atomic_load(&event->count) != seen) return true;
    if (seconds == 0) return false;
    double deadline = seconds < 0 ? -1 : gp_seconds() + seconds;
    if (spin(event, seen)) return true;
    return sleep_until(event, seen, deadline);
}
