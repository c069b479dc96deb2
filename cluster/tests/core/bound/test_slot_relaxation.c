/*
 * Slots bound what they represent: any schedule in continuous time, moved to slots as slot
 * relaxation.h says, fits there and costs no more. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "cluster/core/bound/slot_relaxation.h"
#include "cluster/tests/core/model/slot_cost.h"
#include "tests/core/property.h"

enum { SEEDS = 4000, JOBS = 14, POINTS = 3, NODES = 3, TYPES = 2, HORIZON = 1000 };

struct real {
    struct lull_cluster_type types[TYPES];
    struct lull_cluster_node nodes[NODES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[JOBS][POINTS];
    struct lull_cluster_job all[JOBS];
    struct lull_cluster_jobs jobs;
    uint32_t room[2 * TYPES]; /* [pool * TYPES + type] */
    int64_t unit_ns;          /* all its times are whole units */
    bool may_reclock;         /* all operating points of a job are of one type and number of GPUs */
    /* The schedule. */
    uint32_t point[JOBS];
    struct lull_cluster_point run[JOBS]; /* in that operating point, or a mixture of it */
    int64_t start_ns[JOBS];
    double cost_j;
};

static int64_t draw_ns(struct lull_random *random, const struct real *it, uint64_t units)
{
    return it->unit_ns * (int64_t)lull_random_below(random, units);
}

static void draw_job(struct lull_random *random, struct real *it, size_t job)
{
    struct lull_cluster_job *out = &it->all[job];

    *out = (struct lull_cluster_job){
        .arrival_ns = draw_ns(random, it, HORIZON / 2),
        .deadline_ns = LULL_CLUSTER_NEVER,
        .weight = 0.1 + lull_random_uniform(random),
        .pool = (uint32_t)lull_random_below(random, 2),
        .point_count = POINTS,
        .points = it->points[job],
    };
    for (int m = 0; m < POINTS; m++)
        it->points[job][m] = (struct lull_cluster_point){
            .type = (uint32_t)lull_random_below(random, TYPES),
            .gpus = 1 + (uint32_t)lull_random_below(random, 4),
            .time_ns = it->unit_ns + draw_ns(random, it, HORIZON / 4),
            .energy_j = 100.0 * lull_random_uniform(random),
        };
    for (int m = 1; it->may_reclock && m < POINTS; m++) {
        it->points[job][m].type = it->points[job][0].type;
        it->points[job][m].gpus = it->points[job][0].gpus;
    }
}

static void draw(struct lull_random *random, int64_t unit_ns, bool may_reclock, struct real *it)
{
    *it = (struct real){.unit_ns = unit_ns, .may_reclock = may_reclock};
    for (uint32_t i = 0; i < NODES; i++) {
        it->nodes[i] = (struct lull_cluster_node){
            .pool = (uint32_t)lull_random_below(random, 2),
            .type = (uint32_t)lull_random_below(random, TYPES),
            .gpus = 1 + (uint32_t)lull_random_below(random, 4),
        };
        it->room[it->nodes[i].pool * TYPES + it->nodes[i].type] += it->nodes[i].gpus;
    }
    it->cluster = (struct lull_cluster){it->types, TYPES, it->nodes, NODES, 2};
    for (size_t i = 0; i < JOBS; i++)
        draw_job(random, it, i);
}

/* Returns the number of GPUs of a place that are in use at an instant. */
static uint32_t taken(const struct real *it, size_t jobs, uint32_t place, int64_t at_ns)
{
    uint32_t gpus = 0;

    for (size_t i = 0; i < jobs; i++) {
        const struct lull_cluster_point *point = &it->run[i];

        if (it->all[i].pool * TYPES + point->type == place && it->start_ns[i] <= at_ns &&
            at_ns < it->start_ns[i] + point->time_ns)
            gpus += point->gpus;
    }
    return gpus;
}

/* The schedule is looked at in every unit of time. */
static bool fits(const struct real *it, size_t job)
{
    const struct lull_cluster_point *point = &it->run[job];
    const uint32_t place = it->all[job].pool * TYPES + point->type;

    for (int64_t t = it->start_ns[job]; t < it->start_ns[job] + point->time_ns; t += it->unit_ns)
        if (taken(it, job, place, t) + point->gpus > it->room[place])
            return false;
    return true;
}

