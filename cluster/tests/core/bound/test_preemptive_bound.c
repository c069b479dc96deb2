/*
 * Bounds for jobs that stop and continue in other operating points: no schedule costs less,
 * whatever the prices; and the prices of the search prove the optimum where it is known.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cluster/core/bound/preemptive_alone.h"
#include "cluster/core/bound/preemptive_bound.h"
#include "core/stats/random.h"

enum { JOBS = 7, POINTS = 4, TYPES = 2, POOLS = 2, NODES = 4, SLOTS = 25, ROUNDS = 3000 };

struct drawn {
    struct lull_cluster_type types[TYPES];
    struct lull_cluster_node nodes[NODES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[JOBS][POINTS];
    struct lull_cluster_job all[JOBS];
    struct lull_cluster_jobs jobs;
    struct lull_preemptive_problem problem;
};

static uint32_t below(struct lull_random *random, uint32_t bound)
{
    return (uint32_t)lull_random_below(random, bound);
}

static double uniform(struct lull_random *random)
{
    return lull_random_uniform(random);
}

static void draw(struct lull_random *random, struct drawn *drawn)
{
    *drawn = (struct drawn){0};
    drawn->cluster = (struct lull_cluster){drawn->types, TYPES, drawn->nodes, NODES, POOLS};
    for (uint32_t i = 0; i < NODES; i++) /* one of each type in each pool */
        drawn->nodes[i] = (struct lull_cluster_node){
            .pool = i / TYPES, .type = i % TYPES, .gpus = 1 + below(random, 4)};
    drawn->jobs = (struct lull_cluster_jobs){drawn->all, 1 + below(random, JOBS)};
    for (uint32_t j = 0; j < drawn->jobs.count; j++) {
        drawn->all[j] = (struct lull_cluster_job){
            .arrival_ns = below(random, 3) == 0 ? 0 : below(random, 2000000000),
            .deadline_ns = LULL_CLUSTER_NEVER,
            .weight = 0.1 + uniform(random),
            .value_j = below(random, 3) == 0 ? 9.0 * uniform(random) : 0.0,
            .pool = below(random, POOLS),
            .is_preemptible = true,
            .point_count = 1 + below(random, POINTS),
            .points = drawn->points[j],
        };
        for (uint32_t m = 0; m < POINTS; m++)
            drawn->points[j][m] = (struct lull_cluster_point){
                .type = below(random, TYPES),
                .gpus = 1 + below(random, 4),
                .time_ns = 1 + below(random, 1000000000),
                .energy_j = 4.0 * uniform(random),
            };
        if (drawn->all[j].value_j > 0.0 && below(random, 2) == 0)
            drawn->all[j].deadline_ns =
                drawn->all[j].arrival_ns + drawn->points[j][0].time_ns + below(random, 1000000000);
    }
    drawn->problem = (struct lull_preemptive_problem){
        .cluster = &drawn->cluster,
        .jobs = &drawn->jobs,
        .second_j = below(random, 6) == 0 ? 0.0 : 5.0 * uniform(random),
        .slot_ns = 1 + below(random, 300000000),
        .slots = 1 + below(random, SLOTS),
    };
}

/* ---- any schedule ------------------------------------------------------------------------- */

struct life {
    double left; /* of its progress */
    double run_j;
    int64_t end_ns;
};

/* Returns whether the operating point fits into the free GPUs; if so, takes them. */
static bool fits(const struct drawn *drawn, uint32_t job, uint32_t point, uint32_t *free)
{
    const struct lull_cluster_point *it = &drawn->points[job][point];
    uint32_t *const there = &free[drawn->all[job].pool * TYPES + it->type];

    if (it->gpus > *there)
        return false;
    *there -= it->gpus;
    return true;
}

static bool is_possible(const struct drawn *drawn, uint32_t job, uint32_t point)
{
    uint32_t gpus[NODES];

    for (uint32_t i = 0; i < NODES; i++)
        gpus[i] = drawn->nodes[i].gpus;
    return fits(drawn, job, point, gpus);
}

static bool can_run(const struct drawn *drawn, uint32_t job)
{
    for (uint32_t m = 0; m < drawn->all[job].point_count; m++)
        if (is_possible(drawn, job, m))
            return true;
    return false;
}

/* Some jobs run in some operating points until one ends, one comes, or the schedule changes for
 * another reason else. */
