/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/profiling.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/minmax.h"

/* All of these were chosen so that test_profiling finds EnvPipe's valleys within a third of the
 * sweep. */
/* The coarse look is at about this many clocks, and at every second one at most. */
enum { COARSE_CLOCKS = 8, MIN_STEP = 2 };
/* Iterations at each clock of the coarse look and around its best; clocks measured to the end. */
enum { COARSE_ITERATIONS = 3, FINE_ITERATIONS = 3, FINALISTS = 5 };
/* With at most this many clocks a third of the sweep allows less, so fewer are measured less often.
 * */
enum { FEW_CLOCKS = 12, FEW_ITERATIONS = 2, FEW_FINALISTS = 2 };
/* Among more values than this outliers are dropped, as EnvPipe does. */
enum { DROPPED_FROM = 3 };

struct lull_profiling {
    enum lull_profiling_method method;
    uint32_t clock_count;
    uint32_t stage_count;
    uint32_t iterations; /* of each clock, at most */
    uint32_t taken;
    uint32_t step;
    struct lull_memory memory;             /* of the two arrays */
    uint32_t *counts;                      /* per clock */
    struct lull_profiling_sample *samples; /* per clock, iteration and stage */
};

struct lull_profiling *lull_profiling_create(enum lull_profiling_method method,
                                             uint32_t clock_count, uint32_t stage_count,
                                             uint32_t iterations)
{
    struct lull_profiling *profiling = calloc(1, sizeof(*profiling));
    const size_t samples = (size_t)clock_count * iterations * stage_count;

    if (profiling == NULL)
        return NULL;
    profiling->method = method;
    profiling->clock_count = clock_count;
    profiling->stage_count = stage_count;
    profiling->iterations = iterations;
    profiling->step = lull_max_u32((clock_count + COARSE_CLOCKS - 1) / COARSE_CLOCKS, MIN_STEP);
    profiling->counts =
        lull_memory_take(&profiling->memory, clock_count, sizeof(profiling->counts[0]));
    profiling->samples =
        lull_memory_take(&profiling->memory, samples, sizeof(profiling->samples[0]));
    if (profiling->memory.has_failed) {
        lull_profiling_destroy(profiling);
        return NULL;
    }
    return profiling;
}

void lull_profiling_destroy(struct lull_profiling *profiling)
{
    if (profiling == NULL)
        return;
    lull_memory_free(&profiling->memory);
    free(profiling);
}

/* ---- what was measured ------------------------------------------------------------------- */

static struct lull_profiling_sample *sample_of(const struct lull_profiling *profiling,
                                               uint32_t clock, uint32_t index, uint32_t stage)
{
    assert(clock < profiling->clock_count && stage < profiling->stage_count);
    return &profiling
                ->samples[((size_t)clock * profiling->iterations + index) * profiling->stage_count +
                          stage];
}

void lull_profiling_take(struct lull_profiling *profiling, uint32_t clock,
                         const struct lull_profiling_sample *samples)
{
    profiling->taken++;
    if (clock >= profiling->clock_count || profiling->counts[clock] == profiling->iterations)
        return;
    for (uint32_t stage = 0; stage < profiling->stage_count; stage++)
        *sample_of(profiling, clock, profiling->counts[clock], stage) = samples[stage];
    profiling->counts[clock]++;
}

uint32_t lull_profiling_iterations(const struct lull_profiling *profiling)
{
    return profiling->taken;
}

/* Largest deviation of an iteration's energy from the mean at which it is not dropped. */
static double find_band(const struct lull_profiling *profiling, uint32_t stage, uint32_t clock,
                        double *mean_out)
{
    const uint32_t count = profiling->counts[clock];
    double sum = 0;
    double squares = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += sample_of(profiling, clock, i, stage)->energy_j;
    *mean_out = sum / count;
    for (uint32_t i = 0; i < count; i++)
        squares += pow(sample_of(profiling, clock, i, stage)->energy_j - *mean_out, 2);
    return count > DROPPED_FROM ? sqrt(squares / count) : INFINITY;
}

/* Outliers are dropped by energy alone, since that is what a valley is chosen by. */
struct lull_profiling_mean lull_profiling_mean(const struct lull_profiling *profiling,
                                               uint32_t stage, uint32_t clock)
{
    struct lull_profiling_mean mean = {0};
    double middle_j;
    double band_j;

    if (profiling->counts[clock] == 0)
        return mean;
    band_j = find_band(profiling, stage, clock, &middle_j);
    for (uint32_t i = 0; i < profiling->counts[clock]; i++) {
        const struct lull_profiling_sample *sample = sample_of(profiling, clock, i, stage);

        if (fabs(sample->energy_j - middle_j) > band_j)
            continue;
        mean.count++;
        mean.energy_j += sample->energy_j;
        mean.forward_ms += sample->forward_ms;
        mean.backward_ms += sample->backward_ms;
    }
    mean.energy_j /= mean.count;
    mean.forward_ms /= mean.count;
    mean.backward_ms /= mean.count;
    return mean;
}