/* Chooses an operating point, of which a job that may be reclocked takes a mixture with another. */
static void draw_run(struct lull_random *random, struct real *it, size_t job)
{
    const struct lull_cluster_point *other = &it->points[job][lull_random_below(random, POINTS)];
    struct lull_cluster_point *run = &it->run[job];

    it->point[job] = (uint32_t)lull_random_below(random, POINTS);
    *run = it->points[job][it->point[job]];
    if (it->may_reclock && other->time_ns > run->time_ns) {
        const int64_t more_ns =
            draw_ns(random, it, (uint64_t)((other->time_ns - run->time_ns) / it->unit_ns) + 1);

        run->energy_j += (double)more_ns / (double)(other->time_ns - run->time_ns) *
                         (other->energy_j - run->energy_j);
        run->time_ns += more_ns;
    }
}

/* Jobs one after the other, each at a random place in time; those that find none are dropped. */
static void schedule(struct lull_random *random, struct real *it, double completion_w)
{
    size_t kept = 0;

    for (size_t i = 0; i < JOBS; i++) {
        struct lull_cluster_job *job = &it->all[kept];
        bool is_placed = false;

        if (kept != i) {
            for (int m = 0; m < POINTS; m++)
                it->points[kept][m] = it->points[i][m];
            *job = it->all[i];
            job->points = it->points[kept];
        }
        for (int tries = 0; tries < 8 && !is_placed; tries++) {
            const int64_t arrival_ns = job->arrival_ns;

            draw_run(random, it, kept);
            it->start_ns[kept] = arrival_ns + draw_ns(random, it, HORIZON / 2);
            is_placed = fits(it, kept);
        }
        if (is_placed) {
            const struct lull_cluster_point *point = &it->run[kept];
            const int64_t end_ns = it->start_ns[kept] + point->time_ns;

            if (lull_random_below(random, 2) == 0)
                job->deadline_ns = end_ns + draw_ns(random, it, 30);
            it->cost_j += point->energy_j +
                          completion_w * job->weight * (double)(end_ns - job->arrival_ns) * 1e-9;
            kept++;
        }
    }
    it->jobs = (struct lull_cluster_jobs){it->all, kept};
}

/* The operating point of a job's real operating point in slots: the windows of operating points
 * before it may be empty. */
static uint32_t slotted_point(const struct real *it, const struct lull_slotting *slotting,
                              size_t job)
{
    const int64_t deadline_ns = it->all[job].deadline_ns;
    const int64_t until_ns =
        deadline_ns < slotting->horizon_ns ? deadline_ns : slotting->horizon_ns;
    uint32_t number = 0;

    for (uint32_t m = 0; m < it->point[job]; m++) {
        const struct lull_cluster_point *point = &it->points[job][m];

        number += it->all[job].arrival_ns + point->time_ns <= until_ns &&
                  point->gpus <= it->room[it->all[job].pool * TYPES + point->type];
    }
    return number;
}

/* The choice in slots of a closed job as it runs. */
static struct lull_slot_choice as_it_runs(const struct real *it,
                                          const struct lull_slotting *slotting, size_t job,
                                          const struct lull_slot_job *slotted)
{
    (void)slotted;
    return (struct lull_slot_choice){slotted_point(it, slotting, job),
                                     (uint32_t)(it->start_ns[job] / slotting->slot_ns)};
}

/* The cheapest choice in slots of a job as it runs, which needs no more room than that. */
static struct lull_slot_choice cheapest(const struct real *it, const struct lull_slotting *slotting,
                                        size_t job, const struct lull_slot_job *slotted)
{
    const struct lull_cluster_point *run = &it->run[job];
    const int64_t start = it->start_ns[job] / slotting->slot_ns;
    struct lull_slot_choice best = {LULL_SLOT_REJECTED, 0};
    double best_j = INFINITY;

    for (uint32_t i = 0; i < slotted->point_count; i++) {
        const struct lull_slot_point *point = &slotted->points[i];
        const bool is_behind = it->start_ns[job] > slotting->horizon_ns;
        const double after = (double)(is_behind ? 0 : start - (int64_t)point->first);
        const double cost_j = point->cost_j + point->delay_j * after;

        if (point->type != it->all[job].pool * TYPES + run->type || point->gpus != run->gpus ||
            cost_j >= best_j || is_behind != (point->slots == 0 && point->delay_j <= 0.0))
            continue;
        if (!is_behind && (point->slots > run->time_ns / slotting->slot_ns ||
                           start < point->first || start > point->last))
            continue;
        best_j = cost_j;
        best = (struct lull_slot_choice){i, is_behind ? 0 : (uint32_t)start};
    }
    return best;
}