static void go_on(struct lull_random *random, const struct drawn *drawn, struct life *lives,
                  int64_t *now_ns)
{
    const uint32_t first = below(random, JOBS);
    int64_t step_ns = 1 + below(random, 400000000);
    int point_of[JOBS];
    uint32_t gpus[NODES];

    for (uint32_t i = 0; i < NODES; i++)
        gpus[i] = drawn->nodes[i].gpus;
    for (uint32_t i = 0; i < JOBS; i++) {
        const uint32_t j = (first + i) % JOBS;
        uint32_t point;

        point_of[j] = -1;
        if (j >= drawn->jobs.count || lives[j].left <= 0.0 || drawn->all[j].arrival_ns > *now_ns)
            continue;
        point = below(random, drawn->all[j].point_count);
        if (below(random, 8) == 0 || !fits(drawn, j, point, gpus))
            continue;
        point_of[j] = (int)point;
        step_ns = (int64_t)fmin((double)step_ns,
                                ceil(lives[j].left * (double)drawn->points[j][point].time_ns));
    }
    for (uint32_t j = 0; j < drawn->jobs.count; j++) {
        const struct lull_cluster_point *point;
        double made;

        if (point_of[j] < 0)
            continue;
        point = &drawn->points[j][point_of[j]];
        made = (double)step_ns / (double)point->time_ns;
        lives[j].run_j += point->energy_j * fmin(made, lives[j].left);
        lives[j].left -= made;
        lives[j].end_ns = *now_ns + step_ns;
    }
    *now_ns += step_ns;
}

static bool is_over(const struct drawn *drawn, const struct life *lives)
{
    for (uint32_t j = 0; j < drawn->jobs.count; j++)
        if (lives[j].left > 0.0)
            return false;
    return true;
}

static double any_schedule(struct lull_random *random, const struct drawn *drawn)
{
    struct life lives[JOBS] = {0};
    int64_t now_ns = 0;
    double cost_j = 0.0;

    for (uint32_t j = 0; j < drawn->jobs.count; j++) {
        const bool is_left_out = drawn->all[j].value_j > 0.0 && below(random, 4) == 0;

        lives[j].left = can_run(drawn, j) && !is_left_out ? 1.0 : 0.0;
    }
    while (!is_over(drawn, lives))
        go_on(random, drawn, lives, &now_ns);
    for (uint32_t j = 0; j < drawn->jobs.count; j++)
        if (lives[j].end_ns > 0)
            cost_j += lives[j].run_j -
                      (lives[j].end_ns <= drawn->all[j].deadline_ns ? drawn->all[j].value_j : 0.0) +
                      drawn->problem.second_j * drawn->all[j].weight *
                          (double)(lives[j].end_ns - drawn->all[j].arrival_ns) * 1e-9;
    return cost_j;
}

static void no_schedule_costs_less(void **unused)
{
    struct lull_random random;

    (void)unused;
    lull_random_init(&random, 4711);
    for (int round = 0; round < ROUNDS; round++) {
        struct lull_preemptive *preemptive;
        double gpu_w[NODES * SLOTS];
        double excess[NODES * SLOTS];
        double min_j = INFINITY;
        struct drawn drawn;

        draw(&random, &drawn);
        assert_int_equal(lull_preemptive_create(&drawn.problem, &preemptive), 0);
        assert_true(lull_preemptive_cells(preemptive) <= NODES * SLOTS);
        for (int i = 0; i < 5; i++)
            min_j = fmin(min_j, any_schedule(&random, &drawn));
        for (int i = 0; i < 5; i++) {
            for (size_t cell = 0; cell < NODES * SLOTS; cell++)
                gpu_w[cell] = below(&random, 2) == 0 ? 0.0 : i * uniform(&random);
            assert_true(lull_preemptive_bound(preemptive, gpu_w, excess) <=
                        min_j + 1e-9 * fabs(min_j));
        }
        lull_preemptive_destroy(preemptive);
    }
}

/* ---- one job, all its schedules ----------------------------------------------------------- */

enum { FEW_SLOTS = 8, FEW_POINTS = 2 };

struct alone {
    struct lull_preemptive_point points[FEW_POINTS];
    struct lull_preemptive_job job;
    struct lull_preemptive_slots slots;
    double gpu_w[FEW_POINTS * FEW_SLOTS];
};

