/* F55: any bytes name a recurring job, or are refused; no name reaches the records of another job.
 * SPDX-License-Identifier: Apache-2.0 */
#include "batch_case.h"

#include <stdlib.h>
#include <string.h>

#include "../base/any_text.h"

enum { NAMES = 2000 };

static char names[NAMES][MAX_BYTES + 8];
static size_t name_count;
static bool is_seen[NAMES];

static size_t find_name(const char *name)
{
    size_t i = 0;

    while (i < name_count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static int note_name(void *context, const char *name)
{
    const size_t i = find_name(name);

    (void)context;
    assert_true(i < name_count);
    assert_false(is_seen[i]);
    is_seen[i] = true;
    return 0;
}

/* Submits a run of this job, and ends it. Returns the error of the store, which changes nothing. */
static int run_once(struct lull_batch_jobs *jobs, const char *name, double energy_j)
{
    const struct lull_batch_job job = make_job(name);
    const struct lull_batch_progress progress = {
        .energy_j = energy_j, .time_s = 1.0, .metric = 0.5};
    struct lull_batch_ticket ticket;
    struct lull_error err;
    const int result = lull_batch_jobs_submit(jobs, &job, 0, &ticket, &err);

    if (result < 0)
        return result;
    assert_int_equal(
        lull_batch_jobs_end(jobs, name, ticket.run, LULL_BATCH_REACHED, &progress, &err), 0);
    return 0;
}

static void test_any_name_is_one_job(void **user)
{
    struct lull_batch_jobs *const jobs = open_jobs();
    struct lull_error err;

    (void)user;
    while (name_count < NAMES) {
        char *const name = names[name_count];

        name[draw_text(name)] = '\0';
        if (name[0] == '\0' || find_name(name) < name_count)
            continue;
        /* PostgreSQL takes valid UTF-8 only. */
        if (run_once(jobs, name, (double)name_count + 1.0) == 0)
            name_count++;
    }
    assert_int_equal(lull_batch_jobs_walk(jobs, note_name, NULL, &err), 0);
    for (size_t i = 0; i < name_count; i++) {
        struct lull_batch_entry *entries = NULL;
        struct lull_batch_job job;
        size_t count;

        assert_true(is_seen[i]);
        assert_int_equal(lull_batch_jobs_load(jobs, names[i], &job, &entries, &count, NULL, &err),
                         0);
        assert_string_equal(job.name, names[i]);
        assert_int_equal(count, 1);
        assert_true(entries[0].over.energy_j == (double)i + 1.0);
        free(entries);
        if (i % 2 == 0)
            forget(jobs, names[i]);
    }
    memset(is_seen, 0, sizeof(is_seen));
    assert_int_equal(lull_batch_jobs_walk(jobs, note_name, NULL, &err), 0);
    for (size_t i = 0; i < name_count; i++) {
        assert_int_equal(is_seen[i], i % 2);
        if (i % 2 == 1)
            forget(jobs, names[i]);
    }
    lull_batch_jobs_close(jobs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_name_is_one_job)};
    int failed;

    if (batch_case_begin(argc, argv) < 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    batch_case_end();
    return failed;
}
