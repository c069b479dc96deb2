/* Evidence of a client's right to control a GPU, and the registered jobs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/evidence.h"

static struct lull_policy policy;
static struct lull_jobs jobs;
static struct lull_policy_limits limits;
static struct lull_error error;
static bool has_device;
static uid_t users[3]; /* users that compute on the GPU */
static uint32_t user_count;

static int set_up(void **state)
{
    (void)state;
    policy = (struct lull_policy){.rule_count = 3,
                                  .rules = {{LULL_POLICY_USER, 1000, true, 0, 0, {.min_mhz = 600}},
                                            {LULL_POLICY_USER, 1001, true, 0, 0, {.min_mhz = 800}},
                                            {LULL_POLICY_GPU, 0, true, 0, 0, {.max_mhz = 1200}}}};
    jobs.count = 0;
    has_device = false;
    user_count = 0;
    return 0;
}

static int judge(uid_t uid, const char *cgroups, bool is_foreign)
{
    const struct lull_evidence evidence = {.person = {.uid = uid},
                                           .is_foreign = is_foreign,
                                           .has_device = has_device,
                                           .cgroups = cgroups,
                                           .uuid = "GPU-a",
                                           .pci = "0000:3b:00.0",
                                           .users = users,
                                           .user_count = user_count};

    error.text[0] = '\0';
    limits = (struct lull_policy_limits){0};
    return lull_evidence_judge(&evidence, &policy, &jobs, &limits, &error);
}

static int add(const char *id, uid_t uid, const char *uuid, const char *cgroup, uint32_t min_mhz)
{
    struct lull_job job = {.uid = uid, .min_mhz = min_mhz};

    snprintf(job.id, sizeof(job.id), "%s", id);
    snprintf(job.uuid, sizeof(job.uuid), "%s", uuid);
    snprintf(job.cgroup, sizeof(job.cgroup), "%s", cgroup);
    return lull_jobs_add(&jobs, &job, &error);
}

static void test_f27_rules_give_a_right(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(limits.min_mhz, 600);
    assert_int_equal(limits.max_mhz, 1200);
    assert_int_equal(judge(1002, "", false), -EACCES);
    assert_non_null(strstr(error.text, "neither a job nor the policy"));
    assert_int_equal(judge(0, "", false), 0);
    assert_int_equal(limits.max_mhz, 1200); /* root's own are held to caps as well */
}

static void test_f27_a_job_outranks_rules(void **state)
{
    (void)state;
    assert_int_equal(add("7", 1002, "GPU-a", "", 0), 0);
    assert_int_equal(add("8", 1003, "GPU-b", "", 0), 0);
    assert_int_equal(judge(1002, "", false), 0);
    assert_int_equal(limits.min_mhz, 0);
    assert_int_equal(judge(1003, "", false), -EACCES);
    assert_int_equal(judge(1000, "", false), -EACCES);
    assert_non_null(strstr(error.text, "job of another user"));
    assert_int_equal(judge(0, "", false), 0);
    assert_int_equal(lull_jobs_remove(&jobs, "7"), 1);
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(judge(1002, "", false), -EACCES);
}

static void test_f27_another_process_of_the_user_is_outside(void **state)
{
    (void)state;
    assert_int_equal(add("7", 1000, "GPU-a", "/slurm/job_7", 0), 0);
    assert_int_equal(judge(1000, "0::/slurm/job_7/step_0\n", false), 0);
    assert_int_equal(judge(1000, "0::/slurm/job_77\n", false), -EACCES);
    assert_non_null(strstr(error.text, "control group"));
    assert_int_equal(judge(1000, "", false), -EACCES);
}

static void control_groups_are_compared_by_their_parts(void **state)
{
    (void)state;
    assert_true(lull_evidence_is_below("0::/a/b", "/a/b"));
    assert_true(lull_evidence_is_below("0::/a/b\n", "/a"));
    assert_true(lull_evidence_is_below("5:cpu,cpuacct:/x\n3:devices:/a/b/c\n", "/a/b"));
    assert_false(lull_evidence_is_below("0::/a/bc\n", "/a/b"));
    assert_false(lull_evidence_is_below("0::/a\n", "/a/b"));
    assert_false(lull_evidence_is_below("0::/a/b/../c\n", "/a/b"));
    assert_false(lull_evidence_is_below("/a/b\n", "/a/b"));
    assert_false(lull_evidence_is_below(":/a/b\n", "/a/b"));
    assert_false(lull_evidence_is_below("", "/a/b"));
    assert_false(lull_evidence_is_below("\n\n", "/a/b"));
}

