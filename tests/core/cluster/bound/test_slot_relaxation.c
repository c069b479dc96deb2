/*
 * Slots bound what they stand for: any schedule in continuous time, moved to slots as slot
 * relaxation.h says, fits there and costs no more. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "core/cluster/bound/slot_relaxation.h"
#include "../../property.h"

enum { SEEDS = 4000, JOBS = 14, POINTS = 3, NODES = 3, TYPES = 2, HORIZON = 1000 };

struct real {
    struct lull_cluster_type types[TYPES];
    struct lull_cluster_node nodes[NODES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[JOBS][POINTS];
    struct lull_cluster_job all[JOBS];
    struct lull_cluster_jobs jobs;
    uint32_t room[2 * TYPES]; /* [pool * TYPES + type] */
    /* The schedule. */
    uint32_t point[JOBS];
    int64_t start_ns[JOBS];
    double cost_j;
};

static void draw_job(struct lull_random *random, struct real *it, size_t job)
{
    struct lull_cluster_job *out = &it->all[job];

    *out = (struct lull_cluster_job){
        .arrival_ns = (int64_t)lull_random_below(random, HORIZON / 2),
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
            .time_ns = 1 + (int64_t)lull_random_below(random, HORIZON / 4),
            .energy_j = 100.0 * lull_random_uniform(random),
        };
}

static void draw(struct lull_random *random, struct real *it)
{
    *it = (struct real){0};
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

/* How many GPUs of a place are taken at an instant. */
static uint32_t taken(const struct real *it, size_t jobs, uint32_t place, int64_t at_ns)
{
    uint32_t gpus = 0;

    for (size_t i = 0; i < jobs; i++) {
        const struct lull_cluster_point *point = &it->points[i][it->point[i]];

        if (it->all[i].pool * TYPES + point->type == place && it->start_ns[i] <= at_ns &&
            at_ns < it->start_ns[i] + point->time_ns)
            gpus += point->gpus;
    }
    return gpus;
}

/* The schedule is looked at in every nanosecond. */
static bool fits(const struct real *it, size_t job)
{
    const struct lull_cluster_point *point = &it->points[job][it->point[job]];
    const uint32_t place = it->all[job].pool * TYPES + point->type;

    for (int64_t t = it->start_ns[job]; t < it->start_ns[job] + point->time_ns; t++)
        if (taken(it, job, place, t) + point->gpus > it->room[place])
            return false;
    return true;
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

            it->point[kept] = (uint32_t)lull_random_below(random, POINTS);
            it->start_ns[kept] =
                arrival_ns + (int64_t)lull_random_below(random, (uint64_t)(HORIZON / 2));
            is_placed = fits(it, kept);
        }
        if (is_placed) {
            const struct lull_cluster_point *point = &it->points[kept][it->point[kept]];
            const int64_t end_ns = it->start_ns[kept] + point->time_ns;

            if (lull_random_below(random, 2) == 0)
                job->deadline_ns = end_ns + (int64_t)lull_random_below(random, 30);
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

static void test_schedules_fit_and_cost_no_more(void **state)
{
    size_t placed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_slot_choice choices[JOBS];
        struct lull_slotting slotting;
        struct lull_slot_relaxation relaxation;
        struct lull_random random;
        struct real it;
        double cost_j;

        lull_random_init(&random, seed);
        slotting = (struct lull_slotting){
            .slot_ns = 1 + (int64_t)lull_random_below(&random, 80),
            .horizon_ns = 2 * HORIZON,
            .completion_w = lull_random_below(&random, 2) == 0 ? 0.0 : 1e8,
            .cap_w = LULL_SLOTS_UNCAPPED,
        };
        draw(&random, &it);
        schedule(&random, &it, slotting.completion_w);
        holds(lull_slot_relaxation_create(&it.cluster, &it.jobs, &slotting, &relaxation, NULL) == 0,
              seed);
        for (size_t i = 0; i < it.jobs.count; i++)
            choices[i] = (struct lull_slot_choice){slotted_point(&it, &slotting, i),
                                                   (uint32_t)(it.start_ns[i] / slotting.slot_ns)};
        holds(lull_slot_cost(&relaxation.problem, choices, &cost_j) == 0, seed);
        holds(cost_j <= it.cost_j * (1.0 + 1e-12), seed);
        placed += it.jobs.count;
        lull_slot_relaxation_fini(&relaxation);
    }
    assert_true(placed > 3 * SEEDS);
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

static void test_what_does_not_fit(void **state)
{
    const struct lull_cluster_point point = {.gpus = 4, .time_ns = 100, .energy_j = 1.0};
    const struct lull_cluster_job job = {
        .arrival_ns = 10, .deadline_ns = 109, .weight = 1.0, .point_count = 1, .points = &point};
    const struct lull_cluster_jobs jobs = {&job, 1};
    struct lull_slotting slotting = {10, 1000, 0.0, LULL_SLOTS_UNCAPPED};
    struct lull_slot_relaxation relaxation;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_slot_relaxation_create(&one_cluster, &jobs, &slotting, &relaxation, &err),
                     -EINVAL);
    assert_non_null(strstr(err.text, "job 0"));
    assert_null(relaxation.points);
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
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_there_is_at_least_one_slot),
        cmocka_unit_test(test_no_gpu_counts_below_an_idle_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
