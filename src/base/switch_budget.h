/*
 * Limits how often a GPU may be lowered. Very frequent clock writes by themselves delay NCCL (its
 * issue 1551), so a GPU is lowered again only some time after it was raised, or sooner by taking a
 * token from a bucket that fills at a constant rate. This does not delay gaps that follow each
 * other closely, and bounds the mean rate. The struct has plain values and lives in the caller's
 * storage. Times are ns of one clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_BUDGET_H
#define LULL_BASE_SWITCH_BUDGET_H

#include <stdint.h>

struct lull_switch_budget {
    int64_t gap_ns;    /* time from a raising to the next lowering if the bucket is empty; >= 0 */
    int64_t refill_ns; /* time in which the bucket gains one token; > 0 */
    int64_t saved_ns;  /* contents of the bucket, up to LULL_SWITCH_BUDGET_SAVED times refill_ns */
    int64_t as_of_ns;
    int64_t raised_ns; /* when the GPU was raised; 0: never */
};

/* The most tokens in the bucket; */
enum { LULL_SWITCH_BUDGET_SAVED = 24 };

/* Starts with a full bucket. With a refill_ns of INT64_MAX there is no bucket. */
void lull_switch_budget_init(struct lull_switch_budget *budget, int64_t gap_ns, int64_t refill_ns);

/* Records that a driver call that raised the GPU has returned. */
void lull_switch_budget_raise(struct lull_switch_budget *budget, int64_t now_ns);

/* Records the start of a driver call that lowers the GPU. It costs a token if the waiting time is
 * not over.
 */
void lull_switch_budget_lower(struct lull_switch_budget *budget, int64_t now_ns);

/* The earliest time at which the GPU may be lowered if nothing else happens. It may be in the past.
 */
int64_t lull_switch_budget_from_ns(const struct lull_switch_budget *budget);

#endif
