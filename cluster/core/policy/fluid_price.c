/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/fluid_price.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The steps of the search for prices, the time for which past
 * jobs count, and when prices are computed again. All of it was tuned with
 * cluster/bench/bench_pd_rats.c, on other seeds than those that its tests draw. */
enum {
    STEPS = 32,
    ROUNDS = 2,
    STALE = 8, /* jobs after which prices are computed again */
};

static const double first_step = 0.2;
static const double step_ratio = 0.87;
static const double window_means = 3.0; /* the memory's time constant, in mean times of jobs */
static const double stale_windows = 0.05;
static const double first_window = 0.1; /* of it counts as seen when the first job comes */

struct lull_fluid_price {
    const struct lull_cluster_jobs *jobs;
    const uint64_t *gpus;
    uint32_t type_count;
    double second_j;
    uint32_t seen[LULL_FLUID_PRICE_SEEN]; /* a ring */
    int64_t seen_ns[LULL_FLUID_PRICE_SEEN];
    double min_ns[LULL_FLUID_PRICE_SEEN]; /* its shortest time */
    size_t count;                         /* of all that came */
    double sum_ns;                        /* of min_ns */
    int64_t priced_ns;
    size_t priced_count;
    double *prices; /* [type] */
    double *load;   /* [type], scratch: GPU-s requested */
};

int lull_fluid_price_create(const struct lull_cluster_jobs *jobs, const uint64_t *gpus,
                            uint32_t type_count, double second_j,
                            struct lull_fluid_price **price_out)
{
    struct lull_fluid_price *price = calloc(1, sizeof(*price));

    if (price == NULL)
        return -ENOMEM;
    price->jobs = jobs;
    price->gpus = gpus;
    price->type_count = type_count;
    price->second_j = second_j;
    price->prices = calloc(type_count, sizeof(*price->prices));
    price->load = calloc(type_count, sizeof(*price->load));
    if (price->prices == NULL || price->load == NULL) {
        lull_fluid_price_destroy(price);
        return -ENOMEM;
    }
    *price_out = price;
    return 0;
}

void lull_fluid_price_destroy(struct lull_fluid_price *price)
{
    if (price == NULL)
        return;
    free(price->prices);
    free(price->load);
    free(price);
}

static size_t fluid_price_count(const struct lull_fluid_price *price)
{
    return price->count < LULL_FLUID_PRICE_SEEN ? price->count : LULL_FLUID_PRICE_SEEN;
}

void lull_fluid_price_add(struct lull_fluid_price *price, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *came = &price->jobs->all[job];
    const size_t at = price->count % LULL_FLUID_PRICE_SEEN;
    int64_t min_ns = came->points[0].time_ns;

    for (uint32_t i = 1; i < came->point_count; i++)
        if (came->points[i].time_ns < min_ns)
            min_ns = came->points[i].time_ns;
    if (price->count >= LULL_FLUID_PRICE_SEEN)
        price->sum_ns -= price->min_ns[at];
    price->seen[at] = job;
    price->seen_ns[at] = now_ns;
    price->min_ns[at] = (double)min_ns;
    price->sum_ns += (double)min_ns;
    price->count++;
}

double lull_fluid_price_mean_ns(const struct lull_fluid_price *price)
{
    return price->count > 0 ? price->sum_ns / (double)fluid_price_count(price) : 0.0;
}

/* The operating point that a job would choose at these prices if it could start at once;
 * point_count: none. */
static uint32_t fluid_price_choose(const struct lull_fluid_price *price,
                                   const struct lull_cluster_job *job)
{
    double best_j = job->value_j > 0.0 ? 0.0 : -INFINITY;
    uint32_t best = job->point_count;

    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];
        const double net_j =
            lull_cluster_gain_j(job, i, job->arrival_ns, price->second_j) -
            price->prices[point->type] * point->gpus * (double)point->time_ns * 1e-9;

        if (point->gpus > price->gpus[point->type] || net_j <= best_j)
            continue;
        best_j = net_j;
        best = i;
    }
    return best;
}

