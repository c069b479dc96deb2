/* F56: reading the file of a grid may hang, or it may not be a regular file. The
 * earlier requests stay in force, and the rounds of lull budget continue. SPDX-License-Identifier:
 * Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "cluster/cli/budget/grid.h"
#include "cluster/cli/budget/grid_file.h"
#include "core/stats/random.h"

static atomic_bool *has_hung_disk; /* shared with the processes that read */

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
    while (atomic_load(has_hung_disk) && strstr(path, "/grid.json") != NULL)
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
    const int64_t until_ns = lull_now_ns() + 60 * LULL_NS_PER_S;
    const struct lull_grid_events *grid;

    do
        grid = lull_grid_file_read(file);
    while ((grid->count != count || (count > 0 && grid->events[0].target_w != target_w)) &&
           lull_now_ns() < until_ns);
    assert_int_equal(grid->count, count);
    if (count > 0)
        assert_true(grid->events[0].target_w == target_w);
}

static struct lull_grid_file *open_file(void)
{
    struct lull_grid_file *const file = calloc(1, sizeof(*file));

    assert_non_null(file);
    snprintf(file->path, sizeof(file->path), "%s", path);
    return file;
}

static void test_a_file_comes_changes_and_goes(void **state)
{
    struct lull_grid_file *const file = open_file();

    (void)state;
    require_target(file, 0, 0.0);
    ask_for(300.0);
    require_target(file, 1, 300.0);
    ask_for(250.0);
    require_target(file, 1, 250.0);
    unlink(path);
    require_target(file, 0, 0.0);
    free(file);
}

/* F22: an event that has begun and has no end applies at any
 * setting of the wall clock; an event with an end ends at that
 * time. */
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
            assert_true(lull_grid_target_w(&grid, now_s + 3600 * hours, 0) == 300.0);
    }
    assert_int_equal(lull_grid_read("grid", until, strlen(until), 1795000000, &grid, NULL), 0);
    assert_true(lull_grid_target_w(&grid, 1795885199, 0) == 300.0);
    assert_false(lull_grid_target_w(&grid, 1795885200, 0) == 300.0);
}

/* ---- durations, while the wall clock is set again and again --------------------------------- */

enum { STEPS = 400, CASES = 300, WALL_S = 1796000000 };

/* Both clocks at each step. The wall clock runs with the other one, and is set to another time, up
 * to four hours away, at one step in ten. */
struct clocks {
    int64_t wall_s[STEPS];
    int64_t monotonic_s[STEPS];
};

static void draw_clocks(struct lull_random *random, struct clocks *clocks)
{
    int64_t wall_s = WALL_S;
    int64_t monotonic_s = 5000;

    for (int i = 0; i < STEPS; i++) {
        const int64_t passed_s = (int64_t)lull_random_below(random, 60);

        monotonic_s += passed_s;
        wall_s += passed_s;
        if (i > 0 && lull_random_below(random, 10) == 0)
            wall_s += (int64_t)lull_random_below(random, 8 * 3600) - 4 * 3600;
        clocks->wall_s[i] = wall_s;
        clocks->monotonic_s[i] = monotonic_s;
    }
}

static void write_utc(char text[32], int64_t time_s)
{
    const time_t time = (time_t)time_s;
    struct tm parts;

    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time, &parts));
}

/* Returns whether a target applies at a step, by the definition alone; begin_s 0: it starts at
 * once. The duration passes on the monotonic clock, from the first step whose wall clock has
 * reached the start. */
static bool must_apply(const struct clocks *clocks, int step, int64_t begin_s, int64_t after_s,
                       int64_t until_s)
{
    int first = 0;

    while (begin_s != 0 && first <= step && clocks->wall_s[first] < begin_s)
        first++;
    if (first > step)
        return false;
    if (begin_s != 0)
        after_s -= clocks->wall_s[first] - begin_s;
    if (begin_s != 0)
        until_s -= clocks->wall_s[first] - begin_s;
    return clocks->monotonic_s[step] - clocks->monotonic_s[first] >= after_s &&
           clocks->monotonic_s[step] - clocks->monotonic_s[first] < until_s;
}

