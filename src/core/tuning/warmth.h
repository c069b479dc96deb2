/*
 * Whether a GPU has come to the temperature that its job leads to. A GPU that warms up draws more
 * and more at the same work (leakage: some 0.3 % per degree), so that whatever is measured later
 * looks dearer. Leaving the first seconds out is not enough: heat takes a minute.
 *
 * It has when readings of LULL_WARMTH_SPAN_S seconds lie within a degree, the resolution of a
 * driver's reading; or, so that nobody waits for ever, after LULL_WARMTH_MOST_S.
 *
 * Pure; caller's storage; zero-initialised is empty; one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_WARMTH_H
#define LULL_CORE_TUNING_WARMTH_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_WARMTH_SPAN_S = 5, LULL_WARMTH_MOST_S = 60 };

struct lull_warmth {
    uint32_t count; /* readings kept, a second or more apart; ever */
    int64_t begun_ns;
    int64_t last_ns;
    double readings_c[LULL_WARMTH_SPAN_S + 1]; /* the latest ones */
};

/* Whether the next reading is due at now_ns; none needs be taken before. */
bool lull_warmth_is_due(const struct lull_warmth *warmth, int64_t now_ns);

/* A reading, later than the one before, the job running. True: the temperature has settled. */
bool lull_warmth_take(struct lull_warmth *warmth, int64_t now_ns, double temperature_c);

#endif
