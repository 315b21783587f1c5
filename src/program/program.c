/* Running a program, and what can be asked about it. */
#include "base/memory.h"
#include "base/status.h"
#include "program/compile.h"

void gp_program_destroy(gp_program *program) {
    if (!program) return;
    gp_kernels_destroy(&program->kernels);
    gp_free(program->steps);
    gp_free(program->locations);
    gp_free(program->output_types);
    gp_free(program->reads);
    gp_free(program);
}

size_t gp_program_workspace(const gp_program *program) {
    return program->workspace;
}

int gp_program_segments(const gp_program *program) {
    return program->segments;
}

double gp_program_flops(const gp_program *program, int segment) {
    return segment >= 0 && segment < program->segments ? program->flops[segment] : 0.0;
}

size_t gp_program_kernels(const gp_program *program) {
    return program->step_count;
}

bool gp_program_reads(const gp_program *program, int32_t value) {
    return value >= 0 && value < program->value_count && program->reads[value];
}

void gp_program_writes(const gp_program *program, int region, void (*visit)(void *user, size_t offset, size_t step),
                       void *user) {
    for (size_t i = 0; i < program->step_count; i++) {
        const gp_step *step = &program->steps[i];
        const gp_location *outputs = program->locations + step->operands + step->input_count;
        for (int k = 0; k < step->output_count; k++)
            if (outputs[k].region == region) visit(user, outputs[k].offset, i);
    }
}

/* ---- running ---- */

static void *address(void *const *regions, gp_location location) {
    if (location.region < 0) return NULL;
    return (void *)((uintptr_t)regions[location.region] + location.offset); /* a region without bytes may be NULL */
}

static gp_status within(const gp_step *step, gp_status status) {
    const char *direction = step->backward ? " (backward)" : "";
    if (step->layer < 0) return gp_error_within(status, "%s%s", step->op, direction);
    return gp_error_within(status, "layer %d, %s%s", (int)step->layer, step->op, direction);
}

/* Waits for the step and looks at everything that it has written. */
static gp_status check_outputs(const gp_program *program, const gp_step *step, void *const *outputs,
                               gp_program_fault *fault) {
    gp_device *device = program->device;
    GP_TRY(device->class->wait(device));
    for (int k = 0; k < step->output_count; k++) {
        if (device->class->all_finite(device, outputs[k], program->output_types[step->output_type + (uint32_t)k])) {
            continue;
        }
        fault->not_finite = true;
        return gp_error(GP_DIVERGED, "output %d has a NaN or an infinity", k);
    }
    return GP_OK;
}

static gp_status run_step(const gp_program *program, const gp_step *step, void *const *regions, const gp_run *run,
                          gp_program_fault *fault) {
    const void *inputs[GP_MAX_OPERANDS] = {NULL};
    void *outputs[GP_MAX_OPERANDS] = {NULL};
    const gp_location *locations = program->locations + step->operands;
    for (int k = 0; k < step->input_count; k++) {
        inputs[k] = address(regions, *locations++);
    }
    for (int k = 0; k < step->output_count; k++) {
        outputs[k] = address(regions, *locations++);
    }
    if (step->kernel) {
        void *workspace = address(regions, (gp_location){GP_REGION_WORKSPACE, step->workspace});
        GP_TRY(step->kernel->run(step->kernel, inputs, outputs, workspace, run));
    } else {
        program->device->class->copy(program->device, outputs[0], inputs[0], step->bytes);
    }
    return run->check ? check_outputs(program, step, outputs, fault) : GP_OK;
}

gp_status gp_program_run(const gp_program *program, int segment, void *const *regions, const gp_run *run,
                         gp_program_fault *fault) {
    if (segment < 0 || segment >= program->segments) {
        return gp_error(GP_INVALID, "segment %d does not exist: the program has %d", segment, program->segments);
    }
    gp_program_fault found = {.layer = -1};
    size_t end = program->segment_begin[segment + 1];
    for (size_t i = program->segment_begin[segment]; i < end; i++) {
        const gp_step *step = &program->steps[i];
        gp_status status = run_step(program, step, regions, run, &found);
        if (status == GP_OK) {
            if (run->step_done) run->step_done(run->user, i + 1);
            continue;
        }
        found.layer = step->layer;
        found.op = step->op;
        found.backward = step->backward;
        if (fault) *fault = found;
        return within(step, status);
    }
    if (fault) *fault = found;
    return GP_OK;
}