/* Returns the weight of the job at place `at`. It decays with the time since the job arrived. */
static double fluid_price_share(const struct lull_fluid_price *price, size_t at, int64_t now_ns,
                                double window_ns)
{
    return exp(-(double)(now_ns - price->seen_ns[at]) / window_ns);
}

/* Adds up the GPU-seconds of each type that the jobs would request at the prices as they are. */
static void add_load(struct lull_fluid_price *price, const double *shares)
{
    for (uint32_t type = 0; type < price->type_count; type++)
        price->load[type] = 0.0;
    for (size_t i = 0; i < fluid_price_count(price); i++) {
        const struct lull_cluster_job *job = &price->jobs->all[price->seen[i]];
        const uint32_t point = fluid_price_choose(price, job);

        if (point < job->point_count)
            price->load[job->points[point].type] +=
                shares[i] * job->points[point].gpus * (double)job->points[point].time_ns * 1e-9;
    }
}

/* A price of a GPU-second that no job would pay. What jobs that have to run would pay is set so
 * high that it outweighs all else. */
static double most_price(const struct lull_fluid_price *price)
{
    double most = 0.0;

    for (size_t i = 0; i < fluid_price_count(price); i++) {
        const struct lull_cluster_job *job = &price->jobs->all[price->seen[i]];

        for (uint32_t m = 0; m < job->point_count; m++) {
            const struct lull_cluster_point *point = &job->points[m];
            const double gpu_s = point->gpus * (double)point->time_ns * 1e-9;

            most = fmax(most, job->value_j > 0.0
                                  ? job->value_j / gpu_s
                                  : 4.0 * (point->energy_j / gpu_s +
                                           price->second_j * job->weight / point->gpus));
        }
    }
    return most;
}

/* Steps along the dual's subgradient, the available less the
 * requested GPUs. Steps are relative to the highest price and
 * shrink. */
static void fluid_price_descend(struct lull_fluid_price *price, const double *shares, double span_s,
                                double most)
{
    double step = first_step * most;

    for (int i = 0; i < STEPS; i++, step *= step_ratio) {
        add_load(price, shares);
        for (uint32_t type = 0; type < price->type_count; type++) {
            const double room_s = span_s * (double)price->gpus[type];
            const double excess = room_s > 0.0 ? price->load[type] / room_s - 1.0 : 0.0;

            price->prices[type] =
                fmin(fmax(price->prices[type] + step * fmin(fmax(excess, -1.0), 1.0), 0.0), most);
        }
    }
}

static void price_all(struct lull_fluid_price *price, int64_t now_ns, double window_ns)
{
    const size_t oldest =
        price->count < LULL_FLUID_PRICE_SEEN ? 0 : price->count % LULL_FLUID_PRICE_SEEN;
    const double past = (double)(now_ns - price->seen_ns[oldest]) / window_ns + first_window;
    const double span_s = window_ns * (1.0 - exp(-past)) * 1e-9;
    const double most = most_price(price);
    double shares[LULL_FLUID_PRICE_SEEN];

    for (size_t i = 0; i < fluid_price_count(price); i++)
        shares[i] = fluid_price_share(price, i, now_ns, window_ns);
    /* The search begins at 0, not at the last prices, so that prices depend only on the jobs seen,
       not on how often prices were requested. With several types of GPU one round is then too few
       (up to 5 % of the gain is lost); more than two bring no further gain. */
    for (uint32_t type = 0; type < price->type_count; type++)
        price->prices[type] = 0.0;
    for (int i = 0; i < ROUNDS; i++)
        fluid_price_descend(price, shares, span_s, most);
}

const double *lull_fluid_price_prices(struct lull_fluid_price *price, int64_t now_ns)
{
    const double window_ns = window_means * lull_fluid_price_mean_ns(price);

    if (price->count == 0 ||
        (price->priced_count > 0 && price->count < price->priced_count + STALE &&
         (double)(now_ns - price->priced_ns) < stale_windows * window_ns))
        return price->prices;
    assert(window_ns > 0.0);
    price_all(price, now_ns, window_ns);
    price->priced_ns = now_ns;
    price->priced_count = price->count;
    return price->prices;
}
