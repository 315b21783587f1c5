/* Links between ranks. The sender computes into a slot of its staging memory, which is free again when MPI has taken
 * the message; the receiver has a receive posted for every free slot, in the order in which they became free, so that
 * the next message is always in the one that was posted first. A message has a head in front of it, which says when it
 * was sent. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "world/mpi/inside.h"

/* In front of a message, in a space that keeps the message aligned. */
typedef struct head {
    double sent; /* on the world's clock */
    size_t bytes;
} head;

enum { HEAD_BYTES = 64 };

typedef struct gp_mpi_link {
    gp_link link;
    gp_mpi_world *world;
    struct gp_mpi_link *next;
    bool receives;
    int peer, mpi_tag; /* rank */
    int slots;
    size_t slot_bytes; /* of a message with its head */
    char *memory;
    gp_mpi_transfer *transfers; /* per slot */

    int reserved; /* the sender's: slot, or -1 */
    int last;     /* the sender's: slot used last */

    int *posted; /* the receiver's, a ring: slots with a receive, first posted first */
    int posted_first, posted_count;
} gp_mpi_link;

static gp_mpi_link *mpi_link_of(gp_link *link) {
    return (gp_mpi_link *)link;
}

static const gp_world_class link_class;

/* ---- opening ---- */

size_t gp_mpi_slot_bytes(const gp_world *base, int worker, int other, size_t slot_bytes) {
    (void)worker;
    return gp_mpi_is_local((const gp_mpi_world *)base, other) ? slot_bytes : HEAD_BYTES + slot_bytes;
}

size_t gp_mpi_link_bytes(const gp_world *base, int worker, int receiver, int slots, size_t slot_bytes) {
    const gp_mpi_world *world = (const gp_mpi_world *)base;
    (void)worker;
    return gp_mpi_is_local(world, receiver) ? 0 : (size_t)slots * (HEAD_BYTES + slot_bytes);
}

/* Tags tell the links between two ranks apart: which worker of each, and which of the two. */
static int tag_of(const gp_mpi_world *world, int sender, int receiver, int tag) {
    int pair = (sender % world->each) * world->each + receiver % world->each;
    return gp_mpi_first_tag(world, GP_MPI_LINKS) + pair * 2 + tag;
}

static bool is_open(const gp_mpi_world *world, int sender, int receiver, int tag) {
    for (const gp_mpi_link *link = world->links; link; link = link->next)
        if (link->link.sender == sender && link->link.receiver == receiver && link->link.tag == tag) return true;
    return false;
}

static void free_link(gp_mpi_link *link) {
    if (!link) return;
    gp_free(link->transfers);
    gp_free(link->posted);
    gp_free(link);
}

static gp_mpi_link *make_link(gp_mpi_world *world, int sender, int receiver, int tag, int slots, size_t slot_bytes,
                              void *memory) {
    bool receives = gp_mpi_is_local(world, receiver);
    gp_mpi_link *made = gp_allocate(sizeof *made);
    if (!made) return NULL;
    *made = (gp_mpi_link){.link = {.class = &link_class, .sender = sender, .receiver = receiver, .tag = tag},
                          .world = world,
                          .receives = receives,
                          .peer = gp_mpi_rank_of(world, receives ? sender : receiver),
                          .mpi_tag = tag_of(world, sender, receiver, tag),
                          .slots = slots,
                          .slot_bytes = HEAD_BYTES + slot_bytes,
                          .memory = memory,
                          .reserved = -1};
    made->transfers = gp_allocate_array((size_t)slots, sizeof *made->transfers);
    made->posted = gp_allocate_array((size_t)slots, sizeof *made->posted);
    if (!made->transfers || !made->posted) {
        free_link(made);
        return NULL;
    }
    for (int i = 0; i < slots; i++) {
        made->transfers[i].world = world;
        made->transfers[i].seat = receives ? receiver : sender;
    }
    return made;
}

/* Under the lock: adds the link to the world's, with room for all its transfers. */
static gp_status add_link(gp_mpi_link *link) {
    gp_cluster *cluster = link->world->cluster;
    int pieces = gp_mpi_pieces(link->slot_bytes, cluster->largest);
    if (!cluster->calls->pool_reserve(cluster->pool, pieces * link->slots))
        return gp_error(GP_OUT_OF_MEMORY, "no memory for %d transfers", pieces * link->slots);
    link->next = link->world->links;
    link->world->links = link;
    atomic_fetch_add_explicit(&cluster->links, 1, memory_order_relaxed);
    return GP_OK;
}

static char *slot_of(const gp_mpi_link *link, int slot) {
    return link->memory + (size_t)slot * link->slot_bytes;
}

static gp_status post(gp_mpi_link *link, int slot) {
    gp_mpi_world *world = link->world;
    link->posted[(link->posted_first + link->posted_count++) % link->slots] = slot;
    return gp_mpi_receive(world->cluster, world->comm, slot_of(link, slot), link->slot_bytes, link->peer, link->mpi_tag,
                          &link->transfers[slot]);
}

static gp_status open_link(gp_mpi_world *world, int sender, int receiver, int tag, int slots, size_t slot_bytes,
                           void *memory, gp_link **link) {
    gp_cluster *cluster = world->cluster;
    gp_cluster_lock(cluster);
    bool twice = is_open(world, sender, receiver, tag);
    gp_mpi_link *made = twice ? NULL : make_link(world, sender, receiver, tag, slots, slot_bytes, memory);
    gp_status status = made ? add_link(made) : GP_OUT_OF_MEMORY;
    if (made && status != GP_OK) free_link(made);
    for (int i = 0; status == GP_OK && made->receives && i < slots; i++)
        status = post(made, i);
    gp_cluster_unlock(cluster);
    if (twice)
        return gp_error(GP_INVALID, "link %d from worker %d to worker %d is opened twice", tag, sender, receiver);
    if (status == GP_OK) *link = &made->link;
    return status;
}

