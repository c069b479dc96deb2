/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/stretches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct lull_cluster_stretches *stretches)
{
    const size_t wanted = stretches->room == 0 ? 64 : stretches->room * 2;
    struct lull_cluster_stretch *larger;

    if (stretches->count < stretches->room)
        return 0;
    larger = reallocarray(stretches->all, wanted, sizeof(*larger));
    if (larger == NULL)
        return -ENOMEM;
    stretches->all = larger;
    stretches->room = wanted;
    return 0;
}

int lull_cluster_stretches_add(struct lull_cluster_stretches *stretches,
                               const struct lull_cluster_stretch *stretch)
{
    const size_t size = stretch->share_count * sizeof(*stretch->shares);
    struct lull_cluster_share *const shares = malloc(size > 0 ? size : 1);

    if (shares == NULL || make_room(stretches) < 0) {
        free(shares);
        return -ENOMEM;
    }
    memcpy(shares, stretch->shares, size);
    stretches->all[stretches->count] = *stretch;
    stretches->all[stretches->count++].shares = shares;
    return 0;
}

void lull_cluster_stretches_fini(struct lull_cluster_stretches *stretches)
{
    for (size_t i = 0; i < stretches->count; i++)
        free((void *)stretches->all[i].shares);
    free(stretches->all);
    *stretches = (struct lull_cluster_stretches){0};
}
