/*
 * PD-RATS, the rule with a proof: on arrival a job gets the schedule of its menu that gains most
 * after posted prices, for good, or none. What it gains and what the prices come to are a primal
 * and a dual solution of the same linear program, so that their ratio bounds how far from the
 * optimum the rule is: docs/competitive.md has the theorem and its proof.
 *
 * A job is one of slots.h with reject_j 0: a schedule gains -(cost_j + delay_j (start - first)).
 * The menu: schedules that gain at least L per GPU and slot, at most U per GPU, and take no more
 * than a gang (posted_prices.h) of their type. All others are passed over, and the theorem says
 * nothing of them.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_PRIMAL_DUAL_H
#define LULL_CORE_CLUSTER_POLICY_PRIMAL_DUAL_H

#include <stdbool.h>

#include "core/cluster/policy/posted_prices.h"
#include "core/cluster/model/slots.h"

/* A job's best schedule. */
struct lull_bid {
    struct lull_slot_choice choice; /* LULL_SLOT_REJECTED: the menu is empty */
    double gain_j;
    double price_j;
};

/* Sums over all jobs so far. */
struct lull_bid_account {
    double gain_j;    /* of those admitted: the primal value */
    double surplus_j; /* of those admitted, gain less price: the dual's part of the jobs */
};

/*
 * Looks at all schedules of the menu: the highest gain less price, the first operating point and
 * earliest start of equals. Makes slots known up to the job's last. True: gain is above price,
 * which means that there is room. -ENOMEM is false with an empty menu. O(types * slots + starts *
 * operating points).
 */
bool lull_bid_choose(struct lull_prices *prices, const struct lull_slot_job *job,
                     struct lull_bid *bid_out);

/* Books what lull_bid_choose() found, if it was true. */
void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid, struct lull_bid_account *account);

/* The dual value: no schedule of all jobs' menus gains more. */
double lull_bid_dual_j(const struct lull_prices *prices, const struct lull_bid_account *account);

/* The proven ratio of dual to primal: kappa + max(1, kappa), of the type where it is highest. */
double lull_bid_ratio(const struct lull_price_law *laws, uint32_t type_count);

/*
 * Widens the laws [type] of the types that a job's schedules take, so that they are on the menu at
 * their first starts: gang, least_j and most_j, which are 0 where there was no job yet. An
 * operating point that could take all GPUs of its type, or gains nothing, stays off the menu.
 */
void lull_bid_widen(const struct lull_slot_job *job, struct lull_price_law *laws);

#endif
