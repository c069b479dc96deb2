/*
 * Interpolates a counter that is refreshed only at intervals, such as the energy counter of a GPU
 * (every 20 to 100 ms): the value at any time as if it were refreshed continuously.
 *
 * It is polled more often than that; between two polls that differ there was a refresh, by
 * assumption in the middle. Between refreshes it is assumed to grow evenly. A raw reading could be
 * wrong by a refresh period at both ends: some percent of a window of a second.
 *
 * Pure; caller's storage; zero-initialised is empty; one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_COUNTER_H
#define LULL_CORE_STATS_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_COUNTER_KEPT = 128 };

struct lull_counter_refresh {
    int64_t time_ns;
    double value;
};

struct lull_counter {
    int64_t polled_ns; /* last poll */
    double polled;
    uint64_t count; /* of refreshes; the last LULL_COUNTER_KEPT are kept */
    bool is_begun;
    struct lull_counter_refresh refreshes[LULL_COUNTER_KEPT];
};

/* A poll, later than the one before. A value below the one before (a reset) forgets everything. */
void lull_counter_take(struct lull_counter *counter, int64_t time_ns, double value);

/*
 * The value at time_ns. False: no refresh is known on both sides of it (yet, or any more).
 */
bool lull_counter_at(const struct lull_counter *counter, int64_t time_ns, double *value_out);

#endif
