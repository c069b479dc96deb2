/*
 * Which iterations run at the reference and which at the candidate, so that drift cancels.
 *
 * Iterations are counted from the start of a test. Windows alternate reference, candidate,
 * candidate, reference, reference, candidate...: windows 2p and 2p+1 are pair p. The first
 * iteration after every change is not measured, because it still carries the switch from the other
 * side. A pure function of numbers: ranks that count alike act alike without a message.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_WINDOW_SCHEDULE_H
#define LULL_CORE_SWITCHING_WINDOW_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct lull_window_schedule {
    uint32_t reference_iterations; /* measured per reference window, >= 1 */
    uint32_t candidate_iterations; /* measured per candidate window, >= 1 */
    bool candidate_first;          /* the candidate comes first, and all roles are swapped */
};

struct lull_window_slot {
    uint32_t window;  /* 0, 1, ... */
    bool candidate;   /* at the candidate, else at the reference */
    bool measured;    /* false: the iteration after a change */
    bool window_ends; /* this is the window's last iteration */
};

/* Where iteration number iteration (from 0) of a test stands. O(1). */
struct lull_window_slot lull_window_slot(const struct lull_window_schedule *schedule,
                                         uint64_t iteration);

/* The number of iterations after which the schedule repeats, from the second window on. O(1). */
uint64_t lull_window_schedule_round(const struct lull_window_schedule *schedule);

#endif
