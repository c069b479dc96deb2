/*
 * Paces of jobs that share links and a storage: random clusters with jobs that begin and end,
 * against an oracle that solves the whole system each time by iteration and bisection; and cases
 * with known results. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "cluster/core/network/contention.h"
#include "cluster/core/policy/job_ledger.h"
#include "tests/core/property.h"

enum { NODES = 12, RACKS = 4, JOBS = 20, SHARES = 6, SEEDS = 100, STEPS = 40 };

struct cluster {
    struct lull_cluster_type type;
    struct lull_cluster_node nodes[NODES];
    struct lull_cluster is;
    struct lull_contention_rules rules;
};

struct job {
    bool runs;
    struct lull_cluster_point point;
    struct lull_cluster_share shares[SHARES];
    uint32_t count;
    double reported; /* its pace, as reported */
};

static void draw_cluster(struct cluster *it, struct lull_random *random)
{
    it->type = (struct lull_cluster_type){.name = "GPU"};
    for (uint32_t i = 0; i < NODES; i++)
        it->nodes[i] = (struct lull_cluster_node){
            .gpus = 8, .rack = (uint32_t)lull_random_below(random, RACKS)};
    it->is = (struct lull_cluster){&it->type, 1, it->nodes, NODES, 1};
    it->rules = (struct lull_contention_rules){
        .shares_links = lull_random_below(random, 4) > 0,
        .uplink_links =
            lull_random_below(random, 2) ? 0.3 + 3.0 * lull_random_uniform(random) : 0.0,
        .penalty_ratio = lull_random_below(random, 2) ? lull_random_uniform(random) : 0.0,
        .storage_mb_s =
            lull_random_below(random, 2) ? 100.0 + 3000.0 * lull_random_uniform(random) : 0.0,
    };
}

static void draw_job(struct job *job, struct lull_random *random)
{
    *job = (struct job){.runs = true, .reported = 1.0};
    job->count = 1 + (uint32_t)lull_random_below(random, SHARES);
    for (uint32_t i = 0; i < job->count; i++) {
        const uint32_t node = (2 * i + (uint32_t)lull_random_below(random, 2)) % NODES;

        job->shares[i] =
            (struct lull_cluster_share){node, 1 + (uint32_t)lull_random_below(random, 4)};
        job->point.gpus += job->shares[i].gpus;
    }
    job->point.exposed_ratio =
        lull_random_below(random, 5) ? (float)(0.9 * lull_random_uniform(random)) : 0.0F;
    job->point.read_mb_s =
        lull_random_below(random, 3) ? (float)(400.0 * lull_random_uniform(random)) : 0.0F;
}

/* ---- the judge ---------------------------------------------------------------------------- */

static bool is_on_node(const struct job *job, uint32_t node)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->shares[i].node == node)
            return true;
    return false;
}

/* Over the uplink of a rack: it is in this and in another. */
static bool leaves_rack(const struct cluster *it, const struct job *job, uint32_t rack)
{
    bool inside = false;
    bool outside = false;

    for (uint32_t i = 0; i < job->count; i++)
        *(it->nodes[job->shares[i].node].rack == rack ? &inside : &outside) = true;
    return inside && outside;
}

static bool takes(const struct cluster *it, const struct job *job, uint32_t link)
{
    if (!job->runs || job->count < 2 || !it->rules.shares_links || job->point.exposed_ratio == 0.0F)
        return false;
    return link < NODES ? is_on_node(job, link)
                        : it->rules.uplink_links > 0.0 && leaves_rack(it, job, link - NODES);
}

static double stretch_of(const struct cluster *it, const struct job *jobs, uint32_t job,
                         const double *duty)
{
    double most = 1.0;

    for (uint32_t link = 0; link < NODES + RACKS; link++) {
        const double unit = link < NODES ? 1.0 : 1.0 / it->rules.uplink_links;
        double others = 0.0;

        if (!takes(it, &jobs[job], link))
            continue;
        for (uint32_t i = 0; i < JOBS; i++)
            if (i != job && takes(it, &jobs[i], link))
                others += duty[i];
        most = fmax(most, unit * (1.0 + others) + others * it->rules.penalty_ratio * unit);
    }
    return most;
}

