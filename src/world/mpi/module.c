/* The loadable module: gpipe's MPI calls, made with one implementation of MPI. It is the only file that includes mpi.h
 * and uses nothing of the library but the table. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world/mpi/calls.h"

struct gp_mpi_comm {
    MPI_Comm comm;
};

struct gp_mpi_pool {
    MPI_Request *requests;
    void **users;
    bool *receives;
    int count, capacity;
    int *indices; /* scratch of poll */
    MPI_Status *statuses;
    gp_mpi_finished *finished;
    int finished_capacity;
};

/* ---- life ---- */

static gp_mpi_threads level_of(int provided) {
    return provided == MPI_THREAD_MULTIPLE     ? GP_MPI_THREAD_MULTIPLE
           : provided == MPI_THREAD_SERIALIZED ? GP_MPI_THREAD_SERIALIZED
           : provided == MPI_THREAD_FUNNELED   ? GP_MPI_THREAD_FUNNELED
                                               : GP_MPI_THREAD_SINGLE;
}

static int initialise(bool *initialised, gp_mpi_threads *threads) {
    int there = 0, provided = MPI_THREAD_SINGLE, error = MPI_Initialized(&there);
    *initialised = false;
    if (error == MPI_SUCCESS) {
        error = there ? MPI_Query_thread(&provided) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
        *initialised = !there && error == MPI_SUCCESS;
        /* MPICH asks its handler about failed transfers of any communicator. */
        if (*initialised) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    *threads = level_of(provided);
    return error;
}

static void finalise(void) {
    int done = 0;
    if (MPI_Finalized(&done) == MPI_SUCCESS && !done) MPI_Finalize();
}

/* Open MPI's launcher hears of it through PMIx, whose library is in the process then; MPICH's through the descriptor
 * that it has given to the process (wire protocol of PMI-1). */
#ifdef OPEN_MPI
enum { LEAVES = false, SIGNALS = false };
static bool leave(void) {
    int (*end)(const void *information, size_t count);
    void *pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD), *symbol = pmix ? dlsym(pmix, "PMIx_Finalize") : NULL;
    if (!symbol) return false;
    memcpy(&end, &symbol, sizeof end);
    return end(NULL, 0) == 0;
}
#else
/* Over UCX a process waits in MPI_Finalize for others to answer that are in there already and do not (openucx/ucx issue
 * 2254). */
enum { LEAVES = true, SIGNALS = true };
static bool leave(void) {
    static const char words[] = "cmd=finalize\n";
    char answer[64];
    const char *text = getenv("PMI_FD");
    int launcher = text ? atoi(text) : -1;
    if (launcher < 0 || write(launcher, words, sizeof words - 1) < 0) return false;
    ssize_t bytes = read(launcher, answer, sizeof answer - 1);
    answer[bytes > 0 ? bytes : 0] = '\0';
    return strstr(answer, "finalize_ack") != NULL;
}
#endif

static void end_job(int status) {
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void describe(int error, char *text, size_t size) {
    char words[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(error, words, &length) != MPI_SUCCESS) strcpy(words, "an unknown MPI error");
    size_t bytes = strlen(words) < size ? strlen(words) : size - 1;
    memcpy(text, words, bytes);
    text[bytes] = '\0';
}

/* ---- the pool ---- */

static bool grow(gp_mpi_pool *pool, int capacity) {
    if (capacity <= pool->capacity) return true;
    size_t room = (size_t)capacity;
    MPI_Request *requests = realloc(pool->requests, room * sizeof *requests);
    if (requests) pool->requests = requests;
    void **users = realloc(pool->users, room * sizeof *users);
    if (users) pool->users = users;
    bool *receives = realloc(pool->receives, room * sizeof *receives);
    if (receives) pool->receives = receives;
    int *indices = realloc(pool->indices, room * sizeof *indices);
    if (indices) pool->indices = indices;
    MPI_Status *statuses = realloc(pool->statuses, room * sizeof *statuses);
    if (statuses) pool->statuses = statuses;
    if (!requests || !users || !receives || !indices || !statuses) return false;
    pool->capacity = capacity;
    return true;
}

static gp_mpi_pool *pool_create(int capacity) {
    gp_mpi_pool *pool = calloc(1, sizeof *pool);
    if (pool && grow(pool, capacity)) return pool;
    free(pool);
    return NULL;
}

static bool pool_reserve(gp_mpi_pool *pool, int more) {
    return grow(pool, pool->count + more);
}

static void pool_free(gp_mpi_pool *pool) {
    int done = 0;
    if (!pool) return;
    if (MPI_Finalized(&done) != MPI_SUCCESS) done = 1;
    for (int i = 0; !done && i < pool->count; i++) {
        if (pool->receives[i]) MPI_Cancel(&pool->requests[i]);
        if (pool->requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&pool->requests[i]);
    }
    free(pool->requests);
    free(pool->users);
    free(pool->receives);
    free(pool->indices);
    free(pool->statuses);
    free(pool->finished);
    free(pool);
}

/* Room for one more request; NULL without memory. The caller fills it and counts it with `add`. */
static MPI_Request *next_request(gp_mpi_pool *pool) {
    if (pool->count == pool->capacity && !grow(pool, 2 * pool->capacity + 16)) return NULL;
    return &pool->requests[pool->count];
}

static int add(gp_mpi_pool *pool, int error, bool receives, void *user) {
    if (error != MPI_SUCCESS) return error;
    pool->users[pool->count] = user;
    pool->receives[pool->count++] = receives;
    return MPI_SUCCESS;
}

static bool make_room_for_finished(gp_mpi_pool *pool) {
    if (pool->capacity <= pool->finished_capacity) return true;
    gp_mpi_finished *grown = realloc(pool->finished, (size_t)pool->capacity * sizeof *grown);
    if (!grown) return false;
    pool->finished = grown;
    pool->finished_capacity = pool->capacity;
    return true;
}

/* Closes the gaps that finished requests have left. */
static void compact(gp_mpi_pool *pool) {
    int kept = 0;
    for (int i = 0; i < pool->count; i++) {
        if (pool->requests[i] == MPI_REQUEST_NULL) continue;
        pool->requests[kept] = pool->requests[i];
        pool->users[kept] = pool->users[i];
        pool->receives[kept++] = pool->receives[i];
    }
    pool->count = kept;
}

static int poll(gp_mpi_pool *pool, const gp_mpi_finished **finished) {
    int count = 0;
    if (pool->count == 0 || !make_room_for_finished(pool)) return 0;
    *finished = pool->finished;
    int error = MPI_Testsome(pool->count, pool->requests, &count, pool->indices, pool->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) {
        pool->finished[0] = (gp_mpi_finished){NULL, 0, 0, error};
        return 1;
    }
    if (count == MPI_UNDEFINED) count = 0;
    for (int i = 0; i < count; i++) {
        int index = pool->indices[i], bytes = 0;
        MPI_Status *status = &pool->statuses[i];
        if (pool->receives[index] && MPI_Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS) bytes = 0;
        pool->finished[i] = (gp_mpi_finished){pool->users[index], status->MPI_SOURCE, bytes > 0 ? (size_t)bytes : 0,
                                              error == MPI_SUCCESS ? MPI_SUCCESS : status->MPI_ERROR};
    }
    if (count > 0) compact(pool);
    return count;
}

static int discard(gp_mpi_comm *comm, bool *found) {
    int there = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    int error = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->comm, &there, &message, &status);
    *found = error == MPI_SUCCESS && there;
    if (!*found) return error;
    error = MPI_Get_count(&status, MPI_BYTE, &bytes);
    void *data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!data) return MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS) error = MPI_Mrecv(data, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    free(data);
    return error;
}

