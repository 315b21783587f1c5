/* Columns are as wide as the shortest action needs for its label, as long as the whole fits. */
#include "timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double cli_action_seconds(const gp_stage_times *times, gp_action_kind kind) {
    switch (kind) {
    case GP_FORWARD:
        return times->forward;
    case GP_RECOMPUTE:
        return times->recompute;
    case GP_BACKWARD:
        return times->backward;
    default:
        return 0;
    }
}

char cli_action_letter(gp_action_kind kind) {
    return kind == GP_FORWARD ? 'F' : kind == GP_RECOMPUTE ? 'R' : kind == GP_BACKWARD ? 'B' : '?';
}

/* Columns for one second: enough for "F12 " in the shortest action, less when the line would be too long. */
static double scale_of(const gp_schedule *schedule, const gp_stage_times *times, double span, size_t width) {
    double shortest = INFINITY;
    for (int s = 0; s < gp_schedule_stages(schedule); s++) {
        const double all[] = {times[s].forward, times[s].recompute, times[s].backward};
        for (size_t i = 0; i < 3; i++) {
            if (all[i] > 0 && all[i] < shortest) shortest = all[i];
        }
    }
    double label = gp_schedule_micro_batches(schedule) > 10 ? 3 : 2;
    double wide = label / shortest, fitting = (double)width / span;
    return wide < fitting ? wide : fitting;
}

static void draw_action(char *line, size_t columns, gp_action action, double from, double to) {
    size_t begin = (size_t)lround(from), end = (size_t)lround(to);
    char label[16];
    if (begin >= columns) return;
    if (end <= begin) end = begin + 1;
    if (end > columns) end = columns;
    memset(line + begin, '-', end - begin);
    snprintf(label, sizeof label, "%c%d", cli_action_letter(action.kind), action.micro_batch);
    size_t length = strlen(label);
    memcpy(line + begin, label, length <= end - begin ? length : 1);
}

void cli_timeline_draw(const gp_schedule *schedule, const gp_stage_times *times, double *const *starts, double span,
                       size_t width, cli_text *text) {
    if (!(span > 0)) return;
    double scale = scale_of(schedule, times, span, width);
    size_t columns = (size_t)ceil(span * scale);
    char *line = malloc(columns + 1);
    if (!line) return;
    for (int w = 0; w < gp_schedule_stages(schedule); w++) {
        size_t count;
        const gp_action *actions = gp_schedule_actions(schedule, w, &count);
        memset(line, '.', columns);
        line[columns] = '\0';
        for (size_t a = 0; a < count; a++) {
            double seconds = cli_action_seconds(&times[w], actions[a].kind);
            if (seconds > 0)
                draw_action(line, columns, actions[a], starts[w][a] * scale, (starts[w][a] + seconds) * scale);
        }
        cli_text_add(text, "%4d |%s|\n", w, line);
    }
    free(line);
}
