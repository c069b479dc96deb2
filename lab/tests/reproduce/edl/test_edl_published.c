/*
 * EDL compared with the published results, on random task sets made as in the paper: online
 * energies within 3 %, the cost of the repairs, and the effect of the assumed voltage range.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "edl_case.h"
#include "lab/reproduce/edl/online.h"

static const double idle_w = 37.0;

struct energy {
    double run_j;
    double idle_j;
    double turn_on_j;
    uint64_t misses;
};

static double total(struct energy energy)
{
    return energy.run_j + energy.idle_j + energy.turn_on_j;
}

/* As published: turning on costs 90 J with DVFS and 200 J without. */
static struct energy run_online(const char *set_name, const struct lull_edl_config *config)
{
    const struct edl_set *set = edl_read(set_name);
    struct lull_edl_job *jobs = calloc(set->count, sizeof(*jobs));
    struct lull_edl_outcome outcome = {0};

    assert_non_null(jobs);
    assert_int_equal(lull_edl_simulate(config, set->tasks, set->count, jobs, &outcome, NULL), 0);
    free(jobs);
    return (struct energy){outcome.run_j, outcome.idle_s * idle_w,
                           (double)outcome.turn_ons * (config->has_dvfs ? 90.0 : 200.0),
                           outcome.misses};
}

static struct energy run_offline(const char *set_name, size_t count,
                                 const struct lull_edl_config *config)
{
    const struct edl_set *set = edl_read(set_name);
    struct lull_edl_job *jobs = calloc(count, sizeof(*jobs));
    struct lull_edl_outcome outcome = {0};

    assert_non_null(jobs);
    assert_true(count <= set->count);
    assert_int_equal(lull_edl_schedule(config, set->tasks, count, jobs, &outcome, NULL), 0);
    free(jobs);
    return (struct energy){outcome.run_j, outcome.idle_s * idle_w, (double)outcome.turn_ons * 90.0,
                           outcome.misses};
}

/* ---- published online rows ---------------------------------------------------------------- */

/* mode,gpus,gpus_per_node,util,algo,dvfs_on,theta,..., the mean of the total */
enum { PER_NODE = 2, RULE = 4, HAS_DVFS, THETA, TOTAL = 16, COLUMNS = 19 };

static void test_online_rows(void **state)
{
    struct lull_lines *lines = edl_open(LULL_SCHED_DATA "/published/online.csv");
    char *row[EDL_CELLS];
    double worst = 0.0;
    int rows = 0;

    (void)state;
    assert_int_equal(edl_row(lines, row), COLUMNS);
    assert_string_equal(row[TOTAL], "aver_total_E");
    for (; edl_row(lines, row) == COLUMNS; rows++) {
        struct lull_edl_config config;
        double off;

        lull_edl_config_default(&config);
        edl_set_rule(&config, row[RULE]);
        config.has_dvfs = row[HAS_DVFS][0] == '1';
        config.theta_ratio = edl_number(row[THETA]);
        config.gpus_per_node = (uint32_t)edl_number(row[PER_NODE]);
        off = 0.5 *
                  (total(run_online("online-s1-u1.6", &config)) +
                   total(run_online("online-s3-u1.6", &config))) /
                  edl_number(row[TOTAL]) -
              1.0;
        if (!(fabs(off) <= 0.03))
            fail_msg("l %s theta %s: %+.2f %% off", row[PER_NODE], row[THETA], off * 100.0);
        worst = fmax(worst, fabs(off));
    }
    lull_lines_close(lines);
    assert_int_equal(rows, 35);
    print_message("%d rows, at most %.2f %% off\n", rows, worst * 100.0);
}

/* ---- cost of the repairs ------------------------------------------------------------------ */

/* Total energy against the released code's, where nothing is late. */
static double cost_of(struct lull_edl_config *config, bool is_online, const char *set, size_t count)
{
    struct lull_edl_config published = *config;
    struct energy before;
    struct energy after;

    published.place = LULL_EDL_SPT;
    published.turn_on_j = INFINITY;
    assert_int_equal(lull_edl_find_variant("published", &published.errors), 0);
    before = is_online ? run_online(set, &published) : run_offline(set, count, &published);
    after = is_online ? run_online(set, config) : run_offline(set, count, config);
    assert_true(before.misses > 0);
    assert_int_equal(after.misses, 0);
    return total(after) / total(before) - 1.0;
}

static void test_repairs_of_one_set(void **state)
{
    struct lull_edl_config config;

    (void)state;
    lull_edl_config_default(&config);
    assert_true(cost_of(&config, false, "offline-s1", 2048) < 0.001);
    config.theta_ratio = 0.9;
    assert_true(cost_of(&config, false, "offline-s1", 2048) < 0.001);
}

/* The frugal rules need no more than the released code at any theta, node size and set. */
static void test_frugal_costs_nothing(void **state)
{
    static const double thetas[] = {1.0, 0.9, 0.5};
    double worst = -1.0;

    (void)state;
    for (int i = 0; i < 3; i++)
        for (uint32_t per_node = 1; per_node <= 16; per_node *= 2) {
            struct lull_edl_config config;

            lull_edl_config_default(&config);
            config.place = LULL_EDL_PACK;
            config.theta_ratio = thetas[i];
            config.gpus_per_node = per_node;
            config.turn_on_j = 90.0;
            config.idle_w = idle_w;
            worst = fmax(worst, cost_of(&config, false, "offline-s1", 2048));
            worst = fmax(worst, cost_of(&config, false, "offline-s3", 3276));
            worst = fmax(worst, cost_of(&config, true, "online-s1-u0.4", 0));
            worst = fmax(worst, cost_of(&config, true, "online-s3-u1.6", 0));
        }
    print_message("at most %+.3f %% energy\n", worst * 100.0);
    assert_true(worst < 0.001);
}

/* ---- ranges ------------------------------------------------------------------------------- */

static double saving_of(const char *set, const struct lull_dvfs_range *range)
{
    struct lull_edl_config config;
    double off_j;

    lull_edl_config_default(&config);
    config.has_dvfs = false;
    off_j = run_offline(set, 2048, &config).run_j;
    config.has_dvfs = true;
    config.range = *range;
    return 1.0 - run_offline(set, 2048, &config).run_j / off_j;
}

static void test_saving_by_range(void **state)
{
    const double drawn[] = {saving_of("offline-s1", &lull_dvfs_assumed),
                            saving_of("offline-s1", &lull_dvfs_measured)};
    const double fitted[] = {saving_of("offline-real1080ti-s1", &lull_dvfs_assumed),
                             saving_of("offline-real1080ti-s1", &lull_dvfs_measured)};

    (void)state;
    print_message("run energy saved: drawn %.2f and %.2f %%, fitted %.2f and %.2f %%\n",
                  drawn[0] * 100.0, drawn[1] * 100.0, fitted[0] * 100.0, fitted[1] * 100.0);
    assert_true(drawn[0] > 0.33 && drawn[0] < 0.34);
    assert_true(fitted[0] > 0.062 && fitted[0] < 0.064);
    assert_true(drawn[1] > 0.0 && drawn[1] < drawn[0]);
    assert_true(fitted[1] > 0.0 && fitted[1] < fitted[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_online_rows),
        cmocka_unit_test(test_repairs_of_one_set),
        cmocka_unit_test(test_frugal_costs_nothing),
        cmocka_unit_test(test_saving_by_range),
    };

    if (edl_is_absent()) {
        fprintf(stderr, "skipped: no %s\n", LULL_SCHED_DATA);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
