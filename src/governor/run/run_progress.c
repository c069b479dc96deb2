/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/smaller.h"
#include "governor/run/run_missing.h"

static const char clear_line[] = "\r\033[K";

/* Energy is read once a second, so that what is older than this has readings on both sides. */
static const int64_t late_ns = 3 * LULL_NS_PER_S;

enum { LINE_BYTES = 256, LEAST_COLUMNS = 20 };

/* ---- what is being learnt ---------------------------------------------------------------- */

static const char *name_target(const struct lull_controller *controller,
                               const struct lull_target *target)
{
    if (target == lull_controller_steady(controller))
        return "steady";
    return target->of_gaps ? "in gaps" : "in sections";
}

void lull_run_progress_describe(const struct lull_control *control, char *text, size_t size)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_device_info *info = lull_control_info(control, 0);
    const struct lull_target *target = lull_controller_descending(controller);
    uint32_t point;

    switch (lull_controller_phase(controller)) {
    case LULL_PHASE_LEARNING:
        snprintf(text, size, "learning its iterations");
        return;
    case LULL_PHASE_SETTLED:
        snprintf(text, size, "settled");
        return;
    default:
        break;
    }
    snprintf(text, size, "proving what was found");
    if (target == NULL)
        return;
    point = lull_controller_point_on(controller, 0, target, lull_controller_candidate(target));
    if (point < info->sm_clock_count)
        snprintf(text, size, "trying %u MHz %s", info->sm_clocks_mhz[point],
                 name_target(controller, target));
}

/* Adds how long it takes at least until something more can be kept. */
static void add_rest(const struct lull_run_pass *pass, char *text, size_t size)
{
    const size_t length = strlen(text);
    double rest_s;

    if (lull_controller_phase(lull_control_controller(pass->control)) == LULL_PHASE_SETTLED)
        return;
    rest_s = (double)lull_run_missing_iterations(pass, 0) * lull_run_iteration_s(pass, 0);
    if (rest_s >= 1.0)
        snprintf(text + length, size - length, ", %.0f s or more", rest_s);
}

double lull_run_progress_saving(struct lull_run_pass *pass, int64_t now_ns)
{
    lull_run_trials_take(&pass->trials, pass->control, now_ns - late_ns);
    return lull_run_trials_saving(&pass->trials, pass->control);
}

static void add_saving(struct lull_run_pass *pass, int64_t now_ns, char *text, size_t size)
{
    const size_t length = strlen(text);
    const double saving = lull_run_progress_saving(pass, now_ns);

    if (isfinite(saving))
        snprintf(text + length, size - length, "; saves %.1f %%", 100.0 * saving);
}

/* Plans and power limits say what they are about in the notes and the report; of them the line has
 * iterations alone. */
static void describe(struct lull_run_pass *pass, int64_t now_ns, char *text, size_t size)
{
    text[0] = '\0';
    if (pass->observe_only || pass->limits != NULL || pass->runner != NULL)
        return;
    snprintf(text, size, ": ");
    lull_run_progress_describe(pass->control, text + 2, size - 2);
    add_rest(pass, text, size);
    add_saving(pass, now_ns, text, size);
}

/* ---- the line ---------------------------------------------------------------------------- */

/* A line that is wider than the terminal would be wrapped, and then not be taken back. */
static size_t find_width(void)
{
    struct winsize window;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) < 0 || window.ws_col < LEAST_COLUMNS)
        return 79;
    return window.ws_col - 1U;
}

void lull_run_progress_show(struct lull_run_pass *pass, int64_t now_ns)
{
    const struct lull_track *track;
    char what[160];
    char line[LINE_BYTES];

    if (!isatty(STDERR_FILENO) || lull_control_gpu_count(pass->control) == 0)
        return;
    lull_control_lock(pass->control);
    track = lull_controller_track(lull_control_controller(pass->control), 0);
    describe(pass, now_ns, what, sizeof(what));
    snprintf(line, sizeof(line), "lull: %s%siteration %" PRIu64 " (%.1f ms)%s",
             pass->run->options->compare ? pass->title : "",
             pass->run->options->compare ? ", " : "", lull_track_iteration(track),
             lull_track_iteration_ms(track)->mean, what);
    lull_control_unlock(pass->control);
    line[lull_smaller_size(strlen(line), find_width())] = '\0';
    lull_log_text(clear_line, strlen(clear_line), 0);
    lull_log_text(line, strlen(line), 0);
}

void lull_run_progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        lull_log_text(clear_line, strlen(clear_line), 0);
}
