/*
 * Stored limits: earlier measurements of a command line, and those of this run to store for the
 * next (store/limit_profiles.h). Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_LIMITS_STORED_LIMITS_H
#define LULL_GOVERNOR_LIMITS_STORED_LIMITS_H

#include <stdbool.h>

#include "base/error.h"
#include "store/limit_profiles.h"

/*
 * Replaces the profile by the one that is stored for its program, GPU model and number of GPUs,
 * without the measurements above highest_w, since it may be older than the present limit. Returns
 * false if there is none; the profile is then unchanged.
 */
bool lull_stored_limits_recall(struct lull_limit_profile *profile, double highest_w);

/* Stores the profile. Errors: err is set, with the database's path; else it is left unchanged. */
void lull_stored_limits_remember(const struct lull_limit_profile *profile, struct lull_error *err);

/* Records in the profile that this user has made a choice now. */
void lull_stored_limits_sign(struct lull_limit_profile *profile);

#endif
