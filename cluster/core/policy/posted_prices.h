/*
 * Posted prices of GPUs by type and slot, which rise with what is booked, by the law that the proof
 * of PD-RATS is about (cluster/docs/competitive.md):
 *
 *   price(load) = c least ((1 + most / (c least))^((load - free) / (gpus - gang - free)) - 1),
 *
 * and 0 up to a load of `free`.
 *
 * A slot in which another gang may not fit costs more per GPU than any job could pay. Prices never
 * fall. A storage that all jobs read from has a row of its own, with MB/s instead of GPUs.
 *
 * Slots reach as far as anyone has requested; past the last booked slot all prices are 0. Pure; one
 * thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_POSTED_PRICES_H
#define LULL_CLUSTER_CORE_POLICY_POSTED_PRICES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/core/model/slots.h"

/* The law by which prices of one type of GPU rise, or of a storage, in MB/s. */
struct lull_price_law {
    uint32_t gpus; /* C > gang */
    uint32_t gang; /* the most GPUs that a schedule takes of it; 0: no job may book any */
    double min_j;  /* L > 0: no schedule gains less per GPU and slot */
    double max_j;  /* U >= L: none gains more per GPU */
    double bend;   /* c > 0: prices rise evenly up to c L or so, and exponentially beyond;
                      lull_price_law_tune() */
    uint32_t free; /* f < gpus - gang: a load that costs nothing */
};

/* Sets the bend with which the proven ratio is least, about, and free to 0; any bend is proven. A
 * law of gang 0 gets 1. O(1), a few hundred exponentials. */
void lull_price_law_tune(struct lull_price_law *law);

/* Chooses, for a tuned law and a ratio that is no less than lull_price_pair_ratio(law, beside), a
 * bend and a free load whose ratio is no higher, so that slots can be filled with jobs that gain L
 * as far as may be. O(1), some thousand exponentials. */
void lull_price_law_fit(struct lull_price_law *law, const struct lull_price_law *beside,
                        double ratio);

/* J per GPU and slot. load <= gpus. The law is tuned. */
double lull_price_of(const struct lull_price_law *law, uint32_t load);

/*
 * kappa of the theorem: C / R (e^x - 1) / x ln(1 + U / (c L)) with R = C - g - f and x =
 * g ln(1 + U / (c L)) / R: what all GPUs of the type cost more after a booking is at most kappa
 * times what the booking paid, and c L for each GPU and slot of it. The law is tuned.
 */
double lull_price_kappa(const struct lull_price_law *law);

/* max(1, kappa) + c kappa: what a booking at prices below its gain raises the dual by at most, over
 * its gain. May be INFINITY. The law is tuned. */
double lull_price_ratio(const struct lull_price_law *law);

/* The same of schedules that pay for GPUs and may read: max(1, kappa, kappa') + c kappa + c'
 * kappa', the latter of the storage; NULL, or a gang of 0: no process reads. The two may be
 * exchanged.
 */
double lull_price_pair_ratio(const struct lull_price_law *law,
                             const struct lull_price_law *storage);

/* Returns whether a schedule of an operating point that gains so much is in the set that the
 * theorem covers (below). storage may be NULL where nothing reads. */
bool lull_price_law_covers(const struct lull_price_law *law, const struct lull_price_law *storage,
                           const struct lull_slot_point *point, double gain_j);

struct lull_prices; /* opaque */

/* Creates prices with nothing booked; the laws, which are tuned, are copied. storage: NULL: nothing
 * that reads can be booked. ratio: the one that is to be proven, no less than lull_bid_ratio().
 * Errors: -ENOMEM. */
int lull_prices_create(const struct lull_price_law *laws, uint32_t type_count,
                       const struct lull_price_law *storage, double ratio,
                       struct lull_prices **prices_out);
void lull_prices_destroy(struct lull_prices *prices);

/* How many slots are known; later ones are free of charge. */
uint32_t lull_prices_slots(const struct lull_prices *prices);

/* GPUs booked in a known slot; of the type behind the last the MB/s, as below. */
uint32_t lull_prices_load(const struct lull_prices *prices, uint32_t type, uint32_t slot);

/* The price of a GPU over the known slots [first, first + slots), J, summed slot by slot, so that a
 * small price beside a large one is not lost. O(slots). */
double lull_prices_sum(const struct lull_prices *prices, uint32_t type, uint32_t first,
                       uint32_t slots);

/* ---- the rule with a proof ------------------------------------------------------------------- */

/*
 * On arrival a job gets a schedule permanently, or none. The gains of the jobs so far and the sum
 * of the prices are a primal and a dual solution of the same linear program; their ratio never
 * exceeds the proven one, which bounds how far from the optimum the rule is:
 * cluster/docs/competitive.md has the theorem and its proof.
 *
 * A job is one of slots.h with reject_j 0: a schedule gains -(cost_j + delay_j (start - first)).
 * The set holds the schedules that gain at least L per GPU and slot, at most U per GPU, and take no
 * more than a gang of their type, and the same of the MB/s that they read, if they do; the theorem
 * does not cover others. A job's surplus is the most that a schedule of the set gains after posted
 * prices. A job with a surplus can always be booked where that is. But any schedule for which there
 * is room may be booked if the dual, with surplus and risen prices, stays below the proven ratio
 * times all gains; while that is so, the rule takes the one that gains most, and of equals the one
 * that ends first.
 */

/* Why a job is rejected. */
enum lull_bid_refusal {
    LULL_BID_ACCEPTED,
    LULL_BID_NO_SCHEDULE, /* there is none that gains anything, or no memory to look */
    LULL_BID_NO_ROOM,     /* none finds the GPUs that it needs */
    LULL_BID_TOO_DEAR,    /* with any for which there is room the ratio would not be proven */
};

/* A job's schedule. */
struct lull_bid {
    enum lull_bid_refusal refusal;
    struct lull_slot_choice choice; /* LULL_SLOT_REJECTED: rejected */
    double gain_j;
    double price_j;   /* at the prices before it is booked */
    double rise_j;    /* what all GPUs of its slots cost more then */
    double surplus_j; /* of the job, >= 0, also if it is rejected */
};

/*
 * Looks at all schedules of the job. Makes slots known up to the job's last. True: the bid is
 * accepted. O(operating points * (starts + slots)).
 */
bool lull_bid_choose(struct lull_prices *prices, const struct lull_slot_job *job,
                     struct lull_bid *bid_out);

/* Books the schedule of a bid that lull_bid_choose() has just accepted. O(slots). */
void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid);

/* The least ratio of dual to primal that is proven, of the type where it is highest; 1 where no
 * type has a gang: every menu is empty then. storage: NULL: no process reads. */
double lull_bid_ratio(const struct lull_price_law *laws, uint32_t type_count,
                      const struct lull_price_law *storage);

/*
 * Widens the laws [type] of the types that a job's schedules take, and the storage's, so that they
 * are in the set at their first starts: gang, min_j and max_j, which are 0 where there was no
 * job yet. An operating point that could take all GPUs of its type or all of the storage, or gains
 * nothing, stays out of the set. The laws have to be tuned after that. storage: NULL if no job
 * reads.
 */
void lull_bid_widen(const struct lull_slot_job *job, struct lull_price_law *laws,
                    struct lull_price_law *storage);

#endif
