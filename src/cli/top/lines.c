/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "cli/node_json.h"
#include "cli/top/serving.h"
#include "base/printable.h"
#include "governor/report/gain_text.h"

struct top_cell {
    char text[32];
};

/* A governor publishes its state every 200 ms; a busy host may delay it. */
static const int64_t silent_ns = 3 * LULL_NS_PER_S;

/* ---- lines ------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void top_line_append(struct lull_top_lines *lines,
                                                                  enum lull_top_style style,
                                                                  int32_t run, const char *format,
                                                                  ...)
{
    struct lull_top_line *line;
    va_list arguments;

    if (lines->count == lines->capacity) {
        const uint32_t capacity = lines->capacity > 0 ? 2 * lines->capacity : 64;
        struct lull_top_line *grown = realloc(lines->items, capacity * sizeof(*grown));

        if (grown == NULL)
            return;
        lines->items = grown;
        lines->capacity = capacity;
    }
    line = &lines->items[lines->count++];
    line->style = style;
    line->run = run;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof(line->text), format, arguments);
    va_end(arguments);
}

void lull_top_lines_fini(struct lull_top_lines *lines)
{
    free(lines->items);
    *lines = (struct lull_top_lines){0};
}

size_t lull_top_fit(const char *text, int columns)
{
    const size_t length = strlen(text);
    mbstate_t state = {0};
    size_t at = 0;

    while (at < length) {
        wchar_t character;
        const size_t bytes = mbrtowc(&character, text + at, length - at, &state);
        int width;

        if (bytes == 0 || bytes > length - at)
            return at; /* not of this locale */
        width = wcwidth(character);
        columns -= width > 0 ? width : 0;
        if (columns < 0)
            return at;
        at += bytes;
    }
    return at;
}

/* ---- cells ------------------------------------------------------------------------------- */

/* A whole number, "-" where it is not known. */
static struct top_cell top_line_cell(double value, const char *unit)
{
    struct top_cell cell = {"-"};

    if (isfinite(value))
        snprintf(cell.text, sizeof(cell.text), "%.0f%s", value, unit);
    return cell;
}

static struct top_cell band_of(double low_mhz, double high_mhz)
{
    struct top_cell cell = {"-"};

    if (isfinite(low_mhz) && isfinite(high_mhz))
        snprintf(cell.text, sizeof(cell.text), "%.0f-%.0f", low_mhz, high_mhz);
    return cell;
}

static double reading_of(const struct lull_top_gpu *gpu, uint32_t field, double value)
{
    return gpu->info != NULL && !gpu->is_stuck && (gpu->reading.valid & field) != 0 ? value
                                                                                    : (double)NAN;
}

/* Writes the reasons why a clock is not the highest, except those that are irrelevant here. */
static void top_line_write_reasons(double bits, char *text, size_t size)
{
    const uint64_t hidden = LULL_CLOCK_REASON_IDLE | LULL_CLOCK_REASON_SETTING;
    size_t length = 0;

    text[0] = '\0';
    if (!isfinite(bits))
        return;
    for (const struct lull_node_word *word = lull_node_reasons; word->text != NULL; word++)
        if (((uint64_t)bits & ~hidden & word->bit) != 0 && length + 1 < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "",
                                       word->text);
}

#define ROW_FORMAT "%4u %5s %5s %9s %5s %5s %3s %4s %4s  %s"

const char *lull_top_columns(void)
{
    return " GPU   MHz asked     lease     W limit   C  low hits  section";
}

/* ---- one run ----------------------------------------------------------------------------- */

static const char *name_user(uid_t user, struct top_cell *room)
{
    const struct passwd *const known = getpwuid(user);

    snprintf(room->text, sizeof(room->text), "%u", (unsigned)user);
    if (known != NULL)
        snprintf(room->text, sizeof(room->text), "%.31s", lull_printable(known->pw_name).text);
    return room->text;
}

static void add_heading(const struct lull_top_view *view, uint32_t index,
                        struct lull_top_lines *lines)
{
    const struct lull_live_run *const run = view->runs[index];
    const double run_s = (double)(view->now_ns - run->begin_ns) * 1e-9;
    char command[LULL_LIVE_TEXT_BYTES];
    char job[LULL_LIVE_WORD_BYTES + 16] = "";
    struct top_cell user;

