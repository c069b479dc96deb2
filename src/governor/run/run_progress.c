/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "governor/report/section_text.h"
#include "governor/run/run_missing.h"

/* Energy is read once a second, so that what is older than this has readings on both sides. */
static const int64_t late_ns = 3 * LULL_NS_PER_S;

enum { STATE_BYTES = 256 };

/* ---- state of the search ----------------------------------------------------------------- */

static const char *name_target(const struct lull_controller_view *now)
{
    if (now->descending == now->steady)
        return "steady";
    return now->descending->of_gaps ? "in gaps" : "in sections";
}

void lull_run_progress_describe(const struct lull_control *control, char *text, size_t size)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_controller_view now = lull_controller_look(controller);
    const struct lull_device_info *info = lull_control_info(control, now.lead);
    uint32_t point;

    switch (now.phase) {
    case LULL_PHASE_LEARNING:
        snprintf(text, size, "learning its iterations");
        return;
    case LULL_PHASE_SETTLED:
        snprintf(text, size, "%s",
                 now.is_searching
                     ? "low in sections; a clock for whole iterations is searched later"
                     : "settled");
        return;
    default:
        break;
    }
    snprintf(text, size, "testing the result of the search");
    if (now.descending == NULL)
        return;
    if (now.descending == now.profile) {
        snprintf(text, size, "trying the power profile %s", lull_profile_name);
        return;
    }
    point = lull_controller_point_on(controller, now.lead, now.descending, now.candidate);
    if (point < info->sm_clock_count)
        snprintf(text, size, "trying %u MHz %s", info->sm_clocks_mhz[point], name_target(&now));
}

/* Adds the least time until a further setting can be accepted. */
static void add_rest(const struct lull_run_pass *pass, char *text, size_t size)
{
    const size_t length = strlen(text);
    const struct lull_controller_view now =
        lull_controller_look(lull_control_controller(pass->control));
    double rest_s;

    if (now.phase == LULL_PHASE_SETTLED)
        return;
    rest_s =
        (double)lull_run_missing_iterations(pass, now.lead) * lull_run_iteration_s(pass, now.lead);
    if (rest_s >= 1.0)
        snprintf(text + length, size - length, ", %.0f s or more", rest_s);
}

void lull_run_progress_measure_profile(struct lull_run_pass *pass, int64_t now_ns)
{
    lull_control_lock(pass->control);
    if (lull_controller_look(lull_control_controller(pass->control)).profile_others != 0) {
        lull_run_trials_take(&pass->trials, pass->control, now_ns - late_ns);
        lull_run_trials_measure_profile(&pass->trials, pass->control);
    }
    lull_control_unlock(pass->control);
}

double lull_run_progress_saving(struct lull_run_pass *pass, int64_t now_ns)
{
    lull_run_trials_take(&pass->trials, pass->control, now_ns - late_ns);
    return lull_run_trials_saving(&pass->trials, pass->control);
}

static void run_progress_add_saving(struct lull_run_pass *pass, int64_t now_ns, char *text,
                                    size_t size)
{
    const size_t length = strlen(text);
    const double saving = lull_run_progress_saving(pass, now_ns);

    if (isfinite(saving))
        snprintf(text + length, size - length,
                 saving < 0.0 ? "; uses %.1f %% more energy" : "; saves %.1f %% of the energy",
                 100.0 * fabs(saving));
}

/* Plans and power limits report their state in the notes and the report. For them the line has only
 * the iterations. */
static void run_progress_describe(struct lull_run_pass *pass, int64_t now_ns, char *text,
                                  size_t size)
{
    text[0] = '\0';
    if (pass->observe_only || pass->serving != NULL || pass->limits != NULL || pass->runner != NULL)
        return;
    snprintf(text, size, ": ");
    lull_run_progress_describe(pass->control, text + 2, size - 2);
    add_rest(pass, text, size);
    run_progress_add_saving(pass, now_ns, text, size);
}

static const struct lull_track *lead_track(const struct lull_run_pass *pass)
{
    const struct lull_controller *controller = lull_control_controller(pass->control);

    return lull_controller_look_gpu(controller, lull_controller_look(controller).lead).track;
}

static bool run_progress_has_iterations(const struct lull_track *track)
{
    return lull_track_iteration(track) > 0 && lull_track_iteration_ms(track)->mean > 0.0;
}

/* Writes the number of the iteration and the present step, without the end of the line. To be
 * called while the control is not locked. */
static void run_progress_write_state(struct lull_run_pass *pass, int64_t now_ns, char *text,
                                     size_t size)
{
    const struct lull_track *track;
    char what[160];
    char where[80] = "no iteration yet";

    lull_control_lock(pass->control);
    track = lead_track(pass);
    run_progress_describe(pass, now_ns, what, sizeof(what));
    if (run_progress_has_iterations(track))
        snprintf(where, sizeof(where), "iteration %" PRIu64 " (%.1f ms)",
                 lull_track_iteration(track), lull_track_iteration_ms(track)->mean);
    lull_control_unlock(pass->control);
    snprintf(text, size, "lull: %s%s%s%s", pass->run->options->compare ? pass->title : "",
             pass->run->options->compare ? ", " : "", where, what);
}

