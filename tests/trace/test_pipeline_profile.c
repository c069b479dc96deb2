/* usage: test_pipeline_profile PROFILES, the directory of recorded ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trace/pipeline_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../text_file.h"

static const char *profiles;

static int read_text(const char *text, struct lull_pipeline_profile *profile,
                     struct lull_error *err)
{
    return lull_pipeline_profile_read(text_file(text, strlen(text)), profile, NULL, err);
}

#define HEADER "stage,instruction,frequency,time,energy\n"

static void test_rows_in_any_order_of_columns(void **state)
{
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};
    const struct lull_pipeline_point *option;

    (void)state;
    if (read_text("energy,note,time,frequency,partner,stage,instruction\r\n"
                  "1.0000000004,a b,0.0500000015,1080,,0,forward\r\n"
                  "2e1, , 5e-2 , 1410 ,, 0 , forward \n"
                  "\n"
                  "3,,1,900,0,0,overlap",
                  &profile, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(profile.class_count, 2);
    assert_int_equal(profile.classes[0].point_count, 2);
    option = profile.classes[0].points;
    assert_true(option[0].sm_mhz == 1410 && option[0].time_ns == 50000000);
    assert_true(option[0].energy_nj == 20000000000);
    assert_true(option[1].time_ns == 50000002 && option[1].energy_nj == 1000000000);
    assert_int_equal(profile.classes[1].kind, LULL_PIPELINE_OVERLAP);
    lull_pipeline_profile_fini(&profile);
}

/* A stage takes the longest time and the sum of the energies of its tensor parallel ranks, and the
 * mean of its copies; a copy that lacks a rank does not count. */
static void test_rows_of_ranks(void **state)
{
    struct lull_pipeline_profile_notes notes;
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};
    const char *const text = "rank,dp_rank,tp_rank,stage,instruction,frequency,time,energy\n"
                             "0,0,0,0,forward,1410.0,0.050,10\n"
                             "1,0,1,0,forward,1410,0.052,11\n"
                             "2,1,0,0,forward,1410,0.056,13\n"
                             "3,1,1,0,forward,1410,0.051,12\n"
                             "4,2,0,0,forward,1410,0.900,1\n"
                             "0,0,0,0,forward,1200,,1\n";
    const struct lull_pipeline_point *point;

    (void)state;
    assert_int_equal(
        lull_pipeline_profile_read(text_file(text, strlen(text)), &profile, &notes, &err), 0);
    assert_int_equal(profile.class_count, 1);
    assert_int_equal(profile.classes[0].point_count, 1);
    point = &profile.classes[0].points[0];
    assert_true(point->time_ns == 54000000 && point->energy_nj == INT64_C(23000000000));
    assert_int_equal(notes.copies, 2);
    assert_int_equal(notes.shards, 2);
    assert_int_equal(notes.partial_copies, 1);
    assert_int_equal(notes.blank_rows, 1);
    lull_pipeline_profile_fini(&profile);
}

