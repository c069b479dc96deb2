/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/stored_limits.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "base/state_directory.h"

/* Drops measurements above the limit that is allowed now. */
static void drop_above(struct lull_limit_profile *profile, double highest_w)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < profile->count; i++)
        if (profile->measures[i].point.limit_w <= highest_w + 0.5)
            profile->measures[kept++] = profile->measures[i];
    profile->count = kept;
}

/* ---- in a process of its own: the file system of the state may hang -------------------------- */

static int stored_limits_load(void *context, struct lull_error *err)
{
    struct lull_limit_profile *const profile = context;
    struct lull_limit_profile found = {0};
    struct lull_store *store = NULL;
    int result = lull_store_open(NULL, &lull_limit_profiles_schema, false, &store, err);

    if (result == 0)
        result = lull_limit_profile_load(store, profile->program, profile->gpu_name,
                                         profile->gpu_count, &found, err);
    lull_store_close(store);
    if (result == 0)
        *profile = found;
    return result;
}

static int stored_limits_save(void *context, struct lull_error *err)
{
    const struct lull_limit_profile *const profile = context;
    struct lull_store *store = NULL;
    int result = lull_store_open(NULL, &lull_limit_profiles_schema, true, &store, err);

    if (result == 0)
        result = lull_limit_profile_save(store, profile, err);
    lull_store_close(store);
    return result;
}

/* Calls one of these with a copy of the profile, which it may replace. */
static int stored_limits_do(int (*work)(void *context, struct lull_error *err),
                            struct lull_limit_profile *profile, struct lull_error *err)
{
    char place[PATH_MAX];
    const int result = lull_state_directory_find(NULL, place, sizeof(place), err);

    if (result < 0)
        return result;
    return lull_path_do(place, LULL_PATH_FILE_MS, work, profile, sizeof(*profile), err);
}

/* ---------------------------------------------------------------------------------------------- */

bool lull_stored_limits_recall(struct lull_limit_profile *profile, double highest_w)
{
    struct lull_limit_profile found = *profile;
    struct lull_error err = {0};
    const int result = stored_limits_do(stored_limits_load, &found, &err);

    if (result < 0 && result != -ENOENT)
        lull_log(LULL_LOG_WARNING, "run", "%s", err.text);
    if (result < 0)
        return false;
    drop_above(&found, highest_w);
    if (found.count == 0)
        return false;
    *profile = found;
    return true;
}

void lull_stored_limits_remember(const struct lull_limit_profile *profile, struct lull_error *err)
{
    struct lull_limit_profile copy = *profile;

    stored_limits_do(stored_limits_save, &copy, err);
}

void lull_stored_limits_sign(struct lull_limit_profile *profile)
{
    const struct passwd *user = getpwuid(geteuid());

    profile->chosen_s = time(NULL);
    snprintf(profile->chosen_by, sizeof(profile->chosen_by), "%s",
             user != NULL ? user->pw_name : "unknown");
}
