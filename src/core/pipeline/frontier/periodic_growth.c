/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/periodic_growth.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

enum { BEGIN, END };

/* Lists the column's operations. place: that of every operation of the small graph. */
static int fill(struct lull_periodic_growth *growth,
                const struct lull_periodic_expansion *expansion, const uint32_t *place,
                struct lull_error *err)
{
    const size_t count = expansion->problem->small.graph->op_count;

    for (size_t i = 0; i < count; i++) {
        struct lull_periodic_op_key key = expansion->small[i];
        const struct lull_periodic_op_key *later;

        if (key.op.microbatch < expansion->column ||
            key.op.microbatch >= expansion->column + expansion->period)
            continue;
        key.op.microbatch += expansion->period;
        later = lull_periodic_expansion_find(expansion, &key);
        if (later == NULL)
            return lull_error_set(err, -EINVAL,
                                  "the pipeline does not repeat itself in the middle");
        growth->ops[growth->op_count++] =
            (struct lull_periodic_column_op){place[key.index], place[later->index]};
    }
    return 0;
}

int lull_periodic_growth_init(struct lull_periodic_growth *growth,
                              const struct lull_periodic_expansion *expansion,
                              struct lull_error *err)
{
    const struct lull_pipeline_problem *small = &expansion->problem->small;
    const size_t count = small->graph->op_count;
    uint32_t *place = malloc(count * sizeof(*place));
    int status;

    *growth = (struct lull_periodic_growth){.ops = malloc(count * sizeof(*growth->ops)),
                                            .blocking_w = lull_pipeline_blocking_sum_w(small)};
    if (place == NULL || growth->ops == NULL) {
        free(place);
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    }
    for (uint32_t i = 0; i < count; i++)
        place[small->graph->topological[i]] = i;
    status = fill(growth, expansion, place, err);
    free(place);
    return status;
}

void lull_periodic_growth_fini(struct lull_periodic_growth *growth)
{
    free(growth->ops);
    *growth = (struct lull_periodic_growth){.ops = NULL};
}

/* How much flows at least through both an operation and the same one a period later. */
static int64_t flow_through(const struct lull_frontier_network *network,
                            const struct lull_periodic_column_op *op)
{
    const int64_t here = network->ops[op->here].flow;
    const int64_t later = network->ops[op->later].flow;

    return lull_earlier_ns(here, later);
}

/* A period's time: the distance of an operation from the same one a period later. It takes the
 * operation through which most flows, since there is no slack there. */
static int64_t period_ns(const struct lull_periodic_growth *growth,
                         const struct lull_frontier_network *network)
{
    const struct lull_periodic_column_op *best = &growth->ops[0];

    assert(growth->op_count > 0);
    for (size_t i = 1; i < growth->op_count; i++) {
        if (flow_through(network, &growth->ops[i]) > flow_through(network, best))
            best = &growth->ops[i];
    }
    return network->potential[2 * best->later + BEGIN] - network->potential[2 * best->here + BEGIN];
}

static double column_nj(const struct lull_periodic_growth *growth,
                        const struct lull_frontier_network *network)
{
    double energy_nj = 0.0;

    for (size_t i = 0; i < growth->op_count; i++) {
        const uint32_t here = growth->ops[i].here;
        const struct lull_frontier_flow_op *op = &network->ops[here];

        /* A window longer than the slowest corner's length costs what that does. */
        energy_nj += lull_curve_energy_nj(&network->curves.all[op->curve], network->curves.unit_w,
                                          network->potential[2 * here + END] -
                                              network->potential[2 * here + BEGIN]);
    }
    return energy_nj;
}

struct lull_frontier_point lull_periodic_growth_extend(const struct lull_periodic_growth *growth,
                                                       const struct lull_frontier *small,
                                                       int64_t periods)
{
    const struct lull_frontier_network *network = lull_frontier_network(small);
    const int64_t more_ns = period_ns(growth, network);
    struct lull_frontier_point point = lull_frontier_here(small);

    point.time_ns += periods * more_ns;
    point.energy_j += (double)periods *
                      (column_nj(growth, network) + growth->blocking_w * (double)more_ns) * 1e-9;
    return point;
}
