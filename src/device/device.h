/* What a device offers: memory, kernels, the update of parameters. Nothing above this room dereferences device memory.
 *
 * A device is content + table of functions. Kernels are created while a program is planned (no device memory is needed
 * for that) and run later, with memory handed in: running allocates nothing. A device object belongs to one worker; its
 * functions are called by that worker's thread only, except where said otherwise. */
#ifndef GP_DEVICE_DEVICE_H
#define GP_DEVICE_DEVICE_H

#include "base/random.h"
#include "gpipe/device.h"
#include "graph/ops.h"

typedef struct gp_device gp_device;
typedef struct gp_kernel gp_kernel;

/* What a kernel is made for. Pointers live for the call only. */
typedef struct gp_kernel_desc {
    gp_op_id id;
    const gp_op_class *op;  /* a user's class when id is GP_OP_CUSTOM */
    const void *attributes; /* of op->attributes_size bytes; copied by the device */
    const gp_type *inputs;  /* an absent input has rank -1 */
    const gp_type *outputs;
    int input_count, output_count;
    uint32_t accumulate; /* bit i: add into output i instead of overwriting it (only bits of gp_op_accumulates) */
} gp_kernel_desc;

/* What is the same for all kernels of one run of a program. */
typedef struct gp_run {
    uint64_t seed;
    uint32_t step;
    uint32_t first_sample; /* number of the micro-batch's first sample in the mini-batch */
    bool check;            /* look for NaN and infinity after every kernel (for diagnosis) */
    /* Called by the program after every step with the number of steps done; NULL: not. */
    void (*step_done)(void *user, size_t done);
    void *user;
    double progress; /* share of the training that is done, 0 to 1: what scheduled rates grow with */
} gp_run;

/* A parameter in the form that a kernel wants to read it in (another dtype, a blocked layout). The stage owns the
 * memory, one copy for all kernels whose forms of this parameter have equal keys, and packs it after every update. */
typedef struct gp_form {
    char key[48];
    size_t bytes;
    gp_type type; /* of the parameter, plain */
    gp_status (*pack)(const struct gp_form *form, const void *plain, void *packed);
    const void *details; /* the device's own; lives as long as the kernel */
} gp_form;

/* A kernel: created by the device, owned by the program, which runs it wherever the same call occurs (layers that
 * repeat share their kernels): run() keeps nothing from one call to the next. Implementations put their own data behind
 * it. */
struct gp_kernel {
    size_t workspace; /* bytes that run() may scribble on, 64-byte aligned */
    /* The same when all inputs with a form are given in it; read where there are forms. */
    size_t packed_workspace;
    /* forms[i] not NULL: when input i is a parameter, run() wants it in this form (and gets plain memory otherwise) */
    const gp_form *forms[GP_MAX_OPERANDS];
    /* Enqueues the kernel. Errors stop the step: GP_INVALID (indices out of range), a user's own. */
    gp_status (*run)(const gp_kernel *kernel, const void *const *inputs, void *const *outputs, void *workspace,
                     const gp_run *run);
    /* Bit i: input i was planned to be given in its form (set by the program before the first run). */
    uint32_t packed;
    void (*destroy)(gp_kernel *kernel);
};

typedef enum gp_update_kind { GP_UPDATE_SGD, GP_UPDATE_ADAM, GP_UPDATE_ADAMW, GP_UPDATE_RMSPROP } gp_update_kind;

/* One update of one parameter, all hyper-parameters resolved for this step. With g' = gradient_scale * g:
 * SGD (Sutskever et al. 2013, as PyTorch writes it): g' += weight_decay * w; m = momentum * m + g' (m = g' in the first
 * step); w -= lr * (nesterov ? g' + momentum * m : m). Without momentum no state.
 * Adam (Kingma & Ba, arXiv 1412.6980): g' += weight_decay * w; m, v moving averages; w -= lr * (m / correction1) /
 * (sqrt(v / correction2) + epsilon). AdamW (Loshchilov & Hutter, arXiv 1711.05101): first w -= lr * weight_decay * w,
 * no decay in g'. RMSProp (Tieleman & Hinton 2012): g' += weight_decay * w; v moving average of g'^2 by beta2; with
 * r = sqrt(v) + epsilon, m = momentum * m + g' / r, w -= lr * m, as PyTorch writes it; with epsilon_inside v starts at
 * 1, r = sqrt(v + epsilon), m = momentum * m + lr * g' / r, w -= m, as TensorFlow's and so the AmoebaNet paper's. Here
 * the first array is v, the second m. Afterwards the gradient is zeroed in the same pass. */
typedef struct gp_update {
    gp_update_kind kind;
    double lr, beta1, beta2, epsilon, weight_decay, momentum;
    bool nesterov, first;
    bool epsilon_inside;
    double correction1, correction2; /* 1 - beta1^t, 1 - beta2^t */
    double gradient_scale;
} gp_update;

