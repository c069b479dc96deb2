/*
 * The search for a power limit on emulated GPUs in virtual time: within one step of the choice of
 * an oracle that knows the settled values of every limit, or equally good (all limits above a job's
 * power are equivalent), in less than two minutes of the job. The search reads the counter that a
 * driver publishes. Jobs: the presets of the GPU models, the same on a busy host, then random ones.
 *
 * usage: test_limit_choice [JOBS [FIRST_SEED]]: number of random jobs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "core/tuning/limit_search.h"
#include "core/tuning/thermal.h"
#include "core/stats/counter.h"
#include "core/stats/random.h"
#include "emulator/noise.h"
#include "emulator/oracle_limits.h"
#include "emulator/physics/physics.h"

enum { POLL_MS = 50, AIMS = 4, MAX_LIMITS = LULL_LIMIT_SEARCH_POINTS };

static const double step_w = 25.0;

static struct lull_physics gpu;
static struct lull_counter counter;
static int64_t poll_ns;
static int context;
static const struct lull_gpu_profile *profile;
static struct lull_oracle_limit_job job;
static double warm_w;         /* the GPU begins as warm as a job that draws so much leaves it */
static bool has_curve = true; /* the search knows the GPU's curves, and may skip limits by them */
static uint32_t made_up_jobs = 40;
static uint64_t first_seed = 1;

/* Delay of an iteration by a busy host: a share of its time that changes within seconds. */
static double host_deviation; /* 0: idle */
static struct lull_random host_random;
static double host_ratio;

static void start_job(void)
{
    lull_physics_init(&gpu, job.model, job.seed == 0 ? 0 : lull_noise_mix(job.seed), 0);
    lull_physics_warm(&gpu, warm_w);
    context = lull_physics_open(&gpu, 1, 0);
    memset(&counter, 0, sizeof(counter));
    poll_ns = 0;
}

/* Polls the counter as a governor would. */
static void pass_until(int64_t time_ns)
{
    do {
        lull_physics_advance(&gpu, time_ns < poll_ns ? time_ns : poll_ns);
        if (gpu.now_ns < poll_ns)
            continue;
        lull_counter_take(&counter, gpu.now_ns, (double)lull_physics_published_mj(&gpu) * 1e-3);
        poll_ns += POLL_MS * LULL_NS_PER_MS;
    } while (gpu.now_ns < time_ns);
}

static double host_ms(void)
{
    const double iteration_ms = job.compute_ms + job.wait_ms;
    const double memory = exp(-iteration_ms / 5000.0);

    if (host_deviation == 0.0)
        return 0.0;
    host_ratio = memory * host_ratio + sqrt(1.0 - memory * memory) *
                                           lull_random_normal(&host_random, 0.0, host_deviation);
    return fabs(host_ratio) * iteration_ms;
}

/* A kernel, then a while without one. */
static void iterate(void)
{
    const double wait_ms = job.wait_ms + host_ms();

    assert_true(lull_physics_launch(&gpu, context, job.compute_ms * 1e-3, profile));
    for (;;) {
        const int64_t end_ns = lull_physics_queue_end_ns(&gpu, context);
        const int64_t change_ns = lull_physics_rate_change_ns(&gpu);

        if (end_ns <= gpu.now_ns)
            break;
        pass_until(end_ns < change_ns ? end_ns : change_ns);
    }
    pass_until(gpu.now_ns + lull_ns_from_ms(wait_ms));
}

/* ---- searched ---------------------------------------------------------------------------- */

/* Iterates until at least length_ns have passed since begin_ns, an iteration's end, and the energy
 * until the last iteration's end by then is known; what comes later belongs to the next piece. */
struct piece {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t iterations;
    uint64_t later; /* iterations that have ended since */
};

static double run_piece(int64_t length_ns, struct piece *piece)
{
    double begin_j = 0.0;
    double end_j = 0.0;

    piece->end_ns = 0;
    piece->iterations = piece->later;
    piece->later = 0;
    while (piece->end_ns == 0 || !lull_counter_at(&counter, piece->end_ns, &end_j)) {
        iterate();
        if (piece->end_ns != 0) {
            piece->later++;
        } else {
            piece->iterations++;
            if (gpu.now_ns - piece->begin_ns >= length_ns)
                piece->end_ns = gpu.now_ns;
        }
    }
    assert_true(lull_counter_at(&counter, piece->begin_ns, &begin_j));
    return end_j - begin_j;
}

/* The result of the search. */
struct outcome {
    uint32_t found;
    uint32_t measured;
    double spent_s;
};

static void warm_up(void)
{
    struct lull_warmth warmth = {0};

    do
        iterate();
    while (!lull_warmth_is_due(&warmth, gpu.now_ns) ||
           !lull_warmth_take(&warmth, gpu.now_ns, floor(lull_physics_temperature_c(&gpu))));
}

