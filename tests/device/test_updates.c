/* Updates against PyTorch's optimizers (torch.optim of PyTorch 1.13, in double precision; tests/interop/make_updates.py
 * prints the numbers): in double on the reference device, in f32 on the CPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device.h"

enum { COUNT = 4, STEPS = 6 };

static const double WEIGHTS[COUNT] = {0.5, -1.25, 2.0, 0.0625};

typedef struct optimizer {
    const char *name;
    gp_update update;
    double first[COUNT], last[COUNT];
} optimizer;

static const optimizer OPTIMIZERS[] = {
    {"SGD",
     {.kind = GP_UPDATE_SGD, .lr = 0.1},
     {0.475, -1.2, 2.0125, -0.037500000000000006},
     {-0.025000000000000036, -0.9499999999999997, 2.0, -0.1825}},
    {"SGD, decay",
     {.kind = GP_UPDATE_SGD, .lr = 0.1, .weight_decay = 0.05},
     {0.4725, -1.19375, 2.0025, -0.03781250000000001},
     {-0.03546055480616405, -0.9166907302579883, 1.9405593828062424, -0.18003718934200424}},
    {"SGD, momentum",
     {.kind = GP_UPDATE_SGD, .lr = 0.1, .weight_decay = 0.05, .momentum = 0.9},
     {0.4725, -1.19375, 2.0025, -0.03781250000000001},
     {-0.768439674539758, -0.26374143392791016, 1.8513157627820234, -0.832816756963977}},
    {"SGD, Nesterov",
     {.kind = GP_UPDATE_SGD, .lr = 0.1, .weight_decay = 0.05, .momentum = 0.9, .nesterov = true},
     {0.44775, -1.143125, 2.00475, -0.12809375},
     {-1.1633057454404907, -0.04332041712769351, 1.808524302682448, -0.9695673770132489}},
    {"Adam",
     {.kind = GP_UPDATE_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1},
     {0.4900000003333333, -1.24000000016, 1.9900000013333332, 0.05250000009937888},
     {0.44150464861660926, -1.1900108689037656, 1.9476999742661332, 0.010904290962857992}},
    {"RMSProp",
     {.kind = GP_UPDATE_RMSPROP, .lr = 0.01, .beta2 = 0.9, .epsilon = 0.1, .weight_decay = 0.05},
     {0.48529117868727534, -1.2297573121888739, 2.0023168378830083, 0.038456697408281164},
     {0.3911155094423413, -1.1623882927339546, 1.9700659677816177, 0.004783917529971057}},
    {"RMSProp, momentum",
     {.kind = GP_UPDATE_RMSPROP, .lr = 0.01, .beta2 = 0.9, .epsilon = 0.1, .momentum = 0.9},
     {0.48603796100280633, -1.2306287056638603, 2.008958745073762, 0.03847469266479578},
     {0.18725387417985173, -0.978722761187054, 2.021796101378343, -0.15169783419071942}},
    /* not of PyTorch: the same six steps in doubles by the formula of TensorFlow's documentation of RMSprop */
    {"RMSProp, epsilon inside",
     {.kind = GP_UPDATE_RMSPROP,
      .lr = 0.01,
      .beta2 = 0.9,
      .epsilon = 0.1,
      .weight_decay = 0.05,
      .momentum = 0.9,
      .epsilon_inside = true},
     {0.4972603398281077, -1.2444619316831986, 2.0002499921878663, 0.05293829865147405},
     {0.3706450391858408, -1.1460469636916857, 1.9832997198286766, -0.028024816326888902}},
    {"AdamW",
     {.kind = GP_UPDATE_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1},
     {0.48950000039999997, -1.2387500002, 2.0079999992, 0.0524375001},
     {0.4390607565927641, -1.1826685263656864, 2.0017942416978185, 0.010728884631804445}},
};

typedef struct arrays {
    gp_device *device;
    void *weight, *gradient, *m, *v;
} arrays;

static const gp_type TYPE = {GP_F64, {1, {COUNT}}};

