/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/duty.h"

#include <assert.h>
#include <math.h>

/* A beat takes so many times as long as a change of all clocks, and at least so long. While a
 * change is under way the job is as slow as at the lower clock, and not all GPUs save: at most a
 * fifth of what a low beat saves. The least time keeps calls below five a second, since very
 * frequent ones delay NCCL (its issue 1551). */
static const double change_times = 5.0;
static const double min_slot_ms = 200.0;
/* A round of more iterations would make too long a proof. */
enum { BEAT_MAX = 8 };

/* The beats at the lower point among the first `beats`, rounded to the nearest. */
static uint64_t low_slots(uint32_t low, uint64_t slots)
{
    return (slots * low + LULL_DUTY_SLOTS / 2) / LULL_DUTY_SLOTS;
}

bool lull_duty_is_low(const struct lull_duty *duty, uint64_t iteration)
{
    uint64_t slot;

    assert(duty->low < LULL_DUTY_SLOTS);
    if (duty->low == 0)
        return false;
    assert(duty->slot_iterations > 0);
    slot = iteration / duty->slot_iterations % LULL_DUTY_SLOTS;
    return low_slots(duty->low, slot + 1) > low_slots(duty->low, slot);
}

uint32_t lull_duty_round(const struct lull_duty *duty)
{
    uint32_t slots = LULL_DUTY_SLOTS;

    if (duty->low == 0)
        return 1;
    for (uint32_t low = duty->low; low % 2 == 0; low /= 2)
        slots /= 2;
    return slots * duty->slot_iterations;
}

uint32_t lull_duty_slot_iterations(double iteration_ms, double change_ms)
{
    const double wanted = ceil(fmax(change_times * change_ms, min_slot_ms) / iteration_ms);

    assert(iteration_ms > 0.0 && change_ms > 0.0);
    if (!(wanted <= BEAT_MAX))
        return 0;
    return (uint32_t)wanted;
}
