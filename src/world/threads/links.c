/* Links between threads: a ring of slots in the receiver's memory. The sender takes any free slot, computes into it and
 * notes its number in the order of messages; nothing is ever copied.
 *
 * One thread sends and one receives, so each side has its own counters; what passes between them is the count of
 * committed messages (sender to receiver) and a flag per slot (receiver to sender). */
#include "base/memory.h"
#include "base/status.h"
#include "world/threads/threads.h"

/* Sender and receiver write on cache lines of their own: the padding is wanted. */
struct gp_thread_link { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    gp_link link;
    gp_thread_world *world;
    gp_thread_link *next;
    bool has_sender, has_receiver;
    _Atomic bool ready; /* the receiver has given its memory: the fields below are there */
    int slots;
    size_t slot_bytes;
    char *memory;
    _Atomic bool *taken; /* per slot: reserved, sent or being read */
    int *order;          /* ring: the slot of message n is order[n % slots] */
    gp_passage *sent;    /* per slot: what is in it */

    alignas(64) _Atomic uint32_t committed; /* written by the sender */
    int reserved;                           /* the sender's: slot, or -1 */
    int last;                               /* the sender's: slot used last */

    alignas(64) uint32_t awaited; /* the receiver's: messages received */
};

static gp_thread_link *thread_link_of(gp_link *link) {
    return (gp_thread_link *)link;
}

/* Finds the link or makes it; the caller holds the world's lock. */
static gp_thread_link *find_link(gp_thread_world *world, int sender, int receiver, int tag) {
    for (gp_thread_link *link = world->links; link; link = link->next)
        if (link->link.sender == sender && link->link.receiver == receiver && link->link.tag == tag) return link;
    gp_thread_link *made = gp_allocate(sizeof *made);
    if (!made) return NULL;
    made->link = (gp_link){.class = &gp_threads_class, .sender = sender, .receiver = receiver, .tag = tag};
    made->world = world;
    made->reserved = -1;
    made->next = world->links;
    world->links = made;
    return made;
}

static gp_status give_memory(gp_thread_link *link, int slots, size_t slot_bytes, void *memory) {
    link->taken = gp_allocate_array((size_t)slots, sizeof *link->taken);
    link->order = gp_allocate_array((size_t)slots, sizeof *link->order);
    link->sent = gp_allocate_array((size_t)slots, sizeof *link->sent);
    if (!link->taken || !link->order || !link->sent) return GP_OUT_OF_MEMORY;
    link->slots = slots;
    link->slot_bytes = slot_bytes;
    link->memory = memory;
    link->has_receiver = true;
    atomic_store_explicit(&link->ready, true, memory_order_release);
    return GP_OK;
}

gp_status gp_threads_open_receiver(gp_world *base, int worker, int sender, int tag, int slots, size_t slot_bytes,
                                   void *memory, gp_link **link) {
    gp_thread_world *world = (gp_thread_world *)base;
    pthread_mutex_lock(&world->lock);
    gp_thread_link *found = find_link(world, sender, worker, tag);
    gp_status status = !found ? GP_OUT_OF_MEMORY : GP_OK;
    if (found && found->has_receiver)
        status = gp_error(GP_INVALID, "worker %d opens link %d from worker %d twice", worker, tag, sender);
    if (status == GP_OK) status = give_memory(found, slots, slot_bytes, memory);
    pthread_mutex_unlock(&world->lock);
    if (status != GP_OK) return status;
    gp_threads_wake(world, sender); /* it may be waiting for its first slot already */
    *link = &found->link;
    return GP_OK;
}

gp_status gp_threads_open_sender(gp_world *base, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                                 void *staging, gp_link **link) {
    gp_thread_world *world = (gp_thread_world *)base;
    (void)slots, (void)slot_bytes, (void)staging; /* the slots are the receiver's */
    pthread_mutex_lock(&world->lock);
    gp_thread_link *found = find_link(world, worker, receiver, tag);
    gp_status status = !found ? GP_OUT_OF_MEMORY : GP_OK;
    if (found && found->has_sender)
        status = gp_error(GP_INVALID, "worker %d opens link %d to worker %d twice", worker, tag, receiver);
    if (status == GP_OK) found->has_sender = true;
    pthread_mutex_unlock(&world->lock);
    if (status == GP_OK) *link = &found->link;
    return status;
}

/* ---- sender ---- */

static int free_slot(const gp_thread_link *link) {
    if (!atomic_load_explicit(&link->ready, memory_order_acquire)) return -1;
    for (int i = 1; i <= link->slots; i++) {
        int slot = (link->last + i) % link->slots;
        if (!atomic_load_explicit(&link->taken[slot], memory_order_acquire)) return slot;
    }
    return -1;
}

static bool has_free_slot(const void *object) {
    return free_slot(object) >= 0;
}

gp_status gp_threads_reserve(gp_link *base, void **buffer) {
    gp_thread_link *link = thread_link_of(base);
    if (link->reserved < 0) {
        GP_TRY(gp_threads_wait(link->world, base->sender, has_free_slot, link, base->receiver, "a free slot"));
        link->reserved = link->last = free_slot(link);
        atomic_store_explicit(&link->taken[link->reserved], true, memory_order_relaxed);
    }
    *buffer = link->memory + (size_t)link->reserved * link->slot_bytes;
    return GP_OK;
}

gp_status gp_threads_commit(gp_link *base, size_t bytes) {
    gp_thread_link *link = thread_link_of(base);
    if (link->reserved < 0)
        return gp_error(GP_FAILED, "worker %d commits a message to worker %d without a slot", base->sender,
                        base->receiver);
    if (bytes > link->slot_bytes)
        return gp_error(GP_FAILED, "a message of %zu bytes to worker %d does not fit its slot of %zu", bytes,
                        base->receiver, link->slot_bytes);
    uint32_t number = atomic_load_explicit(&link->committed, memory_order_relaxed);
    double now = gp_seconds();
    link->order[number % (uint32_t)link->slots] = link->reserved;
    link->sent[link->reserved] = (gp_passage){now, now, now, bytes};
    link->reserved = -1;
    atomic_store_explicit(&link->committed, number + 1, memory_order_release);
    gp_threads_wake(link->world, base->receiver);
    return GP_OK;
}

/* ---- receiver ---- */

static bool has_message(const void *object) {
    const gp_thread_link *link = object;
    return atomic_load_explicit(&link->committed, memory_order_acquire) != link->awaited;
}

gp_status gp_threads_await(gp_link *base, void **buffer, int *slot, gp_passage *passage) {
    gp_thread_link *link = thread_link_of(base);
    GP_TRY(gp_threads_wait(link->world, base->receiver, has_message, link, base->sender, "a message"));
    *slot = link->order[link->awaited++ % (uint32_t)link->slots];
    *buffer = link->memory + (size_t)*slot * link->slot_bytes;
    *passage = link->sent[*slot];
    return GP_OK;
}

void gp_threads_release(gp_link *base, int slot) {
    gp_thread_link *link = thread_link_of(base);
    atomic_store_explicit(&link->taken[slot], false, memory_order_release);
    gp_threads_wake(link->world, base->sender);
}

void gp_threads_free_links(gp_thread_link *links) {
    while (links) {
        gp_thread_link *next = links->next;
        gp_free(links->taken);
        gp_free(links->order);
        gp_free(links->sent);
        gp_free(links);
        links = next;
    }
}
