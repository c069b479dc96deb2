/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy.h"

#include <string.h>

const struct lull_cluster_policy_ops *const *lull_cluster_policy_all(void)
{
    static const struct lull_cluster_policy_ops *const all[] = {
        &lull_cluster_policy_fifo,
        &lull_cluster_policy_edf,
        &lull_cluster_policy_sjf,
        NULL,
    };

    return all;
}

const struct lull_cluster_policy_ops *lull_cluster_policy_find(const char *name)
{
    for (const struct lull_cluster_policy_ops *const *ops = lull_cluster_policy_all(); *ops != NULL;
         ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}