typedef struct lull_slot_choice (*choose_fn)(const struct real *it,
                                             const struct lull_slotting *slotting, size_t job,
                                             const struct lull_slot_job *slotted);

/* Draws jobs with a schedule, which has to fit into the slots and to cost no more there. */
static void hold_schedule(struct lull_random *random, uint64_t seed, int64_t unit_ns,
                          const struct lull_slotting *slotting, choose_fn choose, struct real *it)
{
    struct lull_slot_choice choices[JOBS];
    struct lull_slot_relaxation relaxation;
    double cost_j;

    draw(random, unit_ns, slotting->may_reclock, it);
    schedule(random, it, slotting->completion_w);
    holds(lull_slot_relaxation_create(&it->cluster, &it->jobs, slotting, &relaxation, NULL) == 0,
          seed);
    for (size_t i = 0; i < it->jobs.count; i++)
        choices[i] = choose(it, slotting, i, &relaxation.problem.jobs[i]);
    holds(slot_cost(&relaxation.problem, choices, &cost_j) == 0, seed);
    holds(cost_j <= it->cost_j * (1.0 + 1e-12), seed);
    lull_slot_relaxation_fini(&relaxation);
}

static void test_schedules_fit_and_cost_no_more(void **state)
{
    size_t placed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_slotting slotting;
        struct lull_random random;
        struct real it;

        lull_random_init(&random, seed);
        slotting = (struct lull_slotting){
            .slot_ns = 1 + (int64_t)lull_random_below(&random, 80),
            .horizon_ns = 2 * HORIZON,
            .completion_w = lull_random_below(&random, 2) == 0 ? 0.0 : 1e8,
            .cap_w = LULL_SLOTS_UNCAPPED,
        };
        hold_schedule(&random, seed, 1, &slotting, as_it_runs, &it);
        placed += it.jobs.count;
    }
    assert_true(placed > 3 * SEEDS);
}

/* Schedules that end whenever they like, in mixtures of operating points or not. */
static void test_open_and_mixed_schedules(void **state)
{
    const int64_t unit_ns = 1000000;
    size_t behind = 0, mixed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 2; seed++) {
        struct lull_slotting slotting;
        struct lull_random random;
        struct real it;

        lull_random_init(&random, seed);
        slotting = (struct lull_slotting){
            .slot_ns = 1 + (int64_t)lull_random_below(&random, 80 * (uint64_t)unit_ns),
            .horizon_ns = unit_ns * (int64_t)(1 + lull_random_below(&random, HORIZON)),
            .completion_w = 1e2,
            .cap_w = LULL_SLOTS_UNCAPPED,
            .is_open = true,
            .may_reclock = lull_random_below(&random, 2) == 0,
        };
        hold_schedule(&random, seed, unit_ns, &slotting, cheapest, &it);
        for (size_t i = 0; i < it.jobs.count; i++) {
            behind += it.start_ns[i] > slotting.horizon_ns;
            mixed += it.run[i].time_ns > it.points[i][it.point[i]].time_ns;
        }
    }
    assert_true(behind > SEEDS && mixed > SEEDS / 4);
}

static const struct lull_cluster_type one_type = {.name = "A"};
static const struct lull_cluster_node one_node = {.gpus = 4};
static const struct lull_cluster one_cluster = {&one_type, 1, &one_node, 1, 1};

