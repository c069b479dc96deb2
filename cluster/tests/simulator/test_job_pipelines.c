/*
 * Large jobs as pipelines: layouts, and operating points, of which the planner's plans are better
 * than single clocks. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/simulator/job_pipelines.h"

static struct lull_job_type find(const char *name)
{
    struct lull_job_type type;

    assert_int_equal(lull_job_type_find(name, (uint32_t)strlen(name), &type), 0);
    return type;
}

static void test_possible(void **state)
{
    const struct lull_job_type a100 = find("A100-SXM4-40GB");
    const struct lull_job_type h100 = find("H100-SXM5");
    const struct lull_job_type v100 = find("V100-SXM2-16GB");
    const struct lull_job_type k80 = find("K80-12GB");

    (void)state;
    assert_true(lull_job_pipelined_is_possible(&a100, 16));
    assert_true(lull_job_pipelined_is_possible(&h100, 1024));
    assert_false(lull_job_pipelined_is_possible(&a100, 8));
    assert_false(lull_job_pipelined_is_possible(&a100, 20));
    assert_false(lull_job_pipelined_is_possible(&v100, 16));
    assert_false(lull_job_pipelined_is_possible(&k80, 16));
}

static void check(const char *name, uint32_t gpus, uint32_t stages, uint32_t data)
{
    const int64_t time_ns = INT64_C(1000000000000);
    const struct lull_job_type type = find(name);
    struct lull_cluster_point points[LULL_CLUSTER_MAX_POINTS];
    struct lull_job_pipelined pipelined;
    uint32_t plans = 0;
    uint32_t count;

    assert_int_equal(lull_job_pipelined_make(&type, LULL_JOB_NVLINK, gpus, &pipelined, NULL), 0);
    assert_int_equal(pipelined.stages, stages);
    assert_int_equal(pipelined.data, data);
    count = lull_job_points_make(&pipelined.points, time_ns, 2, pipelined.gpus, points);
    assert_in_range(count, 3, LULL_CLUSTER_MAX_POINTS);
    assert_int_equal(points[0].time_ns, time_ns);
    for (uint32_t i = 0; i < count; i++) {
        const double power_w = points[i].energy_j / ((double)points[i].time_ns * 1e-9) / gpus;

        assert_true(points[i].gpus == gpus && points[i].type == 2);
        assert_true(power_w > type.idle_w && power_w < type.limit_w);
        assert_true(i == 0 || (points[i].time_ns > points[i - 1].time_ns &&
                               points[i].energy_j < points[i - 1].energy_j));
        plans += points[i].sm_mhz == 0;
    }
    print_message("%u x %s: %u modes, %u plans, %.0f to %.0f W, time +%.0f %%, energy %+.0f %%\n",
                  gpus, name, count, plans, points[0].energy_j / 1e3 / gpus,
                  points[count - 1].energy_j / ((double)points[count - 1].time_ns * 1e-9) / gpus,
                  100.0 * pipelined.points.all[count - 1].time_ratio - 100.0,
                  100.0 * points[count - 1].energy_j / points[0].energy_j - 100.0);
    assert_true(2 * plans > count);
    /* A plan that takes over 30 years is not an operating point. */
    assert_int_equal(
        lull_job_points_make(&pipelined.points, LULL_CLUSTER_MAX_NS, 0, pipelined.gpus, points), 1);
}

static void test_layouts(void **state)
{
    (void)state;
    check("A100-SXM4-80GB", 16, 2, 1);
    check("A100-SXM4-80GB", 24, 3, 1);
    check("A100-SXM4-40GB", 64, 8, 1);
    check("A100-SXM4-80GB", 128, 8, 2);
    check("H100-SXM5", 72, 3, 3);
    check("H100-SXM5", 88, 1, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_possible),
        cmocka_unit_test(test_layouts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
