/* F56: the file that a grid writes may hang, or be no file; what was asked before continues, and
 * the rounds of lull budget do too. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "cluster/cli/budget/grid_file.h"

static atomic_bool has_hung_disk;

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
    while (atomic_load(&has_hung_disk) && strstr(path, "/grid.json") != NULL)
        pause();
    return __real_open64(path, flags, mode);
}

static char folder[] = "/tmp/lull-grid-XXXXXX";
static char path[64];

static void ask_for(double target_w)
{
    char text[64];
    const int length = snprintf(text, sizeof(text), "{\"target_w\": %g}", target_w);

    assert_int_equal(lull_file_write_atomic(path, text, (size_t)length, 0600, NULL), 0);
}

/* Reads until the file answers, which a busy host may make later than a round waits. */
static void require_target(struct lull_grid_file *file, uint32_t count, double target_w)
{
    static struct lull_grid_events grid;
    const int64_t until_ns = lull_now_ns() + 60 * LULL_NS_PER_S;

    do
        lull_grid_file_read(file, &grid);
    while ((grid.count != count || (count > 0 && grid.events[0].target_w != target_w)) &&
           lull_now_ns() < until_ns);
    assert_int_equal(grid.count, count);
    if (count > 0)
        assert_true(grid.events[0].target_w == target_w);
}

static void test_a_file_comes_changes_and_goes(void **state)
{
    struct lull_grid_file *file;

    (void)state;
    assert_int_equal(lull_grid_file_start(path, &file, NULL), 0);
    require_target(file, 0, 0.0);
    ask_for(300.0);
    require_target(file, 1, 300.0);
    ask_for(250.0);
    require_target(file, 1, 250.0);
    unlink(path);
    require_target(file, 0, 0.0);
    lull_grid_file_stop(file);
}

/* F22: what has begun and has no end holds whatever the wall clock is set to; what has an end ends
 * at that time. */
static void test_a_clock_that_is_set_lifts_no_limit(void **state)
{
    static const char *const texts[] = {
        "{\"target_w\": 300}",
        "[{\"intervals\": [{\"payloads\": [{\"type\": \"IMPORT_CAPACITY_LIMIT\", \"values\": "
        "[0.3]}]}]}]",
    };
    static const char until[] = "{\"target_w\": 300, \"end\": \"2026-11-28T17:00:00Z\"}";
    static const int64_t now_s = 1796000000;
    static struct lull_grid_events grid;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal((i == 0 ? lull_grid_read : lull_grid_read_openadr)(
                             "grid", texts[i], strlen(texts[i]), now_s, &grid, NULL),
                         0);
        for (int64_t hours = -10000; hours <= 10000; hours += 100)
            assert_true(lull_grid_target_w(&grid, now_s + 3600 * hours) == 300.0);
    }
    assert_int_equal(lull_grid_read("grid", until, strlen(until), 1795000000, &grid, NULL), 0);
    assert_true(lull_grid_target_w(&grid, 1795885199) == 300.0);
    assert_false(lull_grid_target_w(&grid, 1795885200) == 300.0);
}

static void test_what_is_no_file_leaves_what_was_asked(void **state)
{
    static struct lull_grid_events grid;
    struct lull_grid_file *file;

    (void)state;
    assert_int_equal(lull_grid_file_start(path, &file, NULL), 0);
    ask_for(300.0);
    require_target(file, 1, 300.0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 0; i < 5; i++)
        lull_grid_file_read(file, &grid);
    require_target(file, 1, 300.0);
    unlink(path);
    ask_for(200.0); /* it is read again, so the thread has not waited for the pipe */
    require_target(file, 1, 200.0);
    lull_grid_file_stop(file);
    unlink(path);
}

static void test_a_file_that_hangs_holds_nothing_up(void **state)
{
    struct lull_grid_file *file;

    (void)state;
    assert_int_equal(lull_grid_file_start(path, &file, NULL), 0);
    ask_for(300.0);
    require_target(file, 1, 300.0);
    atomic_store(&has_hung_disk, true);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0); /* another file, which is opened */
    for (int i = 0; i < 1000; i++)
        require_target(file, 1, 300.0);
    lull_grid_file_stop(file);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_comes_changes_and_goes),
        cmocka_unit_test(test_a_clock_that_is_set_lifts_no_limit),
        cmocka_unit_test(test_what_is_no_file_leaves_what_was_asked),
        cmocka_unit_test(test_a_file_that_hangs_holds_nothing_up),
    };
    int failed;

    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/grid.json", folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
