/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/limit_table.h"
#include "governor/limits/power_limits_state.h"

static const char *const stage_names[] = {
    [LULL_LIMITS_WAITING] = "waiting",     [LULL_LIMITS_WARMING] = "warming up",
    [LULL_LIMITS_PROFILING] = "profiling", [LULL_LIMITS_HELD] = "held",
    [LULL_LIMITS_GIVEN_UP] = "given up",
};

/* Settings that the search has left out; 0 for a stored profile. */
static uint32_t pruned_of(const struct lull_limits *limits)
{
    uint32_t measured;
    uint32_t count;

    if (limits->search == NULL)
        return 0;
    lull_limit_search_measures(limits->search, &measured, &count);
    return count - measured;
}

json_t *lull_limits_json(const struct lull_limits *limits)
{
    if (limits == NULL)
        return json_null();
    return json_pack(
        "{s:s, s:o, s:b, s:f, s:I, s:o}", "state", stage_names[limits->stage], "held_w",
        limits->stage == LULL_LIMITS_HELD ? json_real(limits->asked.limit_w) : json_null(),
        "from_stored_profile", limits->is_stored, "profiling_s", limits->spent_s, "settings_pruned",
        (json_int_t)pruned_of(limits), "profile",
        limits->profile.count > 0 ? lull_limit_table_json(&limits->profile) : json_null());
}

void lull_limits_print(const struct lull_limits *limits, FILE *out)
{
    char choice[160];

    if (limits == NULL || limits->stage != LULL_LIMITS_HELD)
        return;
    if (limits->profile.count == 0) {
        fprintf(out, "  power limit held at %g W\n", limits->asked.limit_w);
        return;
    }
    lull_limit_table_choice(&limits->profile, choice, sizeof(choice));
    if (limits->is_stored)
        fprintf(out, "  power limit %s; from a stored profile\n", choice);
    else
        fprintf(out, "  power limit %s; profiled in %.0f s of the job\n", choice, limits->spent_s);
    lull_limit_table_print(&limits->profile, out);
}
