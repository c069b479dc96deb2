/*
 * The search for a power limit on emulated GPUs in virtual time: within one step of what an
 * exhaustive sweep of long, settled runs finds, or as good (limits above what a job draws are all
 * the same), for less than two minutes of the job. The sweep reads true energies, the search the
 * counter that a driver publishes. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "core/job/limit_search.h"
#include "core/stats/counter.h"
#include "emulator/gpu_model.h"
#include "emulator/physics/physics.h"

enum { POLL_MS = 50, EXCHANGE_MS = 20, SETTLED_ITERATIONS = 100, SWEEP_ITERATIONS = 100 };

static struct lull_physics gpu;
static struct lull_counter counter;
static int64_t poll_ns;
static int context;
static const struct lull_gpu_profile *profile;

static const struct lull_gpu_model *find_model(const char *name)
{
    for (uint32_t i = 0; i < lull_gpu_model_count; i++)
        if (strcmp(lull_gpu_models[i].name, name) == 0)
            return &lull_gpu_models[i];
    fail_msg("%s: no such model", name);
    return NULL;
}

static void start_job(const struct lull_gpu_model *model, double warm_w)
{
    lull_physics_init(&gpu, model, 1, 0);
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

/* A kernel, then a while without one. */
static void iterate(double kernel_s)
{
    assert_true(lull_physics_launch(&gpu, context, kernel_s, profile));
    for (;;) {
        const int64_t end_ns = lull_physics_queue_end_ns(&gpu, context);
        const int64_t change_ns = lull_physics_rate_change_ns(&gpu);

        if (end_ns <= gpu.now_ns)
            break;
        pass_until(end_ns < change_ns ? end_ns : change_ns);
    }
    pass_until(gpu.now_ns + EXCHANGE_MS * LULL_NS_PER_MS);
}

/* ---- exhaustive -------------------------------------------------------------------------- */

static void sweep(const struct lull_gpu_model *model, double kernel_s,
                  const struct lull_limit_setting *settings, uint32_t count,
                  struct lull_job_point *points_out)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t begin_ns;
        double begin_j;

        start_job(model, fmin(settings[i].limit_w, model->limit_default_w * 0.9));
        lull_physics_set_limit(&gpu, settings[i].limit_w);
        for (int k = 0; k < SETTLED_ITERATIONS; k++)
            iterate(kernel_s);
        begin_ns = gpu.now_ns;
        begin_j = lull_physics_energy_j(&gpu);
        for (int k = 0; k < SWEEP_ITERATIONS; k++)
            iterate(kernel_s);
        points_out[i] = (struct lull_job_point){
            .level = settings[i].limit_w,
            .energy_j = (lull_physics_energy_j(&gpu) - begin_j) / SWEEP_ITERATIONS,
            .time_s = (double)(gpu.now_ns - begin_ns) * 1e-9 / SWEEP_ITERATIONS,
        };
    }
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

