/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char *phase_text(enum lull_controller_phase phase)
{
    switch (phase) {
    case LULL_PHASE_DESCENDING:
        return "descending";
    case LULL_PHASE_SETTLED:
        return "settled";
    default:
        return "learning";
    }
}

static void describe_candidate(const struct lull_control *control, char *text, size_t size)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target = lull_controller_descending(controller);

    text[0] = '\0';
    if (target != NULL)
        snprintf(text, size, ", trying point %u of %u", lull_controller_candidate(target),
                 target->descent.count - 1);
}

void lull_progress_show(struct lull_control *control, const char *what)
{
    const struct lull_controller *controller = lull_control_controller(control);
    char candidate[48];
    char line[160];
    const struct lull_track *track;

    if (!isatty(STDERR_FILENO) || lull_control_gpu_count(control) == 0)
        return;
    lull_control_lock(control);
    track = lull_controller_track(controller, 0);
    describe_candidate(control, candidate, sizeof(candidate));
    snprintf(line, sizeof(line), "\r\033[Klull: %s, iteration %" PRIu64 " (%.1f ms), %s%s", what,
             lull_track_iteration(track), lull_track_iteration_ms(track)->mean,
             phase_text(lull_controller_phase(controller)), candidate);
    lull_control_unlock(control);
    fputs(line, stderr);
    fflush(stderr);
}

void lull_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