/* A descriptor that was not opened for use shows nothing, although its number is right. */
static void test_f27_only_an_opened_device_counts(void **state)
{
    (void)state;
    assert_true(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_RDWR, 50));
    assert_true(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_RDWR | O_NONBLOCK, 50));
    assert_false(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_PATH, 50));
    assert_false(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_PATH | O_RDWR, 50));
    assert_false(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_RDONLY, 50));
    assert_false(lull_evidence_is_opened(S_IFCHR | 0666, 50, O_WRONLY, 50));
    assert_false(lull_evidence_is_opened(S_IFCHR | 0666, 51, O_RDWR, 50));
    assert_false(lull_evidence_is_opened(S_IFBLK | 0666, 50, O_RDWR, 50));
    assert_false(lull_evidence_is_opened(S_IFREG | 0666, 50, O_RDWR, 50));
}

static void test_f27_a_device_never_outranks_a_job(void **state)
{
    (void)state;
    snprintf(policy.rules[2].device, sizeof(policy.rules[2].device), "/dev/x");
    assert_int_equal(judge(1002, "", false), -ENOKEY);
    assert_int_equal(judge(1002, "", true), -EACCES);
    has_device = true;
    assert_int_equal(judge(1002, "", false), 0);
    assert_int_equal(limits.max_mhz, 1200);
    assert_int_equal(judge(1002, "", true), -EACCES);
    has_device = false;
    assert_int_equal(judge(1000, "", false), 0); /* a rule needs none */
    assert_int_equal(add("7", 1003, "GPU-a", "", 0), 0);
    assert_int_equal(judge(1002, "", false), -EACCES);
    has_device = true;
    assert_int_equal(judge(1002, "", false), -EACCES);
    assert_int_equal(judge(1003, "", false), 0);
}

static void test_f28_who_is_not_known_gets_nothing(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, "", true), -EACCES);
    assert_int_equal(judge(0, "", true), -EACCES);
    assert_non_null(strstr(error.text, "container"));
    policy.allows_containers = true;
    assert_int_equal(judge(1000, "", true), 0);
    assert_int_equal(judge(1002, "", true), -EACCES);
    assert_true(lull_evidence_is_unmapped(65534));
    assert_true(lull_evidence_is_unmapped((uid_t)-1));
    assert_false(lull_evidence_is_unmapped(0));
}

static void test_f31_a_shared_gpu_keeps_the_highest_floor(void **state)
{
    (void)state;
    assert_int_equal(add("7", 1000, "GPU-a", "", 700), 0);
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(limits.min_mhz, 700);
    assert_int_equal(add("8", 1001, "GPU-a", "", 0), 0);
    assert_int_equal(judge(1000, "", false), -EACCES);
    assert_int_equal(judge(1001, "", false), -EACCES);
    assert_non_null(strstr(error.text, "shared"));
    policy.allows_shared = true;
    for (uid_t uid = 1000; uid <= 1001; uid++) {
        assert_int_equal(judge(uid, "", false), 0);
        assert_int_equal(limits.min_mhz, 800); /* of 1001's rule */
        assert_int_equal(limits.max_mhz, 1200);
    }
    assert_int_equal(judge(1002, "", false), -EACCES);
    assert_int_equal(add("8", 1001, "GPU-a", "", 900), 0); /* is reported again */
    assert_int_equal(jobs.count, 2);
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(limits.min_mhz, 900);
}

static void compute_on_it(uid_t first, uid_t second)
{
    users[0] = first;
    users[1] = second;
    user_count = 2;
}

/* Returns whether both rights are given; neither is given without the other here. */
static bool has_rights(void)
{
    assert_int_equal(limits.allows_profiles, limits.allows_smoothing);
    return limits.allows_profiles;
}

/* A rule of the user's own, and no other user on the GPU; root needs neither. */
static void test_power_profiles_and_smoothing_need_a_rule(void **state)
{
    (void)state;
    assert_int_equal(judge(0, "", false), 0);
    assert_true(has_rights());
    assert_int_equal(judge(1000, "", false), 0);
    assert_false(has_rights());
    for (uint32_t i = 0; i < policy.rule_count; i++)
        policy.rules[i].limits.allows_profiles = policy.rules[i].limits.allows_smoothing = true;
    assert_int_equal(judge(1000, "", false), 0);
    assert_true(has_rights());
    policy.allows_shared = true;
    compute_on_it(1000, 1001);
    assert_int_equal(judge(1000, "", false), 0);
    assert_false(has_rights());
    assert_int_equal(add("7", 1002, "GPU-a", "", 0), 0);
    compute_on_it(1002, 1002);
    assert_int_equal(judge(1002, "", false), 0); /* by a job alone */
    assert_false(has_rights());
}