static void test_words_of_deepspeed(void **state)
{
    struct lull_pipeline_profile_notes notes;
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};
    const char *const text = "stage_id\tinstruction_name\tfreq_mhz\ttime_ms\tenergy_mj\n"
                             "0\tForwardPass\t1410\t50.5\t10000\n"
                             "0\tBackwardPass\t1410\t101\t20500\n"
                             "0\tSendActivation\t1410\t1\t100\n";

    (void)state;
    assert_int_equal(
        lull_pipeline_profile_read(text_file(text, strlen(text)), &profile, &notes, &err), 0);
    assert_int_equal(profile.class_count, 2);
    assert_int_equal(profile.classes[0].points[0].time_ns, 50500000);
    assert_int_equal(profile.classes[1].points[0].energy_nj, INT64_C(20500000000));
    assert_int_equal(notes.other_rows, 1);
    lull_pipeline_profile_fini(&profile);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"", "the file is empty"},
        {"stage,instruction,frequency,time\n", "line 1, header: missing column energy"},
        {"\n", "the file is empty"},
        {HEADER, "no rows after the header"},
        {HEADER "0,forward,1410,0.05\n", "line 2, cells: there are fewer"},
        {HEADER "0,forward,1410,0.05,1,2\n", "line 2, cells: there are more"},
        {HEADER "0,forward,1410,0.05,1\nx,forward,1410,1,1\n",
         "line 3, stage: not a stage from 0 to 4095 (found 'x')"},
        {HEADER "-1,forward,1410,0.05,1\n", "line 2, stage: not"},
        {HEADER "5000,forward,1410,0.05,1\n", "line 2, stage: not"},
        {HEADER "0,sideways,1410,0.05,1\n", "instruction: not forward, backward, input, weight, "
                                            "recompute or overlap (found 'sideways')"},
        {HEADER "0,fixed,1410,0.05,1\n", "overlap (found 'fixed')"},
        {HEADER "0,overlap,1410,0.05,1\n", "without a column 'partner'"},
        {HEADER "0,forward,0,0.05,1\n",
         "frequency: not a clock in MHz, a whole number (found '0')"},
        {HEADER "0,forward,1410.5,0.05,1\n", "line 2, frequency: not a clock"},
        {HEADER "0,forward,1410,abc,1\n", "time: not a number (found 'abc')"},
        {HEADER "0,forward,1410,nan,1\n", "no rows after the header"},
        {HEADER "0,forward,1410,,1\n", "no rows after the header"},
        {HEADER "0,forward,1410,0,1\n", "time: not between 1 ns and 100 s (found '0')"},
        {HEADER "0,forward,1410,-0.05,1\n", "(found '-0.05')"},
        {HEADER "0,forward,1410,101,1\n", "(found '101')"},
        {HEADER "0,forward,1410,1e400,1\n", "line 2, time: not"},
        {HEADER "0,forward,1410,0.05,-1\n", "(found '-1')"},
        {HEADER "0,forward,1410,0.05,1\n0,forward,1410,0.06,1\n",
         "line 3, frequency: forward of stage 0 has a row for 1410 MHz already; rows of several"},
        {HEADER "0,forward,1410,0.05,1\n2,forward,1410,0.05,1\n",
         "stage 1 of 0 to 2 has no forward"},
        {HEADER "0,forward,1410,0.05,1\n0,backward,1410,0.05,1\n1,forward,1410,1,1\n",
         "stage 1 of 0 to 1 has no backward"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_pipeline_profile profile;
        struct lull_error err = {0};

        if (read_text(bad[i].text, &profile, &err) != LULL_E_FORMAT)
            fail_msg("'%s' was taken", bad[i].text);
        if (strstr(err.text, bad[i].message) == NULL)
            fail_msg("'%s' lacks '%s'", err.text, bad[i].message);
    }
}

static void test_a_nul_byte(void **state)
{
    static const char text[] = HEADER "0,forw\0rd,1410,1,1\n";
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(
        lull_pipeline_profile_read(text_file(text, sizeof(text) - 1), &profile, NULL, &err),
        LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "NUL"));
    assert_true(lull_pipeline_profile_read("/nonexistent", &profile, NULL, &err) < 0);
}

static void check_recorded(const char *name, size_t clocks, int64_t first_ns, int64_t first_nj)
{
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};
    char path[512];
    int found;

    snprintf(path, sizeof(path), "%s/%s", profiles, name);
    if (lull_pipeline_profile_read(path, &profile, NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(profile.class_count, 16);
    for (size_t i = 0; i < profile.class_count; i++)
        assert_int_equal(profile.classes[i].point_count, clocks);
    found = lull_pipeline_profile_find(&profile, 0, 0, LULL_PIPELINE_FORWARD, 0);
    assert_true(found >= 0);
    assert_true(profile.classes[found].points[0].time_ns == first_ns);
    assert_true(profile.classes[found].points[0].energy_nj == first_nj);
    lull_pipeline_profile_fini(&profile);
}

static void test_recorded_profiles(void **state)
{
    (void)state;
    if (profiles == NULL || access(profiles, R_OK) != 0) {
        print_message("skipped: no recorded profiles in ../shared/data\n");
        skip();
    }
    check_recorded("gpt3-175b_a100_sxm_bf16.csv", 38, 50161667, 23805472000);
    check_recorded("gpt3-175b_a40_bf16.csv", 60, 112480328, 33593927999);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_in_any_order_of_columns),
        cmocka_unit_test(test_rows_of_ranks),
        cmocka_unit_test(test_words_of_deepspeed),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_a_nul_byte),
        cmocka_unit_test(test_recorded_profiles),
    };

    profiles = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
