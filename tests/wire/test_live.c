/*
 * The live state of a run: readers get a consistent state or none, and only those of living
 * writers; no contents of a file make them read beyond its end. SPDX-License-Identifier: Apache-2.0
 */
#include "wire/live.c" /* to write what no writer writes */

#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/serving/controller.h"

static char directory[] = "/dev/shm/lull-test-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

/* A state whose every word says the same number, but for what readers check. */
static void fill(struct lull_live_run *run, uint64_t number)
{
    memset(run, 0, sizeof(*run));
    run->gpu_count = LULL_LIVE_MAX_GPUS;
    run->iterations = number;
    run->iteration_ms = lull_live_figure((double)number, LULL_LIVE_TOO_EARLY);
    for (uint32_t i = 0; i < run->gpu_count; i++) {
        run->gpus[i].events = number;
        run->gpus[i].power_w = lull_live_figure(NAN, LULL_LIVE_LOST);
        snprintf(run->gpus[i].uuid, sizeof(run->gpus[i].uuid), "GPU-%u", i);
    }
}

static struct lull_live_writer *create(const char *pass)
{
    struct lull_live_writer *writer;
    struct lull_error err;

    assert_int_equal(lull_live_writer_create(directory, pass, &writer, &err), 0);
    return writer;
}

static void what_is_written_is_read(void **state)
{
    static struct lull_live_run written;
    static struct lull_live_run seen;
    struct lull_live_writer *writer = create("managed");
    struct lull_live_entry entries[2];
    struct lull_error err;

    (void)state;
    assert_int_equal(lull_live_list(directory, entries, 2), 0); /* it holds no state yet */
    fill(&written, 7);
    lull_live_write(writer, &written);
    assert_int_equal(lull_live_list(directory, entries, 2), 1);
    assert_int_equal(entries[0].user, geteuid());
    assert_int_equal(lull_live_read(directory, entries[0].file, &seen, &err), 0);
    assert_memory_equal(&written, &seen, offsetof(struct lull_live_run, gpus));
    assert_int_equal(seen.gpus[63].events, 7);
    assert_string_equal(seen.gpus[63].uuid, "GPU-63");
    assert_true(isnan(seen.gpus[63].power_w.value));
    assert_int_equal(seen.gpus[63].power_w.unknown, LULL_LIVE_LOST);
    lull_live_writer_destroy(writer);
    assert_int_equal(lull_live_list(directory, entries, 2), 0);
    assert_int_equal(lull_live_read(directory, entries[0].file, &seen, &err), -ESRCH);
}

