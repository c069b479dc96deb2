/*
 * An allowance of rare events: at most a given share of the trials, whatever the cause of the
 * events.
 *
 * Every trial earns a share of an event, every event spends one, and only a few can be saved up;
 * one may be overdrawn. An owner that acts only while the allowance is open has at most rate *
 * trials + most + 2 events in any stretch of trials: a leaky bucket (Turner 1986). The fullness
 * indicates the required caution: an owner that makes an event as likely as rate_wanted * fullness
 * reaches an equilibrium of earning and spending, even with a wrong estimate of the likelihood.
 *
 * Pure; caller's storage. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_ALLOWANCE_H
#define LULL_CORE_STATS_ALLOWANCE_H

#include <stdbool.h>

struct lull_allowance {
    double rate; /* events earned per trial, > 0 */
    double most; /* events that can be saved up, > 0 */
    double left;
};

/* Starts with `saved` events of the at most `most` that can be saved up. 0 <= saved <= most. */
void lull_allowance_init(struct lull_allowance *allowance, double rate, double most, double saved);

void lull_allowance_earn(struct lull_allowance *allowance, double trials);

/* An event has happened. Unavoidable events lower the balance to minus two, no further. */
void lull_allowance_spend(struct lull_allowance *allowance);

/* Returns false if nothing may be done that could cause another event. */
bool lull_allowance_is_open(const struct lull_allowance *allowance);

/* 0 (overdrawn by one) to 1 (full). */
double lull_allowance_fullness(const struct lull_allowance *allowance);

#endif
