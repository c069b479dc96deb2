/*
 * The rule of posted_prices.h on problems from standard input, for test_rule_exact.py, which counts
 * every decision again with hundreds of digits. A problem is numbers: how many types and jobs there
 * are, and 1 where the least ratio is kept, 0 where the typical one is; of each type, and of the
 * storage, GPUs (MB/s), gang, L and U; of each job how many operating points it has, and of each of
 * these type, GPUs, slots, first and last start, gain, what a slot later costs, and MB/s.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/core/model/schedule_set.h"
#include "cluster/core/policy/posted_prices.h"

enum { MOST_TYPES = 4 };

static bool read_job(struct lull_slot_point *points, struct lull_slot_job *job)
{
    *job = (struct lull_slot_job){.points = points};
    if (scanf("%u", &job->point_count) != 1 || job->point_count > LULL_CLUSTER_MAX_POINTS)
        return false;
    for (uint32_t i = 0; i < job->point_count; i++) {
        double gain_j;

        points[i] = (struct lull_slot_point){0};
        if (scanf("%u %u %u %u %u %lf %lf %u", &points[i].type, &points[i].gpus, &points[i].slots,
                  &points[i].first, &points[i].last, &gain_j, &points[i].delay_j,
                  &points[i].reads) != 8)
            return false;
        points[i].cost_j = -gain_j;
    }
    return true;
}

/* Makes prices for the types, and tells their laws. */
static struct lull_prices *make_prices(uint32_t types, bool is_least)
{
    struct lull_price_law laws[MOST_TYPES + 1] = {0};
    struct lull_price_law *const storage = &laws[types];
    struct lull_prices *prices;
    double ratio;

    for (uint32_t i = 0; i <= types; i++) {
        if (scanf("%u %u %lf %lf", &laws[i].gpus, &laws[i].gang, &laws[i].min_j, &laws[i].max_j) !=
            4)
            abort();
        lull_price_law_tune(&laws[i]);
    }
    ratio = lull_bid_ratio(laws, types, storage);
    if (!is_least)
        ratio = lull_schedule_ratio(NULL, ratio);
    for (uint32_t i = 0; i <= types; i++) {
        if (!is_least && i < types)
            lull_price_law_fit(&laws[i], storage, ratio);
        printf("%.17g %u\n", laws[i].bend, laws[i].free);
    }
    printf("%.17g\n", ratio);
    if (lull_prices_create(laws, types, storage, ratio, &prices) < 0)
        abort();
    return prices;
}

int main(void)
{
    uint32_t types, jobs, is_least;

    while (scanf("%u %u %u", &types, &jobs, &is_least) == 3 && types <= MOST_TYPES) {
        struct lull_prices *prices = make_prices(types, is_least != 0);

        for (uint32_t i = 0; i < jobs; i++) {
            struct lull_slot_point points[LULL_CLUSTER_MAX_POINTS];
            struct lull_slot_job job;
            struct lull_bid bid;

            if (!read_job(points, &job))
                return 2;
            if (lull_bid_choose(prices, &job, &bid)) {
                lull_bid_admit(prices, &job, &bid);
                printf("%u %u\n", bid.choice.point, bid.choice.start);
            } else {
                printf("-1 %d\n", (int)bid.refusal);
            }
        }
        fflush(stdout);
        lull_prices_destroy(prices);
    }
    return 0;
}
