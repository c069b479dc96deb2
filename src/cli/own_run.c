/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/event.h"
#include "wire/job_file.h"

/* More runs are not searched for the own one. */
enum { MOST_RUNS = 64 };

static const int64_t patience_ns = 2 * LULL_NS_PER_S;
static const int64_t pause_ns = 5 * LULL_NS_PER_MS;

/* Returns whether a run has created the segment that LULL_JOB names. */
static bool own_run_is(const struct lull_live_run *run, const char *job)
{
    const char *const slash = strrchr(job, '/');
    char start[32];

    snprintf(start, sizeof(start), "lull-job-%d-", run->pid);
    return strncmp(slash != NULL ? slash + 1 : job, start, strlen(start)) == 0;
}

static bool own_run_find(char file_out[LULL_LIVE_WORD_BYTES], struct lull_live_run *state)
{
    const char *const job = getenv(LULL_JOB_ENV);
    struct lull_live_entry entries[MOST_RUNS];
    uint32_t count;

    if (job == NULL || *job == '\0')
        return false;
    count = lull_live_list(LULL_JOB_DIRECTORY, entries, MOST_RUNS);
    for (uint32_t i = 0; i < count; i++) {
        if (lull_live_read(LULL_JOB_DIRECTORY, entries[i].file, state, NULL) < 0 ||
            !own_run_is(state, job))
            continue;
        memcpy(file_out, entries[i].file, LULL_LIVE_WORD_BYTES);
        return true;
    }
    return false;
}

static void own_run_await_pause(const struct lull_own_run *run, struct lull_live_run *state)
{
    const int64_t until_ns = lull_now_ns() + patience_ns;

    while (lull_now_ns() < until_ns) {
        if (lull_live_read(LULL_JOB_DIRECTORY, run->file, state, NULL) == 0 && state->is_paused)
            return;
        lull_sleep_until_ns(lull_now_ns() + pause_ns);
    }
}

void lull_own_run_pause(struct lull_own_run *run)
{
    struct lull_live_run *const state = calloc(1, sizeof(*state));

    run->is_paused = false;
    if (state != NULL && own_run_find(run->file, state) && !state->is_paused &&
        state->ruler != LULL_LIVE_BY_NONE &&
        lull_live_ask(LULL_JOB_DIRECTORY, run->file, LULL_LIVE_PAUSE, NULL) == 0) {
        run->is_paused = true;
        own_run_await_pause(run, state);
    }
    free(state);
}

void lull_own_run_resume(struct lull_own_run *run)
{
    if (run->is_paused)
        lull_live_ask(LULL_JOB_DIRECTORY, run->file, LULL_LIVE_GO_ON, NULL);
    run->is_paused = false;
}
