/* Cost and feasibility of a schedule in slots (slots.h): the reference of tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_TESTS_CORE_MODEL_SLOT_COST_H
#define LULL_CLUSTER_TESTS_CORE_MODEL_SLOT_COST_H

#include "cluster/core/model/slots.h"

/*
 * Returns the total cost of the choices, one per job. Errors: -ERANGE they exceed the GPUs of a
 * type or the cap; -EINVAL a mandatory job is rejected, or a start is outside its window; -ENOMEM.
 * O(jobs + slots * types).
 */
int slot_cost(const struct lull_slot_problem *problem, const struct lull_slot_choice *choices,
              double *cost_j_out);

#endif