static void test_numbers(void **state)
{
    const struct lull_cluster_point points[] = {
        {.gpus = 4, .time_ns = 2500000000, .energy_j = 1000.0},
        {.gpus = 5, .time_ns = 1, .energy_j = 0.0}};
    struct lull_cluster_job job = {.arrival_ns = 1700000000,
                                   .deadline_ns = 6100000000,
                                   .weight = 2.0,
                                   .point_count = 2,
                                   .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    struct lull_slotting slotting = {1000000000, 50000000000, 3.0, 700};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.problem.slots, 50);
    assert_int_equal(relaxation.problem.gpus[0], 4);
    assert_int_equal(relaxation.problem.cap_w, 700);
    assert_int_equal(relaxation.jobs[0].point_count, 1);
    assert_int_equal(relaxation.points[0].slots, 2);
    assert_int_equal(relaxation.points[0].first, 1);
    assert_int_equal(relaxation.points[0].last, 3);
    assert_int_equal(relaxation.points[0].power_w, 400);
    assert_near(relaxation.points[0].cost_j, 1000.0 + 6.0 * (1.0 - 1.7 + 2.5), 1e-9);
    assert_near(relaxation.points[0].delay_j, 6.0, 1e-12);
    lull_slot_relaxation_fini(&relaxation);

    job.is_preemptible = true;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.points[0].slots, 0);
    assert_int_equal(relaxation.points[0].last, 1);
    lull_slot_relaxation_fini(&relaxation);
}

/* Two clocks of 2.5 and 4.5 s, whose hull falls by 250 J a second in between. */
static void test_numbers_of_mixtures(void **state)
{
    const struct lull_cluster_point points[] = {
        {.gpus = 4, .time_ns = 2500000000, .energy_j = 1000.0},
        {.gpus = 4, .time_ns = 4500000000, .energy_j = 500.0},
        {.gpus = 2, .time_ns = 9000000000, .energy_j = 1.0}}; /* too long, and no part of them */
    const double costs_j[] = {875.0, 625.0, 500.0};
    const uint32_t lasts[] = {5, 5, 4};
    struct lull_cluster_job job = {.arrival_ns = 1700000000,
                                   .deadline_ns = 8100000000,
                                   .weight = 1.0,
                                   .point_count = 3,
                                   .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    struct lull_slotting slotting = {1000000000, 50000000000, 0.0, LULL_SLOTS_UNCAPPED,
                                     .may_reclock = true};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(relaxation.points[i].slots, 2 + i);
        assert_int_equal(relaxation.points[i].first, 1);
        assert_int_equal(relaxation.points[i].last, lasts[i]);
        assert_int_equal(relaxation.points[i].power_w, 111);
        assert_near(relaxation.points[i].cost_j, costs_j[i], 1e-3);
    }
    lull_slot_relaxation_fini(&relaxation);

    slotting.slot_ns = 100000000; /* 21 lengths are more than four for each corner */
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(relaxation.points[i].slots, 25 + 3 * i);
    assert_near(relaxation.points[0].cost_j, 925.0, 1e-3);
    assert_near(relaxation.points[6].cost_j, 500.0, 1e-3);
    lull_slot_relaxation_fini(&relaxation);

    job.is_preemptible = true; /* and then in any of both in turn, as long as it ends in time */
    job.point_count = 2;
    job.deadline_ns = job.arrival_ns + 3500000000;
    job.value_j = 100.0;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 1);
    assert_near(relaxation.points[0].cost_j, 750.0 - 100.0, 1e-3);
    assert_true(relaxation.jobs[0].reject_j == 0.0);
    lull_slot_relaxation_fini(&relaxation);
}

/* Idle GPUs always draw 20 W; two of them with a job draw 150 W, and 180 W at its peak. */
static void test_numbers_above_rest(void **state)
{
    const double rest_w = 20.0;
    const struct lull_cluster_point point = {.gpus = 2, .time_ns = 2000000000, .energy_j = 300.0};
    const struct lull_cluster_job job = {
        .deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 1, .points = &point};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_slotting slotting = {
        1000000000,        50000000000,          0.0, 700, .peak_ratio = 1.2,
        .rest_w = &rest_w, .is_above_rest = true};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.points[0].power_w, 140);
    assert_near(relaxation.points[0].cost_j, 300.0 - 2 * 20.0 * 2.0, 1e-9);
    assert_true(relaxation.jobs[0].reject_j == LULL_SLOTS_MANDATORY);
    lull_slot_relaxation_fini(&relaxation);
}

/* A job that begins after the horizon counts as beginning there, and takes no room; without a cost
 * of waiting nothing is better. */
