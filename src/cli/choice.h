/*
 * How people name what a power limit is to be best at. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CHOICE_H
#define LULL_CLI_CHOICE_H

#include "core/job/cost.h"

#define LULL_CLI_CHOICES "cost, energy, time, edp (energy-delay product) or slowdown=0.05"

/* Sets the selector's aim, and its slowdown. Errors: -EINVAL; nothing is changed then. */
int lull_cli_parse_choice(const char *text, struct lull_job_selector *selector);

#endif