static void draw_alone(struct lull_random *random, struct alone *alone)
{
    *alone = (struct alone){
        .job = {.arrival_s = 2.0 * uniform(random),
                .second_j = 5.0 * uniform(random),
                .value_j = INFINITY,
                .deadline_s = INFINITY,
                .point_count = FEW_POINTS,
                .points = alone->points},
        .slots = {0.2 + uniform(random), FEW_SLOTS},
    };
    for (size_t m = 0; m < FEW_POINTS; m++) {
        const double time_s = 0.2 + 6.0 * uniform(random);

        alone->points[m] = (struct lull_preemptive_point){.time_s = time_s,
                                                          .rate = 1.0 / time_s,
                                                          .energy_j = 4.0 * uniform(random),
                                                          .gpu_s = time_s,
                                                          .row = m * FEW_SLOTS};
    }
    for (size_t i = 0; i < FEW_POINTS * FEW_SLOTS; i++)
        alone->gpu_w[i] = below(random, 3) == 0 ? 0.0 : 9.0 * uniform(random);
}

/* The least cost from a slot on, of so much that is left: in each slot one of the operating points,
 * or none.
 */
static double least_of_all_j(const struct alone *alone, uint32_t slot, double left)
{
    const struct lull_preemptive_job *job = &alone->job;
    const double begin_s = fmax(slot * alone->slots.slot_s, job->arrival_s);
    const double rest_s = fmax((slot + 1) * alone->slots.slot_s - begin_s, 0.0);
    const bool is_last = slot == FEW_SLOTS;
    double min_j = is_last ? INFINITY : least_of_all_j(alone, slot + 1, left);

    for (size_t m = 0; m < FEW_POINTS; m++) {
        const struct lull_preemptive_point *point = &alone->points[m];
        const double price_w = is_last ? 0.0 : alone->gpu_w[point->row + slot];
        const bool ends = is_last || rest_s >= left * point->time_s;
        const double made = ends ? left : rest_s * point->rate;
        const double end_s = begin_s + made * point->time_s;
        const double then_j = ends ? job->second_j * (end_s - job->arrival_s)
                                   : least_of_all_j(alone, slot + 1, left - made);

        min_j = fmin(min_j, then_j + made * (point->energy_j + point->gpu_s * price_w));
    }
    return min_j;
}

static void alone_no_schedule_costs_less(void **unused)
{
    double use[FEW_POINTS * FEW_SLOTS] = {0};
    struct lull_random random;
    double ratios = 0.0;

    (void)unused;
    lull_random_init(&random, 99);
    for (int round = 0; round < ROUNDS; round++) {
        struct alone alone;
        double min_j, bound_j;

        draw_alone(&random, &alone);
        min_j = least_of_all_j(&alone, 0, 1.0);
        for (int again = 0; again < 4; again++) { /* each time with the mean time of the last */
            bound_j = lull_preemptive_alone_j(&alone.job, &alone.slots, alone.gpu_w, use);
            assert_true(bound_j <= min_j * (1.0 + 1e-12));
        }
        ratios += bound_j / min_j;
    }
    assert_true(ratios / ROUNDS >= 0.9);
}

/* ---- where the optimum is known ----------------------------------------------------------- */

/* Jobs of one operating point on one GPU, all there at once: least cost by Smith's rule. */
static double smith_j(struct lull_cluster_job *all, size_t count, double second_j)
{
    double cost_j = 0.0;
    double end_s = 0.0;

    for (size_t i = 0; i < count; i++) { /* by time over weight, the least first */
        size_t best = i;
        struct lull_cluster_job job;

        for (size_t j = i + 1; j < count; j++)
            if ((double)all[j].points->time_ns * all[best].weight <
                (double)all[best].points->time_ns * all[j].weight)
                best = j;
        job = all[best];
        all[best] = all[i];
        all[i] = job;
        end_s += (double)job.points->time_ns * 1e-9;
        cost_j += job.points->energy_j + second_j * job.weight * end_s;
    }
    return cost_j;
}