gp_status gp_mpi_open_receiver(gp_world *base, int worker, int sender, int tag, int slots, size_t slot_bytes,
                               void *memory, gp_link **link) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    if (gp_mpi_is_local(world, sender))
        return gp_threads_open_receiver(base, worker, sender, tag, slots, slot_bytes, memory, link);
    return open_link(world, sender, worker, tag, slots, slot_bytes, memory, link);
}

gp_status gp_mpi_open_sender(gp_world *base, int worker, int receiver, int tag, int slots, size_t slot_bytes,
                             void *staging, gp_link **link) {
    gp_mpi_world *world = gp_mpi_world_of(base);
    if (gp_mpi_is_local(world, receiver))
        return gp_threads_open_sender(base, worker, receiver, tag, slots, slot_bytes, staging, link);
    return open_link(world, worker, receiver, tag, slots, slot_bytes, staging, link);
}

/* Under the lock, when nothing is under way any more. */
void gp_mpi_free_links(gp_mpi_world *world) {
    while (world->links) {
        gp_mpi_link *link = world->links;
        world->links = link->next;
        atomic_fetch_sub_explicit(&world->cluster->links, 1, memory_order_relaxed);
        if (link->receives) gp_mpi_take_back(world->cluster, link->transfers, link->slots);
        free_link(link);
    }
}

/* ---- sender ---- */

static bool is_free(const gp_mpi_link *link, int slot) {
    return atomic_load_explicit(&link->transfers[slot].pending, memory_order_acquire) == 0;
}

static int free_slot(const gp_mpi_link *link) {
    for (int i = 1; i <= link->slots; i++) {
        int slot = (link->last + i) % link->slots;
        if (is_free(link, slot)) return slot;
    }
    return -1;
}

static bool has_free_slot(const void *object) {
    return free_slot(object) >= 0;
}

static gp_status check_transfer(const gp_mpi_link *link, int slot) {
    int error = atomic_load(&link->transfers[slot].error);
    return error ? gp_mpi_error(link->world->cluster, error, "a message was lost") : GP_OK;
}

static gp_status reserve(gp_link *base, void **buffer) {
    gp_mpi_link *link = mpi_link_of(base);
    if (link->reserved < 0) {
        GP_TRY(
            gp_threads_wait(&link->world->threads, base->sender, has_free_slot, link, base->receiver, "a free slot"));
        int slot = free_slot(link);
        GP_TRY(check_transfer(link, slot));
        link->reserved = link->last = slot;
    }
    *buffer = slot_of(link, link->reserved) + HEAD_BYTES;
    return GP_OK;
}

static gp_status commit(gp_link *base, size_t bytes) {
    gp_mpi_link *link = mpi_link_of(base);
    gp_cluster *cluster = link->world->cluster;
    int slot = link->reserved;
    if (slot < 0)
        return gp_error(GP_FAILED, "worker %d commits a message to worker %d without a slot", base->sender,
                        base->receiver);
    if (bytes > link->slot_bytes - HEAD_BYTES)
        return gp_error(GP_FAILED, "a message of %zu bytes to worker %d does not fit its slot of %zu", bytes,
                        base->receiver, link->slot_bytes - HEAD_BYTES);
    head sent = {gp_seconds() + gp_world_clock(&link->world->threads.world), bytes};
    memcpy(slot_of(link, slot), &sent, sizeof sent);
    link->reserved = -1;
    gp_cluster_lock(cluster);
    gp_status status = gp_mpi_send(cluster, link->world->comm, slot_of(link, slot), HEAD_BYTES + bytes,
                                   link->slot_bytes, link->peer, link->mpi_tag, &link->transfers[slot]);
    if (status == GP_OK) gp_cluster_poll_locked(cluster); /* a short message has left by then */
    gp_cluster_unlock(cluster);
    return status;
}

/* ---- receiver ---- */

static bool has_message(const void *object) {
    const gp_mpi_link *link = object;
    return link->posted_count > 0 && is_free(link, link->posted[link->posted_first]);
}

static gp_status await(gp_link *base, void **buffer, int *slot, gp_passage *passage) {
    head message;
    gp_mpi_link *link = mpi_link_of(base);
    GP_TRY(gp_threads_wait(&link->world->threads, base->receiver, has_message, link, base->sender, "a message"));
    *slot = link->posted[link->posted_first];
    link->posted_first = (link->posted_first + 1) % link->slots;
    link->posted_count--;
    *buffer = slot_of(link, *slot) + HEAD_BYTES;
    GP_TRY(check_transfer(link, *slot));
    memcpy(&message, slot_of(link, *slot), sizeof message);
    const gp_mpi_transfer *transfer = &link->transfers[*slot]; /* begun when its slot was free */
    double sent = message.sent - gp_world_clock(&link->world->threads.world);
    *passage = (gp_passage){sent, fmax(sent, transfer->begun), transfer->ended, message.bytes};
    return GP_OK;
}

static void release(gp_link *base, int slot) {
    gp_mpi_link *link = mpi_link_of(base);
    gp_cluster *cluster = link->world->cluster;
    gp_cluster_lock(cluster);
    gp_status status = post(link, slot);
    gp_cluster_unlock(cluster);
    if (status != GP_OK && status != GP_ABORTED)
        gp_world_fail(&link->world->threads.world, base->receiver, status, gp_error_message());
}

static const gp_world_class link_class = {
    .name = "mpi", .reserve = reserve, .commit = commit, .await = await, .release = release};
