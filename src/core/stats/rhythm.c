/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/rhythm.h"

#include <math.h>
#include <string.h>

#include "core/stats/quantile.h"

/* A rhythm leaves at most this share of the squared errors. */
static const double explained_share = 0.5;
/* A longer period must leave at most this share of what a shorter one leaves: multiples of a period
 * explain as much. */
static const double better_share = 0.5;
/* Iterations that differ by less than this share of their mean have
 * no rhythm worth subtracting: pairs decide as early without it. */
static const double notable_share = 0.01;
/* A rhythm that leaves less than this share of the mean needs no longer period. Default: the rest
 * is caused by the driver. */
static const double settled_share = 0.0025;
/* Iterations of each phase that make a period. Default: with fewer there is nothing to
 * compare. */
enum { MIN_PER_PHASE = 3 };
/* No iteration counts as shorter than this share of its length. */
static const double min_share = 0.1;

void lull_rhythm_remember(struct lull_rhythm_memory *memory, uint64_t iteration, double ms)
{
    const uint64_t place = memory->count++ % LULL_RHYTHM_MEMORY;

    memory->iteration[place] = iteration;
    memory->ms[place] = ms;
}

static uint64_t rhythm_size_of(const struct lull_rhythm_memory *memory)
{
    return memory->count < LULL_RHYTHM_MEMORY ? memory->count : LULL_RHYTHM_MEMORY;
}

/* The sum of the squared errors with which the others of the same phase predict each iteration;
 * INFINITY where a phase has too few. means_out: of the phases. */
static double rhythm_left_over(const struct lull_rhythm_memory *memory, uint32_t period,
                               double means_out[LULL_RHYTHM_MAX])
{
    uint32_t counts[LULL_RHYTHM_MAX] = {0};
    double squares = 0.0;

    memset(means_out, 0, LULL_RHYTHM_MAX * sizeof(means_out[0]));
    for (uint64_t i = 0; i < rhythm_size_of(memory); i++) {
        const uint64_t phase = memory->iteration[i] % period;

        counts[phase]++;
        means_out[phase] += memory->ms[i];
    }
    for (uint32_t phase = 0; phase < period; phase++) {
        if (counts[phase] < MIN_PER_PHASE)
            return INFINITY;
        means_out[phase] /= counts[phase];
    }
    for (uint64_t i = 0; i < rhythm_size_of(memory); i++) {
        const uint64_t phase = memory->iteration[i] % period;
        const double others = counts[phase] - 1.0;
        const double error = (memory->ms[i] - means_out[phase]) * (others + 1.0) / others;

        squares += error * error;
    }
    return squares;
}

struct lull_rhythm lull_rhythm_find(const struct lull_rhythm_memory *memory)
{
    struct lull_rhythm rhythm = {0};
    double means_ms[LULL_RHYTHM_MAX];
    const double alone = rhythm_left_over(memory, 1, means_ms);
    const double notable_ms = notable_share * means_ms[0];
    const double settled_ms = settled_share * means_ms[0];
    double left = alone;
    double least = explained_share * alone;
    double mean_ms = 0.0;

    if (alone < notable_ms * notable_ms * (double)rhythm_size_of(memory))
        return rhythm;
    for (uint32_t period = 2; period <= LULL_RHYTHM_MAX &&
                              left > settled_ms * settled_ms * (double)rhythm_size_of(memory);
         period++) {
        const double squares = rhythm_left_over(memory, period, means_ms);

        if (!(squares < least))
            continue;
        left = squares;
        least = better_share * squares;
        rhythm.period = period;
        memcpy(rhythm.excess_ms, means_ms, sizeof(means_ms));
    }
    for (uint32_t phase = 0; phase < rhythm.period; phase++)
        mean_ms += rhythm.excess_ms[phase] / rhythm.period;
    for (uint32_t phase = 0; phase < rhythm.period; phase++)
        rhythm.excess_ms[phase] -= mean_ms;
    return rhythm;
}

double lull_rhythm_unevenness(const struct lull_rhythm_memory *memory)
{
    const uint64_t size = rhythm_size_of(memory);
    double sorted_ms[LULL_RHYTHM_MEMORY];
    double mean_ms = 0.0;

    if (size == 0)
        return 0.0;
    memcpy(sorted_ms, memory->ms, size * sizeof(sorted_ms[0]));
    lull_quantile_sort(sorted_ms, size);
    for (uint64_t i = 0; i < size; i++)
        mean_ms += sorted_ms[i] / (double)size;
    return mean_ms / lull_quantile_of_sorted(sorted_ms, size, 0.5) - 1.0;
}

double lull_rhythm_even_ms(const struct lull_rhythm *rhythm, uint64_t iteration, double ms)
{
    if (rhythm->period == 0)
        return ms;
    return fmax(ms - rhythm->excess_ms[iteration % rhythm->period], min_share * ms);
}