    lull_printable_write(run->command, command, sizeof(command));
    if (run->slurm_job[0] != '\0')
        snprintf(job, sizeof(job), ", Slurm job %s", lull_printable(run->slurm_job).text);
    else if (run->pod[0] != '\0')
        snprintf(job, sizeof(job), ", pod %s", lull_printable(run->pod).text);
    top_line_append(lines, LULL_TOP_HEADING, (int32_t)index, "run %d of %s, %s%s: %s", run->pid,
                    name_user(view->entries[index].user, &user),
                    lull_amount_time(fmax(run_s, 0.0)).text, job, command);
}

/* One line about a server (serving.h). */
static void add_serving(const struct lull_top_view *view, uint32_t index, uint32_t line,
                        enum lull_top_style style, struct lull_top_lines *lines)
{
    char text[LULL_TOP_LINE_BYTES - 2];

    lull_top_serving_line(&view->runs[index]->serving, line, view->now_ns, text, sizeof(text));
    top_line_append(lines, style, (int32_t)index, "  %s", text);
}

static void add_search(const struct lull_top_view *view, uint32_t index,
                       struct lull_top_lines *lines)
{
    const struct lull_live_run *const run = view->runs[index];
    char learning[LULL_LIVE_TEXT_BYTES];
    char left[64] = "";
    char title[LULL_LIVE_WORD_BYTES + 2] = "";

    lull_printable_write(run->learning, learning, sizeof(learning));
    if (run->title[0] != '\0')
        snprintf(title, sizeof(title), "%s; ", lull_printable(run->title).text);
    if (view->now_ns - run->written_ns > silent_ns) {
        top_line_append(lines, LULL_TOP_WARNING, (int32_t)index,
                        "  its governor has not reported for %s: it is stopped, or hangs",
                        lull_amount_time((double)(view->now_ns - run->written_ns) * 1e-9).text);
    } else if (run->is_paused) {
        top_line_append(lines, LULL_TOP_WARNING, (int32_t)index,
                        "  PAUSED: its GPUs are at the reference, not leased, until it is resumed");
    } else if (run->has_lost_leases) {
        top_line_append(
            lines, LULL_TOP_WARNING, (int32_t)index,
            "  it has lost its leases: its GPUs are at the reference until it leases them again");
    } else if (run->serving.mode != LULL_LIVE_MODE_NONE) {
        add_serving(view, index, 0,
                    run->serving.mode == LULL_LIVE_MODE_BLIND ? LULL_TOP_WARNING : LULL_TOP_PLAIN,
                    lines);
    } else if (run->ruler != LULL_LIVE_BY_SECTION) {
        top_line_append(lines, LULL_TOP_PLAIN, (int32_t)index, "  %s%s", title,
                        run->ruler == LULL_LIVE_BY_NONE ? "observed only: nothing is lowered"
                                                        : lull_live_ruler_text(run->ruler));
    } else {
        if (isfinite(run->iterations_left.value) && run->iterations_left.value > 0.0)
            snprintf(left, sizeof(left), ", %.0f iterations or more", run->iterations_left.value);
        top_line_append(lines, LULL_TOP_PLAIN, (int32_t)index, "  %s%s%s; guard: %s at %.3g %%",
                        title, learning, left, lull_live_verdict_text(run->verdict),
                        100.0 * run->tolerance_ratio);
    }
}

/* The saving so far, or the reason why there is none. */
static void top_line_write_saving(const struct lull_live_run *run, char *text, size_t size)
{
    if (isfinite(run->saving_ratio.value))
        lull_gain_saving_text(run->saving_ratio.value, (double)NAN, (double)NAN, NULL, text, size);
    else if (run->saving_ratio.unknown != LULL_LIVE_NOTHING_LOW)
        snprintf(text, size, "saving %s", lull_live_unknown_text(run->saving_ratio.unknown));
    else if (run->verdict == LULL_LIVE_NOTHING_KEPT)
        snprintf(text, size, "nothing saved: no lower clock has passed the test");
    else
        snprintf(text, size, "nothing saved yet");
}