/* The reference device holds doubles and takes them as they are; the CPU's arrays are f32. */
static void write(const arrays *a, void *memory, const double *values) {
    bool wide = a->device->class->bytes((gp_type){GP_F32, {0}}) == sizeof(double);
    float narrow[COUNT];
    gp_convert(narrow, GP_F32, values, GP_F64, COUNT);
    gp_type type = {wide ? GP_F64 : GP_F32, TYPE.shape};
    a->device->class->upload(a->device, memory, wide ? (const void *)values : narrow, type);
}

static void read(const arrays *a, const void *memory, double *values) {
    bool wide = a->device->class->bytes((gp_type){GP_F32, {0}}) == sizeof(double);
    float narrow[COUNT] = {0};
    gp_type type = {wide ? GP_F64 : GP_F32, TYPE.shape};
    a->device->class->download(a->device, wide ? (void *)values : narrow, memory, type);
    if (!wide) gp_convert(values, GP_F64, narrow, GP_F32, COUNT);
}

static void check(const arrays *a, const optimizer *o, const double *want, double tolerance) {
    double got[COUNT], zero[COUNT];
    read(a, a->weight, got);
    read(a, a->gradient, zero);
    for (int i = 0; i < COUNT; i++) {
        if (!(fabs(got[i] - want[i]) <= tolerance)) fail_msg("%s: %.17g instead of %.17g", o->name, got[i], want[i]);
        assert_true(zero[i] == 0.0);
    }
}

/* The gradients are given twice as large, with a scale of one half. */
static void run(const arrays *a, const optimizer *o, double tolerance) {
    static const double ZERO[COUNT] = {0};
    int states = gp_update_states(o->update.kind, o->update.momentum);
    write(a, a->weight, WEIGHTS);
    write(a, a->m, ZERO);
    write(a, a->v, ZERO);
    for (int t = 1; t <= STEPS; t++) {
        double gradient[COUNT] = {0.5 * t, -1.0, t % 2 ? -0.25 : 0.25, 2.0 / t};
        gp_update update = o->update;
        update.gradient_scale = 0.5;
        update.first = t == 1;
        update.correction1 = 1.0 - pow(update.beta1, t);
        update.correction2 = 1.0 - pow(update.beta2, t);
        write(a, a->gradient, gradient);
        a->device->class->update(a->device, &update, a->weight, a->gradient, states > 0 ? a->m : NULL,
                                 states > 1 ? a->v : NULL, COUNT);
        if (t == 1) check(a, o, o->first, tolerance);
    }
    check(a, o, o->last, tolerance);
}

static void with_device(gp_device_type type, double tolerance) {
    arrays a = {0};
    assert_int_equal(gp_device_create(&a.device, &(gp_device_options){.type = type}), GP_OK);
    size_t bytes = a.device->class->bytes((gp_type){GP_F32, TYPE.shape});
    void **all[] = {&a.weight, &a.gradient, &a.m, &a.v};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(gp_device_allocate(a.device, bytes, all[i]), GP_OK);
    }
    for (size_t i = 0; i < sizeof OPTIMIZERS / sizeof *OPTIMIZERS; i++) {
        run(&a, &OPTIMIZERS[i], tolerance);
    }
    for (int i = 0; i < 4; i++) {
        gp_device_release(a.device, *all[i], bytes);
    }
    gp_device_destroy(a.device);
}

static void test_reference(void **state) {
    (void)state;
    with_device(GP_DEVICE_REFERENCE, 1e-14);
}

static void test_cpu(void **state) {
    (void)state;
    with_device(GP_DEVICE_CPU, 2e-6);
}

static void test_states(void **state) {
    (void)state;
    assert_int_equal(gp_update_states(GP_UPDATE_SGD, 0.0), 0);
    assert_int_equal(gp_update_states(GP_UPDATE_SGD, 0.9), 1);
    assert_int_equal(gp_update_states(GP_UPDATE_RMSPROP, 0.0), 1);
    assert_int_equal(gp_update_states(GP_UPDATE_RMSPROP, 0.9), 2);
    assert_int_equal(gp_update_states(GP_UPDATE_ADAM, 0.0), 2);
    assert_int_equal(gp_update_states(GP_UPDATE_ADAMW, 0.9), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
