/*
 * Power logs: the formats of tools, units, counted and dropped rows, and reasons for refused logs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/power_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../text_file.h"

static const int64_t s = 1000000000;

static void read_text(const char *text, int64_t interval_ns, struct lull_power_log *log)
{
    struct lull_error err = {0};

    if (lull_power_log_read(text_file(text, strlen(text)), interval_ns, log, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_nvidia_smi(void **state)
{
    struct lull_power_log log;

    (void)state;
    read_text("timestamp, index, name, power.draw [W], power.limit [W]\n"
              "2024/05/02 09:00:01.500, 0, NVIDIA T4, 60.25 W, 70.00 W\n"
              "2024/05/02 09:00:01.500, 1, NVIDIA T4, [N/A], 70.00 W\n"
              "2024/05/02 09:00:00.500, 0, NVIDIA T4, 50 W, 70.00 W\n"
              "2024/05/02 09:00:01.500, 0, NVIDIA T4, 62.25 W, 70.00 W\n"
              "2024/05/02 09:00:02.500, 0, NVIDIA T4, 106.00 W, 70.00 W\n"
              "2024/05/02 09:00:03.500, 0, NVIDIA T4, 0.00 W, 70.00 W\n"
              "2024/05/02 09:00:04.500, 0, NVIDIA T4, 6",
              0, &log);
    assert_int_equal(log.gpu_count, 2);
    assert_int_equal(log.gpus[0].count, 2);
    assert_int_equal(log.gpus[1].count, 0);
    assert_true(log.gpus[0].highest_w == 105.0);
    assert_true(log.gpus[0].readings[0].power_w == 50.0);
    assert_true(log.gpus[0].readings[1].power_w == 61.25);
    assert_int_equal(log.gpus[0].readings[1].time_ns - log.gpus[0].readings[0].time_ns, s);
    assert_int_equal(log.missing, 1);
    assert_int_equal(log.impossible, 2);
    assert_true(log.impossible_w == 106.0);
    assert_int_equal(log.broken, 1);
    assert_int_equal(log.broken_line, 8);
    assert_int_equal(log.same_time, 1);
    assert_int_equal(log.unordered, 1);
    lull_power_log_fini(&log);
}

static void test_units(void **state)
{
    static const struct {
        const char *text;
        double power_w;
        double counter_j;
    } cases[] = {
        {"time,power\n0,70.5\n1,70.5\n", 70.5, 0.0},
        {"time;power\n0;70,5\n1;70,5\n", 70.5, 0.0},
        {"time,power (mW)\n0,70500\n1,70500\n", 70.5, 0.0},
        {"time\tpower_kw\n0\t0.0705\n1\t0.0705\n", 70.5, 0.0},
        {"time_s,GPU Power [W]\n0,70.5W\n1,70500 mW\n", 70.5, 0.0},
        {"sep=;\nts;total_energy_consumption [mJ]\n0;1000\n1;1000\n", 0.0, 1.0},
        {"ts,total_energy_j,power_w\n0,5,70.5\n1,5,70.5\n", 70.5, 5.0},
        {"ts,gpu3_power_mw\n0,70500\n1,70500\n", 70.5, 0.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_power_log log;

        read_text(cases[i].text, 0, &log);
        assert_int_equal(log.gpu_count, 1);
        assert_int_equal(log.gpus[0].count, 2);
        for (size_t k = 0; k < 2; k++) {
            assert_true(log.gpus[0].readings[k].time_ns == (int64_t)k * s);
            assert_true(log.gpus[0].readings[k].power_w > cases[i].power_w - 1e-9 &&
                        log.gpus[0].readings[k].power_w < cases[i].power_w + 1e-9);
            assert_true(log.gpus[0].readings[k].counter_j == cases[i].counter_j);
        }
        lull_power_log_fini(&log);
    }
}

static void test_times(void **state)
{
    static const char *const texts[] = {
        "time,power\n1714640400,70\n1714640401,70\n",
        "time,power\n1714640400000,70\n1714640401000,70\n",
        "time,power\n1714640400000000,70\n1714640401000000,70\n",
        "time,power\n1714640400000000000,70\n1714640401000000000,70\n",
        "time_ms,power\n0,70\n1000,70\n",
        "time,power\n23:59:59,70\n00:00:00,70\n",
        "timestamp,power\n2024-05-02T09:00:00+02:00,70\n2024-05-02T07:00:01Z,70\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct lull_power_log log;

        read_text(texts[i], 0, &log);
        assert_int_equal(log.gpus[0].count, 2);
        assert_int_equal(log.gpus[0].readings[1].time_ns - log.gpus[0].readings[0].time_ns, s);
        lull_power_log_fini(&log);
    }
}

static void test_monitors(void **state)
{
    struct lull_power_log log;

    (void)state;
    read_text(
        "#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx      W      C\n"
        " 20240502   09:00:00      1     61      -\n"
        "#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx      W      C\n"
        " 20240502   09:00:02      1      -     40\n 20240502   09:00:03      1     63     40\n",
        0, &log);
    assert_string_equal(log.gpus[0].name, "1");
    assert_int_equal(log.gpus[0].count, 2);
    assert_int_equal(log.gpus[0].readings[1].time_ns - log.gpus[0].readings[0].time_ns, 3 * s);
    assert_int_equal(log.missing, 1);
    lull_power_log_fini(&log);
    read_text("#Entity   POWER      TOTEC\nID        W          mJ\n"
              "GPU 0     61.5       1000\nGPU 1     N/A        5000\n"
              "GPU 0     62.5       63000\nGPU 1     N/A        9000\n",
              s / 2, &log);
    assert_int_equal(log.gpu_count, 2);
    assert_true(log.gpus[0].readings[1].time_ns == s / 2);
    assert_true(log.gpus[0].readings[1].power_w == 62.5);
    assert_true(log.gpus[0].readings[1].counter_j == 63.0);
    assert_true(!log.gpus[1].readings[0].has_power && log.gpus[1].readings[0].counter_j == 5.0);
    assert_int_equal(log.broken, 0);
    lull_power_log_fini(&log);
}

static void test_windows(void **state)
{
    struct lull_power_log log;

    (void)state;
    read_text("start_time,window_name,elapsed_time,gpu0_energy,gpu2_energy\n"
              "1,step,2.0,300.5,0.0\n2,step,2.0,301.5,1e9\n",
              0, &log);
    assert_true(log.is_windows && log.gpu_count == 2);
    assert_int_equal(log.gpus[0].window_count, 2);
    assert_int_equal(log.gpus[1].window_count, 0);
    assert_true(log.gpus[0].windows[1].energy_j == 301.5);
    assert_int_equal(log.impossible, 2);
    lull_power_log_fini(&log);
    /* A later row of a run replaces the earlier one. */
    read_text("timestamp,run_id,duration,gpu_energy,gpu_count\n"
              "2024-05-02T09:00:00,a,100,0.005,1\n2024-05-02T09:01:00,a,200,0.01,1\n"
              "2024-05-02T09:01:00,b,200,0,1\n",
              0, &log);
    assert_int_equal(log.gpus[0].window_count, 1);
    assert_true(log.gpus[0].windows[0].seconds == 200.0);
    assert_true(log.gpus[0].windows[0].energy_j == 36000.0);
    assert_int_equal(log.impossible, 1);
    lull_power_log_fini(&log);
}

