/*
 * The records of released jobs, and the part that a policy receives.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cluster/slurm/schedule/journal.h"
#include "cluster/slurm/schedule/schedule.h"

/* A start of job `id` on two nodes, at the second of two points. */
static void release(struct lull_past *past, uint32_t id, int64_t submit_s, const char *type)
{
    char text[512];
    json_t *document;

    snprintf(text, sizeof(text),
             "{\"job\": %u, \"submit_s\": %lld, \"is_rejected\": false, \"chosen\": 1,"
             " \"nodes\": [{\"node\": \"n1\", \"gpus\": 3}, {\"node\": \"n2\", \"gpus\": 1}],"
             " \"points\": [{\"gpu\": \"b\", \"sm_mhz\": null, \"time_s\": 5, \"energy_j\": null},"
             " {\"gpu\": \"%s\", \"sm_mhz\": 900, \"time_s\": 10.5, \"energy_j\": 700}]}",
             id, (long long)submit_s, type);
    document = json_loads(text, 0, NULL);
    assert_non_null(document);
    assert_int_equal(lull_past_add(past, document), 0);
    json_decref(document);
}

static void the_last_are_kept_once_each_and_in_order(void **state)
{
    struct lull_past past = {0};

    (void)state;
    for (uint32_t i = 0; i < LULL_PAST_MAX + 20; i++)
        release(&past, i, 1000 + (i ^ 1), "a");
    assert_int_equal(past.count, LULL_PAST_MAX);
    release(&past, 500, 990, "a");
    assert_int_equal(past.count, LULL_PAST_MAX);
    assert_int_equal(past.jobs[0]->id, 500);
    for (uint32_t i = 1; i < past.count; i++) {
        assert_true(past.jobs[i - 1]->submit_s < past.jobs[i]->submit_s);
        assert_int_not_equal(past.jobs[i]->id, 500);
    }
    assert_int_equal(past.jobs[past.count - 1]->id, LULL_PAST_MAX + 18);
    assert_int_equal(past.jobs[0]->gpus, 4);
    assert_int_equal(past.jobs[0]->chosen, 1);
    assert_int_equal(past.jobs[0]->points[1].sm_mhz, 900);
    assert_int_equal(past.jobs[0]->points[1].time_ns, INT64_C(10500000000));
    assert_true(past.jobs[0]->points[0].energy_j == 0.0 && past.jobs[0]->points[1].energy_j == 700);
    lull_past_fini(&past);
}

/* ---- the journal ----------------------------------------------------------------------------- */

static int note_job(void *text, const json_t *document)
{
    char *const noted = text;
    const size_t used = strlen(noted);

    snprintf(noted + used, 64 - used, "%d ",
             (int)json_integer_value(json_object_get(document, "job")));
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The last lines of each of the two files are reported, the older file's first; an incomplete line
 * is not. */
static void the_last_lines_of_the_journal_are_told(void **state)
{
    static const struct {
        const char *now, *before, *reported;
    } cases[] = {
        {"", NULL, ""},
        {"{\"job\": 1}\n", NULL, "1 "},
        {"{\"job\": 1}\n{\"job\": 2}\n{\"job\": 3}\n", NULL, "1 2 3 "},
        {"{\"job\": 1}\n{\"job\": 2}\n{\"job\": 3}\n{\"job\": 4}\n", NULL, "2 3 4 "},
        {"{\"job\": 1}\n{\"job\": 2}\n{\"job\": 3}\n{\"job", NULL, "2 3 "},
        {"{\"job\": 6}\n", "{\"job\": 2}\n{\"job\": 3}\n{\"job\": 4}\n{\"job\": 5}\n", "3 4 5 6 "},
    };
    char folder[] = "/tmp/lull-journal-XXXXXX", now[64], before[72];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(now, sizeof(now), "%s/schedule-p.jsonl", folder);
    snprintf(before, sizeof(before), "%s.1", now);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_error err = {0};
        char noted[64] = "";

        write_file(now, cases[i].now);
        if (cases[i].before != NULL)
            write_file(before, cases[i].before);
        assert_int_equal(lull_schedule_journal_recent(folder, "p", 3, note_job, noted, &err), 0);
        assert_string_equal(noted, cases[i].reported);
    }
    assert_int_equal(unlink(now) + unlink(before) + rmdir(folder), 0);
}

/* ---- a policy that records its input ----------------------------------------------- */

static const struct lull_cluster_jobs *reported_jobs;
static char reported[512];

static void note(const char *what, uint32_t job, uint32_t point)
{
    const struct lull_cluster_job *const it = &reported_jobs->all[job];
    const size_t used = strlen(reported);

    snprintf(reported + used, sizeof(reported) - used, "%s %lld %u; ", what,
             (long long)it->arrival_ns / 1000000000, it->points[point].sm_mhz);
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    (void)cluster;
    (void)rule;
    (void)setting;
    reported_jobs = jobs;
    *policy_out = NULL;
    return 0;
}

static void destroy(struct lull_cluster_policy *policy)
{
    (void)policy;
}

