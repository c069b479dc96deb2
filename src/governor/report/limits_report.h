/*
 * Power-limit profiles as a table and as JSON: one row per setting. No side effects except output.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_LIMITS_REPORT_H
#define LULL_GOVERNOR_REPORT_LIMITS_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "store/limit_profiles.h"

/* Makes the profile, whose fields docs/reference/report-json.md explains; a new reference. */
json_t *lull_limit_table_json(const struct lull_limit_profile *profile);

/* Prints the rows, with the chosen one marked. */
void lull_limit_table_print(const struct lull_limit_profile *profile, FILE *out);

/* Writes what was chosen and why, such as "250 W (least cost, eta 0.50)". */
void lull_limit_table_choice(const struct lull_limit_profile *profile, char *text_out, size_t size);

#endif
