/* Options that users may give Lull through Slurm, by tables and by a separate oracle for times.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "cluster/slurm/submit_settings.h"
#include "cluster/slurm/job_options.h"

static const time_t now = 1800000000; /* in 2027 */

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        long seconds;
    } rows[] = {
        {"0", 0},           {"90", 5400},           {"1:30", 90},
        {"2:00:05", 7205},  {"1-0", 86400},         {"1-6", 108000},
        {"1-6:30", 109800}, {"2-00:00:01", 172801}, {"3660-0", 316224000L},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        time_t deadline = 0;

        assert_int_equal(lull_job_options_parse_deadline(rows[i].text, now, &deadline), 0);
        assert_int_equal(deadline - now, rows[i].seconds);
    }
}

/* Slurm's way of writing D-HH:MM:SS, against arithmetic on the parts. */
static void test_durations_by_parts(void **state)
{
    (void)state;
    srandom(7);
    for (int i = 0; i < 2000; i++) {
        const long d = random() % 300, h = random() % 24, m = random() % 60, s = random() % 60;
        char text[32];
        time_t deadline = 0;

        snprintf(text, sizeof(text), "%ld-%02ld:%02ld:%02ld", d, h, m, s);
        assert_int_equal(lull_job_options_parse_deadline(text, now, &deadline), 0);
        assert_int_equal(deadline - now, ((d * 24 + h) * 60 + m) * 60 + s);
    }
}

static void test_local_times(void **state)
{
    time_t deadline = 0;

    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    assert_int_equal(lull_job_options_parse_deadline("2027-01-15T08:00", now, &deadline), 0);
    assert_int_equal(deadline, now);
    assert_int_equal(lull_job_options_parse_deadline("2027-01-15T08:00:07", now, &deadline), 0);
    assert_int_equal(deadline, now + 7);
    assert_int_equal(lull_job_options_parse_deadline("2020-01-01T00:00", now, &deadline), 0);
    assert_true(deadline < now); /* times in the past are refused elsewhere */
}

static void test_what_is_no_deadline(void **state)
{
    static const char *const texts[] = {
        "",
        "x",
        "-1",
        "1-",
        "-",
        "1:",
        ":1",
        "1:2:3:4",
        "1 ",
        " 1",
        "1.5",
        "2027-01-15T",
        "T",
        "2027-13-01T00:00",
        "2027-01-15T08:00x",
        "2027-01-15T08:00:",
        "9999999999",
        "3661-0",
        "2099-01-01T00:00",
        "now",
        "99999999999999999999999",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        time_t deadline = -7;

        assert_int_equal(lull_job_options_parse_deadline(texts[i], now, &deadline), -1);
        assert_int_equal(deadline, -7);
    }
}

static void test_tolerances(void **state)
{
    static const char *const good[] = {"1%", "0.5%", "0.01", ".02", "99.9%", "1e-2"};
    static const char *const bad[] = {"",    "0", "1",   "100%", "-1%", "+1%",
                                      "1%%", "x", "nan", "inf",  "1 %", "0x1p-9"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct lull_job_options wish = {0};
        const char *expected;

        assert_int_equal(lull_job_options_set_tolerance(&wish, good[i], &expected), 0);
        assert_string_equal(wish.tolerance, good[i]);
        assert_true(lull_job_options_is_on(&wish, false));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_job_options wish = {0};
        const char *expected = NULL;

        assert_int_equal(lull_job_options_set_tolerance(&wish, bad[i], &expected), -1);
        assert_non_null(expected);
        assert_string_equal(wish.tolerance, "");
    }
}

static void assert_options(const char *policy, const char *tolerance, const char *wanted)
{
    struct lull_job_options wish = {0};
    const char *words[LULL_JOB_OPTIONS_WORDS], *expected;
    char text[256] = "";
    size_t count;

    assert_int_equal(lull_job_options_set_policy(&wish, policy, &expected), 0);
    if (tolerance != NULL)
        assert_int_equal(lull_job_options_set_tolerance(&wish, tolerance, &expected), 0);
    count = lull_job_options_table(&wish, words);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(text);

        snprintf(text + length, sizeof(text) - length, " %s", words[i]);
    }
    assert_string_equal(text, wanted);
}

static void test_policies(void **state)
{
    struct lull_job_options wish = {0};
    const char *expected = NULL;

    (void)state;
    assert_options("on", NULL, "");
    assert_options(NULL, "2%", " --tolerance 2%");
    assert_options("(null)", NULL, "");
    assert_options("steady", NULL, " --steady 1%");
    assert_options("steady", "2%", " --tolerance 2% --steady 2%");
    assert_options("limit", NULL, " --power-limit auto");
    assert_int_equal(lull_job_options_set_policy(&wish, "hard", &expected), -1);
    assert_false(lull_job_options_is_on(&wish, false));
    assert_true(lull_job_options_is_on(&wish, true));
    assert_int_equal(lull_job_options_set_policy(&wish, "off", &expected), 0);
    assert_false(lull_job_options_is_on(&wish, true));
}

static void test_names(void **state)
{
    struct lull_job_options wish = {0};
    const char *expected = NULL;
    char long_name[LULL_JOB_OPTIONS_TEXT + 1];

    (void)state;
    memset(long_name, 'a', sizeof(long_name));
    long_name[LULL_JOB_OPTIONS_TEXT] = '\0';
    assert_int_equal(lull_job_options_set_batch_job(&wish, long_name, &expected), -1);
    assert_int_equal(lull_job_options_set_batch_job(&wish, "a/b", &expected), -1);
    assert_int_equal(lull_job_options_set_batch_job(&wish, "-a", &expected), -1);
    assert_int_equal(lull_job_options_set_batch_job(&wish, "", &expected), -1);
    assert_int_equal(lull_job_options_set_batch_job(&wish, long_name + 1, &expected), 0);
}

static unsigned read_settings(const char *text, struct lull_submit_settings *settings)
{
    FILE *const file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    unsigned wrong;

    *settings = (struct lull_submit_settings){0};
    wrong = lull_submit_settings_read(file, settings);
    fclose(file);
    return wrong;
}

static void test_settings(void **state)
{
    struct lull_submit_settings settings;

    (void)state;
    assert_int_equal(
        read_settings("# a site\n\n default=on\ndeadline = required # all\n", &settings), 0);
    assert_true(settings.is_default && settings.requires_deadline && !settings.refuses_frequency);
    assert_int_equal(read_settings("gpu-freq = refused\ngpu-freq = allowed\n", &settings), 0);
    assert_false(settings.refuses_frequency);
    assert_int_equal(read_settings("gpu-freq = refused\ndeadline = maybe\nfoo\n", &settings), 2);
    assert_true(settings.refuses_frequency && !settings.requires_deadline);
    assert_int_equal(read_settings("default = on off\n", &settings), 1);
    assert_false(settings.is_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),   cmocka_unit_test(test_durations_by_parts),
        cmocka_unit_test(test_local_times), cmocka_unit_test(test_what_is_no_deadline),
        cmocka_unit_test(test_tolerances),  cmocka_unit_test(test_policies),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
