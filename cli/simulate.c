/* gpipe simulate: times a schedule, made or read from a file, after proving it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "config_value.h"
#include "gpipe/words.h"
#include "message.h"
#include "session.h"
#include "timeline.h"

enum { WIDTH = 110, MOST_LINES = 64, MOST_BYTES = 64 << 20 };

typedef struct timed_schedule {
    gp_schedule *schedule;
    gp_stage_times *times; /* of each stage */
    double **starts;       /* of each action */
    gp_simulation result;
    cli_arena arena;
} timed_schedule;

/* ---- the schedule ---- */

/* The same without sends and receives, which the simulator puts in by itself. */
static gp_status keep_computations(gp_schedule **schedule) {
    cli_text text = {0};
    gp_schedule *kept = NULL;
    for (int w = 0; w < gp_schedule_stages(*schedule); w++) {
        size_t count;
        const gp_action *actions = gp_schedule_actions(*schedule, w, &count);
        for (size_t a = 0; a < count; a++) {
            char letter = cli_action_letter(actions[a].kind);
            if (letter != '?') cli_text_add(&text, "%c%d ", letter, actions[a].micro_batch);
        }
        cli_text_add(&text, "\n");
    }
    gp_status status =
        text.failed ? gp_error(GP_OUT_OF_MEMORY, "the system has no memory left") : gp_schedule_parse(&kept, text.text);
    cli_text_free(&text);
    if (status != GP_OK) return status;
    gp_schedule_destroy(*schedule);
    *schedule = kept;
    return GP_OK;
}

static gp_status read_schedule(const char *path, gp_schedule **schedule) {
    cli_text text = {0};
    gp_status status = cli_text_read(&text, path, MOST_BYTES);
    if (status == GP_OK) status = gp_error_within(gp_schedule_parse(schedule, text.text), "%s", path);
    if (status == GP_OK) status = gp_error_within(gp_schedule_check(*schedule, 0), "%s", path);
    if (status == GP_OK) status = keep_computations(schedule);
    cli_text_free(&text);
    return status;
}

static gp_status make_schedule(const cli_arguments *arguments, gp_schedule **schedule) {
    int64_t stages = 4, micro_batches = 8;
    int kind = 0, recompute = GP_RECOMPUTE_NEVER;
    const char *file = cli_given_value(arguments, "file");
    if (file) {
        static const char *const made[] = {"stages", "micro-batches", "schedule", "recompute"};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
            if (cli_given_value(arguments, made[i]))
                return gp_error(GP_INVALID, "--%s and --file exclude each other: the file says everything", made[i]);
        }
        return read_schedule(file, schedule);
    }
    gp_status status = cli_given_integer(arguments, "stages", 1, GP_SCHEDULE_MOST_STAGES, &stages);
    if (status == GP_OK)
        status = cli_given_integer(arguments, "micro-batches", 1, GP_SCHEDULE_MOST_MICRO_BATCHES, &micro_batches);
    if (status == GP_OK) status = cli_given_choice(arguments, "schedule", "gpipe|1f1b|naive", &kind);
    if (status == GP_OK) status = cli_given_choice(arguments, "recompute", "except_last|always|never", &recompute);
    if (status != GP_OK) return status;
    return gp_schedule_create(schedule, (gp_schedule_kind)kind, (int)stages, (int)micro_batches,
                              (gp_recompute)recompute);
}

/* ---- times ---- */

/* "1,1,2" or "1,1,2,0.1": seconds of F, R, B and of a message. */
static gp_status read_times(const cli_arguments *arguments, gp_stage_times *times) {
    const char *text = cli_given_value(arguments, "times");
    double values[4] = {1, 1, 2, 0};
    int count = 0;
    for (const char *at = text; at; count++) {
        char word[40];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (count == 4 || length >= sizeof word || !cli_text_number(word, &values[count]) || values[count] < 0) {
            count = 0;
            break;
        }
        at = at[length] ? at + length + 1 : NULL;
    }
    if (text && count < 3)
        return gp_error(GP_INVALID,
                        "--times is \"%s\"; accepted: seconds of forward, recompute, backward and, if wanted, of a "
                        "message, for instance 1,1,2 or 1,1,2,0.1",
                        text);
    *times =
        (gp_stage_times){.forward = values[0], .recompute = values[1], .backward = values[2], .transfer = values[3]};
    return GP_OK;
}

static gp_status reserve(timed_schedule *simulation, gp_stage_times times) {
    size_t stages = (size_t)gp_schedule_stages(simulation->schedule);
    simulation->times = cli_arena_take(&simulation->arena, stages * sizeof *simulation->times);
    simulation->starts = cli_arena_take(&simulation->arena, stages * sizeof *simulation->starts);
    if (!simulation->times || !simulation->starts) return GP_OUT_OF_MEMORY;
    for (size_t w = 0; w < stages; w++) {
        size_t count;
        gp_schedule_actions(simulation->schedule, (int)w, &count);
        simulation->times[w] = times;
        simulation->starts[w] = cli_arena_take(&simulation->arena, count * sizeof(double));
        if (!simulation->starts[w]) return GP_OUT_OF_MEMORY;
    }
    return GP_OK;
}