static void cancel(gp_mpi_pool *pool, const void *user) {
    for (int i = 0; i < pool->count; i++)
        if (pool->users[i] == user && pool->receives[i]) MPI_Cancel(&pool->requests[i]);
}

/* ---- communicators ---- */

static gp_mpi_comm *wrap(MPI_Comm communicator) {
    gp_mpi_comm *comm = malloc(sizeof *comm);
    if (comm) comm->comm = communicator;
    return comm;
}

static gp_mpi_comm *comm_of(const void *communicator) {
    return wrap(communicator ? *(const MPI_Comm *)communicator : MPI_COMM_WORLD);
}

static int duplicate(gp_mpi_comm *from, gp_mpi_comm **comm, gp_mpi_pool *pool, void *user) {
    MPI_Request *request = next_request(pool);
    *comm = wrap(MPI_COMM_NULL);
    if (!request || !*comm) return MPI_ERR_NO_MEM;
    return add(pool, MPI_Comm_idup(from->comm, &(*comm)->comm, request), false, user);
}

static void comm_free(gp_mpi_comm *comm, bool with_communicator) {
    if (!comm) return;
    if (with_communicator && comm->comm != MPI_COMM_NULL) MPI_Comm_free(&comm->comm);
    free(comm);
}

static void place(gp_mpi_comm *comm, int *rank, int *ranks) {
    MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm->comm, rank);
    MPI_Comm_size(comm->comm, ranks);
}

/* ---- transfers ---- */

static int send(gp_mpi_comm *comm, gp_mpi_pool *pool, const void *data, int bytes, int to, int tag, void *user) {
    MPI_Request *request = next_request(pool);
    if (!request) return MPI_ERR_NO_MEM;
    return add(pool, MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm->comm, request), false, user);
}

static int receive(gp_mpi_comm *comm, gp_mpi_pool *pool, void *data, int bytes, int from, int tag, void *user) {
    MPI_Request *request = next_request(pool);
    if (!request) return MPI_ERR_NO_MEM;
    int source = from == GP_MPI_ANYBODY ? MPI_ANY_SOURCE : from;
    return add(pool, MPI_Irecv(data, bytes, MPI_BYTE, source, tag, comm->comm, request), true, user);
}

static int gather(gp_mpi_comm *comm, gp_mpi_pool *pool, const void *mine, int bytes, void *all, void *user) {
    MPI_Request *request = next_request(pool);
    if (!request) return MPI_ERR_NO_MEM;
    return add(pool, MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm->comm, request), false, user);
}

static int broadcast(gp_mpi_comm *comm, gp_mpi_pool *pool, void *data, int bytes, int root, void *user) {
    MPI_Request *request = next_request(pool);
    if (!request) return MPI_ERR_NO_MEM;
    return add(pool, MPI_Ibcast(data, bytes, MPI_BYTE, root, comm->comm, request), false, user);
}

/* ---- the table ---- */

static const gp_mpi_calls calls = {
    .version = GP_MPI_CALLS_VERSION,
    .name = GP_MPI_NAME,
    .initialise = initialise,
    .finalise = finalise,
    .leave = leave,
    .leaves = LEAVES,
    .signals = SIGNALS,
    .abort = end_job,
    .describe = describe,
    .comm_of = comm_of,
    .duplicate = duplicate,
    .comm_free = comm_free,
    .place = place,
    .pool_create = pool_create,
    .pool_reserve = pool_reserve,
    .pool_free = pool_free,
    .send = send,
    .receive = receive,
    .gather = gather,
    .broadcast = broadcast,
    .poll = poll,
    .discard = discard,
    .cancel = cancel,
};

const gp_mpi_calls *gp_mpi_module(void);
__attribute__((visibility("default"))) const gp_mpi_calls *gp_mpi_module(void) {
    return &calls;
}
