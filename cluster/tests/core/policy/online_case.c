/* SPDX-License-Identifier: Apache-2.0 */
#include "online_case.h"

#include <math.h>
#include <stdlib.h>

#include "core/stats/random.h"

enum { MAX_JOBS = 1000, CLOCKS = 3, MOST_TYPES = 2 };

static const double slot_j = 60e3; /* of a GPU at full clocks in a slot: 200 W */

struct shape {
    const char *name;
    uint32_t gpus;
    uint32_t slots;
    uint32_t types;
    bool is_tailed;
    bool is_bursty;
    double clocks[CLOCKS];
};

static const struct shape shapes[ONLINE_FAMILIES] = {
    [ONLINE_PLAIN] = {"plain", 32, 96, 1, false, false, {1.0, 0.95, 0.9}},
    [ONLINE_CLOCKS] = {"clocks", 32, 96, 1, false, false, {1.0, 0.85, 0.7}},
    [ONLINE_BURSTS] = {"bursts", 32, 96, 1, false, true, {1.0, 0.85, 0.7}},
    [ONLINE_TAIL] = {"tail", 64, 192, 1, true, false, {1.0, 0.85, 0.7}},
    [ONLINE_TYPES] = {"types", 32, 96, 2, false, false, {1.0, 0.85, 0.7}},
    [ONLINE_LARGE] = {"large", 0, 288, 1, true, false, {1.0, 0.85, 0.7}},
};

/* A drawn case owns all that it refers to. */
struct owned {
    struct online_case it;
    struct lull_cluster_type types[MOST_TYPES];
    struct lull_cluster_node *nodes;
    struct lull_cluster_job jobs[MAX_JOBS];
    struct lull_cluster_point points[MAX_JOBS][CLOCKS * MOST_TYPES];
};

static uint32_t between(struct lull_random *random, uint32_t least, uint32_t most)
{
    return least + (uint32_t)lull_random_below(random, most - least + 1);
}

static double within(struct lull_random *random, double least, double most)
{
    return least + (most - least) * lull_random_uniform(random);
}

static void draw_size(struct lull_random *random, const struct shape *shape, uint32_t *gpus,
                      uint32_t *slots)
{
    static const uint32_t gangs[] = {1, 2, 4, 8, 16};
    static const double up_to[] = {0.55, 0.7, 0.82, 0.95, 1.0};
    const double place = lull_random_uniform(random);
    uint32_t at = 0;

    if (!shape->is_tailed) {
        *gpus = between(random, 1, 8);
        *slots = between(random, 2, 12);
        return;
    }
    while (place >= up_to[at])
        at++;
    *gpus = gangs[at];
    *slots = (uint32_t)fmin(fmax(ceil(exp(lull_random_normal(random, 1.2, 1.0))), 1.0), 48.0);
}

static uint32_t draw_arrival(struct lull_random *random, const struct shape *shape,
                             const double *bursts, uint32_t burst_count)
{
    double at = lull_random_uniform(random);

    if (shape->is_bursty && lull_random_uniform(random) < 0.8)
        at = lull_random_normal(random, bursts[lull_random_below(random, burst_count)], 0.02);
    return (uint32_t)(fmin(fmax(at, 0.0), 0.999) * shape->slots);
}

/* t = t0 (1 + share (1/f - 1)), P = 0.4 + 0.6 f^3 of full: the second type at half the power takes
 * half as long again. */
static void draw_points(struct lull_random *random, const struct shape *shape, uint32_t gpus,
                        uint32_t slots, struct lull_cluster_job *job,
                        struct lull_cluster_point *points)
{
    const double share = within(random, 0.3, 1.0);

    job->points = points;
    for (uint32_t type = 0; type < shape->types; type++)
        for (uint32_t i = 0; i < CLOCKS; i++) {
            const double clock = shape->clocks[i];
            const double time =
                (type == 0 ? 1.0 : 1.5) * slots * (1.0 + share * (1.0 / clock - 1.0));
            const double power = (type == 0 ? 1.0 : 0.5) * (0.4 + 0.6 * clock * clock * clock);

            points[job->point_count++] = (struct lull_cluster_point){
                .type = type,
                .gpus = gpus,
                .sm_mhz = (uint32_t)(1400.0 * clock),
                .time_ns = (int64_t)ceil(time - 1e-9) * ONLINE_SLOT_NS,
                .energy_j = slot_j * time * power * gpus,
            };
        }
}

