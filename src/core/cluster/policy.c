/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy.h"

#include <errno.h>
#include <string.h>

const struct lull_cluster_policy_ops *const *lull_cluster_policy_all(void)
{
    static const struct lull_cluster_policy_ops *const all[] = {
        &lull_cluster_policy_fifo,
        &lull_cluster_policy_edf,
        &lull_cluster_policy_sjf,
        &lull_cluster_policy_lpt,
        &lull_cluster_policy_backfill,
        &lull_cluster_policy_backfill_conservative,
        &lull_cluster_policy_greedy_energy,
        &lull_cluster_policy_srtf,
        &lull_cluster_policy_srsf,
        &lull_cluster_policy_hdf,
        &lull_cluster_policy_powerflow,
        &lull_cluster_policy_pd_rats,
        NULL,
    };

    return all;
}

const struct lull_cluster_policy_ops *const *lull_cluster_policy_of_values(void)
{
    static const struct lull_cluster_policy_ops *const all[] = {&lull_cluster_policy_pd_rats_safe,
                                                                NULL};

    return all;
}

static const struct lull_cluster_policy_ops *
find_among(const struct lull_cluster_policy_ops *const *ops, const char *name)
{
    while (*ops != NULL && strcmp((*ops)->name, name) != 0)
        ops++;
    return *ops;
}

const struct lull_cluster_policy_ops *lull_cluster_policy_find(const char *name)
{
    const struct lull_cluster_policy_ops *found = find_among(lull_cluster_policy_all(), name);

    return found != NULL ? found : find_among(lull_cluster_policy_of_values(), name);
}

bool lull_cluster_policy_needs_value(const struct lull_cluster_policy_ops *ops)
{
    return find_among(lull_cluster_policy_of_values(), ops->name) != NULL;
}

int lull_cluster_policy_set(const struct lull_cluster_policy_ops *ops, double setting,
                            struct lull_cluster_policy_ops *set_out, struct lull_error *err)
{
    if (ops->knob == NULL)
        return lull_error_set(err, -EINVAL, "policy %s has no knob", ops->name);
    if (!(setting >= ops->knob->least && setting <= ops->knob->most))
        return lull_error_set(err, -EINVAL, "policy %s: its knob, %s, goes from %g to %g",
                              ops->name, ops->knob->what, ops->knob->least, ops->knob->most);
    *set_out = *ops;
    set_out->setting = setting;
    set_out->is_set = true;
    return 0;
}

int lull_cluster_policy_create(const struct lull_cluster_policy_ops *ops,
                               const struct lull_cluster *cluster,
                               const struct lull_cluster_jobs *jobs,
                               struct lull_cluster_policy **policy_out)
{
    const int rc = ops->create(cluster, jobs, policy_out);

    if (rc == 0 && ops->is_set)
        ops->turn(*policy_out, ops->setting);
    return rc;
}