static void test_f31_another_user_who_computes_shares_the_gpu(void **state)
{
    (void)state;
    compute_on_it(1000, 1000);
    assert_int_equal(judge(1000, "", false), 0); /* alone on it */
    compute_on_it(1000, 1001);
    assert_int_equal(judge(1000, "", false), -EACCES);
    assert_non_null(strstr(error.text, "uid 1001"));
    assert_non_null(strstr(error.text, "shared = yes"));
    assert_int_equal(judge(0, "", false), 0); /* the administrator knows */
    assert_int_equal(add("7", 1000, "GPU-a", "", 0), 0);
    assert_int_equal(judge(1000, "", false), -EACCES); /* also where the GPU is a job's */
    policy.allows_shared = true;
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(limits.min_mhz, 800); /* of 1001's rule */
    jobs.count = 0;
    assert_int_equal(judge(1001, "", false), 0);
    assert_int_equal(limits.min_mhz, 800);
    compute_on_it(1002, 1003); /* for whom there are no rules */
    assert_int_equal(judge(1000, "", false), 0);
    assert_int_equal(limits.min_mhz, 600);
    assert_int_equal(judge(1002, "", false), -EACCES); /* to compute gives no right */
    assert_non_null(strstr(error.text, "neither a job nor the policy"));
}

static void jobs_are_checked(void **state)
{
    (void)state;
    assert_int_equal(add("", 1, "GPU-a", "", 0), -EINVAL);
    assert_int_equal(add(".x", 1, "GPU-a", "", 0), -EINVAL);
    assert_int_equal(add("a/b", 1, "GPU-a", "", 0), -EINVAL);
    assert_int_equal(add("a b", 1, "GPU-a", "", 0), -EINVAL);
    assert_int_equal(add("a", 1, "GPU a", "", 0), -EINVAL);
    assert_int_equal(add("a", 1, "GPU-a", "x", 0), -EINVAL);
    assert_int_equal(add("a", 1, "GPU-a", "/", 0), -EINVAL); /* every process is below it */
    assert_int_equal(add("a", 1, "GPU-a", "/x y", 0), -EINVAL);
    assert_int_equal(jobs.count, 0);
    assert_int_equal(add("a", 1, "GPU-a", "", 0), 0);
    assert_int_equal(add("a", 2, "GPU-b", "", 0), -EEXIST);
    jobs.count = LULL_JOBS_MAX;
    assert_int_equal(add("b", 2, "GPU-c", "", 0), -ENOSPC);
}

