/*
 * Limits how often a GPU may be lowered. Very frequent clock writes by themselves delay NCCL (its
 * issue 1551), so a GPU is lowered again only a while after it was raised, or sooner by taking one
 * lowering out of a bucket that fills at a constant rate. So neighbouring gaps are not held back,
 * and the mean rate stays bounded.
 *
 * The struct has plain values and lies in the caller's storage. Times are ns of one clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_BUDGET_H
#define LULL_BASE_SWITCH_BUDGET_H

#include <stdint.h>

struct lull_switch_budget {
    int64_t gap_ns;    /* time from a raising to the next lowering if the bucket is empty; >= 0 */
    int64_t refill_ns; /* time in which the bucket gains one lowering; > 0 */
    int64_t saved_ns;  /* what is in the bucket, up to LULL_SWITCH_BUDGET_SAVED times refill_ns */
    int64_t as_of_ns;
    int64_t raised_ns; /* when the GPU was raised; 0: never */
};

/* The most lowerings in the bucket; */
enum { LULL_SWITCH_BUDGET_SAVED = 24 };

/* Starts with a full bucket. With a refill_ns of INT64_MAX there is no bucket. */
void lull_switch_budget_init(struct lull_switch_budget *budget, int64_t gap_ns, int64_t refill_ns);

/* Notes that a driver call that raised the GPU has returned. */
void lull_switch_budget_raise(struct lull_switch_budget *budget, int64_t now_ns);

/* Notes that a driver call that lowers it begins, which costs one lowering if the gap is not over.
 */
void lull_switch_budget_lower(struct lull_switch_budget *budget, int64_t now_ns);

/* The time from which on the GPU may be lowered, if nothing else happens; it may have passed
 * already. */
int64_t lull_switch_budget_from_ns(const struct lull_switch_budget *budget);

#endif