static double run_piece(double kernel_s, int64_t length_ns, struct piece *piece)
{
    double begin_j = 0.0;
    double end_j = 0.0;

    piece->end_ns = 0;
    piece->iterations = piece->later;
    piece->later = 0;
    while (piece->end_ns == 0 || !lull_counter_at(&counter, piece->end_ns, &end_j)) {
        iterate(kernel_s);
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

static uint32_t search(const struct lull_gpu_model *model, double kernel_s,
                       const struct lull_limit_search_config *config,
                       const struct lull_limit_setting *settings, uint32_t count,
                       double *spent_s_out, uint32_t *measured_out)
{
    struct lull_limit_search *limits = NULL;
    const struct lull_limit_measure *measures;
    struct piece piece = {0};
    uint32_t all;
    uint32_t best;

    assert_int_equal(lull_limit_search_create(config, settings, count, &limits, NULL), 0);
    start_job(model, model->limit_default_w * 0.9);
    while (gpu.now_ns < LULL_NS_PER_S)
        iterate(kernel_s);
    piece.begin_ns = gpu.now_ns;
    while (lull_limit_search_now(limits) != NULL) {
        const double limit_w = lull_limit_search_now(limits)->limit_w;
        double joules;

        if (limit_w != gpu.limit_w) {
            lull_physics_set_limit(&gpu, limit_w);
            piece = (struct piece){.begin_ns = gpu.now_ns};
        }
        joules = run_piece(kernel_s, LULL_NS_PER_S / 2, &piece);
        lull_limit_search_take(limits, piece.iterations,
                               (double)(piece.end_ns - piece.begin_ns) * 1e-9, joules);
        piece.begin_ns = piece.end_ns;
    }
    measures = lull_limit_search_measures(limits, measured_out, &all);
    assert_int_equal(lull_limit_choose(&config->selector, measures, *measured_out, &best, NULL), 0);
    *spent_s_out = lull_limit_search_spent_s(limits);
    lull_limit_search_destroy(limits);
    return best;
}

static double value(const struct lull_job_selector *selector, const struct lull_job_point *point)
{
    if (selector->aim == LULL_JOB_COST)
        return lull_job_cost(&selector->price, point->energy_j, point->time_s);
    if (selector->aim == LULL_JOB_DELAY)
        return point->energy_j * point->time_s;
    return point->energy_j;
}

/* Within one step of the best; or as good, to 0.1 %, as the better of the two beside it. */
static bool is_near(const struct lull_job_selector *selector, const struct lull_job_point *points,
                    uint32_t count, uint32_t found, size_t exact)
{
    double beside = INFINITY;

    if (exact > 0)
        beside = value(selector, &points[exact - 1]);
    if (exact + 1 < count && selector->aim != LULL_JOB_SLOWDOWN) /* too slow, else it were best */
        beside = fmin(beside, value(selector, &points[exact + 1]));
    return (found <= exact + 1 && exact <= found + 1) ||
           value(selector, &points[found]) <= 1.001 * beside;
}

static void check_aim(const struct lull_gpu_model *model, double kernel_s,
                      const struct lull_job_selector *selector,
                      const struct lull_limit_setting *settings, uint32_t count,
                      const struct lull_job_point *points)
{
    struct lull_limit_search_config config = lull_limit_search_defaults;
    double spent_s;
    uint32_t measured;
    uint32_t found;
    size_t exact;
    double over;

    config.selector = *selector;
    found = search(model, kernel_s, &config, settings, count, &spent_s, &measured);
    assert_int_equal(lull_job_select(selector, points, count, &exact, NULL), 0);
    over = value(selector, &points[found]) / value(selector, &points[exact]) - 1.0;
    print_message("%-15s %-10s %4.0f ms %-12s %3.0f W, exhaustively %3.0f W: %+5.2f %%; "
                  "%2u of %u limits in %.0f s\n",
                  model->name, profile->name, kernel_s * 1e3, lull_job_aim_name(selector->aim),
                  settings[found].limit_w, settings[exact].limit_w, 100.0 * over, measured, count,
                  spent_s);
    assert_true(is_near(selector, points, count, found, exact));
    if (selector->aim == LULL_JOB_SLOWDOWN)
        assert_true(points[found].time_s <
                    points[0].time_s * (1.0 + selector->slowdown_ratio) * 1.01);
    assert_true(spent_s < 120.0);
}

static void check_model(const char *name, const char *profile_name, double kernel_s)
{
    const struct lull_gpu_model *model = find_model(name);
    const struct lull_job_price price = {0.5, model->limit_max_w, 1};
    const struct lull_job_selector selectors[] = {
        {.aim = LULL_JOB_COST, .price = price},
        {.aim = LULL_JOB_ENERGY},
        {.aim = LULL_JOB_DELAY},
        {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.05},
    };
    struct lull_limit_setting settings[LULL_LIMIT_SEARCH_SETTINGS];
    struct lull_job_point points[LULL_LIMIT_SEARCH_SETTINGS];
    const uint32_t count =
        lull_limit_search_ladder(model->limit_max_w, model->limit_min_w, 25.0, settings);

    profile = lull_gpu_model_profile(model, profile_name);
    assert_non_null(profile);
    sweep(model, kernel_s, settings, count, points);
    for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++)
        check_aim(model, kernel_s, &selectors[i], settings, count, points);
}

static void test_a100(void **state)
{
    (void)state;
    check_model("A100-SXM4-40GB", "training", 0.2);
    check_model("A100-SXM4-40GB", "llm_bwd", 0.05);
}

static void test_v100(void **state)
{
    (void)state;
    check_model("V100-PCIE-32GB", "training", 0.2);
}

static void test_a40(void **state)
{
    (void)state;
    check_model("A40", "training", 0.2);
}

static void test_h100(void **state)
{
    (void)state;
    check_model("H100-SXM5", "training", 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a100),
        cmocka_unit_test(test_v100),
        cmocka_unit_test(test_a40),
        cmocka_unit_test(test_h100),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