/* The slowdown of the accepted clocks or, without any, of the whole run with its trials. */
static void top_line_write_slowdown(const struct lull_live_run *run, char *text, size_t size)
{
    const bool is_kept = isfinite(run->slowdown_ratio.value);
    const double slowdown = is_kept ? run->slowdown_ratio.value : run->whole_slowdown_ratio.value;
    const double upper =
        is_kept ? run->slowdown_upper_ratio.value : run->whole_slowdown_upper_ratio.value;
    char claim[128];

    text[0] = '\0';
    if (!isfinite(slowdown))
        return;
    lull_gain_slowdown_text(slowdown, upper, run->tolerance_ratio, NULL, claim, sizeof(claim));
    snprintf(text, size, "; %s%s", claim, is_kept ? "" : " so far, search included");
}

static void add_figures(const struct lull_top_view *view, uint32_t index,
                        struct lull_top_lines *lines)
{
    char saving[128];
    char slower[192];

    top_line_write_saving(view->runs[index], saving, sizeof(saving));
    top_line_write_slowdown(view->runs[index], slower, sizeof(slower));
    top_line_append(lines, LULL_TOP_PLAIN, (int32_t)index, "  %s%s", saving, slower);
}

static void add_totals(const struct lull_top_view *view, uint32_t index,
                       struct lull_top_lines *lines)
{
    const struct lull_live_run *const run = view->runs[index];
    const double earned_ms = run->budget_earned_ms.value;
    char iterations[400] = "no iteration yet; ";
    char budget[64] = "";
    const bool has_energy = isfinite(run->energy_j.value);
    const bool has_power = isfinite(run->power_w.value);

    if (run->serving.mode != LULL_LIVE_MODE_NONE)
        iterations[0] = '\0';
    else if (run->iterations > 0 && isfinite(run->iteration_ms.value))
        snprintf(iterations, sizeof(iterations), "%s iterations of %.1f ms; ",
                 lull_amount_count(run->iterations).text, run->iteration_ms.value);
    if (isfinite(earned_ms) && earned_ms > 0.0)
        snprintf(budget, sizeof(budget), "; slowdown budget %.0f %% left",
                 100.0 * fmax(run->budget_left_ms.value, 0.0) / earned_ms);
    top_line_append(lines, LULL_TOP_PLAIN, (int32_t)index, "  %s%s, %s%s", iterations,
                    has_power ? lull_amount_power(run->power_w.value).text : "power not known",
                    has_energy ? lull_amount_energy(run->energy_j.value).text : "energy not known",
                    budget);
}

/* The activity of a run's GPU, or the reason why it is not managed. */
static void top_line_write_section(const struct lull_live_gpu *gpu, char *text, size_t size)
{
    char reasons[64];
    char name[LULL_LIVE_WORD_BYTES];
    const char *kind = lull_live_section_text(gpu->section);

    lull_printable_write(gpu->section_name, name, sizeof(name));
    snprintf(text, size, "%s", kind);
    if (name[0] != '\0' && strcmp(name, kind) != 0)
        snprintf(text, size, "%s", name);
    if (gpu->section == LULL_LIVE_NO_SECTION)
        snprintf(text, size, "-");
    top_line_write_reasons(gpu->throttled.value, reasons, sizeof(reasons));
    if (reasons[0] != '\0') {
        const size_t length = strlen(text);

        snprintf(text + length, size - length, " [%s]", reasons);
    }
}

static void add_trouble(const struct lull_live_gpu *gpu, int32_t run, struct lull_top_lines *lines)
{
    char text[LULL_LIVE_TEXT_BYTES];

    lull_printable_write(gpu->state_text, text, sizeof(text));
    if (gpu->state == LULL_LIVE_LEFT_ALONE)
        top_line_append(lines, LULL_TOP_WARNING, run, "       %s%s",
                        strncmp(text, "not managed", 11) == 0 ? "" : "not managed: ", text);
    else if (gpu->power_w.unknown == LULL_LIVE_LOST || gpu->power_w.unknown == LULL_LIVE_HANGS)
        top_line_append(lines, LULL_TOP_WARNING, run, "       %s",
                        lull_live_unknown_text(gpu->power_w.unknown));
    lull_printable_write(gpu->driver_text, text, sizeof(text));
    if (text[0] != '\0')
        top_line_append(lines, gpu->state == LULL_LIVE_LEFT_ALONE ? LULL_TOP_WARNING : LULL_TOP_DIM,
                        run, "       %s", text);
    if (gpu->lost_events > 0)
        top_line_append(lines, LULL_TOP_WARNING, run,
                        "       %" PRIu64 " of %" PRIu64 " events were lost", gpu->lost_events,
                        gpu->events + gpu->lost_events);
}