static void runs_are_listed_in_order_and_no_more_than_asked_for(void **state)
{
    static struct lull_live_run run;
    struct lull_live_writer *writers[3] = {create("c"), create("a"), create("b")};
    struct lull_live_entry entries[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        lull_live_write(writers[i], &run);
    assert_int_equal(lull_live_list(directory, entries, 2), 2);
    assert_int_equal(lull_live_list(directory, entries, 3), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(strrchr(entries[i].file, '-')[-1], 'a' + i);
    for (int i = 0; i < 3; i++)
        lull_live_writer_destroy(writers[i]);
}

/* Users have equal shares of a list that is too short, in whatever order their files come. */
static void one_user_displaces_none_of_another(void **state)
{
    static struct lull_live_run run;
    static const uid_t users[] = {1, 1, 1, 2, 1, 1, 3, 3, 1};
    enum { FILES = sizeof(users) / sizeof(users[0]) };
    struct lull_live_writer *writers[FILES];
    struct lull_live_entry entries[FILES];
    static const struct {
        uint32_t most, shares[3];
    } cases[] = {{9, {6, 1, 2}}, {7, {4, 1, 2}}, {5, {2, 1, 2}}, {3, {1, 1, 1}}};

    (void)state;
    if (geteuid() != 0)
        skip();
    for (int i = 0; i < FILES; i++) {
        char pass[16];

        snprintf(pass, sizeof(pass), "%d", i);
        writers[i] = create(pass);
        lull_live_write(writers[i], &run);
        assert_int_equal(fchown(writers[i]->fd, users[i], (gid_t)-1), 0);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t seen[3] = {0};

        assert_int_equal(lull_live_list(directory, entries, cases[i].most), cases[i].most);
        for (uint32_t k = 0; k < cases[i].most; k++)
            seen[entries[k].user - 1]++;
        assert_memory_equal(seen, cases[i].shares, sizeof(seen));
    }
    for (int i = 0; i < FILES; i++)
        lull_live_writer_destroy(writers[i]);
}

/* Returns whether a user who is in a group can read a file. */
static bool can_read(const char *path, uid_t user, gid_t group)
{
    const pid_t child = fork();
    int status;

    if (child == 0)
        _exit(setgroups(1, &group) == 0 && setgid(9) == 0 && setuid(user) == 0 &&
                      access(path, R_OK) == 0
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void a_run_is_private_unless_it_is_shared(void **state)
{
    const mode_t mask = umask(0);
    struct lull_live_writer *const writer = create("managed");
    struct lull_error err;
    struct stat info;

    (void)state;
    umask(mask);
    assert_int_equal(fstat(writer->fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    if (geteuid() == 0) {
        assert_int_equal(chmod(directory, 0755), 0);
        assert_false(can_read(writer->path, 12002, 12345));
        assert_int_equal(lull_live_writer_share(writer, 12345, &err), 0);
        assert_true(can_read(writer->path, 12002, 12345));
        assert_false(can_read(writer->path, 12002, 12346));
        assert_int_equal(fstat(writer->fd, &info), 0);
        assert_int_equal(info.st_mode & 0007, 0);
    }
    lull_live_writer_destroy(writer);
}

static void the_governor_hears_what_is_asked(void **state)
{
    static struct lull_live_run run;
    struct lull_live_writer *writer = create("managed");
    struct lull_live_entry entry;

    (void)state;
    lull_live_write(writer, &run);
    assert_int_equal(lull_live_list(directory, &entry, 1), 1);
    assert_int_equal(lull_live_asked(writer), LULL_LIVE_GO_ON);
    assert_int_equal(lull_live_ask(directory, entry.file, LULL_LIVE_PAUSE, NULL), 0);
    assert_int_equal(lull_live_asked(writer), LULL_LIVE_PAUSE);
    assert_int_equal(lull_live_ask(directory, entry.file, LULL_LIVE_GO_ON, NULL), 0);
    assert_int_equal(lull_live_asked(writer), LULL_LIVE_GO_ON);
    lull_live_writer_destroy(writer);
    assert_int_equal(lull_live_ask(directory, entry.file, LULL_LIVE_PAUSE, NULL), -ESRCH);
}

static void a_killed_governors_state_is_not_listed_and_is_cleared_away(void **state)
{
    static struct lull_live_run run;
    struct lull_live_entry entry;
    int ready[2];
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        lull_live_write(create("managed"), &run);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(lull_live_list(directory, &entry, 1), 1);
    assert_int_equal(lull_job_file_clear(directory), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(lull_live_read(directory, entry.file, &run, NULL), -ESRCH);
    assert_int_equal(lull_live_ask(directory, entry.file, LULL_LIVE_PAUSE, NULL), -ESRCH);
    assert_int_equal(lull_live_list(directory, &entry, 1), 0);
    assert_int_equal(lull_job_file_clear(directory), 1);
    close(ready[0]);
    close(ready[1]);
}

struct reading {
    char file[LULL_LIVE_WORD_BYTES];
    atomic_bool is_over;
    uint32_t seen;
    bool is_torn;
};

static void *read_on(void *argument)
{
    static struct lull_live_run run;
    struct reading *reading = argument;

    while (!atomic_load(&reading->is_over) || reading->seen == 0) {
        if (lull_live_read(directory, reading->file, &run, NULL) < 0)
            continue;
        reading->seen++;
        for (uint32_t i = 0; i < run.gpu_count; i++)
            if (run.gpus[i].events != run.iterations || run.gpu_count != LULL_LIVE_MAX_GPUS)
                reading->is_torn = true;
    }
    return NULL;
}

/* Without the sequence, readers see two writes in one state. */
static void a_reader_sees_one_moment(void **state)
{
    static struct lull_live_run run;
    struct lull_live_writer *writer = create("managed");
    struct lull_live_entry entry;
    struct reading reading = {0};
    pthread_t thread;

    (void)state;
    fill(&run, 1);
    lull_live_write(writer, &run);
    assert_int_equal(lull_live_list(directory, &entry, 1), 1);
    memcpy(reading.file, entry.file, sizeof(reading.file));
    assert_int_equal(pthread_create(&thread, NULL, read_on, &reading), 0);
    for (uint64_t number = 2; number < 2000; number++) {
        fill(&run, number);
        lull_live_write(writer, &run);
    }
    atomic_store(&reading.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(reading.is_torn);
    lull_live_writer_destroy(writer);
}

static void what_is_being_written_is_not_read(void **state)
{
    static struct lull_live_run run;
    struct lull_live_writer *writer = create("managed");
    struct lull_live_entry entry;

    (void)state;
    lull_live_write(writer, &run);
    assert_int_equal(lull_live_list(directory, &entry, 1), 1);
    atomic_fetch_add(&writer->memory->sequence, 1);
    assert_int_equal(lull_live_read(directory, entry.file, &run, NULL), -EAGAIN);
    lull_live_writer_destroy(writer);
}

static void another_version_or_a_cut_file_is_refused(void **state)
{
    static struct lull_live_run run;
    struct lull_live_writer *writer = create("managed");
    struct lull_live_entry entry;
    struct lull_live_entry none;

    (void)state;
    lull_live_write(writer, &run);
    assert_int_equal(lull_live_list(directory, &entry, 1), 1);
    writer->memory->version++;
    assert_int_equal(lull_live_read(directory, entry.file, &run, NULL), -EPROTONOSUPPORT);
    assert_int_equal(lull_live_list(directory, &none, 1), 0);
    writer->memory->version--;
    assert_int_equal(ftruncate(writer->fd, 4096), 0);
    assert_int_equal(lull_live_list(directory, &none, 1), 1);
    assert_int_equal(ftruncate(writer->fd, 12), 0);
    assert_int_equal(lull_live_read(directory, entry.file, &run, NULL), LULL_E_FORMAT);
    assert_int_equal(lull_live_list(directory, &none, 1), 0);
    lull_live_writer_destroy(writer);
}

static void what_is_out_of_range_is_mended(void **state)
{
    static struct lull_live_run run;

    (void)state;
    memset(&run, 0xff, sizeof(run));
    run.gpu_count = 2;
    lull_live_check(&run);
    assert_int_equal(run.command[sizeof(run.command) - 1], '\0');
    assert_int_equal(run.gpus[1].uuid[sizeof(run.gpus[1].uuid) - 1], '\0');
    assert_int_equal(run.gpus[1].section, LULL_LIVE_NO_SECTION);
    assert_int_equal(run.verdict, LULL_LIVE_NO_VERDICT);
    assert_int_equal(run.saving_ratio.unknown, LULL_LIVE_TOO_EARLY);
    assert_int_equal(run.serving.mode, LULL_LIVE_MODE_NONE);
    assert_true(run.serving.parked_since_ns == 0 && run.serving.parked_s >= 0.0);
    assert_int_equal(run.serving.requests.unknown, LULL_LIVE_TOO_EARLY);
    assert_int_equal(run.serving.reason[sizeof(run.serving.reason) - 1], '\0');
    run.saving_ratio = (struct lull_live_figure){.value = INFINITY};
    run.gpus[0].throttled = (struct lull_live_figure){.value = -1.0};
    run.gpu_count = LULL_LIVE_MAX_GPUS + 1;
    run.gpus[0].sections[0].energy_j = (struct lull_live_figure){.value = 3.0, .unknown = 2};
    lull_live_check(&run);
    assert_int_equal(run.gpu_count, 0);
    assert_true(isnan(run.saving_ratio.value));
    run.gpu_count = 1;
    lull_live_check(&run);
    assert_true(isnan(run.gpus[0].throttled.value));
    assert_int_equal(run.gpus[0].throttled.unknown, LULL_LIVE_NO_SENSOR);
    assert_true(isnan(run.gpus[0].sections[0].energy_j.value));
}

static void every_value_has_words(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LULL_LIVE_UNKNOWN_COUNT; i++)
        assert_non_null(lull_live_unknown_text(i));
    for (uint32_t i = 0; i < LULL_LIVE_SECTION_COUNT; i++)
        assert_non_null(lull_live_section_text(i));
    assert_string_equal(lull_live_unknown_text(LULL_LIVE_UNKNOWN_COUNT), "?");
    assert_string_equal(lull_live_section_text(LULL_LIVE_GAP), "gap");
    assert_string_equal(lull_live_state_text(LULL_LIVE_OBSERVED), "observed");
    assert_string_equal(lull_live_verdict_text(LULL_LIVE_NOTHING_KEPT), "nothing kept");
    assert_string_equal(lull_live_ruler_text(LULL_LIVE_BY_LIMIT), "power limit");
    for (uint32_t i = 0; i < LULL_LIVE_MODE_COUNT; i++)
        assert_non_null(lull_live_mode_text(i));
    assert_string_equal(lull_live_mode_text(LULL_LIVE_MODE_COUNT), "?");
    /* The governor adds the controller's mode to the first. */
    assert_int_equal(LULL_LIVE_MODE_IDLE - LULL_LIVE_MODE_BLIND,
                     LULL_SERVING_IDLE - LULL_SERVING_BLIND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(runs_are_listed_in_order_and_no_more_than_asked_for),
        cmocka_unit_test(one_user_displaces_none_of_another),
        cmocka_unit_test(a_run_is_private_unless_it_is_shared),
        cmocka_unit_test(the_governor_hears_what_is_asked),
        cmocka_unit_test(a_killed_governors_state_is_not_listed_and_is_cleared_away),
        cmocka_unit_test(a_reader_sees_one_moment),
        cmocka_unit_test(what_is_being_written_is_not_read),
        cmocka_unit_test(another_version_or_a_cut_file_is_refused),
        cmocka_unit_test(what_is_out_of_range_is_mended),
        cmocka_unit_test(every_value_has_words),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
