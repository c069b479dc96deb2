/*
 * The theorem of cluster/docs/competitive.md, inequality by inequality, on random problems. The
 * names of the tests are those that the proof points to. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cluster/core/model/schedule_set.h"
#include "cluster/core/policy/posted_prices.h"
#include "cluster/core/bound/slot_relaxation.h"
#include "core/stats/random.h"
#include "online_case.h"
#include "cluster/tests/core/bound/slot_lp.h"

enum { CASES = 36, MAX_JOBS = 1000, MOST_TYPES = 2 };

/* A problem under the rule, with all that the proof speaks of. */
struct proof {
    struct online_case *it;
    struct lull_slot_relaxation made;
    struct lull_schedule_rules rules;           /* every third problem has a storage */
    struct lull_price_law laws[MOST_TYPES + 1]; /* the last is a storage's */
    struct lull_prices *prices;
    double ratio;               /* that the policy keeps */
    double gain_j;              /* of the admitted jobs: the primal value */
    double surplus_j[MAX_JOBS]; /* u of each job that was admitted; else 0 */
    struct lull_bid bids[MAX_JOBS];
};

/* The rate at which a job reads for each of its GPUs, MB/s. */
static uint32_t rate_of(uint64_t seed, size_t job)
{
    static const uint32_t rates[] = {0, 1, 10, 24};
    struct lull_random random;

    lull_random_init(&random, 1000 * seed + job);
    return rates[lull_random_below(&random, 4)];
}

/* Makes jobs read from a storage that has half of what all GPUs could read, or more at a ratio far
 * above the least. */
static void add_storage(struct proof *proof, uint64_t seed)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < proof->made.problem.type_count; i++)
        gpus += proof->made.problem.gpus[i];
    proof->rules.storage_mb_s = gpus * (seed % 2 == 0 ? 20.5 : 12.5) + 0.5;
    proof->rules.ratio = seed % 2 == 0 ? 400.0 : 0.0;
    for (size_t j = 0; j < proof->it->jobs.count; j++) {
        const struct lull_cluster_job *job = &proof->it->jobs.all[j];
        struct lull_cluster_point *points = (struct lull_cluster_point *)job->points;
        struct lull_slot_point *slotted = (struct lull_slot_point *)proof->made.jobs[j].points;
        const uint32_t rate = rate_of(seed, j);

        for (uint32_t m = 0; m < job->point_count; m++)
            points[m].read_mb_s = (float)(rate * points[m].gpus) - (rate > 0 ? 0.25F : 0.0F);
        for (uint32_t m = 0; m < proof->made.jobs[j].point_count; m++)
            slotted[m].reads = rate * slotted[m].gpus;
    }
}

static struct proof *open_proof(uint64_t seed)
{
    static const enum online_family families[] = {ONLINE_PLAIN, ONLINE_CLOCKS, ONLINE_BURSTS,
                                                  ONLINE_TYPES};
    static const double loads[] = {0.5, 1.0, 2.0};
    struct proof *proof = calloc(1, sizeof(*proof));
    struct lull_slotting slotting;
    struct lull_error err;

    assert_non_null(proof);
    proof->it = online_case_draw(families[seed % 4], loads[seed / 4 % 3], 900 + seed);
    assert_non_null(proof->it);
    slotting = online_case_slotting(proof->it);
    assert_int_equal(lull_slot_relaxation_create(&proof->it->cluster, &proof->it->jobs, &slotting,
                                                 &proof->made, &err),
                     0);
    assert_int_equal(lull_slot_problem_check(&proof->made.problem, &err), 0);
    if (seed % 3 == 2)
        add_storage(proof, seed);
    assert_int_equal(lull_schedule_set_laws(&proof->it->cluster, &proof->it->jobs, &proof->rules,
                                            proof->laws, &proof->ratio),
                     0);
    assert_int_equal(lull_prices_create(proof->laws, proof->made.problem.type_count,
                                        &proof->laws[proof->made.problem.type_count], proof->ratio,
                                        &proof->prices),
                     0);
    return proof;
}

