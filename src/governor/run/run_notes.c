/*
 * Messages of a run: logged at once, and stored in its report.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/log.h"
#include "governor/run/run_pass.h"

/* False: the run has this note already. */
static bool run_note_add(struct lull_managed_run *run, const char *text)
{
    for (uint32_t i = 0; i < run->note_count; i++)
        if (strcmp(run->notes[i], text) == 0)
            return false;
    if (run->note_count < LULL_RUN_MAX_NOTES)
        run->notes[run->note_count++] = strdup(text);
    return true;
} /* NOLINT(clang-analyzer-unix.Malloc): the notes are freed with the run. */

/* The command that the user started. */
static const char *name_command(const struct lull_managed_run *run)
{
    return run->options->is_attached ? "attach" : "run";
}

void lull_run_note(struct lull_managed_run *run, const char *text)
{
    if (run_note_add(run, text))
        lull_log(LULL_LOG_WARNING, name_command(run), "%s", text);
    run->first_finding = run->note_count;
}

void lull_run_found(struct lull_managed_run *run, const char *text)
{
    if (run_note_add(run, text) && run->options->quiet)
        lull_log(LULL_LOG_WARNING, name_command(run), "%s", text);
}
