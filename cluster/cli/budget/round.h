/*
 * One round of a budget: reads the nodes, passes the state of GPUs and jobs to cluster/core/power,
 * and sends the resulting caps to the nodes. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_ROUND_H
#define LULL_CLUSTER_CLI_BUDGET_ROUND_H

#include "cluster/cli/budget/nodes.h"
#include "cluster/cli/budget/settings.h"

struct lull_budget_round; /* opaque */

/* Borrows the settings and the nodes until destroy. -ENOMEM. */
int lull_budget_round_create(const struct lull_budget_settings *settings,
                             struct lull_budget_nodes *nodes, struct lull_budget_round **round_out);
void lull_budget_round_destroy(struct lull_budget_round *round);

/* Runs a round; target_w: the target of a grid, INFINITY: none. -ENOMEM. */
int lull_budget_round_run(struct lull_budget_round *round, double target_w, struct lull_error *err);

/* Lifts the caps of all GPUs. */
void lull_budget_round_lift(struct lull_budget_round *round);

/* Describes the last round as JSON, which the caller frees; NULL: out of memory. */
char *lull_budget_round_print(const struct lull_budget_round *round);

#endif
