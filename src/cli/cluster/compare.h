/*
 * One trace under several policies, or under one policy with its knob at several settings, side by
 * side. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_COMPARE_H
#define LULL_CLI_CLUSTER_COMPARE_H

#include "base/error.h"
#include "cli/cluster/gangs.h"

/*
 * Runs what wish->compare (names with commas between, or "all") or wish->sweep ("COUNT" or
 * "FROM:TO:COUNT") tells, and prints a table or one JSON document. Errors: -EINVAL no such policy,
 * no knob, no such range; those of lull_gangs_run.
 */
int lull_gangs_compare(const struct lull_gangs *gangs, struct lull_error *err);

#endif
