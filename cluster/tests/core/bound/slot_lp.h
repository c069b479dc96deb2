/* The linear program of a problem in slots, by CLP. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_TESTS_CORE_BOUND_SLOT_LP_H
#define LULL_CLUSTER_TESTS_CORE_BOUND_SLOT_LP_H

#include "cluster/core/model/slots.h"

/* The most that can be saved against rejecting all, where rejecting is free: the welfare. No power
 * cap. duals_out: NULL, or [type * slots + slot]. */
double slot_lp_welfare(const struct lull_slot_problem *problem, double *duals_out);

#endif