/* ---- where to look ----------------------------------------------------------------------- */

static bool is_coarse(const struct lull_profiling *profiling, uint32_t clock)
{
    return clock % profiling->step == 0 || clock + 1 == profiling->clock_count;
}

/* The clock of least energy among those that a look includes and that are worse than `above`. */
static uint32_t profiling_find_best(const struct lull_profiling *profiling, uint32_t stage,
                                    bool only_coarse, double above_j)
{
    double best_j = INFINITY;
    uint32_t best = 0;

    for (uint32_t clock = 0; clock < profiling->clock_count; clock++) {
        const struct lull_profiling_mean mean = lull_profiling_mean(profiling, stage, clock);

        if (mean.count == 0 || (only_coarse && !is_coarse(profiling, clock)) ||
            mean.energy_j >= best_j || mean.energy_j <= above_j)
            continue;
        best_j = mean.energy_j;
        best = clock;
    }
    return best;
}

static bool is_few(const struct lull_profiling *profiling)
{
    return profiling->clock_count <= FEW_CLOCKS;
}

/* Offers a clock that has been measured in fewer than so many iterations. Returns whether it has.
 */
static bool profiling_offer(const struct lull_profiling *profiling, uint32_t clock,
                            uint32_t iterations, uint32_t *clock_out)
{
    if (profiling->counts[clock] >= lull_min_u32(iterations, profiling->iterations))
        return false;
    *clock_out = clock;
    return true;
}

static bool next_coarse(const struct lull_profiling *profiling, uint32_t *clock_out)
{
    const uint32_t wanted = is_few(profiling) ? FEW_ITERATIONS : COARSE_ITERATIONS;

    for (uint32_t clock = 0; clock < profiling->clock_count; clock++)
        if (is_coarse(profiling, clock) && profiling_offer(profiling, clock, wanted, clock_out))
            return true;
    return false;
}

/* Offers the clocks around the best one of the coarse look, stage by stage. */
static bool next_fine(const struct lull_profiling *profiling, uint32_t *clock_out)
{
    const uint32_t wanted = is_few(profiling) ? FEW_ITERATIONS : FINE_ITERATIONS;

    for (uint32_t stage = 0; stage < profiling->stage_count; stage++) {
        const uint32_t best = profiling_find_best(profiling, stage, true, -INFINITY);
        const uint32_t first = best >= profiling->step ? best - profiling->step + 1 : 0;

        for (uint32_t clock = first;
             clock < best + profiling->step && clock < profiling->clock_count; clock++)
            if (profiling_offer(profiling, clock, wanted, clock_out))
                return true;
    }
    return false;
}

/* Offers the best few clocks of each stage, until each has been measured as often as a sweep would.
 */
static bool next_final(const struct lull_profiling *profiling, uint32_t *clock_out)
{
    const uint32_t finalists = is_few(profiling) ? FEW_FINALISTS : FINALISTS;

    for (uint32_t stage = 0; stage < profiling->stage_count; stage++) {
        double above_j = -INFINITY;

        for (uint32_t i = 0; i < finalists && i < profiling->clock_count; i++) {
            const uint32_t clock = profiling_find_best(profiling, stage, false, above_j);

            above_j = lull_profiling_mean(profiling, stage, clock).energy_j;
            if (profiling_offer(profiling, clock, profiling->iterations, clock_out))
                return true;
        }
    }
    return false;
}

static bool next_of_sweep(const struct lull_profiling *profiling, uint32_t *clock_out)
{
    for (uint32_t clock = 0; clock < profiling->clock_count; clock++)
        if (profiling_offer(profiling, clock, profiling->iterations, clock_out))
            return true;
    return false;
}

bool lull_profiling_next(struct lull_profiling *profiling, uint32_t *clock_out)
{
    const uint32_t most = profiling->clock_count * profiling->iterations;

    if (profiling->method == LULL_PROFILING_SWEEP)
        return next_of_sweep(profiling, clock_out);
    if (3 * (uint64_t)profiling->taken + 3 > most && profiling->taken > 0)
        return false;
    return next_coarse(profiling, clock_out) || next_fine(profiling, clock_out) ||
           next_final(profiling, clock_out);
}