/* ---- the terminal's status line ---------------------------------------------------------- */

/* Save the title, set it, and restore it. These are xterm's sequences; other terminals ignore
 * them. */
static const char title_save[] = "\033[22;0t";
static const char title_begin[] = "\033]0;";
static const char title_end[] = "\007";
static const char title_restore[] = "\033]0;\007\033[23;0t";

/* Terminals that show a title; others would show the text of it in the job's output. */
static bool has_title(void)
{
    static const char *const prefixes[] = {
        "xterm", "screen", "tmux",  "rxvt",    "alacritty", "foot",   "kitty",
        "st-",   "vte",    "gnome", "konsole", "wezterm",   "putty",  "contour",
        "iterm", "mintty", "ms-",   "eterm-",  "ghostty",   "cygwin",
    };
    const char *const term = getenv("TERM");

    for (size_t i = 0; term != NULL && i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(term, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* A run in the background does not set the terminal title. */
static bool is_in_front(void)
{
    const pid_t front = tcgetpgrp(STDERR_FILENO);

    return front < 0 || front == getpgrp();
}

/* One write, so that no output of the job comes between its parts. */
static void show_title(struct lull_run_pass *pass, int64_t now_ns)
{
    char state[STATE_BYTES];
    char text[STATE_BYTES + 32];

    if (!is_in_front())
        return;
    run_progress_write_state(pass, now_ns, state, sizeof(state));
    snprintf(text, sizeof(text), "%s%s%s%s", pass->progress.has_title ? "" : title_save,
             title_begin, state, title_end);
    pass->progress.has_title = true;
    lull_log_text(text, strlen(text), 0);
}

/* ---- sentences --------------------------------------------------------------------------- */

static const int64_t first_pause_ns = 60 * LULL_NS_PER_S;

static bool run_progress_is_known(struct lull_run_pass *pass)
{
    bool known;

    lull_control_lock(pass->control);
    known = run_progress_has_iterations(lead_track(pass));
    lull_control_unlock(pass->control);
    return known;
}

static bool is_searching(struct lull_run_pass *pass)
{
    bool searches;

    lull_control_lock(pass->control);
    searches = lull_controller_look(lull_control_controller(pass->control)).is_searching;
    lull_control_unlock(pass->control);
    return searches;
}

/* Logs a sentence when iterations are known, when the search has settled, and in between after one
 * minute, two more, four more and so on: a run of a day logs a dozen. */
static void log_state(struct lull_run_pass *pass, int64_t now_ns)
{
    struct lull_run_progress *const progress = &pass->progress;
    const bool has_settled =
        !is_searching(pass) && lull_control_has_settled(pass->control) && !pass->observe_only;
    const bool is_due = progress->pause_ns > 0 && now_ns >= progress->next_ns;
    char state[STATE_BYTES];
    char text[STATE_BYTES + 1];

    if (progress->has_settled || !run_progress_is_known(pass))
        return;
    if (progress->pause_ns > 0 && !is_due && !has_settled)
        return;
    run_progress_write_state(pass, now_ns, state, sizeof(state));
    snprintf(text, sizeof(text), "%s\n", state);
    progress->has_settled = has_settled;
    progress->pause_ns = progress->pause_ns > 0 ? 2 * progress->pause_ns : first_pause_ns;
    progress->next_ns = now_ns + progress->pause_ns;
    lull_log_text(text, strlen(text), 0);
}

/* ---- either ------------------------------------------------------------------------------ */

static enum lull_run_progress_kind run_progress_find_kind(const struct lull_run_options *options)
{
    if (options->quiet)
        return LULL_RUN_PROGRESS_NONE;
    if (options->progress != LULL_RUN_PROGRESS_AUTO)
        return options->progress;
    if (isatty(STDERR_FILENO) != 1)
        return LULL_RUN_PROGRESS_LOG;
    return has_title() ? LULL_RUN_PROGRESS_LINE : LULL_RUN_PROGRESS_NONE;
}

void lull_run_progress_show(struct lull_run_pass *pass, int64_t now_ns)
{
    if (lull_control_gpu_count(pass->control) == 0)
        return;
    switch (run_progress_find_kind(pass->run->options)) {
    case LULL_RUN_PROGRESS_LINE:
        show_title(pass, now_ns);
        break;
    case LULL_RUN_PROGRESS_LOG:
        log_state(pass, now_ns);
        break;
    default:
        break;
    }
}

void lull_run_progress_clear(struct lull_run_pass *pass)
{
    if (pass->progress.has_title)
        lull_log_text(title_restore, strlen(title_restore), 0);
    pass->progress.has_title = false;
}