static void judge_links(const struct cluster *it, const struct job *jobs, double *pace)
{
    double duty[JOBS] = {0};

    for (int round = 0; round < 300; round++) {
        double next[JOBS] = {0};

        for (uint32_t i = 0; i < JOBS; i++) {
            const double r = jobs[i].point.exposed_ratio;
            const double transfer = r * stretch_of(it, jobs, i, duty);

            pace[i] = 1.0 / (1.0 - r + transfer);
            next[i] = transfer * pace[i];
        }
        memcpy(duty, next, sizeof(duty));
    }
}

static double wants(const struct job *job, double pace)
{
    return job->runs ? job->point.read_mb_s * pace : 0.0;
}

/* The level of MB/s for a GPU at which the storage is just used up. */
static void judge_storage(const struct cluster *it, const struct job *jobs, double *pace)
{
    double low = 0.0;
    double high = 1e6;

    if (it->rules.storage_mb_s == 0.0)
        return;
    for (int round = 0; round < 200; round++) {
        const double level = (low + high) / 2.0;
        double sum = 0.0;

        for (uint32_t i = 0; i < JOBS; i++)
            sum += fmin(wants(&jobs[i], pace[i]), level * jobs[i].point.gpus);
        *(sum > it->rules.storage_mb_s ? &high : &low) = level;
    }
    for (uint32_t i = 0; i < JOBS; i++)
        if (wants(&jobs[i], pace[i]) > low * jobs[i].point.gpus)
            pace[i] *= low * jobs[i].point.gpus / wants(&jobs[i], pace[i]);
}

/* ---- jobs that come and go ---------------------------------------------------------------- */

static void check(struct lull_contention *contention, const struct cluster *it, struct job *jobs,
                  uint64_t seed)
{
    const uint32_t *reported;
    const size_t count = lull_contention_update(contention, &reported);
    double pace[JOBS];

    judge_links(it, jobs, pace);
    judge_storage(it, jobs, pace);
    for (size_t i = 0; i < count; i++) {
        holds(jobs[reported[i]].runs, seed);
        holds(i == 0 || reported[i] > reported[i - 1], seed);
        jobs[reported[i]].reported = lull_contention_pace(contention, reported[i]);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        if (!jobs[i].runs)
            continue;
        holds(jobs[i].reported == lull_contention_pace(contention, i), seed);
        holds(fabs(jobs[i].reported / pace[i] - 1.0) <= 3e-6, seed);
    }
}

static void change(struct lull_contention *contention, struct job *job, uint32_t number,
                   struct lull_random *random)
{
    if (job->runs) {
        lull_contention_remove(contention, number);
        job->runs = false;
        return;
    }
    draw_job(job, random);
    assert_int_equal(lull_contention_add(contention, number, &job->point, job->shares, job->count),
                     0);
}

static void test_against_the_judge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job jobs[JOBS] = {0};
        struct lull_contention *contention;
        struct lull_random random;
        struct cluster it;

        lull_random_init(&random, seed);
        draw_cluster(&it, &random);
        assert_int_equal(lull_contention_create(&it.is, &it.rules, &contention), 0);
        for (int step = 0; step < STEPS; step++) {
            for (uint64_t i = lull_random_below(&random, 4); i > 0; i--) {
                const uint32_t job = (uint32_t)lull_random_below(&random, JOBS);

                change(contention, &jobs[job], job, &random);
            }
            check(contention, &it, jobs, seed);
        }
        lull_contention_destroy(contention);
    }
}

/* ---- known -------------------------------------------------------------------------------- */

