/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/time.h"

#include <stdlib.h>

#include "base/clock.h"
#include "emulator/node.h"

int lull_sweep_time_open(struct lull_sweep_time *time_out, struct lull_error *err)
{
    const char *const path = getenv(LULL_EMULATED_NODE_VARIABLE);

    *time_out = (struct lull_sweep_time){NULL};
    if (path == NULL || *path == '\0')
        return 0;
    return lull_node_open(path, &time_out->node, err);
}

void lull_sweep_time_close(struct lull_sweep_time *time)
{
    lull_node_close(time->node);
    time->node = NULL;
}

static int64_t now_ns(const struct lull_sweep_time *time)
{
    return time->node != NULL ? lull_node_now_ns(time->node) : lull_now_ns();
}

double lull_sweep_time_now(const struct lull_sweep_time *time)
{
    return (double)now_ns(time) * 1e-9;
}

void lull_sweep_time_sleep(const struct lull_sweep_time *time, double seconds)
{
    const int64_t until_ns = now_ns(time) + (int64_t)(seconds * 1e9);

    lull_sleep_until_ns(time->node != NULL ? lull_node_real_ns(time->node, until_ns) : until_ns);
}