/* ---- results ---- */

static void print_text(const timed_schedule *simulation) {
    const gp_schedule *schedule = simulation->schedule;
    int stages = gp_schedule_stages(schedule), micro_batches = gp_schedule_micro_batches(schedule), most = 0;
    cli_text text = {0};
    if (stages <= MOST_LINES)
        cli_timeline_draw(schedule, simulation->times, simulation->starts, simulation->result.span, WIDTH, &text);
    for (int w = 0; w < stages; w++) {
        int here = gp_schedule_in_flight(schedule, w, NULL, NULL);
        if (here > most) most = here;
    }
    printf("%d worker%s, %d micro-batch%s: complete, in order, free of deadlock\n%s", stages, gp_plural(stages, "s"),
           micro_batches, gp_plural(micro_batches, "es"), text.text ? text.text : "");
    printf("span %.6g s, bubble %.2f%% ((K-1)/(M+K-1) is %.2f%%), at most %d micro-batch%s in flight on a worker\n",
           simulation->result.span, 100 * simulation->result.bubble, 100 * gp_bubble_formula(stages, micro_batches),
           most, gp_plural(most, "es"));
    cli_text_free(&text);
}

static json_t *worker_json(const timed_schedule *simulation, int worker) {
    size_t count;
    const gp_action *actions = gp_schedule_actions(simulation->schedule, worker, &count);
    json_t *list = json_array();
    for (size_t a = 0; a < count; a++) {
        char letter[2] = {cli_action_letter(actions[a].kind), '\0'};
        double start = simulation->starts[worker][a],
               seconds = cli_action_seconds(&simulation->times[worker], actions[a].kind);
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f}", "action", letter, "micro_batch",
                                              actions[a].micro_batch, "start", start, "end", start + seconds));
    }
    return json_pack("{s:i, s:i, s:o}", "worker", worker, "in_flight",
                     gp_schedule_in_flight(simulation->schedule, worker, NULL, NULL), "actions", list);
}

static gp_status print_json(const timed_schedule *simulation) {
    int stages = gp_schedule_stages(simulation->schedule),
        micro_batches = gp_schedule_micro_batches(simulation->schedule);
    json_t *workers = json_array();
    for (int w = 0; w < stages; w++)
        json_array_append_new(workers, worker_json(simulation, w));
    json_t *object = json_pack("{s:i, s:i, s:f, s:f, s:f, s:o}", "stages", stages, "micro_batches", micro_batches,
                               "span", simulation->result.span, "bubble", simulation->result.bubble, "bubble_formula",
                               gp_bubble_formula(stages, micro_batches), "workers", workers);
    bool written = object && json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && puts("") >= 0;
    json_decref(object);
    return written ? GP_OK : gp_error(GP_IO, "stdout could not be written");
}

static void destroy(timed_schedule *simulation) {
    cli_arena_free(&simulation->arena);
    gp_schedule_destroy(simulation->schedule);
}

static int run(const cli_arguments *arguments) {
    timed_schedule simulation = {0};
    gp_stage_times times = {0};
    gp_status status = read_times(arguments, &times);
    if (status == GP_OK) status = make_schedule(arguments, &simulation.schedule);
    if (status == GP_OK) status = reserve(&simulation, times);
    if (status == GP_OK)
        status = gp_simulate(simulation.schedule, simulation.times, &simulation.result, simulation.starts);
    if (status == GP_OK && cli_given_flag(arguments, "json")) {
        status = print_json(&simulation);
    } else if (status == GP_OK) {
        print_text(&simulation);
    }
    destroy(&simulation);
    return status == GP_OK ? 0 : cli_fail(status);
}

static const cli_option options[] = {
    {"stages", 'k', "K", CLI_ANY, "workers (default: 4)"},
    {"micro-batches", 'm', "M", CLI_ANY, "micro-batches (default: 8)"},
    {"schedule", 0, "gpipe|1f1b|naive", CLI_WORDS, "which schedule (default: gpipe)"},
    {"recompute", 0, "except_last|always|never", CLI_WORDS, "which micro-batches are recomputed (default: never)"},
    {"file", 0, "FILE", CLI_FILE, "instead: a schedule file, a line of actions (F0 F1 R0 B0 B1) for each worker"},
    {"times", 0, "F,R,B[,T]", CLI_ANY, "seconds of a forward, recompute, backward and of a message (default: 1,1,2,0)"},
    CLI_OPTION_JSON,
};

const cli_command cli_simulate = {
    .name = "simulate",
    .arguments = "",
    .kind = CLI_NO_VALUE,
    .summary = "time a schedule without running it, or check a schedule file",
    .description = "Proves that a schedule is complete, in order and free of deadlock, times it, and draws what each "
                   "worker does: F "
                   "forward, R recompute, B backward, each with its micro-batch; . while it waits.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
