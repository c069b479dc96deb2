/*
 * How often a GPU may be lowered. Very frequent clock writes by themselves delay NCCL (its issue
 * 1551), so a GPU is lowered again only a while after it was raised. Sooner than that out of a
 * savings bucket only, which so many lowerings fill in a second: neighbouring gaps are not held
 * back, and the mean rate stays bounded.
 *
 * Plain values; caller's storage. Times are ns of one clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_BUDGET_H
#define LULL_BASE_SWITCH_BUDGET_H

#include <stdint.h>

struct lull_switch_budget {
    int64_t gap_ns;    /* from a raising to the next lowering where the bucket is empty; >= 0 */
    int64_t refill_ns; /* time in which one lowering is saved up; > 0 */
    int64_t saved_ns;  /* up to LULL_SWITCH_BUDGET_SAVED times refill_ns */
    int64_t as_of_ns;
    int64_t raised_ns; /* 0: never */
};

enum { LULL_SWITCH_BUDGET_SAVED = 24 };

/* Starts with a full bucket; refill_ns INT64_MAX: nothing is ever saved up. */
void lull_switch_budget_init(struct lull_switch_budget *budget, int64_t gap_ns, int64_t refill_ns);

/* A driver call that raised the GPU has returned. */
void lull_switch_budget_raise(struct lull_switch_budget *budget, int64_t now_ns);

/* A driver call that lowers it begins: takes one out of the bucket if the gap is not over. */
void lull_switch_budget_lower(struct lull_switch_budget *budget, int64_t now_ns);

/* From when on the GPU may be lowered, if nothing else happens; at or before now: at once. */
int64_t lull_switch_budget_from_ns(const struct lull_switch_budget *budget);

#endif