/* Moment arrays that an update keeps for each parameter: 0, 1 or 2. */
int gp_update_states(gp_update_kind kind, double momentum);

typedef struct gp_device_class {
    const char *name;
    gp_dtype stored; /* how an f32 lies in its memory: GP_F32, or GP_F64; what is read and written so loses nothing */
    bool in_host_memory; /* its memory is the host's */

    /* -- required -- */
    /* Bytes that a tensor takes on this device (not padded). Pure. */
    size_t (*bytes)(gp_type type);
    /* Makes the calling thread fit for running kernels (number of OpenMP threads and so on); once per worker thread. */
    gp_status (*enter)(gp_device *device);
    /* Zeroed memory, 64-byte aligned. Accounting and the limit are done by gp_device_allocate. */
    void *(*allocate)(gp_device *device, size_t bytes);
    void (*release)(gp_device *device, void *memory, size_t bytes);
    /* Between host memory (plain, of `type`) and device memory; blocking. */
    void (*upload)(gp_device *device, void *destination, const void *source, gp_type type);
    void (*download)(gp_device *device, void *destination, const void *source, gp_type type);
    void (*copy)(gp_device *device, void *destination, const void *source, size_t bytes);
    void (*zero)(gp_device *device, void *memory, size_t bytes);
    /* Errors: GP_INVALID (no kernel for these types; the message names operation and types), GP_OUT_OF_MEMORY. */
    gp_status (*kernel_create)(gp_device *device, const gp_kernel_desc *desc, gp_kernel **kernel);
    /* One update of `count` f32 elements. m, v: NULL where the kind keeps no such state. */
    void (*update)(gp_device *device, const gp_update *update, void *weight, void *gradient, void *m, void *v,
                   int64_t count);
    /* Sum of squares of f32 elements, accumulated in double in an order that depends on `count` alone. */
    double (*sum_squares)(gp_device *device, const void *data, int64_t count);
    /* destination[i] = sources[0][i] + sources[1][i] + ... in that order, f32. destination may be a source. */
    void (*ordered_sum)(gp_device *device, void *destination, const void *const *sources, int source_count,
                        int64_t count);
    /* average = decay * average + (1 - decay) * value, f32. */
    void (*moving_average)(gp_device *device, void *average, const void *value, double decay, int64_t count);
    /* Mean and biased variance, element by element (f32), of a group of samples that weighs `weight` become those of
     * this and another group together, by the pairwise formula of Chan, Golub & LeVeque (1979). With weight 0 they
     * become the other's, whatever is there; other_weight > 0. */
    void (*merge_moments)(gp_device *device, void *mean, void *variance, double weight, const void *other_mean,
                          const void *other_variance, double other_weight, int64_t count);
    /* Whether all elements are finite; true for integers. */
    bool (*all_finite)(gp_device *device, const void *data, gp_type type);
    /* Waits until everything that was enqueued has been done. */
    gp_status (*wait)(gp_device *device);
    void (*destroy)(gp_device *device);
} gp_device_class;

struct gp_device {
    const gp_device_class *class;
    size_t limit; /* bytes; 0: none */
    size_t used, high_water;
    int threads;
};

/* Counts against the limit. Errors: GP_DOES_NOT_FIT (over the limit), GP_OUT_OF_MEMORY. Bytes are rounded up to 64. */
gp_status gp_device_allocate(gp_device *device, size_t bytes, void **memory);
void gp_device_release(gp_device *device, void *memory, size_t bytes); /* memory may be NULL */
void gp_device_destroy(gp_device *device);                             /* accepts NULL */

/* Host memory that is kept for the device, zeroed. Counts against the limit where the device's memory is the host's.
 * Errors as gp_device_allocate. */
gp_status gp_device_allocate_host(gp_device *device, size_t bytes, void **memory);
void gp_device_release_host(gp_device *device, void *memory, size_t bytes); /* memory may be NULL */

/* For implementations: the device's own copy of desc->attributes, freed with gp_free; NULL when there are none. Errors:
 * GP_OUT_OF_MEMORY. */
gp_status gp_kernel_copy_attributes(const gp_kernel_desc *desc, void **attributes);

/* The devices. `options` may be NULL. */
gp_status gp_device_create_cpu(gp_device **device, const gp_device_options *options);
gp_status gp_device_create_reference(gp_device **device, const gp_device_options *options);
/* By options->type. */
gp_status gp_device_create(gp_device **device, const gp_device_options *options);

/* Room in a workspace, on cache lines of its own: where it begins. */
static inline size_t gp_workspace_take(size_t *workspace, size_t bytes) {
    size_t place = *workspace;
    *workspace += (bytes + 63) / 64 * 64;
    return place;
}

#endif