/* Returns whether it can end within the slots at all. */
static bool draw_job(struct lull_random *random, const struct shape *shape, const double *bursts,
                     uint32_t burst_count, struct lull_cluster_job *job,
                     struct lull_cluster_point *points, double *work_out)
{
    uint32_t gpus;
    uint32_t slots;
    uint32_t arrival;
    double end;

    draw_size(random, shape, &gpus, &slots);
    arrival = draw_arrival(random, shape, bursts, burst_count);
    end = fmin(arrival + ceil(within(random, 1.2, 4.0) * slots), shape->slots);
    *work_out = (double)gpus * slots;
    *job = (struct lull_cluster_job){
        .arrival_ns = arrival * ONLINE_SLOT_NS,
        .deadline_ns = (int64_t)end * ONLINE_SLOT_NS,
        .weight = 1.0,
        .value_j = 2.0 * slot_j * within(random, 1.5, 4.5) * *work_out,
    };
    draw_points(random, shape, gpus, slots, job, points);
    return arrival + slots <= end;
}

static int compare(const void *left, const void *right)
{
    const struct lull_cluster_job *a = left;
    const struct lull_cluster_job *b = right;

    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return (a->points > b->points) - (a->points < b->points);
}

static bool make_cluster(struct owned *owned, const struct shape *shape, uint32_t gpus)
{
    const uint32_t count = gpus * shape->types;

    owned->nodes = calloc(count, sizeof(*owned->nodes));
    if (owned->nodes == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        owned->nodes[i] = (struct lull_cluster_node){.type = i / gpus, .gpus = 1};
    owned->types[0].name = "full";
    owned->types[1].name = "thrifty";
    owned->it.cluster = (struct lull_cluster){owned->types, shape->types, owned->nodes, count, 1};
    return true;
}

struct online_case *online_case_draw(enum online_family family, double load_ratio, uint64_t seed)
{
    const struct shape *shape = &shapes[family];
    struct owned *owned = calloc(1, sizeof(*owned));
    struct lull_random random;
    double bursts[6];
    uint32_t burst_count;
    size_t most = MAX_JOBS;
    uint32_t gpus = shape->gpus > 0 ? shape->gpus : (uint32_t)(70.0 / load_ratio);
    double work = 0.0;
    double room;
    size_t count = 0;

    if (owned == NULL || !make_cluster(owned, shape, gpus < 16 ? 16 : gpus)) {
        free(owned);
        return NULL;
    }
    lull_random_init(&random, seed * 64 + (uint64_t)family * 8 + (uint64_t)(load_ratio * 2.0));
    burst_count = between(&random, 3, 6);
    for (uint32_t i = 0; i < burst_count; i++)
        bursts[i] = lull_random_uniform(&random);
    room = (double)owned->it.cluster.node_count * shape->slots;
    if (load_ratio <= 0.0)
        most = between(&random, 20, 150);
    while (count < most && (load_ratio <= 0.0 || shape->gpus == 0 || work < load_ratio * room)) {
        double asked;

        if (!draw_job(&random, shape, bursts, burst_count, &owned->jobs[count],
                      owned->points[count], &asked))
            continue;
        work += asked;
        count++;
    }
    qsort(owned->jobs, count, sizeof(owned->jobs[0]), compare);
    owned->it.name = shape->name;
    owned->it.jobs = (struct lull_cluster_jobs){owned->jobs, count};
    owned->it.slots = shape->slots;
    owned->it.load_ratio = work / room;
    return &owned->it;
}

void online_case_destroy(struct online_case *it)
{
    struct owned *owned = (struct owned *)it;

    if (owned == NULL)
        return;
    free(owned->nodes);
    free(owned);
}

struct lull_slotting online_case_slotting(const struct online_case *it)
{
    return (struct lull_slotting){ONLINE_SLOT_NS, it->slots * ONLINE_SLOT_NS, 0.0,
                                  LULL_SLOTS_UNCAPPED};
}