/* F22: Lull's own file; it is read once, and where a webhook wrote it, from what that printed. */
static void test_a_duration_follows_no_wall_clock(void **state)
{
    static struct lull_grid_events read;
    static struct lull_grid_events grid;
    static struct clocks clocks;
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 22);
    for (int i = 0; i < CASES; i++) {
        const int64_t duration_s = 1 + (int64_t)lull_random_below(&random, 10000);
        const bool begins_now = lull_random_below(&random, 2) == 0;
        const int64_t begin_s = WALL_S + (int64_t)lull_random_below(&random, 9000) - 2000;
        int64_t base_s = begins_now ? 0 : begin_s;
        char begin[32];
        char text[160];

        draw_clocks(&random, &clocks);
        write_utc(begin, begin_s);
        snprintf(text, sizeof(text), "{\"target_w\": 300, %s%s%s\"duration_s\": %d}",
                 begins_now ? "" : "\"begin\": \"", begins_now ? "" : begin,
                 begins_now ? "" : "\", ", (int)duration_s);
        assert_int_equal(lull_grid_read("grid", text, strlen(text), WALL_S, &read, NULL), 0);
        if (lull_random_below(&random, 2) == 0) {
            char *const printed = lull_grid_print(&read);

            assert_int_equal(lull_grid_read("again", printed, strlen(printed), WALL_S, &read, NULL),
                             0);
            free(printed);
            base_s = begins_now ? WALL_S : begin_s; /* it says when it has begun */
        }
        grid.count = 0;
        for (int step = 0; step < STEPS; step++) {
            lull_grid_update(&grid, &read);
            assert_true((lull_grid_target_w(&grid, clocks.wall_s[step],
                                            clocks.monotonic_s[step] * LULL_NS_PER_S) == 300.0) ==
                        must_apply(&clocks, step, base_s, 0, duration_s));
        }
    }
}

/* F22: a server's events are read again and again; intervals follow each other without a gap. */
static void test_intervals_of_a_server_follow_no_wall_clock(void **state)
{
    static struct lull_grid_events read;
    static struct lull_grid_events grid;
    static struct clocks clocks;
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 23);
    for (int i = 0; i < CASES; i++) {
        const int minutes = 1 + (int)lull_random_below(&random, 60);
        const bool begins_now = lull_random_below(&random, 2) == 0;
        const int64_t begin_s = WALL_S + (int64_t)lull_random_below(&random, 9000) - 2000;
        char begin[32] = "0001-01-01T00:00:00Z";
        char text[512];

        draw_clocks(&random, &clocks);
        if (!begins_now)
            write_utc(begin, begin_s);
        snprintf(text, sizeof(text),
                 "[{\"intervalPeriod\": {\"start\": \"%s\", \"duration\": \"PT%dM\"}, "
                 "\"intervals\": [{\"payloads\": [{\"type\": \"IMPORT_CAPACITY_LIMIT\", "
                 "\"values\": [0.3]}]}, {\"payloads\": [{\"type\": \"IMPORT_CAPACITY_LIMIT\", "
                 "\"values\": [0.2]}]}]}]",
                 begin, minutes);
        grid.count = 0;
        for (int step = 0; step < STEPS; step++) {
            const int64_t base_s = begins_now ? 0 : begin_s;
            double target_w;

            assert_int_equal(lull_grid_read_openadr("server", text, strlen(text),
                                                    clocks.wall_s[step], &read, NULL),
                             0);
            lull_grid_update(&grid, &read);
            target_w = lull_grid_target_w(&grid, clocks.wall_s[step],
                                          clocks.monotonic_s[step] * LULL_NS_PER_S);
            assert_true((target_w == 300.0) == must_apply(&clocks, step, base_s, 0, 60 * minutes));
            assert_true((target_w == 200.0) ==
                        must_apply(&clocks, step, base_s, 60 * minutes, 120 * minutes));
        }
    }
}

static void test_what_is_no_file_leaves_what_was_asked(void **state)
{
    struct lull_grid_file *const file = open_file();

    (void)state;
    ask_for(300.0);
    require_target(file, 1, 300.0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 0; i < 5; i++)
        lull_grid_file_read(file);
    require_target(file, 1, 300.0);
    unlink(path);
    ask_for(200.0); /* it is read again, so the thread has not waited for the pipe */
    require_target(file, 1, 200.0);
    free(file);
    unlink(path);
}

static void test_a_file_that_hangs_holds_nothing_up(void **state)
{
    struct lull_grid_file *const file = open_file();

    (void)state;
    ask_for(300.0);
    require_target(file, 1, 300.0);
    atomic_store(has_hung_disk, true);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0); /* another file, which is opened */
    for (int i = 0; i < 5; i++)
        require_target(file, 1, 300.0);
    free(file);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_comes_changes_and_goes),
        cmocka_unit_test(test_a_clock_that_is_set_lifts_no_limit),
        cmocka_unit_test(test_a_duration_follows_no_wall_clock),
        cmocka_unit_test(test_intervals_of_a_server_follow_no_wall_clock),
        cmocka_unit_test(test_what_is_no_file_leaves_what_was_asked),
        cmocka_unit_test(test_a_file_that_hangs_holds_nothing_up),
    };
    int failed;

    has_hung_disk = mmap(NULL, sizeof(*has_hung_disk), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (has_hung_disk == MAP_FAILED)
        return 1;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/grid.json", folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