static void top_line_add_gpu(const struct lull_live_gpu *gpu, int32_t run,
                             struct lull_top_lines *lines)
{
    const double hits = gpu->forecasts > 0
                            ? 100.0 * (double)gpu->forecast_hits / (double)gpu->forecasts
                            : (double)NAN;
    const bool is_low = gpu->wanted_mhz.value < gpu->highest_mhz.value;
    char section[128];

    top_line_write_section(gpu, section, sizeof(section));
    top_line_append(lines, is_low ? LULL_TOP_LOWERED : LULL_TOP_PLAIN, run, ROW_FORMAT, gpu->index,
                    top_line_cell(gpu->clock_mhz.value, "").text,
                    top_line_cell(gpu->wanted_mhz.value, "").text,
                    band_of(gpu->lowest_mhz.value, gpu->highest_mhz.value).text,
                    top_line_cell(gpu->power_w.value, "").text,
                    top_line_cell(gpu->power_limit_w.value, "").text,
                    top_line_cell(gpu->temperature_c.value, "").text,
                    top_line_cell(100.0 * gpu->lowered_ratio.value, "%").text,
                    top_line_cell(hits, "%").text, section);
    add_trouble(gpu, run, lines);
}

/* Returns the length of the longest beginning of a text that fits a line and ends before a blank,
 * or between two characters. */
static size_t top_line_break(const char *text)
{
    enum { WIDTH = 100 };
    const size_t length = strlen(text);
    size_t end = WIDTH;

    if (length <= WIDTH)
        return length;
    while (end > 0 && text[end] != ' ')
        end--;
    return end > 0 ? end : WIDTH - lull_printable_cut(text, WIDTH);
}

/* The sentence was written when the hang was found, so the time that has passed stands before it.
 */
static void add_hang(const struct lull_top_view *view, uint32_t index, struct lull_top_lines *lines)
{
    const struct lull_live_run *const run = view->runs[index];
    char hang[sizeof(run->hang)];
    const char *left = hang;

    lull_printable_write(run->hang, hang, sizeof(hang));
    top_line_append(lines, LULL_TOP_WARNING, (int32_t)index, "  HANGS for %s:",
                    lull_amount_time((double)(view->now_ns - run->hang_since_ns) * 1e-9).text);
    while (*left != '\0') {
        const size_t length = top_line_break(left);

        top_line_append(lines, LULL_TOP_WARNING, (int32_t)index, "    %.*s", (int)length, left);
        left += length + (left[length] == ' ');
    }
}

static void add_run(const struct lull_top_view *view, uint32_t index, struct lull_top_lines *lines)
{
    const struct lull_live_run *const run = view->runs[index];
    char note[sizeof(run->note)];
    uint32_t used = 0;

    add_heading(view, index, lines);
    add_search(view, index, lines);
    for (uint32_t i = 1; i < LULL_TOP_SERVING_LINES && run->serving.mode != LULL_LIVE_MODE_NONE;
         i++)
        add_serving(view, index, i, LULL_TOP_PLAIN, lines);
    if (run->ruler == LULL_LIVE_BY_SECTION)
        add_figures(view, index, lines);
    add_totals(view, index, lines);
    if (run->hang[0] != '\0')
        add_hang(view, index, lines);
    lull_printable_write(run->note, note, sizeof(note));
    if (note[0] != '\0' && !run->is_paused && run->hang[0] == '\0')
        top_line_append(lines, LULL_TOP_DIM, (int32_t)index, "  last note: %s", note);
    for (uint32_t i = 0; i < run->gpu_count; i++) {
        if (run->gpus[i].state == LULL_LIVE_UNUSED)
            continue;
        top_line_add_gpu(&run->gpus[i], (int32_t)index, lines);
        used++;
    }
    if (used == 0)
        top_line_append(lines, LULL_TOP_DIM, (int32_t)index, "  no rank of it uses a GPU yet");
    top_line_append(lines, LULL_TOP_PLAIN, (int32_t)index, "%s", "");
}

/* ---- the node ---------------------------------------------------------------------------- */