static void test_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "is empty"},
        {"[{\"power\": 1}]\n", "JSON is not read"},
        {"timestamp,temperature\n1,2\n", "missing power or energy counter"},
        {"power_w\n1\n", "missing time"},
        {"# gpu    pwr\n# Idx      W\n    0     61\n", "--every"},
        {"# gpu   gtemp\n# Idx      C\n    0     61\n", "missing column of power"},
        {"time,power\n", "no rows"},
        {"time,power\n0,[N/A]\n1,N/A\n", "2 are missing values"},
        {"time,power\n0,70500\n1,70500\n", "in mW?"},
        {"time,power\n0,0\n1,-5\n", "zero or negative"},
        {"timestamp, power.draw [W]\n2024/05/02 09:00:00, 70,5 W\n", "decimal commas"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_power_log log;
        struct lull_error err = {0};

        assert_int_equal(
            lull_power_log_read(text_file(cases[i].text, strlen(cases[i].text)), 0, &log, &err),
            LULL_E_FORMAT);
        if (strstr(err.text, cases[i].said) == NULL)
            fail_msg("'%s' lacks '%s'", err.text, cases[i].said);
        assert_null(log.gpus);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvidia_smi), cmocka_unit_test(test_units),
        cmocka_unit_test(test_times),      cmocka_unit_test(test_monitors),
        cmocka_unit_test(test_windows),    cmocka_unit_test(test_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
