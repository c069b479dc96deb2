/*
 * A forecast of the value of a GPU: the price at which recent jobs, all free to choose, would have
 * requested no more GPU time than there was. It is the dual price of the fluid relaxation of the
 * online problem (as many jobs as lately, without gaps and gangs), with arrivals as forecast: those
 * seen, older ones counting less.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_FLUID_PRICE_H
#define LULL_CLUSTER_CORE_POLICY_FLUID_PRICE_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"

enum { LULL_FLUID_PRICE_SEEN = 256 }; /* the number of last jobs that are used */

struct lull_fluid_price; /* opaque */

/* Borrows the jobs and gpus, [type]: how many there are. second_j as in lull_cluster_gain_j().
 * -ENOMEM. */
int lull_fluid_price_create(const struct lull_cluster_jobs *jobs, const uint64_t *gpus,
                            uint32_t type_count, double second_j,
                            struct lull_fluid_price **price_out);
void lull_fluid_price_destroy(struct lull_fluid_price *price);

/* Records the arrival of a job. now_ns never falls. O(1). */
void lull_fluid_price_add(struct lull_fluid_price *price, uint32_t job, int64_t now_ns);

/* The mean over the jobs seen of the shortest time that each can take, ns; 0: no job has been seen.
 */
double lull_fluid_price_mean_ns(const struct lull_fluid_price *price);

/*
 * Returns the prices, [type]: J per GPU and second. They are searched for along the dual's
 * subgradient, and follow from the jobs seen and now_ns alone. Computed again once some jobs more
 * have come or some time has passed; O(jobs seen * (operating points + types)) then.
 */
const double *lull_fluid_price_prices(struct lull_fluid_price *price, int64_t now_ns);

#endif
