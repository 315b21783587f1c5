/* Inside the room: a worker's part in saving. */
#ifndef GP_PIPELINE_WORKER_SAVE_H
#define GP_PIPELINE_WORKER_SAVE_H

#include "base/thread.h"
#include "pipeline/kept.h"
#include "pipeline/save.h"

struct gp_worker;

/* What a worker tells the others between two steps. */
typedef struct gp_save_report {
    int32_t ended;
    int32_t status; /* a gp_status */
} gp_save_report;

/* Work of a thread beside the steps, and how it ended. */
typedef struct gp_save_task {
    gp_thread *thread; /* NULL: none, or joined */
    _Atomic bool ended;
    gp_event event; /* of the end */
    gp_status status;
    char message[512];
} gp_save_task;

void gp_save_task_begin(gp_save_task *task);
void gp_save_task_end(gp_save_task *task, gp_status status); /* with the calling thread's message */
void gp_save_task_wait(gp_save_task *task);

typedef struct gp_worker_save {
    struct gp_worker *worker;
    /* planned */
    gp_files_piece *pieces; /* what this worker writes, in the order of the list of what is kept */
    size_t piece_count;
    size_t bytes; /* of the copy */
    /* allocated */
    void *copy;              /* NULL: it writes from the device, while the steps wait */
    void **sources;          /* of each piece: where it lies on the device */
    gp_save_report *reports; /* of all workers */
    gp_files_piece *mine;    /* room for as many pieces as any worker has */
    gp_files_piece *all;     /* the same for all workers */
    size_t most;             /* pieces of one worker */
    gp_save_task task;       /* the writing */
    /* what all agreed on in the last poll */
    bool all_ended;
    int failed; /* first worker that failed; -1: none */
} gp_worker_save;

/* The engine's side of a save. */
typedef struct gp_save {
    gp_save_options options;
    char *folder;
    gp_save_result result;
    double begun;
    bool wait;              /* of the command: until writers have ended */
    _Atomic bool cancelled; /* writers stop at the next bit */
    gp_files_piece *pieces; /* gathered from all workers, in the process that commits */
    size_t piece_count;
    gp_save_task commit;
} gp_save;

/* After the stage's plan: lists what the worker writes. */
gp_status gp_worker_plan_save(struct gp_worker *worker);
/* Allocates, with the other workers. */
gp_status gp_worker_allocate_save(struct gp_worker *worker);
void gp_worker_release_save(struct gp_worker *worker);

/* Commands. */
gp_status gp_worker_save_begin(struct gp_worker *worker);
gp_status gp_worker_save_poll(struct gp_worker *worker);
gp_status gp_worker_load(struct gp_worker *worker);

/* Writes the worker's part: from its copy in a thread of its own (`argument` is the gp_worker_save), or directly. */
void gp_worker_save_write(void *argument);

#endif