static double pace_of_all(const struct cluster *it, uint32_t count, float exposed_ratio)
{
    const struct lull_cluster_point point = {.gpus = 2, .exposed_ratio = exposed_ratio};
    const struct lull_cluster_share shares[] = {{0, 1}, {1, 1}};
    struct lull_contention *contention;
    const uint32_t *reported;
    double pace;

    assert_int_equal(lull_contention_create(&it->is, &it->rules, &contention), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(lull_contention_add(contention, i, &point, shares, 2), 0);
    assert_int_equal(lull_contention_update(contention, &reported), count > 1 ? count : 0);
    pace = lull_contention_pace(contention, 0);
    lull_contention_destroy(contention);
    return pace;
}

/* Those that do next to nothing but communicate take k beta + (k - 1) eta (AdaDUAL). */
static void test_transfers_without_end(void **state)
{
    static const float nearly_all = 1.0F - 0x1p-20F;
    struct cluster it = {.rules = {.shares_links = true, .penalty_ratio = 0.235 / 0.856}};

    (void)state;
    it.is = (struct lull_cluster){&it.type, 1, it.nodes, 2, 1};
    for (uint32_t k = 1; k <= 6; k++)
        assert_near(1.0 / pace_of_all(&it, k, nearly_all), k + (k - 1) * it.rules.penalty_ratio,
                    1e-4);
}

/* Two alike: a duty d makes an iteration 1 + r d long, of which r (1 + d) is communication. */
static void test_two_alike(void **state)
{
    struct cluster it = {.rules = {.shares_links = true}};

    (void)state;
    it.is = (struct lull_cluster){&it.type, 1, it.nodes, 2, 1};
    for (double r = 0.05; r < 0.95; r += 0.1) {
        /* 1 - r + r (1 + d) = 1 + r d; d + r d^2 = r + r d. */
        const double duty = (r - 1.0 + sqrt((1.0 - r) * (1.0 - r) + 4.0 * r * r)) / (2.0 * r);

        assert_near(pace_of_all(&it, 2, (float)r), 1.0 / (1.0 + r * duty), 2e-6);
    }
}

/* The expectation of a policy for a job that is reported to be slower, stops, and starts again. */
static void test_a_book_that_hears_of_paces(void **state)
{
    static const int64_t second = 1000000000;
    const struct lull_cluster_point points[] = {{.gpus = 1, .time_ns = 100 * second},
                                                {.gpus = 1, .time_ns = 200 * second}};
    const struct lull_cluster_job job = {.point_count = 2, .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    const struct lull_cluster_share share = {0, 1};
    struct lull_job_ledger book = {.jobs = &jobs};

    (void)state;
    assert_int_equal(lull_job_ledger_arrive(&book, 0), 0);
    lull_job_ledger_start(&book, 0, 0, &share, 1, 0);
    assert_int_equal(lull_job_ledger_end_ns(&book, 0), 100 * second);
    lull_job_ledger_pace(&book, 0, 0.5, 50 * second);
    assert_int_equal(lull_job_ledger_end_ns(&book, 0), 150 * second);
    assert_int_equal(lull_job_ledger_left_ns(&book, 0, 1, 70 * second), 160 * second);
    lull_job_ledger_pause(&book, 0, 7 * second, 70 * second);
    assert_int_equal(lull_job_ledger_need_ns(&book, 0, 0), 47 * second);
    lull_job_ledger_start(&book, 0, 0, &share, 1, 80 * second);
    assert_int_equal(lull_job_ledger_end_ns(&book, 0), 127 * second);
    lull_job_ledger_fini(&book);
}

static void test_nothing_shared(void **state)
{
    (void)state;
    assert_false(lull_contention_is_on(&(struct lull_contention_rules){0}));
    assert_true(lull_contention_is_on(&(struct lull_contention_rules){.storage_mb_s = 1.0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_judge), cmocka_unit_test(test_transfers_without_end),
        cmocka_unit_test(test_two_alike),         cmocka_unit_test(test_a_book_that_hears_of_paces),
        cmocka_unit_test(test_nothing_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
