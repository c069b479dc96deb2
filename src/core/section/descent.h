/*
 * The descent: the search for the lowest operating point of a section that does not degrade
 * performance (US 2025/0264922 A1, steps S221 to S227).
 *
 *   S221 start at the highest point          S225 degraded: return to the previous point, keep it
 *   S222 choose a lower point                S226 not degraded at the device's minimum: keep it
 *   S223 run the section at it               S227 the kept point is the section's result
 *   S224 ask the guard
 *
 * Points are indices into the device's clock list, 0 the highest, count-1 the lowest. Strategies:
 *   STEP   the patent's: one point lower at a time.
 *   BISECT the lowest point first; degraded: halve the interval between the lowest point known
 *          good and the highest known bad. Ends at the point where STEP ends if the slowdown never
 *          falls on the way down.
 *   GALLOP 1, 2, 4, 8... points down while not degraded, then bisects: never goes far below a point
 * with a slowdown, for targets that must not be disturbed (the steady point). It may start at the
 * result that a model expects. On any answers of the guard, all three end at a point that was found
 * good (or the highest) whose next lower point was found bad (or does not exist). Verdicts taken,
 * of count points: STEP at most count - 1, BISECT 2 + log2(count), GALLOP 2 + 2 log2(count), and
 * LULL_DESCENT_AIMS more if it uses a model.
 *
 * Pure; caller's storage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_DESCENT_H
#define LULL_CORE_SECTION_DESCENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/guard.h"

/* Number of times that a search uses a model: a model that is wrong that often is not used again.
 */
enum { LULL_DESCENT_AIMS = 3 };

enum lull_descent_strategy { LULL_DESCENT_STEP, LULL_DESCENT_BISECT, LULL_DESCENT_GALLOP };

struct lull_descent {
    enum lull_descent_strategy strategy;
    uint32_t count;      /* points of the device, >= 1 */
    uint32_t good;       /* lowest point known not to degrade; 0 at the start */
    uint32_t bad;        /* highest point known to degrade; count if none is known */
    uint32_t candidate;  /* the point under test; equal to good when done */
    uint32_t stride;     /* points to the next candidate; 0: halve */
    uint32_t resolution; /* the least number of points between good and bad worth searching, >= 1 */
    uint32_t aims;       /* number of times that it has used a model since then */
    uint32_t steps;      /* verdicts taken since the start or the last back-off */
};

/* Starts at the highest point (S221) and chooses the first candidate (S222). */
void lull_descent_init(struct lull_descent *descent, enum lull_descent_strategy strategy,
                       uint32_t count);

/* Starts at a point that is already known to be good, and searches below it. */
void lull_descent_init_below(struct lull_descent *descent, enum lull_descent_strategy strategy,
                             uint32_t count, uint32_t good);

/*
 * From now on the search ends when fewer than `resolution` points lie between the lowest good and
 * the highest bad one; so its result is at most that many points higher than without this. The
 * lowest point is tried as before.
 */
void lull_descent_coarsen(struct lull_descent *descent, uint32_t resolution);

/* True once the result (descent->good) stands (S227). */
bool lull_descent_done(const struct lull_descent *descent);

/*
 * Takes the guard's verdict on the candidate (S224) and moves on: DEGRADED S225, NOT_DEGRADED S226
 * or the next candidate S222. UNDECIDED changes nothing, and neither does any verdict after the
 * end.
 */
void lull_descent_take(struct lull_descent *descent, enum lull_verdict verdict);

/* A model expects the result to be `point`. GALLOP continues there, as far as that lies between the
 * good and the bad points. While no bad point is known, it goes no lower than it would have without
 * the model. Another strategy, or a search that is done, is unchanged. */
void lull_descent_aim(struct lull_descent *descent, uint32_t point);

/*
 * Backs off from a result that slows down after all, or cannot be accepted. The search now goes no
 * lower than `points` (>= 1) above the result and tries that point first, since it is probably
 * close. Then it searches between that point and `floor`, a point known to be good that is not
 * lower than the result. If no point is left between the two, it ends at once, at the floor. To
 * search lower again, reopen.
 */
void lull_descent_back_off(struct lull_descent *descent, uint32_t floor, uint32_t points);

/* Searches again below the result of a descent that is done, galloping in steps of its resolution
 * (STEP: by single points). */
void lull_descent_reopen(struct lull_descent *descent);

#endif