static struct outcome search(const struct lull_limit_search_config *config,
                             const struct lull_limit_point *settings, uint32_t count)
{
    struct lull_limit_search *limits = NULL;
    const struct lull_limit_measure *measures;
    struct piece piece = {0};
    struct outcome outcome;
    uint32_t all;

    assert_int_equal(lull_limit_search_create(config, settings, count, &limits, NULL), 0);
    start_job();
    warm_up();
    piece.begin_ns = gpu.now_ns;
    while (lull_limit_search_now(limits) != NULL) {
        const double limit_w = lull_limit_search_now(limits)->limit_w;
        double joules;

        if (limit_w != gpu.limit_w) {
            lull_physics_set_limit(&gpu, limit_w);
            piece = (struct piece){.begin_ns = gpu.now_ns};
        }
        joules = run_piece(LULL_NS_PER_S / 2, &piece);
        lull_limit_search_take(limits, piece.iterations,
                               (double)(piece.end_ns - piece.begin_ns) * 1e-9, joules,
                               floor(lull_physics_temperature_c(&gpu)));
        piece.begin_ns = piece.end_ns;
    }
    measures = lull_limit_search_measures(limits, &outcome.measured, &all);
    assert_int_equal(
        lull_limit_choose(&config->selector, measures, outcome.measured, &outcome.found, NULL), 0);
    outcome.spent_s = lull_limit_search_spent_s(limits);
    lull_limit_search_destroy(limits);
    return outcome;
}

/* ---- judged ------------------------------------------------------------------------------ */

static double value(const struct lull_job_selector *selector, const struct lull_oracle_limit *limit)
{
    if (selector->aim == LULL_JOB_COST)
        return lull_job_cost(&selector->price, limit->energy_j, limit->time_s);
    if (selector->aim == LULL_JOB_DELAY)
        return limit->energy_j * limit->time_s;
    return limit->energy_j;
}

static uint32_t find_best(const struct lull_job_selector *selector,
                          const struct lull_oracle_limit *limits, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (value(selector, &limits[i]) < value(selector, &limits[best]) &&
            (selector->aim != LULL_JOB_SLOWDOWN ||
             limits[i].time_s <= limits[0].time_s * (1.0 + selector->slowdown_ratio)))
            best = i;
    return best;
}

/* Returns whether the choice is within 0.1 % of the better of the best limit's two neighbours. */
static bool is_as_good(const struct lull_job_selector *selector,
                       const struct lull_oracle_limit *limits, uint32_t count, uint32_t found,
                       uint32_t best)
{
    double beside = INFINITY;

    if (best > 0)
        beside = value(selector, &limits[best - 1]);
    if (best + 1 < count && selector->aim != LULL_JOB_SLOWDOWN) /* too slow, else it were best */
        beside = fmin(beside, value(selector, &limits[best + 1]));
    return value(selector, &limits[found]) <= 1.001 * beside;
}

struct tally {
    unsigned choices;
    unsigned within_a_step;
    unsigned near; /* that, or as good */
    double worst_ratio;
    double sum_ratio;
    unsigned visited; /* limits */
    double spent_s;
    double longest_s;
    double slowest_ratio; /* over a bound on slowdown */
};

static void judge(const struct lull_job_selector *selector, const struct lull_oracle_limit *limits,
                  uint32_t count, const struct outcome *outcome, struct tally *tally)
{
    const uint32_t best = find_best(selector, limits, count);
    const struct lull_oracle_limit *found = &limits[outcome->found];
    const double over = value(selector, found) / value(selector, &limits[best]) - 1.0;
    const bool is_within = outcome->found <= best + 1 && best <= outcome->found + 1;
    const bool is_near = is_within || is_as_good(selector, limits, count, outcome->found, best);

    tally->choices++;
    tally->within_a_step += is_within;
    tally->near += is_near;
    tally->worst_ratio = fmax(tally->worst_ratio, over);
    tally->sum_ratio += fmax(over, 0.0);
    tally->visited += outcome->measured;
    tally->spent_s += outcome->spent_s;
    tally->longest_s = fmax(tally->longest_s, outcome->spent_s);
    if (selector->aim == LULL_JOB_SLOWDOWN)
        tally->slowest_ratio = fmax(tally->slowest_ratio, found->time_s / limits[0].time_s - 1.0 -
                                                              selector->slowdown_ratio);
    print_message("%s %4" PRIu64
                  " %-15s %-10s %4.0f + %3.0f ms %-12s %3.0f W, exhaustively %3.0f W: %+5.2f %%; "
                  "%2u of %u limits in %.0f s\n",
                  is_near ? "    " : "MISS", job.seed, job.model->name, profile->name,
                  job.compute_ms, job.wait_ms, lull_job_aim_name(selector->aim), found->limit_w,
                  limits[best].limit_w, 100.0 * over, outcome->measured, count, outcome->spent_s);
}

