/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/calibration.h"

/* Longer than a call and its settling usually take. */
const int64_t lull_calibration_pulse_ns = INT64_C(100000000);
static const int64_t stagger_ns = INT64_C(12000000);

void lull_calibration_init(struct lull_calibration *calibration, uint32_t index)
{
    *calibration = (struct lull_calibration){.index = index, .next_ns = INT64_MAX};
}

void lull_calibration_start(struct lull_calibration *calibration, int64_t now_ns)
{
    if (calibration->started)
        return;
    calibration->started = true;
    /* One edge more than pulses need: the last only waits for the results of the one before. */
    calibration->edges_left = 2 * LULL_CALIBRATION_PULSES + 1;
    calibration->next_ns = now_ns + (int64_t)calibration->index * stagger_ns;
}

bool lull_calibration_poll(struct lull_calibration *calibration, int64_t now_ns,
                           uint32_t *point_out)
{
    if (!lull_calibration_runs(calibration) || now_ns < calibration->next_ns)
        return false;
    calibration->edges_left--;
    if (calibration->edges_left == 0) {
        calibration->next_ns = INT64_MAX;
        return false;
    }
    calibration->low = !calibration->low;
    calibration->next_ns = now_ns + lull_calibration_pulse_ns;
    *point_out = calibration->low ? 1 : 0;
    return true;
}

bool lull_calibration_stop(struct lull_calibration *calibration)
{
    bool low = calibration->low;

    calibration->low = false;
    calibration->edges_left = 0;
    calibration->next_ns = INT64_MAX;
    return low;
}

bool lull_calibration_runs(const struct lull_calibration *calibration)
{
    return calibration->edges_left > 0;
}

bool lull_calibration_done(const struct lull_calibration *calibration)
{
    return calibration->started && calibration->edges_left == 0;
}

int64_t lull_calibration_wake_ns(const struct lull_calibration *calibration)
{
    return lull_calibration_runs(calibration) ? calibration->next_ns : INT64_MAX;
}