static void jobs_outlive_the_daemon(void **state)
{
    char directory[] = "/tmp/lull-jobs-XXXXXX";
    static struct lull_jobs again;
    char path[64];
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(add("7", 1000, "GPU-a", "/slurm/job_7", 700), 0);
    assert_int_equal(add("7", 1000, "GPU-b", "", 0), 0);
    assert_int_equal(add("8", 1001, "GPU-a", "", 0), 0);
    assert_int_equal(lull_jobs_save(&jobs, directory, "7", &error), 0);
    assert_int_equal(lull_jobs_save(&jobs, directory, "8", &error), 0);
    again.count = 0;
    assert_int_equal(lull_jobs_load(&again, directory), 0);
    assert_int_equal(again.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        bool is_there = false;

        for (uint32_t k = 0; k < 3; k++)
            is_there |= memcmp(&jobs.jobs[i], &again.jobs[k], sizeof(jobs.jobs[i])) == 0;
        assert_true(is_there);
    }
    lull_jobs_remove(&jobs, "7");
    assert_int_equal(lull_jobs_save(&jobs, directory, "7", &error), 0);
    assert_int_equal(lull_jobs_save(&jobs, directory, "7", &error), 0); /* twice */
    again.count = 0;
    assert_int_equal(lull_jobs_load(&again, directory), 0);
    assert_int_equal(again.count, 1);
    snprintf(path, sizeof(path), "%s/9", directory);
    file = fopen(path, "w");
    fputs("nonsense\n", file);
    fclose(file);
    again.count = 0;
    assert_int_equal(lull_jobs_load(&again, directory), 1);
    assert_int_equal(again.count, 1);
    unlink(path);
    lull_jobs_remove(&jobs, "8");
    assert_int_equal(lull_jobs_save(&jobs, directory, "8", &error), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(lull_jobs_load(&again, directory), 0);
    assert_int_equal(lull_jobs_save(&jobs, directory, "../x", &error), -EINVAL);
}

/* Walks over the pairs that a user may see, and removes a job meanwhile; checks the order. Returns
 * how many pairs of other jobs were seen. */
static uint32_t walk_jobs(bool sees_all, uid_t uid, const char *removed)
{
    static struct lull_jobs whole;
    struct lull_job last = {0};
    const struct lull_job *next;
    uint32_t seen = 0;

    whole = jobs;
    while ((next = lull_jobs_next(&jobs, last.id, last.uuid, sees_all, uid)) != NULL) {
        assert_true(sees_all || next->uid == uid);
        assert_true(strcmp(next->id, last.id) > 0 ||
                    (strcmp(next->id, last.id) == 0 && strcmp(next->uuid, last.uuid) > 0));
        last = *next;
        seen += strcmp(last.id, removed) != 0;
        if (seen == 1)
            lull_jobs_remove(&jobs, removed);
    }
    jobs = whole;
    return seen;
}

static void jobs_are_listed_in_order(void **state)
{
    uint32_t total = 0, of_alice = 0, of_five = 0;

    (void)state;
    assert_null(lull_jobs_next(&jobs, "", "", true, 0));
    for (uint32_t i = 0; i < 60; i++) {
        char id[16], uuid[16];
        const uint32_t job = i * 7 % 15;

        snprintf(id, sizeof(id), "%u", job);
        snprintf(uuid, sizeof(uuid), "GPU-%u", i * 11 % 4 + i % 2 * 10);
        assert_int_equal(add(id, job % 3 == 0 ? 1000 : 1001, uuid, "", 0), 0);
    }
    total = jobs.count;
    for (uint32_t i = 0; i < total; i++) {
        of_alice += jobs.jobs[i].uid == 1000;
        of_five += strcmp(jobs.jobs[i].id, "5") == 0;
    }
    assert_in_range(of_alice, 1, total - 1);
    assert_in_range(of_five, 1, total - 1);
    assert_int_equal(walk_jobs(true, 1000, "none"), total);
    assert_int_equal(walk_jobs(false, 1000, "none"), of_alice);
    assert_int_equal(walk_jobs(false, 1002, "none"), 0);
    assert_int_equal(walk_jobs(true, 0, "5"), total - of_five);
    assert_int_equal(lull_jobs_count_others(&jobs, 1000), total - of_alice);
    assert_int_equal(lull_jobs_count_others(&jobs, 1002), total);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

/* F64: what cannot be saved is not known either, so that lulld says the same after a restart. */
static void f64_a_job_is_recorded_whole_or_not_at_all(void **state)
{
    char directory[] = "/tmp/lull-jobs-XXXXXX";
    static struct lull_jobs recorded;
    struct lull_job job = {.id = "7", .uid = 1000, .uuid = "GPU-a", .min_mhz = 700};

    (void)state;
    recorded.count = 0;
    assert_non_null(mkdtemp(directory));
    assert_true(lull_jobs_record(&recorded, "/dev/null/x", &job, &error) < 0);
    assert_int_equal(recorded.count, 0);
    assert_int_equal(lull_jobs_record(&recorded, directory, &job, &error), 0);
    job.min_mhz = 900;
    assert_true(lull_jobs_record(&recorded, "/dev/null/x", &job, &error) < 0);
    assert_int_equal(recorded.count, 1);
    assert_int_equal(recorded.jobs[0].min_mhz, 700);
    job.uid = 1001;
    assert_int_equal(lull_jobs_record(&recorded, directory, &job, &error), -EEXIST);
    assert_int_equal(recorded.jobs[0].uid, 1000);
    assert_true(lull_jobs_delete("/dev/null/x", "7", &error) < 0);
    assert_int_equal(lull_jobs_delete(directory, "7", &error), 0);
    assert_int_equal(lull_jobs_delete(directory, "7", &error), 0); /* it may be missing */
    assert_int_equal(lull_jobs_delete(directory, "../7", &error), -EINVAL);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_f27_rules_give_a_right),
        TEST(test_f27_a_job_outranks_rules),
        TEST(test_f27_another_process_of_the_user_is_outside),
        TEST(control_groups_are_compared_by_their_parts),
        TEST(test_f27_only_an_opened_device_counts),
        TEST(test_f27_a_device_never_outranks_a_job),
        TEST(test_f28_who_is_not_known_gets_nothing),
        TEST(test_f31_a_shared_gpu_keeps_the_highest_floor),
        TEST(test_power_profiles_and_smoothing_need_a_rule),
        TEST(test_f31_another_user_who_computes_shares_the_gpu),
        TEST(jobs_are_checked),
        TEST(jobs_outlive_the_daemon),
        TEST(jobs_are_listed_in_order),
        cmocka_unit_test(f64_a_job_is_recorded_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
