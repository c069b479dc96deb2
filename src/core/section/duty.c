/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/duty.h"

#include <assert.h>
#include <math.h>

/* A beat takes so many times as long as a change of all clocks, and at least so long. While a
 * change is under way the job is as slow as at the lower clock, and not all GPUs save: at most a
 * fifth of what a low beat saves. The least time keeps calls below five a second, since very
 * frequent ones delay NCCL (its issue 1551). Both are chosen, not measured. */
static const double change_times = 5.0;
static const double least_beat_ms = 200.0;
/* A round of more iterations would make too long a proof. Chosen, not measured. */
enum { BEAT_MAX = 8 };

/* The beats at the lower point among the first `beats`, rounded to the nearest. */
static uint64_t low_beats(uint32_t low, uint64_t beats)
{
    return (beats * low + LULL_DUTY_BEATS / 2) / LULL_DUTY_BEATS;
}

bool lull_duty_is_low(const struct lull_duty *duty, uint64_t iteration)
{
    uint64_t beat;

    assert(duty->low < LULL_DUTY_BEATS);
    if (duty->low == 0)
        return false;
    assert(duty->beat > 0);
    beat = iteration / duty->beat % LULL_DUTY_BEATS;
    return low_beats(duty->low, beat + 1) > low_beats(duty->low, beat);
}

uint32_t lull_duty_round(const struct lull_duty *duty)
{
    uint32_t beats = LULL_DUTY_BEATS;

    if (duty->low == 0)
        return 1;
    for (uint32_t low = duty->low; low % 2 == 0; low /= 2)
        beats /= 2;
    return beats * duty->beat;
}

uint32_t lull_duty_beat(double iteration_ms, double change_ms)
{
    const double wanted = ceil(fmax(change_times * change_ms, least_beat_ms) / iteration_ms);

    assert(iteration_ms > 0.0 && change_ms > 0.0);
    if (!(wanted <= BEAT_MAX))
        return 0;
    return (uint32_t)wanted;
}