static void close_proof(struct proof *proof)
{
    lull_prices_destroy(proof->prices);
    lull_slot_relaxation_fini(&proof->made);
    online_case_destroy(proof->it);
    free(proof);
}

/* One job; whether it was admitted. */
static bool step(struct proof *proof, size_t job)
{
    const struct lull_slot_job *asked = &proof->made.jobs[job];
    struct lull_bid *const bid = &proof->bids[job];

    if (!lull_bid_choose(proof->prices, asked, bid))
        return false;
    lull_bid_admit(proof->prices, asked, bid);
    proof->gain_j += bid->gain_j;
    proof->surplus_j[job] = bid->surplus_j;
    return true;
}

static void run(struct proof *proof)
{
    for (size_t j = 0; j < proof->made.problem.job_count; j++)
        step(proof, j);
}

static double gain_at(const struct lull_slot_point *point, uint32_t start)
{
    return -(point->cost_j + point->delay_j * (start - point->first));
}

/* The dual value: what jobs gain after prices, and what all GPUs cost in all slots. */
static double dual_j(const struct proof *proof)
{
    double sum_j = 0.0;

    for (size_t j = 0; j < proof->made.problem.job_count; j++)
        sum_j += proof->surplus_j[j];
    for (uint32_t type = 0; type <= proof->made.problem.type_count; type++)
        for (uint32_t slot = 0;
             proof->laws[type].gang > 0 && slot < lull_prices_slots(proof->prices); slot++)
            sum_j += proof->laws[type].gpus *
                     lull_price_of(&proof->laws[type], lull_prices_load(proof->prices, type, slot));
    return sum_j;
}

/* (1) What does not fit is too dear: load > C - g makes g price >= g U >= b. */
static void test_no_room_costs_too_much(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 11);
    for (int i = 0; i < 20000; i++) {
        struct lull_price_law law;

        law.gang = 1 + (uint32_t)lull_random_below(&random, 64);
        law.gpus = law.gang + 1 + (uint32_t)lull_random_below(&random, 1000);
        law.min_j = exp(lull_random_normal(&random, 0.0, 3.0));
        law.max_j = law.min_j * exp(6.0 * lull_random_uniform(&random));
        law.bend = exp(lull_random_normal(&random, 0.0, 3.0)); /* any is proven */
        law.free = (uint32_t)lull_random_below(&random, law.gpus - law.gang);
        for (uint32_t load = law.gpus - law.gang + 1; load <= law.gpus; load++)
            assert_true(lull_price_of(&law, load) > law.max_j);
    }
}

/* (2) A step of the price: C (p(y + g) - p(y)) <= kappa g (p(y) + c L). */
static void test_price_step(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 12);
    for (int i = 0; i < 2000; i++) {
        struct lull_price_law law;

        law.gang = 1 + (uint32_t)lull_random_below(&random, 16);
        law.gpus = law.gang + 1 + (uint32_t)lull_random_below(&random, 200);
        law.min_j = 1.0;
        law.max_j = exp(6.0 * lull_random_uniform(&random));
        law.bend = exp(lull_random_normal(&random, 0.0, 3.0));
        law.free = (uint32_t)lull_random_below(&random, law.gpus - law.gang);
        for (uint32_t gpus = 1; gpus <= law.gang; gpus++)
            for (uint32_t load = 0; load + gpus <= law.gpus; load++) {
                const double before = lull_price_of(&law, load);
                const double rise = law.gpus * (lull_price_of(&law, load + gpus) - before);

                assert_true(rise <= lull_price_kappa(&law) * gpus *
                                        (before + law.bend * law.min_j) * (1.0 + 1e-9));
            }
    }
}

/* (3) No slot of a type is ever booked beyond what there is. */
static void test_never_overbooked(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct proof *proof = open_proof(seed);

        run(proof);
        for (uint32_t type = 0; type <= proof->made.problem.type_count; type++)
            for (uint32_t slot = 0; slot < lull_prices_slots(proof->prices); slot++)
                assert_in_range(lull_prices_load(proof->prices, type, slot), 0,
                                proof->laws[type].gpus);
        close_proof(proof);
    }
}

