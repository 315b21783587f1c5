/* The text form of schedules, in and out. The text comes from a user's file, so reading is careful: every number is
 * bounded while its digits are read, memory grows with the text only, and an error shows line, column and a short,
 * printable piece. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "pipeline/schedule.h"

typedef struct text_reader {
    const char *at;         /* next character */
    const char *line_start; /* first character of the line */
    size_t line;            /* from 1 */
    gp_action *actions;
    size_t count, room;
    size_t *first; /* first action of each worker read so far, room for GP_SCHEDULE_MOST_STAGES + 1 */
    int workers;
    int micro_batches;
} text_reader;

enum { SHOWN = 24 }; /* characters of a bad piece that an error shows */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'A' && c <= 'Z') || c == '_';
}

static bool ends_action(char c) {
    return c == '\0' || c == '\n' || c == '#' || is_blank(c);
}

static gp_status bad(const text_reader *reader, const char *at, const char *reason) {
    char piece[SHOWN + 4];
    size_t length = 0;
    for (; length < SHOWN && !ends_action(at[length]); length++)
        piece[length] = at[length] > ' ' && at[length] <= '~' ? at[length] : '?';
    memcpy(piece + length, "...", 4);
    if (ends_action(at[length])) piece[length] = '\0';
    return gp_error(GP_INVALID, "schedule: line %zu, column %zu: '%s': %s", reader->line,
                    (size_t)(at - reader->line_start) + 1, piece, reason);
}

/* Reads a number below `limit` (which times ten fits an int); -1 when there is no digit, -2 when it is not below. */
static int read_number(const char **at, int limit) {
    if (!is_digit(**at)) return -1;
    int value = 0;
    for (; is_digit(**at); ++*at) {
        value = value * 10 + (**at - '0');
        if (value > limit) value = limit;
    }
    return value < limit ? value : -2;
}

static bool read_kind(const char **at, gp_action_kind *kind) {
    size_t length = 0;
    while (is_letter((*at)[length]))
        length++;
    for (int k = 0; k < GP_ACTION_KINDS; k++) {
        const char *text = gp_action_text((gp_action_kind)k);
        if (strlen(text) != length || strncmp(text, *at, length) != 0) continue;
        *kind = (gp_action_kind)k;
        *at += length;
        return true;
    }
    return false;
}

static gp_status append(text_reader *reader, gp_action action) {
    if (reader->count == reader->room) {
        size_t room = reader->room ? 2 * reader->room : 64;
        gp_action *grown = gp_grow_array(reader->actions, reader->count, room, sizeof *grown);
        if (!grown) return GP_OUT_OF_MEMORY;
        reader->actions = grown;
        reader->room = room;
    }
    reader->actions[reader->count++] = action;
    if (action.micro_batch >= reader->micro_batches) reader->micro_batches = action.micro_batch + 1;
    return GP_OK;
}

static gp_status read_action(text_reader *reader) {
    const char *start = reader->at;
    int worker = reader->workers - 1;
    gp_action action = {GP_FORWARD, worker, 0};
    if (reader->count >= GP_SCHEDULE_MOST_ACTIONS) return bad(reader, start, "more actions than a schedule may have");
    int stage = read_number(&reader->at, GP_SCHEDULE_MOST_STAGES);
    if (!read_kind(&reader->at, &action.kind))
        return bad(reader, start,
                   "an action is [stage]KIND<micro-batch> with KIND one of F, R, B, SEND_F, RECV_F, SEND_B, RECV_B, "
                   "for instance F0 or 2B1");
    if (stage != -1 && stage != worker)
        return bad(reader, start,
                   "the stage before the letter is not that of the line's worker (workers count from 0)");
    action.micro_batch = read_number(&reader->at, GP_SCHEDULE_MOST_MICRO_BATCHES);
    if (action.micro_batch == -1) return bad(reader, start, "the number of the micro-batch is missing");
    if (action.micro_batch < 0) return bad(reader, start, "the micro-batch is beyond the most, 1048575");
    if (!ends_action(*reader->at)) return bad(reader, start, "a blank must follow the number of the micro-batch");
    return append(reader, action);
}

static gp_status begin_worker(text_reader *reader) {
    if (reader->workers == GP_SCHEDULE_MOST_STAGES)
        return bad(reader, reader->at, "more workers than a schedule may have, 16384");
    reader->first[reader->workers++] = reader->count;
    return GP_OK;
}

static gp_status read_line(text_reader *reader) {
    bool begun = false;
    reader->line_start = reader->at;
    reader->line++;
    for (;;) {
        while (is_blank(*reader->at))
            reader->at++;
        if (*reader->at == '#') reader->at += strcspn(reader->at, "\n");
        if (*reader->at == '\0' || *reader->at == '\n') break;
        if (!begun) GP_TRY(begin_worker(reader));
        begun = true;
        GP_TRY(read_action(reader));
    }
    if (*reader->at == '\n') reader->at++;
    return GP_OK;
}

static gp_status read_text(text_reader *reader) {
    while (*reader->at)
        GP_TRY(read_line(reader));
    return GP_OK;
}

static gp_status build(const text_reader *reader, gp_schedule **schedule) {
    if (!reader->actions)
        return gp_error(GP_INVALID, "schedule: the text has no action; a line per worker is expected, for instance "
                                    "'F0 F1 B0 B1'");
    GP_TRY(gp_schedule_check_size(reader->workers, reader->micro_batches, reader->count));
    gp_schedule *made = gp_schedule_allocate(reader->workers, reader->micro_batches, reader->count);
    if (!made) return GP_OUT_OF_MEMORY;
    memcpy(made->first, reader->first, (size_t)reader->workers * sizeof *reader->first);
    made->first[reader->workers] = reader->count;
    memcpy(made->actions, reader->actions, reader->count * sizeof *reader->actions);
    *schedule = made;
    return GP_OK;
}

gp_status gp_schedule_parse(gp_schedule **schedule, const char *text) {
    *schedule = NULL;
    if (!text) return gp_error(GP_INVALID, "schedule: no text");
    text_reader reader = {.at = text, .line_start = text};
    reader.first = gp_allocate_array(GP_SCHEDULE_MOST_STAGES + 1, sizeof *reader.first);
    gp_status status = reader.first ? read_text(&reader) : GP_OUT_OF_MEMORY;
    if (status == GP_OK) status = build(&reader, schedule);
    gp_free(reader.actions);
    gp_free(reader.first);
    return status;
}

/* ---- writing ---- */

enum { LONGEST_ACTION = 16 }; /* "RECV_F1048575" and what separates it */

static char *write_action(char *out, gp_action action) {
    for (const char *text = gp_action_text(action.kind); *text; text++)
        *out++ = *text;
    char digits[12];
    int count = 0;
    for (int rest = action.micro_batch; count == 0 || rest > 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

gp_status gp_schedule_format(const gp_schedule *schedule, char **text) {
    size_t total = schedule->first[schedule->stages];
    *text = gp_allocate(total * LONGEST_ACTION + (size_t)schedule->stages + 1);
    if (!*text) return GP_OUT_OF_MEMORY;
    char *out = *text;
    for (int worker = 0; worker < schedule->stages; worker++) {
        for (size_t i = schedule->first[worker]; i < schedule->first[worker + 1]; i++) {
            if (i > schedule->first[worker]) *out++ = ' ';
            out = write_action(out, schedule->actions[i]);
        }
        *out++ = '\n';
    }
    *out = '\0';
    return GP_OK;
}

void gp_text_free(char *text) {
    gp_free(text);
}
