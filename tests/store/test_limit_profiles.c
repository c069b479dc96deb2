/*
 * Stored power-limit profiles: they can be read again, several processes may write, and a profile
 * that is damaged, of a newer Lull or not writable gives an error with the reason.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "store/limit_profiles.h"

static char directory[64];
static char path[80];

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/lull-store-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/limits.db", directory);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[96];

        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
    return rmdir(directory);
}

static struct lull_store *open_store(void)
{
    struct lull_store *store = NULL;
    struct lull_error err = {0};

    if (lull_store_open(directory, &lull_limit_profiles_schema, true, &store, &err) < 0)
        fail_msg("%s", err.text);
    return store;
}

static struct lull_limit_profile make_profile(const char *program, uint32_t gpus)
{
    struct lull_limit_profile profile = {
        .gpu_name = "GPU", .gpu_count = gpus, .measured_s = 1700000000, .host = "node", .count = 3};

    snprintf(profile.program, sizeof(profile.program), "%s", program);
    for (uint32_t i = 0; i < profile.count; i++)
        profile.measures[i] = (struct lull_limit_measure){
            .point = {300.0 - 25.0 * i, i == 2 ? 1200 : 0},
            .iterations = 10 + i,
            .seconds = 5.0 + i,
            .joules = 1000.0 / (i + 1),
            .iteration_s = {5, 0.5, 0.001},
            .iteration_j = {5, 100.0, 0.5},
            .is_done = true,
        };
    profile.selector = (struct lull_job_selector){
        .aim = LULL_JOB_SLOWDOWN, .price = {0.5, 300.0, gpus}, .slowdown_ratio = 0.05};
    profile.chosen = 1;
    profile.chosen_s = 1700000001;
    snprintf(profile.chosen_by, sizeof(profile.chosen_by), "ada");
    return profile;
}

static void assert_same(const struct lull_limit_profile *a, const struct lull_limit_profile *b)
{
    assert_string_equal(a->program, b->program);
    assert_string_equal(a->chosen_by, b->chosen_by);
    assert_int_equal(a->gpu_count, b->gpu_count);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->chosen, b->chosen);
    assert_int_equal(a->measured_s, b->measured_s);
    assert_memory_equal(&a->selector, &b->selector, sizeof(a->selector));
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->measures[i].iterations, b->measures[i].iterations);
        assert_true(a->measures[i].joules == b->measures[i].joules);
        assert_true(a->measures[i].point.limit_w == b->measures[i].point.limit_w);
        assert_true(a->measures[i].iteration_j.squares == b->measures[i].iteration_j.squares);
    }
}

static void test_profiles_come_back(void **state)
{
    struct lull_limit_profile profile = make_profile("train --x", 4);
    struct lull_limit_profile found;
    struct lull_store *store = open_store();

    (void)state;
    assert_int_equal(lull_limit_profile_load(store, "train --x", "GPU", 4, &found, NULL), -ENOENT);
    assert_int_equal(lull_limit_profile_save(store, &profile, NULL), 0);
    profile.measures[2].joules = 7.0;
    assert_int_equal(lull_limit_profile_save(store, &profile, NULL), 0); /* takes its place */
    lull_store_close(store);
    store = open_store();
    assert_int_equal(lull_limit_profile_load(store, "train --x", "GPU", 4, &found, NULL), 0);
    assert_same(&profile, &found);
    assert_int_equal(lull_limit_profile_load(store, "train --x", "GPU", 2, &found, NULL), -ENOENT);
    assert_int_equal(lull_limit_profiles_remove(store, "train --x", NULL), 1);
    assert_int_equal(lull_limit_profiles_remove(store, "train --x", NULL), 0);
    lull_store_close(store);
}

static int count_one(void *context, const struct lull_limit_profile *profile)
{
    assert_int_equal(profile->count, 3);
    ++*(int *)context;
    return 0;
}