/* (4) The dual is feasible: u + sum of g price >= b for each schedule of each job, at final prices.
 */
static void test_dual_is_feasible(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct proof *proof = open_proof(seed);

        run(proof);
        for (size_t j = 0; j < proof->made.problem.job_count; j++)
            for (uint32_t m = 0; m < proof->made.jobs[j].point_count; m++) {
                const struct lull_slot_point *point = &proof->made.jobs[j].points[m];

                for (uint32_t start = point->first; start <= point->last; start++) {
                    const double price_j =
                        point->gpus *
                            lull_prices_sum(proof->prices, point->type, start, point->slots) +
                        point->reads * lull_prices_sum(proof->prices,
                                                       proof->made.problem.type_count, start,
                                                       point->slots);

                    assert_true(proof->surplus_j[j] + price_j >=
                                gain_at(point, start) * (1.0 - 1e-9));
                }
            }
        close_proof(proof);
    }
}

/* (5) A booking at prices below its gain, whatever is booked before: prices P < b and L g p <= b
 * make surplus and rise at most (max(1, kappa) + c kappa) b. */
static void test_booking_raises_the_dual(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 13);
    for (int i = 0; i < 20000; i++) {
        const uint32_t slots = 1 + (uint32_t)lull_random_below(&random, 12);
        struct lull_price_law law = {.gang = 1 + (uint32_t)lull_random_below(&random, 16)};
        double price_j = 0.0, rise_j = 0.0;
        uint32_t gpus, load;
        double gain_j;

        law.gpus = law.gang + 1 + (uint32_t)lull_random_below(&random, 60);
        law.min_j = exp(lull_random_normal(&random, 0.0, 3.0));
        law.max_j = law.min_j * slots * exp(4.0 * lull_random_uniform(&random));
        law.bend = exp(lull_random_normal(&random, -1.0, 2.0));
        law.free = (uint32_t)lull_random_below(&random, law.gpus - law.gang);
        gpus = 1 + (uint32_t)lull_random_below(&random, law.gang);
        for (uint32_t slot = 0; slot < slots; slot++) {
            load = (uint32_t)lull_random_below(&random, law.gpus - gpus + 1);
            price_j += gpus * lull_price_of(&law, load);
            rise_j += law.gpus * (lull_price_of(&law, load + gpus) - lull_price_of(&law, load));
        }
        gain_j = fmax(price_j, law.min_j * gpus * slots) *
                 (i % 2 == 0 ? 1.0 : 1.0 + lull_random_uniform(&random));
        assert_true(gain_j - price_j + rise_j <= lull_price_ratio(&law) * gain_j * (1.0 + 1e-9));
    }
}

/* (5) The same of a booking that also reads. */
static void test_booking_that_reads(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 14);
    for (int i = 0; i < 20000; i++) {
        const uint32_t slots = 1 + (uint32_t)lull_random_below(&random, 6);
        struct lull_price_law laws[2];
        uint32_t takes[2];
        double price_j = 0.0, rise_j = 0.0, gain_j = 0.0;

        for (int k = 0; k < 2; k++) {
            struct lull_price_law *law = &laws[k];

            law->gang = 1 + (uint32_t)lull_random_below(&random, 16);
            law->gpus = law->gang + 1 + (uint32_t)lull_random_below(&random, 60);
            law->min_j = exp(lull_random_normal(&random, 0.0, 2.0));
            law->max_j = law->min_j * slots * exp(4.0 * lull_random_uniform(&random));
            law->bend = exp(lull_random_normal(&random, -1.0, 2.0));
            law->free = (uint32_t)lull_random_below(&random, law->gpus - law->gang);
            takes[k] = 1 + (uint32_t)lull_random_below(&random, law->gang);
            for (uint32_t slot = 0; slot < slots; slot++) {
                const uint32_t load =
                    (uint32_t)lull_random_below(&random, law->gpus - takes[k] + 1);

                price_j += takes[k] * lull_price_of(law, load);
                rise_j +=
                    law->gpus * (lull_price_of(law, load + takes[k]) - lull_price_of(law, load));
            }
            gain_j = fmax(gain_j, law->min_j * takes[k] * slots);
        }
        gain_j = fmax(gain_j, price_j) * (i % 2 == 0 ? 1.0 : 1.0 + lull_random_uniform(&random));
        assert_true(gain_j - price_j + rise_j <=
                    lull_price_pair_ratio(&laws[0], &laws[1]) * gain_j * (1.0 + 1e-9));
        assert_true(lull_price_pair_ratio(&laws[0], &laws[1]) <=
                    (lull_price_ratio(&laws[0]) + lull_price_ratio(&laws[1])) * (1.0 + 1e-12));
    }
}

