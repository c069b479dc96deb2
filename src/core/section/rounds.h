/*
 * Rounds: the number of periods of equal calls in one iteration, found from the times between
 * calls.
 *
 * If a job makes the same calls many times per iteration (one all-reduce per parameter or layer,
 * gradient accumulation, tokens), the sequence of calls repeats with a short period and only the
 * times between them repeat with the iteration. A trial that used the short period as the iteration
 * would compare blocks with different parts of it.
 *
 * A lag L explains the intervals if they differ from those L before by less than a fifth of the
 * mean square by which they differ from those one (and two) periods before. The smallest such lag
 * wins, unless sums over it still vary (a loop within the iteration): then a longer lag is
 * preferred that explains what the shorter one leaves.
 *
 * Only distances between the longest intervals are tried, since these bound the iteration; so a
 * look costs O(count). Differences are cut at the third-longest interval: two stalls of the host
 * hide no iteration.
 *
 * Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_ROUNDS_H
#define LULL_CORE_SECTION_ROUNDS_H

#include <stdint.h>

/* The required number of observed iterations. */
enum { LULL_ROUNDS_SEEN = 3 };

/*
 * Returns how many periods make one iteration, from 3 on; 1: one, or two at most.
 * intervals_ms: time before each of the last `count` calls, the newest first, each finite;
 * period >= 1: the number of calls after which their sequence repeats; current >= 1: the previous
 * result, which stays while it explains the intervals.
 */
uint32_t lull_rounds_find(const double *intervals_ms, uint32_t count, uint32_t period,
                          uint32_t current);

#endif
