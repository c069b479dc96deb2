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
 * without what was measured above highest_w: it may be older than the limit that is allowed now.
 * False: there is none, and the profile is as it was.
 */
bool lull_stored_limits_recall(struct lull_limit_profile *profile, double highest_w);

/* Stores the profile. Errors: err is set, with the database's path; else it is left unchanged. */
void lull_stored_limits_remember(const struct lull_limit_profile *profile, struct lull_error *err);

/* Notes in the profile that this user has chosen now. */
void lull_stored_limits_sign(struct lull_limit_profile *profile);

#endif