/* (6) So the dual is never more than the ratio times the primal, and a rejection leaves both alone;
 * the rise that a bid tells is no less than that of the prices. */
static void test_ratio_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct proof *proof = open_proof(seed);

        for (size_t j = 0; j < proof->made.problem.job_count; j++) {
            const double before_j = dual_j(proof);
            const bool is_admitted = step(proof, j);
            const double rise_j = dual_j(proof) - before_j;
            const struct lull_bid *bid = &proof->bids[j];

            assert_true(bid->surplus_j >= 0.0 && (is_admitted || bid->surplus_j == 0.0));
            assert_true(rise_j <=
                        (is_admitted ? bid->surplus_j + bid->rise_j : 0.0) + 1e-9 * dual_j(proof));
            assert_true(dual_j(proof) <= proof->ratio * proof->gain_j * (1.0 + 1e-9));
        }
        close_proof(proof);
    }
}

/* What the ratio leaves above the least is spent on the storage, too: a load that costs nothing. */
static void test_storage_has_a_free_load(void **state)
{
    size_t free_loads = 0;

    (void)state;
    for (uint64_t seed = 2; seed < CASES; seed += 3) {
        struct proof *proof = open_proof(seed);
        const uint32_t types = proof->made.problem.type_count;
        const struct lull_price_law *storage = &proof->laws[types];

        assert_int_equal(storage->gpus, (uint32_t)proof->rules.storage_mb_s);
        assert_true(lull_bid_ratio(proof->laws, types, storage) <= proof->ratio);
        free_loads += storage->free > 0;
        close_proof(proof);
    }
    assert_true(free_loads > 0);
}

/* The bend that is chosen is no worse than any other; its figures are those of
 * cluster/docs/competitive.md. */
static void test_least_ratio(void **state)
{
    static const struct {
        uint32_t gpus, gang;
        double range, was, is;
    } rows[] = {{2816, 128, 1e5, 32.1, 22.5},
                {1000000, 1, 1e6, 27.6, 17.6},
                {23, 16, 360.0, 2.0e6, 1184.0},
                {8, 7, 50.0, 2e12, 401.0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_price_law law = {rows[i].gpus, rows[i].gang, 1.0, rows[i].range, 1.0};
        double least;

        assert_true(fabs(lull_price_ratio(&law) / rows[i].was - 1.0) < 0.15);
        lull_price_law_tune(&law);
        least = lull_price_ratio(&law);
        assert_true(fabs(least / rows[i].is - 1.0) < 0.005);
        for (double bend = 1e-5; bend < 1e7; bend *= 1.01) {
            law.bend = bend;
            assert_true(lull_price_ratio(&law) >= least * (1.0 - 1e-6));
        }
    }
}

/* Solves the linear program, to which the storage is what a power cap is elsewhere. */
static double optimum(const struct proof *proof)
{
    struct lull_slot_problem problem = proof->made.problem;

    if (proof->rules.storage_mb_s > 0.0)
        problem.cap_w = (int64_t)proof->rules.storage_mb_s;
    for (size_t j = 0; j < problem.job_count; j++)
        for (uint32_t m = 0; m < problem.jobs[j].point_count; m++) {
            struct lull_slot_point *point = (struct lull_slot_point *)&problem.jobs[j].points[m];

            point->power_w = point->reads;
        }
    return slot_lp_welfare(&problem, NULL);
}

/* (7) Weak duality: the linear program is not above the dual; so not above the ratio times what the
 * rule gains. */
static void test_optimum_below_the_dual(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed += 2) {
        struct proof *proof = open_proof(seed);
        const double optimum_j = optimum(proof);

        run(proof);
        assert_true(optimum_j <= dual_j(proof) * (1.0 + 1e-7));
        assert_true(optimum_j <= proof->ratio * proof->gain_j * (1.0 + 1e-7));
        close_proof(proof);
    }
}