/* All aims, or one of them. */
static void check_job(int only_aim, struct tally *tally)
{
    const struct lull_job_price price = {0.5, job.model->limit_max_w, 1};
    const struct lull_job_selector selectors[AIMS] = {
        {.aim = LULL_JOB_COST, .price = price},
        {.aim = LULL_JOB_ENERGY},
        {.aim = LULL_JOB_DELAY},
        {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.05},
    };
    struct lull_limit_point settings[MAX_LIMITS];
    struct lull_oracle_limit limits[MAX_LIMITS];
    const uint32_t count =
        lull_limit_search_ladder(job.model->limit_max_w, job.model->limit_min_w, step_w, settings);

    profile = lull_gpu_model_profile(job.model, job.profile);
    for (uint32_t i = 0; i < count; i++)
        limits[i].limit_w = settings[i].limit_w;
    assert_int_equal(lull_oracle_ask_limits(&job, limits, count, NULL), 0);
    for (int i = 0; i < AIMS; i++) {
        struct lull_limit_search_config config = lull_limit_search_defaults;
        struct outcome outcome;

        if (only_aim >= 0 && i != only_aim)
            continue;
        config.selector = selectors[i];
        config.gpu_count = 1;
        if (has_curve)
            config.curve = lull_device_curve_find(job.model->name, strlen(job.model->name));
        outcome = search(&config, settings, count);
        judge(&selectors[i], limits, count, &outcome, tally);
    }
}

static void print_tally(const struct tally *tally)
{
    print_message(
        "%u choices, %u limits in %.0f s: %u within one step, %u so or as good; %.2f %% "
        "over the best on average, %.2f %% at worst; %.0f s at most; %.2f %% over a bound "
        "at worst\n",
        tally->choices, tally->visited, tally->spent_s, tally->within_a_step, tally->near,
        100.0 * tally->sum_ratio / tally->choices, 100.0 * tally->worst_ratio, tally->longest_s,
        100.0 * tally->slowest_ratio);
}

static const char *const model_names[] = {"A100-SXM4-40GB", "V100-PCIE-32GB", "A40", "H100-SXM5"};

enum { MODELS = sizeof(model_names) / sizeof(model_names[0]) };

static const struct lull_gpu_model *find_model(const char *name)
{
    return lull_gpu_model_find(name, (uint32_t)strlen(name));
}

static void choose_in_training(struct tally *tally)
{
    *tally = (struct tally){.slowest_ratio = -1.0};
    for (int i = 0; i < MODELS; i++) {
        job = (struct lull_oracle_limit_job){find_model(model_names[i]), 1, 1, 200, 20, "training"};
        warm_w = 0.9 * job.model->limit_default_w;
        check_job(-1, tally);
    }
    job = (struct lull_oracle_limit_job){find_model("A100-SXM4-40GB"), 1, 1, 50, 20, "llm_bwd"};
    warm_w = 360.0;
    check_job(-1, tally);
    print_tally(tally);
    assert_int_equal(tally->near, tally->choices);
    assert_true(tally->longest_s < 120.0);
}

/* With the curves of the GPUs fewer limits are visited, and the choices are as good. */
static void test_training(void **state)
{
    struct tally without;
    struct tally with;

    (void)state;
    has_curve = false;
    choose_in_training(&without);
    has_curve = true;
    choose_in_training(&with);
    assert_true(with.visited < without.visited);
    assert_true(with.sum_ratio <= without.sum_ratio + 0.001);
}

/* As in training above, with 2 % of host. */
static void test_a_busy_host(void **state)
{
    struct tally tally = {.slowest_ratio = -1.0};

    (void)state;
    host_deviation = 0.02;
    for (uint64_t seed = 1; seed <= 10; seed++)
        for (int i = 0; i < MODELS; i++) {
            lull_random_init(&host_random, seed);
            job = (struct lull_oracle_limit_job){
                find_model(model_names[i]), 1, seed, 200, 20, "training"};
            warm_w = 0.9 * job.model->limit_default_w;
            check_job(-1, &tally);
        }
    host_deviation = 0.0;
    print_tally(&tally);
    assert_true(tally.near >= 0.95 * tally.choices);
    assert_true(tally.longest_s < 120.0);
}

/* A GPU, what runs on it, how long and with what pauses, and a unit of that GPU. */
static int make_up_job(uint64_t seed)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    job = (struct lull_oracle_limit_job){
        .model = find_model(model_names[lull_random_below(&random, MODELS)]),
        .gpus = 1,
        .seed = seed,
        .compute_ms = 20.0 * pow(20.0, lull_random_uniform(&random)),
    };
    warm_w = job.model->limit_default_w * lull_random_uniform(&random);
    job.wait_ms = job.compute_ms * lull_random_uniform(&random);
    job.profile = job.model->profiles[lull_random_below(&random, job.model->profile_count)].name;
    return (int)lull_random_below(&random, AIMS);
}

static void test_made_up_jobs(void **state)
{
    struct tally tally = {.slowest_ratio = -1.0};

    (void)state;
    for (uint32_t i = 0; i < made_up_jobs; i++)
        check_job(make_up_job(first_seed + i), &tally);
    print_tally(&tally);
    assert_true(tally.near >= 0.95 * tally.choices);
    assert_true(tally.longest_s < 120.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_a_busy_host),
        cmocka_unit_test(test_made_up_jobs),
    };

    if (argc > 1)
        made_up_jobs = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
