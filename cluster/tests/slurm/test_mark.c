/* Slurm's texts about jobs, by tables. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/slurm/schedule/mark.h"

static const int64_t now_s = 1800000000; /* in 2027 */

static void resources_are_counted(void **state)
{
    static const struct {
        const char *text;
        uint32_t gpus;
        const char *type;
    } rows[] = {
        {NULL, 0, ""},
        {"", 0, ""},
        {"gres:gpu", 1, ""},
        {"gres:gpu:2", 2, ""},
        {"gres:gpu:h100:2", 2, "h100"},
        {"gres:gpu:h100", 1, "h100"},
        {"gpu:h100:8(S:0-1)", 8, "h100"},
        {"gpu:h100:3(IDX:0,2,5)", 3, "h100"},
        {"gpu:h100:0(IDX:N/A)", 0, "h100"},
        {"craynetwork:4,gres:gpu:a:1,gres:gpu:b:2", 3, "a"},
        {"gres/gpu=4,cpu=2", 4, ""},
        {"gres/gpu:h100=4", 4, "h100"},
        {"gpus:4", 0, ""},
        {"gres:gpu:99999999999", 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_gpu_count count;

        lull_gpu_count_read(rows[i].text, &count);
        if (count.gpus != rows[i].gpus || strcmp(count.type, rows[i].type) != 0)
            fail_msg("%s: %u of \"%s\"", rows[i].text, count.gpus, count.type);
    }
}

static void words_are_read_and_kept(void **state)
{
    static const char old[] = "lull=on batch-job=night site=x schedule=held";
    struct lull_mark mark;
    char text[LULL_MARK_BYTES];
    char longest[LULL_MARK_BYTES];

    (void)state;
    lull_mark_read(old, NULL, now_s, &mark);
    assert_true(mark.is_asked && !mark.is_placed && !mark.is_by_user);
    assert_string_equal(mark.name, "night");
    mark = (struct lull_mark){
        .is_placed = true, .placed_s = now_s, .sm_mhz = 1110, .limit_min = 60, .tries = 2};
    assert_int_equal(lull_mark_write(old, &mark, text), 0);
    assert_string_equal(text, "lull=on batch-job=night site=x schedule=placed placed-s=1800000000 "
                              "sm-mhz=1110 limit-min=60 tries=2");
    mark = (struct lull_mark){.tries = 3, .sm_mhz = 5, .limit_min = 7};
    assert_int_equal(lull_mark_write(text, &mark, text), 0);
    assert_string_equal(text, "lull=on batch-job=night site=x schedule=held tries=3");
    memset(longest, 'a', sizeof(longest) - 1);
    for (size_t i = 0; i < sizeof(longest); i += 64)
        longest[i] = ' ';
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(lull_mark_write(longest, &mark, text), -ENAMETOOLONG);
}

static void a_users_own_comment_asks_and_sets_nothing(void **state)
{
    struct lull_mark mark;

    (void)state;
    lull_mark_read(NULL, "schedule=placed sm-mhz=210 deadline=2027-01-16T00:00:00", now_s, &mark);
    assert_true(!mark.is_asked && !mark.is_placed && mark.sm_mhz == 0 && mark.deadline_s == 0);
    lull_mark_read(NULL, "please lull-schedule", now_s, &mark);
    assert_true(mark.is_asked && mark.is_by_user);
    lull_mark_read("deadline=2027-01-15T09:00:00", NULL, now_s, &mark);
    assert_int_equal(mark.deadline_s, 1800003600); /* in UTC */
    lull_mark_read("schedule=held sm-mhz=-3 tries=x deadline=soon", NULL, now_s, &mark);
    assert_true(mark.is_asked && mark.sm_mhz == 0 && mark.tries == 0 && mark.deadline_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources_are_counted),
        cmocka_unit_test(words_are_read_and_kept),
        cmocka_unit_test(a_users_own_comment_asks_and_sets_nothing),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
