/*
 * The frontier against recorded optima: 1F1B of GPT-3 on A100, LP solved elsewhere (HiGHS) on the
 * unrounded profile, 12 deadlines for each of 6 pipelines.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { ROWS = 72 };

#define MARGIN_RATIO 1e-6

static const char profile_path[] = LULL_SHARED_DATA "/profiles/gpt3-175b_a100_sxm_bf16.csv";
static const char reference_path[] = LULL_SHARED_DATA "/lp_reference.csv";

/* The fastest plan of all clocks: recorded times are in microseconds, so it may round up. */
static void check_all_max(const struct pipeline_case *it, double time_s, double energy_j)
{
    uint32_t *point = calloc(it->graph.op_count, sizeof(*point));
    struct lull_pipeline_cost cost;

    assert_non_null(point);
    lull_pipeline_plan_highest(&it->problem, point);
    cost = lull_pipeline_plan_cost(&it->problem, point, 0);
    assert_near((double)cost.time_ns * 1e-9, time_s, MARGIN_RATIO * time_s);
    assert_near(cost.energy_j, energy_j, MARGIN_RATIO * energy_j);
    free(point);
}

static void check_bound(const struct pipeline_case *it, double time_s, double energy_j)
{
    struct lull_frontier *frontier = lull_frontier_create(&it->problem, NULL);

    assert_non_null(frontier);
    assert_int_equal(lull_frontier_seek(frontier, llround(time_s * 1e9)), 0);
    assert_near(lull_frontier_here(frontier).energy_j, energy_j, MARGIN_RATIO * energy_j);
    lull_frontier_destroy(frontier);
}

static void test_recorded_optima(void **state)
{
    FILE *file = fopen(reference_path, "r");
    struct pipeline_case it;
    char line[128];
    char kind[8];
    double time_s;
    double energy_j;
    uint32_t stages;
    uint32_t microbatches;
    int rows = 0;

    (void)state;
    if (file == NULL) {
        fprintf(stderr, "skipped: no recorded optima %s\n", reference_path);
        skip();
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%u,%u,%7[a-z],%lf,%lf", &stages, &microbatches, kind, &time_s,
                   &energy_j) != 5)
            continue;
        assert_true(
            pipeline_case_1f1b(&it, profile_path, stages, microbatches, PIPELINE_CASE_A100_W));
        if (strcmp(kind, "bound") == 0) {
            check_bound(&it, time_s, energy_j);
            rows++;
        } else {
            check_all_max(&it, time_s, energy_j);
        }
        pipeline_case_fini(&it);
    }
    fclose(file);
    assert_int_equal(rows, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_optima),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
