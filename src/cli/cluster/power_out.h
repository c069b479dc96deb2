/*
 * What the cluster drew over time, as the table of Batsim's energy trace.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_POWER_OUT_H
#define LULL_CLI_CLUSTER_POWER_OUT_H

#include "base/error.h"
#include "cli/cluster/gangs.h"

/*
 * One line per event, in the order of time: time (s); energy (J) since time 0; wattmin (W), what
 * all nodes would draw if no GPU had a job; epower (W), the mean since the line above, NA where no
 * time has passed; event_type, s: a job starts, e: it ends or is preempted, p: it changes its
 * clock, or a node is turned on or off, fails or works again. Whole or not at all. Errors: -ENOMEM;
 * those of lull_file_write_atomic.
 */
int lull_gangs_write_power(const struct lull_gangs *gangs, struct lull_error *err);

#endif