/* The policy does what the rule does. */
static void test_policy_is_the_rule(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct lull_cluster_policy_ops policy = *lull_cluster_policy_find("pd-rats-safe");
        struct proof *proof = open_proof(seed);
        struct online_result result;

        run(proof);
        policy.rule = &proof->rules;
        result = online_case_run(proof->it, &policy, NULL, NULL);
        assert_true(result.is_sound);
        assert_true(fabs(result.welfare_j - proof->gain_j) <= 1e-9 * proof->gain_j);
        close_proof(proof);
    }
}

/* ---- what is not so ----------------------------------------------------------------------- */

/* Where kappa < 1, (1 + c) kappa is not enough: one job of the least gain on many GPUs. */
static void test_twice_kappa_is_not_the_ratio(void **state)
{
    struct lull_slot_point point = {.gpus = 1, .slots = 1, .cost_j = -1.0};
    const struct lull_slot_job job = {0.0, 1, &point};
    struct lull_price_law law = {.gpus = 1000, .bend = 1.0};
    struct lull_prices *prices;
    struct lull_bid bid;
    double dual_j;

    (void)state;
    lull_bid_widen(&job, &law, NULL);
    assert_true(lull_price_kappa(&law) < 0.7);
    assert_int_equal(lull_prices_create(&law, 1, NULL, lull_bid_ratio(&law, 1, NULL), &prices), 0);
    assert_true(lull_bid_choose(prices, &job, &bid));
    lull_bid_admit(prices, &job, &bid);
    dual_j = bid.surplus_j + law.gpus * lull_price_of(&law, 1);
    assert_true(dual_j > 2.0 * lull_price_kappa(&law) * 1.2);
    assert_true(dual_j <= lull_bid_ratio(&law, 1, NULL));
    lull_prices_destroy(prices);
}

/* The linear program over schedules without a pause is no bound on those with one: of a job of two
 * slots around one that needs the middle slot it can have only one, a pause would allow both. */
static void test_pauses_are_not_covered(void **state)
{
    static const uint32_t gpus = 1;
    static const struct lull_slot_point around = {
        .gpus = 1, .slots = 2, .first = 0, .last = 1, .cost_j = -1.0};
    static const struct lull_slot_point middle = {
        .gpus = 1, .slots = 1, .first = 1, .last = 1, .cost_j = -1.0};
    const struct lull_slot_job jobs[] = {{0.0, 1, &around}, {0.0, 1, &middle}};
    const struct lull_slot_problem problem = {.slots = 3,
                                              .type_count = 1,
                                              .gpus = &gpus,
                                              .cap_w = LULL_SLOTS_UNCAPPED,
                                              .job_count = 2,
                                              .jobs = jobs};

    (void)state;
    assert_true(fabs(slot_lp_welfare(&problem, NULL) - 1.0) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_room_costs_too_much),
        cmocka_unit_test(test_price_step),
        cmocka_unit_test(test_never_overbooked),
        cmocka_unit_test(test_dual_is_feasible),
        cmocka_unit_test(test_booking_raises_the_dual),
        cmocka_unit_test(test_booking_that_reads),
        cmocka_unit_test(test_ratio_is_kept),
        cmocka_unit_test(test_storage_has_a_free_load),
        cmocka_unit_test(test_least_ratio),
        cmocka_unit_test(test_optimum_below_the_dual),
        cmocka_unit_test(test_policy_is_the_rule),
        cmocka_unit_test(test_twice_kappa_is_not_the_ratio),
        cmocka_unit_test(test_pauses_are_not_covered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
