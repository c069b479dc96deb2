/*
 * An upper bound of the share of requests that miss an objective, valid at all times at once.
 *
 * Requests are judged in blocks of LULL_MISS_BLOCK in the order in which they are counted. Let X_k
 * be the share of block k that missed, and u_k its expectation given everything before the block.
 * For 0 <= r <= 1 and X in [0, 1], r^X <= 1 - (1 - r) X, so
 *
 *     M_r = prod r^(X_k) exp((1 - r) u_k)
 *
 * is a supermartingale that begins with 1, whatever the dependence of the requests, and so is a
 * mixture over r. By Ville's inequality the mixture ever reaches 1 / error with a chance of at most
 * `error`. The bound of the mean of u_k is the value at which it would have: the "rule of three" at
 * zero misses (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
 * betting"; r^X as in Howard, Ramdas, McAuliffe, Sekhon 2020, "Time-uniform Chernoff bounds").
 *
 * Misses come in bursts. A block bounds the weight of a burst: what the past before a block does
 * not show of it counts as one event. Longer bursts are covered to the extent that the past shows
 * them, because u_k is then large in them.
 *
 * Pure; caller's storage; zero-initialised is empty. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_MISS_BOUND_H
#define LULL_CORE_SERVING_MISS_BOUND_H

enum { LULL_MISS_BLOCK = 8 };

struct lull_miss_bound {
    double requests;
    double misses; /* of them */
};

/* Adds judged requests >= 0, and misses >= 0 that the clock may have caused. */
void lull_miss_bound_add(struct lull_miss_bound *bound, double requests, double misses);

/* Returns the upper bound of the expected share of misses, at most 1; error in (0, 1). */
double lull_miss_bound_find(const struct lull_miss_bound *bound, double error);

#endif
