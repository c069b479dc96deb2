/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_missing.h"

#include <math.h>

#include "base/clock.h"
#include "core/section/iteration.h"

/* The shortest run that proves a clock: the iterations that are found and learnt, some
 * steps of the search with the fewest pairs of a screen, and the pairs of a proof. A search in
 * halves takes seven steps on a list of 81 to 120 clocks (core/section/descent.h); pairs of a
 * screen are three at least (core/stats/guard.c). */
enum {
    LEARNT_ITERATIONS = 1 + LULL_ITERATION_REPEATS + LULL_TRACK_LEARN_ITERATIONS,
    SEARCH_STEPS = 7,
    SCREEN_PAIRS = 3,
};

uint64_t lull_run_seen_iterations(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_boundaries *boundaries = &lull_control_log(pass->control, gpu)->boundaries;
    const uint64_t logged = boundaries->count - boundaries->warmup;
    const struct lull_track *track = lull_run_track(pass, gpu);
    struct lull_track_totals totals;

    if (lull_track_phase(track) == LULL_TRACK_KNOWN)
        return LEARNT_ITERATIONS +
               (logged > lull_track_iteration(track) ? logged - 1 : lull_track_iteration(track));
    if (lull_track_period(track) == 0)
        return 0; /* no iteration is known */
    /* While a track learns, it treats all rounds that it learns from as one iteration. */
    lull_track_totals(track, &totals);
    return totals.calls * LULL_TRACK_LEARN_ITERATIONS / lull_track_period(track);
}

double lull_run_iteration_s(const struct lull_run_pass *pass, uint32_t gpu)
{
    const uint64_t seen = lull_run_seen_iterations(pass, gpu);
    struct lull_track_totals totals;

    lull_track_totals(lull_run_track(pass, gpu), &totals);
    return seen == 0 ? 0.0
                     : lull_ms_from_ns(totals.last_ns - totals.first_ns) * 1e-3 / (double)seen;
}

/* Number of iterations in a block of a pair; while it learns, the controller does not know how much
 * they scatter, so the configured minimum is used. */
static uint64_t block_iterations(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_controller_config *config = &pass->run->options->control;
    const double length_ms = lull_run_iteration_s(pass, gpu) * 1e3;

    if (lull_track_phase(lull_run_track(pass, gpu)) == LULL_TRACK_KNOWN)
        return lull_controller_window(lull_control_controller(pass->control));
    if (!(length_ms > 0.0) || config->window_ms < length_ms * config->window_iterations)
        return config->window_iterations;
    return (uint64_t)ceil(config->window_ms / length_ms);
}

/* About how many iterations were missing until something could have been kept. By their order alone
 * n pairs are wrong with probability 2^-n, and the first proof spends a third of the permitted
 * error. That gives the least number of pairs. */
uint64_t lull_run_missing_iterations(const struct lull_run_pass *pass, uint32_t gpu)
{
    const double error = (1.0 - pass->run->options->control.confidence) / 3.0;
    const uint64_t pair = 2 * block_iterations(pass, gpu);
    const uint64_t seen = lull_run_seen_iterations(pass, gpu);
    const uint64_t proof = pair * (uint64_t)ceil(-log2(error));
    const uint64_t all = LEARNT_ITERATIONS + pair * SEARCH_STEPS * SCREEN_PAIRS + proof;

    return seen + proof > all ? proof : all - seen;
}