static int arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    (void)policy;
    (void)now_ns;
    note("arrive", job, 0);
    return 0;
}

static int adopt(struct lull_cluster_policy *policy, uint32_t job,
                 const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    (void)policy;
    (void)shares;
    (void)count;
    (void)now_ns;
    note("adopt", job, 0);
    return 0;
}

static int recall(struct lull_cluster_policy *policy, uint32_t job, uint32_t point)
{
    (void)policy;
    note("recall", job, point);
    return 0;
}

static void it_is_told_in_order_but_for_what_waits_again(void **state)
{
    static const struct lull_cluster_policy_calls calls = {
        .create = create, .destroy = destroy, .arrive = arrive, .adopt = adopt, .recall = recall};
    static const struct lull_cluster_policy_ops ops = {.name = "listener", .calls = &calls};
    const struct lull_cluster_share share = {0, 4};
    const struct lull_queue_node node = {"n", "a", 8, 4, true};
    const struct lull_queue_job jobs[] = {{.id = 2,
                                           .stage = LULL_QUEUE_RUNS,
                                           .is_of_lull = true,
                                           .name = "j",
                                           .type = "",
                                           .gpus = 4,
                                           .nodes = 1,
                                           .submit_s = 110,
                                           .begin_s = 115,
                                           .limit_s = 60,
                                           .sm_mhz = 900,
                                           .shares = &share,
                                           .share_count = 1},
                                          {.id = 3,
                                           .is_of_lull = true,
                                           .name = "j",
                                           .type = "",
                                           .gpus = 4,
                                           .nodes = 1,
                                           .submit_s = 120,
                                           .limit_s = 60},
                                          {.id = 7,
                                           .is_of_lull = true,
                                           .name = "j",
                                           .type = "",
                                           .gpus = 4,
                                           .nodes = 1,
                                           .submit_s = 140,
                                           .limit_s = 60}};
    const struct lull_queue queue = {150, &node, 1, jobs, 3};
    struct lull_past past = {0};
    const struct lull_scheduling_rules rules = {.policy = &ops, .past = &past};
    struct lull_schedule *schedule;
    struct lull_error err = {0};

    (void)state;
    release(&past, 1, 100, "a");
    release(&past, 2, 110, "a");
    release(&past, 3, 120, "a"); /* it was held again */
    release(&past, 4, 130, "gone");
    release(&past, 5, 130, "a");
    release(&past, 6, 151, "a"); /* the clock was set back */
    release(&past, 8, 140, "a");
    reported[0] = '\0';
    assert_int_equal(lull_schedule_create(&queue, &rules, &schedule, &err), 0);
    assert_string_equal(reported, "adopt 10 900; recall 0 900; recall 10 900; arrive 20 0; "
                                  "recall 30 900; arrive 40 0; recall 40 900; ");
    lull_schedule_destroy(schedule);
    lull_past_fini(&past);
}

/* Adds a document of a job whose line has `length` bytes or more. */
static int add_job_line(struct lull_schedule_journal *journal, int id, size_t length)
{
    char *const name = calloc(1, length + 1);
    json_t *document;
    struct lull_error err;
    int result;

    assert_non_null(name);
    memset(name, 'x', length);
    document = json_pack("{s:i,s:s}", "job", id, "name", name);
    result = lull_schedule_journal_add(journal, document, &err);
    json_decref(document);
    free(name);
    return result;
}

static bool is_found(const char *folder, uint32_t id)
{
    json_t *document = NULL;
    struct lull_error err;

    assert_int_equal(lull_schedule_journal_find(folder, "p", id, &document, &err), 0);
    json_decref(document);
    return document != NULL;
}

/* F64: a line that a full disk cuts is lost alone, as is one that a death has cut. */
static void f64_a_line_that_is_cut_is_lost_alone(void **state)
{
    char folder[] = "/tmp/lull-journal-XXXXXX";
    struct lull_schedule_journal journal;
    struct lull_error err;
    struct rlimit before, full;
    FILE *torn;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(lull_schedule_journal_open(folder, "p", &journal, &err), 0);
    assert_int_equal(add_job_line(&journal, 1, 100), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = 200; /* some bytes of the next line fit */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_true(add_job_line(&journal, 2, 300) < 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(add_job_line(&journal, 3, 10), 0);
    lull_schedule_journal_close(&journal);
    torn = fopen(journal.path, "a");
    assert_non_null(torn);
    fputs("{\"job\": 4, \"na", torn);
    fclose(torn);
    assert_int_equal(lull_schedule_journal_open(folder, "p", &journal, &err), 0);
    assert_int_equal(add_job_line(&journal, 5, 10), 0);
    lull_schedule_journal_close(&journal);
    for (uint32_t id = 1; id <= 5; id++)
        assert_int_equal(is_found(folder, id), id != 2 && id != 4);
    unlink(journal.path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_are_kept_once_each_and_in_order),
        cmocka_unit_test(the_last_lines_of_the_journal_are_told),
        cmocka_unit_test(f64_a_line_that_is_cut_is_lost_alone),
        cmocka_unit_test(it_is_told_in_order_but_for_what_waits_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