/* The owner of a GPU that no run of Lull uses, or its fault. */
static void top_line_write_owner(const struct lull_top_gpu *gpu, char *text, size_t size)
{
    const struct lull_message_state *const state = &gpu->state;
    struct top_cell user;

    snprintf(text, size, "%s", gpu->has_state ? "free" : "no run");
    if (gpu->is_stuck)
        snprintf(text, size, "the driver does not return");
    else if (gpu->has_state && state->is_leased)
        snprintf(text, size, "leased by process %u of %s", state->owner_pid,
                 name_user(state->owner_uid, &user));
    else if (gpu->has_state && state->is_partitioned)
        snprintf(text, size, "MIG is on: not leased");
    else if (gpu->has_state && strcmp(lull_node_health_name(state), "UP") != 0)
        snprintf(text, size, "lulld: %s", lull_node_health_name(state));
}

static void add_node_gpu(const struct lull_top_gpu *gpu, struct lull_top_lines *lines)
{
    const struct lull_device_reading *const now = &gpu->reading;
    const struct lull_message_state *const state = &gpu->state;
    const bool is_leased = gpu->has_state && state->is_leased;
    char owner[96];

    top_line_write_owner(gpu, owner, sizeof(owner));
    top_line_append(
        lines, LULL_TOP_DIM, -1, ROW_FORMAT, gpu->index,
        top_line_cell(reading_of(gpu, LULL_READING_SM_CLOCK, now->sm_mhz), "").text,
        top_line_cell(
            is_leased && state->applied_mhz != 0 ? (double)state->applied_mhz : (double)NAN, "")
            .text,
        band_of(is_leased ? (double)state->min_mhz : (double)NAN, (double)state->max_mhz).text,
        top_line_cell(reading_of(gpu, LULL_READING_POWER, now->power_mw * 1e-3), "").text,
        top_line_cell(reading_of(gpu, LULL_READING_POWER_LIMIT, now->power_limit_mw * 1e-3), "")
            .text,
        top_line_cell(reading_of(gpu, LULL_READING_TEMPERATURE, now->temperature_c), "").text, "-",
        "-", owner);
}

static void top_line_add_node(const struct lull_top_view *view, struct lull_top_lines *lines)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < view->gpu_count; i++)
        left += !view->gpus[i].has_run;
    if (left > 0)
        top_line_append(lines, LULL_TOP_HEADING, -1,
                        view->run_count > 0 ? "GPUs not used by these runs" : "GPUs of this node");
    for (uint32_t i = 0; i < view->gpu_count; i++)
        if (!view->gpus[i].has_run)
            add_node_gpu(&view->gpus[i], lines);
    if (!view->has_driver)
        top_line_append(lines, LULL_TOP_DIM, -1, "GPUs are not read here: %s",
                        view->no_driver.text);
    if (view->has_daemon)
        return;
    if (view->no_daemon.code == -ENOENT || view->no_daemon.code == -ECONNREFUSED)
        top_line_append(lines, LULL_TOP_DIM, -1,
                        "no lulld is running, so only the leases of these runs are known");
    else
        top_line_append(lines, LULL_TOP_DIM, -1, "leases are not known here: %s",
                        view->no_daemon.text);
}

void lull_top_make_lines(const struct lull_top_view *view, struct lull_top_lines *lines)
{
    lines->count = 0;
    for (uint32_t i = 0; i < view->run_count; i++)
        add_run(view, i, lines);
    if (view->run_count == 0) {
        top_line_append(lines, LULL_TOP_PLAIN, -1, "no active run; start one: lull run -- COMMAND");
        top_line_append(lines, LULL_TOP_PLAIN, -1, "%s", "");
    }
    top_line_add_node(view, lines);
}

void lull_top_title(const struct lull_top_view *view, char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm local;
    char clock[16] = "";
    uint32_t leased = 0;
    char daemon[48] = "no lulld";

    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    for (uint32_t i = 0; i < view->gpu_count; i++)
        leased += view->gpus[i].has_state && view->gpus[i].state.is_leased;
    if (view->has_daemon)
        snprintf(daemon, sizeof(daemon), "lulld: %u of %u GPUs leased", leased, view->gpu_count);
    snprintf(text, size, "lull top  %s  %s  %u run%s  %s", lull_printable(view->host).text, clock,
             view->run_count, view->run_count == 1 ? "" : "s", daemon);
}