static void one_machine_is_exact(void **unused)
{
    struct lull_random random;

    (void)unused;
    lull_random_init(&random, 17);
    for (int round = 0; round < 30; round++) {
        int64_t end_ns[JOBS];
        struct lull_preemptive *preemptive;
        struct lull_price_ascent ascent = {.steps = 400};
        struct drawn drawn;
        int64_t busy_ns = 0;
        double bound_j;

        draw(&random, &drawn);
        drawn.jobs.count = JOBS;
        for (uint32_t i = 0; i < NODES; i++)
            drawn.nodes[i].gpus = 1;
        for (uint32_t j = 0; j < JOBS; j++) {
            drawn.points[j][0] = (struct lull_cluster_point){
                .gpus = 1, .time_ns = 1 + below(&random, 1000000000), .energy_j = 1.0};
            drawn.all[j] = (struct lull_cluster_job){.deadline_ns = LULL_CLUSTER_NEVER,
                                                     .weight = 0.1 + uniform(&random),
                                                     .point_count = 1,
                                                     .points = drawn.points[j]};
            busy_ns += drawn.points[j][0].time_ns;
            end_ns[j] = busy_ns;
        }
        drawn.problem.second_j = 3.0;
        drawn.problem.slots = 200;
        drawn.problem.slot_ns = busy_ns / 200 + 1;
        ascent.achieved = smith_j(drawn.all, JOBS, drawn.problem.second_j);
        assert_int_equal(lull_preemptive_create(&drawn.problem, &preemptive), 0);
        assert_int_equal(lull_preemptive_search(preemptive, end_ns, &ascent, &bound_j), 0);
        assert_true(bound_j <= ascent.achieved);
        assert_true(bound_j >= 0.995 * ascent.achieved);
        lull_preemptive_destroy(preemptive);
    }
}

/* At no prices: each job by itself, in its best operating point. */
static void alone_is_exact(void **unused)
{
    double gpu_w[NODES * SLOTS] = {0};
    double excess[NODES * SLOTS];
    struct lull_random random;

    (void)unused;
    lull_random_init(&random, 5);
    for (int round = 0; round < 300; round++) {
        struct lull_preemptive *preemptive;
        struct drawn drawn;
        double want_j = 0.0;
        double bound_j;

        draw(&random, &drawn);
        for (uint32_t j = 0; j < drawn.jobs.count; j++) {
            double min_j = INFINITY;

            drawn.all[j].value_j = 0.0;
            for (uint32_t m = 0; m < drawn.all[j].point_count; m++)
                if (is_possible(&drawn, j, m))
                    min_j =
                        fmin(min_j, -lull_cluster_gain_j(&drawn.all[j], m, drawn.all[j].arrival_ns,
                                                         drawn.problem.second_j));
            want_j += isfinite(min_j) ? min_j : 0.0;
        }
        assert_int_equal(lull_preemptive_create(&drawn.problem, &preemptive), 0);
        bound_j = lull_preemptive_bound(preemptive, gpu_w, excess);
        assert_true(bound_j <= want_j * (1.0 - 0.5e-9) && bound_j >= want_j * (1.0 - 2e-9));
        lull_preemptive_destroy(preemptive);
    }
}

/* Without jobs every price only costs: the bound is minus the
   value of the GPUs, less the rounding error. */
static void gpus_that_nobody_uses_cost_their_price(void **unused)
{
    double gpu_w[NODES * SLOTS];
    double excess[NODES * SLOTS];
    struct lull_random random;

    (void)unused;
    lull_random_init(&random, 23);
    for (int round = 0; round < 30; round++) {
        struct lull_preemptive *preemptive;
        struct drawn drawn;
        double worth_j = 0.0;
        double bound_j;

        draw(&random, &drawn);
        drawn.jobs.count = 0;
        for (uint32_t cell = 0; cell < NODES * drawn.problem.slots; cell++) {
            const uint32_t node = cell / drawn.problem.slots; /* one of each type in each pool */

            gpu_w[cell] = 0.1 + uniform(&random);
            worth_j += drawn.nodes[node].gpus * (double)drawn.problem.slot_ns * 1e-9 * gpu_w[cell];
        }
        assert_int_equal(lull_preemptive_create(&drawn.problem, &preemptive), 0);
        bound_j = lull_preemptive_bound(preemptive, gpu_w, excess);
        assert_true(bound_j <= -worth_j * (1.0 + 0.5e-9) && bound_j >= -worth_j * (1.0 + 2e-9));
        lull_preemptive_destroy(preemptive);
    }
}

/* ---- numbers that follow ------------------------------------------------------------------ */

static const double second = 1e9;
static const struct lull_cluster_type one_type = {.name = "A"};
static const struct lull_cluster_node one_node = {.gpus = 2};
static const struct lull_cluster one_cluster = {&one_type, 1, &one_node, 1, 1};