static void test_many_writers(void **state)
{
    enum { WRITERS = 4, EACH = 10 };
    struct lull_store *store;
    int count = 0;

    (void)state;
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        if (fork() != 0)
            continue;
        for (uint32_t i = 0; i < EACH; i++) {
            struct lull_limit_profile profile = make_profile("train", writer * EACH + i + 1);

            store = open_store();
            if (lull_limit_profile_save(store, &profile, NULL) < 0)
                _exit(1);
            lull_store_close(store);
        }
        _exit(0);
    }
    for (int status, i = 0; i < WRITERS; i++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    store = open_store();
    assert_int_equal(lull_limit_profiles_walk(store, count_one, &count, NULL), 0);
    assert_int_equal(count, WRITERS * EACH);
    lull_store_close(store);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_bad_databases_are_named(void **state)
{
    struct lull_store *store = NULL;
    struct lull_error err = {0};
    sqlite3 *database;

    (void)state;
    assert_int_equal(lull_store_open(directory, &lull_limit_profiles_schema, false, &store, &err),
                     -ENOENT);
    write_file("this is no database, but long enough to look like the header of one ........"
               "...............................................................................");
    assert_int_equal(lull_store_open(directory, &lull_limit_profiles_schema, true, &store, &err),
                     LULL_E_FORMAT);
    assert_non_null(strstr(err.text, path));
    unlink(path);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    sqlite3_exec(database, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(database);
    assert_int_equal(lull_store_open(directory, &lull_limit_profiles_schema, true, &store, &err),
                     LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "newer"));
    assert_null(store);
}

static void test_impossible_profiles_are_refused(void **state)
{
    static const char *const damages[] = {
        "UPDATE measure SET seconds = 0",    "UPDATE profile SET aim = 'luck'",
        "UPDATE profile SET chosen = 7",     "DELETE FROM measure",
        "UPDATE measure SET joules = 'x'",   "UPDATE measure SET limit_w = -1",
        "UPDATE measure SET iterations = -5"};

    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct lull_limit_profile profile = make_profile("train", 1);
        struct lull_store *store = open_store();
        struct lull_error err = {0};
        sqlite3 *database;
        int result;

        assert_int_equal(lull_limit_profile_save(store, &profile, NULL), 0);
        assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
        assert_int_equal(sqlite3_exec(database, damages[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(database);
        result = lull_limit_profile_load(store, "train", "GPU", 1, &profile, &err);
        if (strstr(damages[i], "joules") != NULL)
            assert_int_equal(result, 0); /* text counts as 0, which can be */
        else
            assert_int_equal(result, LULL_E_FORMAT);
        lull_store_close(store);
    }
}

static void test_programs_have_names(void **state)
{
    char *const plain[] = {"/usr/bin/python3", "train.py", "--lr", "1", NULL};
    char longest[400];
    char *const many[] = {"train", longest, NULL};
    char first[LULL_LIMIT_PROGRAM_BYTES];
    char second[LULL_LIMIT_PROGRAM_BYTES];

    (void)state;
    lull_limit_program(plain, first);
    assert_string_equal(first, "python3 train.py --lr 1");
    memset(longest, 'x', sizeof(longest));
    longest[399] = '\0';
    lull_limit_program(many, first);
    longest[398] = 'y';
    lull_limit_program(many, second);
    assert_string_not_equal(first, second);
}

/* Writes profiles one after the other until it is killed. */
_Noreturn static void write_for_ever(void)
{
    struct lull_store *store = open_store();

    for (uint32_t round = 0;; round++) {
        struct lull_limit_profile profile = make_profile("train", 1 + round % 40);

        if (lull_limit_profile_save(store, &profile, NULL) < 0)
            _exit(1);
    }
}

static int count_profile(void *context, const struct lull_limit_profile *profile)
{
    (*(uint32_t *)context)++;
    assert_string_equal(profile->program, "train");
    return 0;
}

/* Opens what a host that has lost power would find, and looks at all of it. */
static void check_copy(uint32_t *seen)
{
    char typical[sizeof(directory)];
    char command[512];
    struct lull_store *store;
    sqlite3_stmt *statement;
    struct lull_error err = {0};

    snprintf(command, sizeof(command),
             "rm -f %s-lost/*; cp %s %s-lost; test ! -f %s-wal || cp %s-wal %s-lost", directory,
             path, directory, path, path, directory);
    assert_int_equal(system(command), 0);
    memcpy(typical, directory, sizeof(directory));
    snprintf(directory, sizeof(directory), "%.40s-lost", typical);
    store = open_store();
    statement = lull_store_prepare(store, "PRAGMA integrity_check", &err);
    assert_non_null(statement);
    assert_int_equal(lull_store_step(store, statement, &err), 1);
    assert_string_equal(sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    *seen = 0;
    assert_int_equal(lull_limit_profiles_walk(store, count_profile, seen, &err), 0);
    lull_store_close(store);
    memcpy(directory, typical, sizeof(directory));
}

/* F06: the files as they are at any moment hold whole profiles, and none that was there is lost. */
static void test_f06_a_store_survives_the_loss_of_power(void **state)
{
    char command[160];
    uint32_t most = 0;
    pid_t pid;

    (void)state;
    lull_store_close(open_store());
    snprintf(command, sizeof(command), "mkdir %s-lost", directory);
    assert_int_equal(system(command), 0);
    pid = fork();
    if (pid == 0)
        write_for_ever();
    srand(6);
    for (int i = 0; i < 40; i++) {
        uint32_t seen;
        int status;

        usleep((useconds_t)(rand() % 20000));
        kill(pid, SIGSTOP); /* a copy takes time, a power loss none */
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status));
        check_copy(&seen);
        assert_true(seen >= most);
        most = seen;
        kill(pid, SIGCONT);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(most > 0);
    snprintf(command, sizeof(command), "rm -rf %s-lost", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_profiles_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_writers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_databases_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_impossible_profiles_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_f06_a_store_survives_the_loss_of_power, set_up,
                                        tear_down),
        cmocka_unit_test(test_programs_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
