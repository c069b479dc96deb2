/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/window_schedule.h"

#include <assert.h>

enum { WINDOWS_PER_ROUND = 4 };

/* After one leading window of the first side the schedule repeats a round of four windows: two of
 * the second side, two of the first. */
static struct lull_window_slot slot_in_window(uint32_t window, bool candidate, bool changed,
                                              uint64_t offset, uint64_t length)
{
    return (struct lull_window_slot){
        .window = window,
        .candidate = candidate,
        .measured = !(changed && offset == 0),
        .window_ends = offset == length - 1,
    };
}

uint64_t lull_window_schedule_round(const struct lull_window_schedule *schedule)
{
    return 2 * ((uint64_t)schedule->reference_iterations + schedule->candidate_iterations + 1);
}

struct lull_window_slot lull_window_slot(const struct lull_window_schedule *schedule,
                                         uint64_t iteration)
{
    const bool swapped = schedule->candidate_first;
    const uint32_t sides[2] = {schedule->reference_iterations, schedule->candidate_iterations};
    const uint64_t first = sides[swapped];
    const uint64_t second = sides[!swapped];

    const uint64_t lengths[WINDOWS_PER_ROUND] = {second + 1, second, first + 1, first};
    const uint64_t round_length = lull_window_schedule_round(schedule);
    uint64_t offset;
    uint64_t round;

    assert(first >= 1 && second >= 1);
    if (iteration < first + 1)
        return slot_in_window(0, swapped, true, iteration, first + 1);
    iteration -= first + 1;
    round = iteration / round_length;
    offset = iteration % round_length;
    for (uint32_t i = 0;; i++) {
        if (offset < lengths[i])
            return slot_in_window((uint32_t)(1 + round * WINDOWS_PER_ROUND + i), (i < 2) != swapped,
                                  i % 2 == 0, offset, lengths[i]);
        offset -= lengths[i];
    }
}