static void test_numbers_of_an_open_end(void **state)
{
    const struct lull_cluster_point point = {.gpus = 4, .time_ns = 2500000000, .energy_j = 1000.0};
    struct lull_cluster_job job = {.arrival_ns = 1700000000,
                                   .deadline_ns = 7500000000,
                                   .weight = 2.0,
                                   .point_count = 1,
                                   .points = &point};
    const struct lull_cluster_jobs jobs = {&job, 1};
    struct lull_slotting slotting = {1000000000, 4000000000, 3.0, LULL_SLOTS_UNCAPPED,
                                     .is_open = true};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.problem.slots, 6);
    assert_int_equal(relaxation.jobs[0].point_count, 2);
    assert_int_equal(relaxation.points[0].slots, 0);
    assert_int_equal(relaxation.points[0].last, 0);
    assert_near(relaxation.points[0].cost_j, 1000.0 + 6.0 * (2.5 + 4.0 - 1.7), 1e-9);
    assert_int_equal(relaxation.points[1].slots, 2);
    assert_int_equal(relaxation.points[1].last, 4);
    lull_slot_relaxation_fini(&relaxation);

    slotting.completion_w = 0.0;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 1);
    assert_near(relaxation.points[0].cost_j, 1000.0, 1e-9);
    lull_slot_relaxation_fini(&relaxation);

    slotting.completion_w = 3.0;
    job.deadline_ns = 6500000000; /* it begins by the horizon at the latest */
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 1);
    assert_int_equal(relaxation.points[0].slots, 2);
    lull_slot_relaxation_fini(&relaxation);

    job.deadline_ns = LULL_CLUSTER_NEVER;
    job.arrival_ns = 4300000000; /* behind the horizon: it waits for nothing */
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.jobs[0].point_count, 1);
    assert_near(relaxation.points[0].cost_j, 1000.0 + 6.0 * 2.5, 1e-9);
    lull_slot_relaxation_fini(&relaxation);

    job.is_preemptible = true; /* there may be no slot that it comes in */
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.points[0].slots, 0);
    assert_int_equal(relaxation.points[0].first, 0);
    lull_slot_relaxation_fini(&relaxation);
}

static void test_what_does_not_fit(void **state)
{
    const struct lull_cluster_point point = {.gpus = 4, .time_ns = 100, .energy_j = 1.0};
    const struct lull_cluster_job job = {
        .arrival_ns = 10, .deadline_ns = 109, .weight = 1.0, .point_count = 1, .points = &point};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_cluster_type types[] = {{.name = "A"}, {.name = "B"}};
    const struct lull_cluster many = {types, 2, &one_node, 1, LULL_SLOTS_MAX_TYPES / 2 + 1};
    struct lull_slotting slotting = {10, 1000, 0.0, LULL_SLOTS_UNCAPPED};
    struct lull_slot_relaxation relaxation;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, &err),
                     -EINVAL);
    assert_non_null(strstr(err.text, "job 0"));
    assert_null(relaxation.points);
    assert_int_equal(lull_slot_relaxation_create(&many, &jobs, &slotting, &relaxation, &err),
                     -ERANGE);
    slotting.slot_ns = 1;
    slotting.horizon_ns = INT64_MAX;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, &err),
                     -ERANGE);
}

static void test_there_is_at_least_one_slot(void **state)
{
    const struct lull_cluster_jobs none = {NULL, 0};
    const struct lull_slotting slotting = {1000, 999, 0.0, LULL_SLOTS_UNCAPPED};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &none, &slotting, &relaxation, NULL),
                     0);
    assert_int_equal(relaxation.problem.slots, 1);
    lull_slot_relaxation_fini(&relaxation);
}

static void test_no_gpu_counts_below_an_idle_one(void **state)
{
    const struct lull_cluster_type type = {.name = "A", .idle_w = 60.0};
    const struct lull_cluster cluster = {&type, 1, &one_node, 1, 1};
    const struct lull_cluster_point point = {.gpus = 4, .time_ns = 1000000000, .energy_j = 200.0};
    const struct lull_cluster_job job = {
        .deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 1, .points = &point};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_slotting slotting = {1000000000, 50000000000, 0.0, 700};
    struct lull_slot_relaxation relaxation;

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&cluster, &jobs, &slotting, &relaxation, NULL), 0);
    assert_int_equal(relaxation.points[0].power_w, 240);
    lull_slot_relaxation_fini(&relaxation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_fit_and_cost_no_more),
        cmocka_unit_test(test_open_and_mixed_schedules),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_of_mixtures),
        cmocka_unit_test(test_numbers_above_rest),
        cmocka_unit_test(test_numbers_of_an_open_end),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_there_is_at_least_one_slot),
        cmocka_unit_test(test_no_gpu_counts_below_an_idle_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