/* The search begins with the waiting cost of the waiting jobs, times 0, 0.1 to 1.2. */
static void the_first_prices_are_what_is_lost(void **unused)
{
    enum { FOUR = 4, SCALES = 13 };
    /* In slots of 100 s weights of 1, 2 and 3 want three of two GPUs; then 2, 3 and 4 want four;
       and then the last one wants both, and gets them. */
    static const double guess_w[FOUR] = {6.0 * (1.0 / 2 - 1.0 / 3), 9.0 * (1.0 / 2 - 1.0 / 4)};
    const struct lull_cluster_point one = {
        .gpus = 1, .time_ns = (int64_t)(100 * second), .energy_j = 7.0};
    const struct lull_cluster_point both = {
        .gpus = 2, .time_ns = (int64_t)(100 * second), .energy_j = 9.0};
    const int64_t end_ns[FOUR] = {(int64_t)(100 * second), (int64_t)(200 * second),
                                  (int64_t)(200 * second), (int64_t)(300 * second)};
    const struct lull_price_ascent ascent = {.steps = 0, .achieved = 1e6};
    struct lull_cluster_job all[FOUR];
    const struct lull_cluster_jobs jobs = {all, FOUR};
    const struct lull_preemptive_problem problem = {.cluster = &one_cluster,
                                                    .jobs = &jobs,
                                                    .second_j = 1.0,
                                                    .slot_ns = (int64_t)(100 * second),
                                                    .slots = FOUR};
    struct lull_preemptive *preemptive;
    double want_j = -INFINITY, best_ratio = 0.0, bound_j, gpu_w[FOUR], excess[FOUR];

    (void)unused;
    for (uint32_t j = 0; j < FOUR; j++)
        all[j] = (struct lull_cluster_job){.arrival_ns = j == 3 ? (int64_t)(100 * second) : 0,
                                           .deadline_ns = LULL_CLUSTER_NEVER,
                                           .weight = 1.0 + j,
                                           .point_count = 1,
                                           .points = j == 3 ? &both : &one};
    assert_int_equal(lull_preemptive_create(&problem, &preemptive), 0);
    for (int i = 0; i <= SCALES; i++) { /* and the best of them once more */
        const double ratio = i < SCALES ? 0.1 * i : best_ratio;

        for (uint32_t slot = 0; slot < FOUR; slot++)
            gpu_w[slot] = guess_w[slot] * ratio;
        bound_j = lull_preemptive_bound(preemptive, gpu_w, excess);
        if (bound_j > want_j)
            best_ratio = ratio;
        want_j = fmax(want_j, bound_j);
    }
    lull_preemptive_destroy(preemptive);
    assert_true(best_ratio > 0.0);

    assert_int_equal(lull_preemptive_create(&problem, &preemptive), 0);
    assert_int_equal(lull_preemptive_search(preemptive, end_ns, &ascent, &bound_j), 0);
    lull_preemptive_destroy(preemptive);
    assert_true(fabs(bound_j - want_j) <= 1e-9 * want_j);
}

/* Returns the least cost of a job with a value that has GPUs for itself for so much time, J. */
static double in_window_j(const struct lull_cluster_point *points, uint32_t count, double window_s)
{
    const struct lull_cluster_job job = {.deadline_ns = (int64_t)(window_s * second),
                                         .weight = 1.0,
                                         .value_j = 1000.0,
                                         .is_preemptible = true,
                                         .point_count = count,
                                         .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_preemptive_problem problem = {.cluster = &one_cluster,
                                                    .jobs = &jobs,
                                                    .second_j = 6.0,
                                                    .slot_ns = (int64_t)second,
                                                    .slots = 40};
    struct lull_preemptive *preemptive;
    double gpu_w[40] = {0}, excess[40], bound_j;

    assert_int_equal(lull_preemptive_create(&problem, &preemptive), 0);
    bound_j = lull_preemptive_bound(preemptive, gpu_w, excess);
    lull_preemptive_destroy(preemptive);
    return bound_j + job.value_j;
}

static void deadlines_count(void **unused)
{
    const struct lull_cluster_point points[] = {
        {.gpus = 1, .time_ns = (int64_t)(10 * second), .energy_j = 300.0},
        {.gpus = 1, .time_ns = (int64_t)(20 * second), .energy_j = 40.0}};
    const struct lull_cluster_point dear[] = {
        points[0], {.gpus = 1, .time_ns = (int64_t)(20 * second), .energy_j = 250.0}};

    (void)unused;
    /* Exactly as long as the job takes: it is in time. */
    assert_true(in_window_j(points, 1, 10.0) <= 360.0 && in_window_j(points, 1, 10.0) >= 359.999);
    assert_true(in_window_j(points, 1, 9.99) == 1000.0); /* left out */
    /* Half of either, at 360 and 160 J. */
    assert_true(fabs(in_window_j(points, 2, 15.0) - 260.0) <= 1e-3);
    assert_true(fabs(in_window_j(points, 2, 20.0) - 160.0) <= 1e-3);
    /* A slow one that saves less than its time costs is of no use. */
    assert_true(fabs(in_window_j(dear, 2, 15.0) - 360.0) <= 1e-3);
}

/* GPUs that are free only for the first ten seconds: fast costs 110 J, slow 50 J and what the other
 * 20 s cost. The bound looks at mixtures near the one that it found last. */
static void a_second_look_proves_more(void **unused)
{
    const struct lull_cluster_point points[] = {
        {.gpus = 1, .time_ns = (int64_t)(10 * second), .energy_j = 100.0},
        {.gpus = 1, .time_ns = (int64_t)(30 * second), .energy_j = 20.0}};
    const struct lull_cluster_job job = {.deadline_ns = LULL_CLUSTER_NEVER,
                                         .weight = 1.0,
                                         .is_preemptible = true,
                                         .point_count = 2,
                                         .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_preemptive_problem problem = {.cluster = &one_cluster,
                                                    .jobs = &jobs,
                                                    .second_j = 1.0,
                                                    .slot_ns = (int64_t)(10 * second),
                                                    .slots = 30};
    struct lull_preemptive *preemptive;
    double gpu_w[30], excess[30], bound_j[4], worth_j = 0.0;

    (void)unused;
    for (int i = 0; i < 30; i++) {
        gpu_w[i] = i == 0 ? 0.0 : 10.0;
        worth_j += 2 * 10.0 * gpu_w[i];
    }
    assert_int_equal(lull_preemptive_create(&problem, &preemptive), 0);
    for (int i = 0; i < 4; i++)
        bound_j[i] = lull_preemptive_bound(preemptive, gpu_w, excess) + worth_j;
    lull_preemptive_destroy(preemptive);
    assert_true(bound_j[0] > 99.0 && bound_j[0] < 101.0);
    for (int i = 1; i < 4; i++)
        assert_true(bound_j[i] > 109.9 && bound_j[i] <= 110.0);
}

/* Eight jobs of 600 s that want one of two GPUs for the next 1200 s: four of them gain 90 J each.
 */
static void prices_see_that_gpus_are_few(void **unused)
{
    enum { EIGHT = 8, PARTS = 20 };
    const struct lull_cluster_point point = {
        .gpus = 1, .time_ns = (int64_t)(600 * second), .energy_j = 10.0};
    const struct lull_price_ascent ascent = {.steps = 60, .achieved = -360.0};
    struct lull_cluster_job all[EIGHT];
    const struct lull_cluster_jobs jobs = {all, EIGHT};
    const struct lull_preemptive_problem problem = {
        .cluster = &one_cluster, .jobs = &jobs, .slot_ns = (int64_t)(100 * second), .slots = PARTS};
    struct lull_preemptive *preemptive;
    int64_t end_ns[EIGHT];
    double bound_j;

    (void)unused;
    for (int j = 0; j < EIGHT; j++) {
        all[j] = (struct lull_cluster_job){.deadline_ns = (int64_t)(1200 * second),
                                           .weight = 1.0,
                                           .value_j = 100.0,
                                           .is_preemptible = true,
                                           .point_count = 1,
                                           .points = &point};
        end_ns[j] = j < 4 ? (int64_t)(600 * second) * (1 + j / 2) : 0;
    }
    assert_int_equal(lull_preemptive_create(&problem, &preemptive), 0);
    assert_int_equal(lull_preemptive_search(preemptive, end_ns, &ascent, &bound_j), 0);
    lull_preemptive_destroy(preemptive);
    assert_true(bound_j <= -360.0 && bound_j >= -360.0 * 1.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_schedule_costs_less),
        cmocka_unit_test(alone_no_schedule_costs_less),
        cmocka_unit_test(one_machine_is_exact),
        cmocka_unit_test(alone_is_exact),
        cmocka_unit_test(gpus_that_nobody_uses_cost_their_price),
        cmocka_unit_test(the_first_prices_are_what_is_lost),
        cmocka_unit_test(deadlines_count),
        cmocka_unit_test(a_second_look_proves_more),
        cmocka_unit_test(prices_see_that_gpus_are_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
