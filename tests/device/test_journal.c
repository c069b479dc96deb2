/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/journal.c" /* to forge what an earlier boot has written */

static const struct lull_journal_record record = {
    .uuid = "GPU-11111111-2222-3333-4444-555555555555",
    .driver_version = "550.54.15",
    .controls = 1,
    .power_limit_mw = 400000,
    .power_limit_default_mw = 400000,
};

static char directory[64];
static char path[160];

static int setup(void **state)
{
    struct lull_journal *journal;

    snprintf(directory, sizeof(directory), "/tmp/lull-journal-XXXXXX");
    if (mkdtemp(directory) == NULL || lull_journal_open(directory, &journal, NULL) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/saved/gpu-%s", directory, record.uuid);
    *state = journal;
    return 0;
}

static int teardown(void **state)
{
    char command[96];

    lull_journal_close(*state);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static void test_saved_comes_back(void **state)
{
    struct lull_journal_record read = {0};
    struct lull_error error;
    char uuids[2][96];
    struct stat status;

    assert_int_equal(lull_journal_list(*state, uuids, 2, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), -ENOENT);
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_memory_equal(&read, &record, sizeof(read));
    assert_int_equal(lull_journal_list(*state, uuids, 2, &error), 1);
    assert_string_equal(uuids[0], record.uuid);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    errno = EIO; /* an earlier failure does not matter */
    assert_int_equal(lull_journal_remove(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_remove(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), -ENOENT);
}

static void test_every_damaged_byte_is_noticed(void **state)
{
    struct lull_journal_record read;
    struct lull_error error;
    struct stat status;
    int fd;

    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    for (off_t at = 0; at < status.st_size; at++) {
        unsigned char byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x20;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), LULL_E_FORMAT);
        byte ^= 0x20;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_int_equal(ftruncate(fd, status.st_size + 1), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), LULL_E_FORMAT);
    assert_int_equal(ftruncate(fd, status.st_size - 1), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), LULL_E_FORMAT);
    assert_int_equal(lull_journal_set_aside(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), -ENOENT);
    close(fd);
}

/* A note replaces the last written settings in place and changes nothing else. */
static void test_f45_a_note_is_renewed_in_place(void **state)
{
    struct lull_journal_record expected = record;
    struct lull_journal_record read;
    struct lull_error error;
    struct stat before;
    struct stat after;
    int file = -1;

    assert_int_equal(lull_journal_note(*state, record.uuid, &file, &record.written, &error),
                     -ENOENT);
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(stat(path, &before), 0);
    expected.written = (struct lull_journal_written){
        .sm_at_ns = 77, .sm_mhz = {900, 1200}, .limit_mw = {200000, 250000}};
    assert_int_equal(lull_journal_note(*state, record.uuid, &file, &expected.written, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_memory_equal(&read, &expected, sizeof(read));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(lull_journal_note(*state, "..", &file, &expected.written, &error), -EINVAL);
    assert_int_equal(lull_journal_save(*state, &read, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_memory_equal(&read, &expected, sizeof(read));
    lull_journal_forget_file(&file);
    assert_int_equal(file, -1);
}

/* The file of a record stays open between notes. One that the keeper has removed since is no record
 * any more, and one that was saved again is found again. */
static void test_f45_a_note_goes_to_the_record_that_is_there(void **state)
{
    struct lull_journal_written written = {.sm_at_ns = 1, .sm_mhz = {900, 0}};
    struct lull_journal_record read;
    struct lull_error error;
    int file = -1;

    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(lull_journal_note(*state, record.uuid, &file, &written, &error), 0);
    assert_true(file >= 0);
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    written.sm_mhz[0] = 1200;
    assert_int_equal(lull_journal_note(*state, record.uuid, &file, &written, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_int_equal(read.written.sm_mhz[0], 1200);
    assert_int_equal(lull_journal_remove(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_note(*state, record.uuid, &file, &written, &error), -ENOENT);
    assert_int_equal(file, -1);
}

static void test_f46_a_deferred_record_comes_back(void **state)
{
    struct lull_journal_record read;
    struct lull_error error;
    char uuids[1][96];

    assert_int_equal(lull_journal_defer(*state, record.uuid, &error), -ENOENT);
    assert_int_equal(lull_journal_resume(*state, record.uuid, &error), -ENOENT);
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(lull_journal_defer(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_list(*state, uuids, 1, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), -ENOENT);
    assert_int_equal(lull_journal_load_deferred(*state, record.uuid, &read, &error), 0);
    assert_memory_equal(&read, &record, sizeof(read));
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(lull_journal_resume(*state, record.uuid, &error), -EEXIST);
    assert_int_equal(lull_journal_defer(*state, record.uuid, &error), 0); /* it is replaced */
    assert_int_equal(lull_journal_resume(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), 0);
    assert_int_equal(lull_journal_defer(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_remove_deferred(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_remove_deferred(*state, record.uuid, &error), 0);
    assert_int_equal(lull_journal_load_deferred(*state, record.uuid, &read, &error), -ENOENT);
}

/* Another version of lulld reads what this one has saved: FNV-1a, of 64 bits. */
static void test_the_checksum_is_what_it_was(void **state)
{
    struct stored_record stored;

    (void)state;
    memset(&stored, 0, sizeof(stored));
    memcpy(stored.magic, "LULL", 4);
    assert_true(checksum_of(&stored) == UINT64_C(4200625785534294858));
}

/* Whole, and right by its own checksums, but laid out by another version. */
static void test_f38_a_record_of_another_version_is_refused(void **state)
{
    struct lull_journal_record read;
    struct lull_error error = {0};

    for (int change = -1; change <= 1; change += 2) {
        struct stored_record stored;
        int fd;

        assert_int_equal(lull_journal_save(*state, &record, &error), 0);
        fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &stored, sizeof(stored), 0), sizeof(stored));
        stored.version += (uint32_t)change;
        stored.checksum = checksum_of(&stored);
        assert_int_equal(pwrite(fd, &stored, sizeof(stored), 0), sizeof(stored));
        close(fd);
        assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), LULL_E_FORMAT);
        assert_non_null(strstr(error.text, "another version"));
    }
}

static void test_what_is_read_ends(void **state)
{
    struct lull_journal_record full = record;
    struct lull_journal_record read;

    memset(full.driver_version, 'x', sizeof(full.driver_version));
    assert_int_equal(lull_journal_save(*state, &full, NULL), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, NULL), 0);
    full.driver_version[sizeof(full.driver_version) - 1] = '\0';
    assert_memory_equal(&read, &full, sizeof(read));
}

static void test_an_earlier_boot_is_stale(void **state)
{
    struct lull_journal *journal = *state;
    struct lull_journal_record read;
    char boot_id[LULL_BOOT_ID_BYTES];
    struct lull_error error;

    assert_int_equal(lull_boot_id(boot_id), 0);
    assert_memory_equal(journal->boot_id, boot_id, sizeof(boot_id));
    journal->boot_id[0] ^= 1;
    assert_int_equal(lull_journal_save(journal, &record, &error), 0);
    assert_int_equal(lull_journal_load(journal, record.uuid, &read, &error), 0);
    journal->boot_id[0] ^= 1;
    assert_int_equal(lull_journal_load(journal, record.uuid, &read, &error), LULL_E_STALE);
}

static void test_links_and_pipes_are_refused(void **state)
{
    struct lull_journal_record read;
    struct lull_error error;
    char target[160];
    struct stat status;

    snprintf(target, sizeof(target), "%s/target", directory);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), -ELOOP);
    /* Saving replaces the link and never follows it. */
    assert_int_equal(lull_journal_save(*state, &record, &error), 0);
    assert_int_equal(stat(target, &status), -1);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lull_journal_load(*state, record.uuid, &read, &error), LULL_E_FORMAT);
}

static void test_foreign_names_are_refused(void **state)
{
    struct lull_journal_record bad = record;
    struct lull_error error;
    char uuids[2][96];
    char foreign[160];
    int fd;

    snprintf(bad.uuid, sizeof(bad.uuid), "../../etc/passwd");
    assert_int_equal(lull_journal_save(*state, &bad, &error), -EINVAL);
    bad.uuid[0] = '\0';
    assert_int_equal(lull_journal_save(*state, &bad, &error), -EINVAL);
    memset(bad.uuid, 'a', sizeof(bad.uuid));
    assert_int_equal(lull_journal_save(*state, &bad, &error), -EINVAL);
    assert_int_equal(lull_journal_remove(*state, "..", &error), -EINVAL);
    for (int i = 0; i < 2; i++) {
        snprintf(foreign, sizeof(foreign), "%s/saved/%s%s", directory, i == 0 ? "gpu_" : "gpu-_",
                 record.uuid);
        fd = open(foreign, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    assert_int_equal(lull_journal_list(*state, uuids, 2, &error), 0);
}

static void test_which_names_are_uuids(void **state)
{
    struct lull_error error;
    char uuid[97];
    char uuids[3][96];

    memset(uuid, 'a', sizeof(uuid));
    uuid[95] = '\0';
    assert_true(is_uuid(uuid)); /* the longest */
    uuid[95] = 'a';
    uuid[96] = '\0';
    assert_false(is_uuid(uuid));
    assert_true(is_uuid("a"));
    assert_true(is_uuid("-"));
    assert_false(is_uuid(""));
    assert_false(is_uuid("a."));
    assert_false(is_uuid(".a"));
    assert_false(is_uuid("a/b"));
    for (int i = 0; i < 3; i++) { /* more than there is room for are counted */
        struct lull_journal_record one = record;

        snprintf(one.uuid, sizeof(one.uuid), "GPU-%d", i);
        assert_int_equal(lull_journal_save(*state, &one, &error), 0);
        assert_int_equal(lull_journal_set_aside(*state, one.uuid, &error), 0);
        assert_int_equal(lull_journal_save(*state, &one, &error), 0);
        memset(uuids, 'x', sizeof(uuids));
        assert_int_equal(lull_journal_list(*state, uuids, i, &error), i + 1);
        assert_int_equal(uuids[i][0], 'x');
    }
    assert_int_equal(lull_journal_set_aside(*state, "GPU-9", &error), -ENOENT);
}

static void test_the_longest_path(void **state)
{
    struct lull_journal *journal;
    struct lull_error error;
    char long_path[PATH_MAX];
    char other[96];
    int has_input;
    const size_t room = sizeof(((struct lull_journal *)0)->directory) - sizeof("/saved");

    (void)state;
    snprintf(other, sizeof(other), "%s/deep", directory);
    memset(long_path, '/', sizeof(long_path));
    memcpy(long_path + room + 1 - strlen(other), other, strlen(other) + 1);
    has_input = fcntl(0, F_GETFD) >= 0;
    assert_int_equal(lull_journal_open(long_path, &journal, &error), -ENAMETOOLONG);
    assert_int_equal(fcntl(0, F_GETFD) >= 0, has_input); /* it closes nothing of others */
    memcpy(long_path + room - strlen(other), other, strlen(other) + 1); /* it fits */
    assert_int_equal(lull_journal_open(long_path, &journal, &error), 0);
    lull_journal_close(journal);
    lull_journal_close(NULL);
}

static void test_one_process_at_a_time(void **state)
{
    struct lull_journal *second;
    struct lull_error error;

    (void)state;
    assert_int_equal(lull_journal_open(directory, &second, &error), -EBUSY);
    assert_non_null(strstr(error.text, "stop it first"));
}

static void check_mode(const char *name, mode_t mode)
{
    struct stat status;
    char its[128];

    snprintf(its, sizeof(its), "%s/%s", directory, name);
    assert_int_equal(stat(its, &status), 0);
    assert_int_equal(status.st_mode & 07777, mode);
}

static void test_what_is_made_is_for_its_user_to_write(void **state)
{
    const mode_t before = umask(0);
    struct lull_journal *journal;
    char other[96];

    (void)state;
    snprintf(other, sizeof(other), "%s/made", directory);
    assert_int_equal(lull_journal_open(other, &journal, NULL), 0);
    umask(before);
    lull_journal_close(journal);
    check_mode("made", 0755);
    check_mode("made/saved", 0700);
    check_mode("made/lock", 0600);
}

static void test_a_writable_directory_is_refused(void **state)
{
    struct lull_journal *journal;
    struct lull_error error;
    char other[96];

    (void)state;
    snprintf(other, sizeof(other), "%s/other", directory);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(chmod(other, 0777), 0);
    assert_int_equal(lull_journal_open(other, &journal, &error), -EPERM);
    assert_int_equal(chmod(other, 0770), 0);
    assert_int_equal(lull_journal_open(other, &journal, &error), -EPERM);
    assert_int_equal(chmod(other, 0702), 0);
    assert_int_equal(lull_journal_open(other, &journal, &error), -EPERM);
    assert_int_equal(chmod(other, 0755), 0);
    assert_int_equal(lull_journal_open(other, &journal, &error), 0);
    lull_journal_close(journal);
    assert_int_equal(lull_journal_open(other, &journal, &error), 0); /* its lock is given up */
    lull_journal_close(journal);
}

static void *close_soon(void *journal)
{
    lull_sleep_until_ns(lull_now_ns() + 50 * LULL_NS_PER_MS);
    lull_journal_close(journal);
    return NULL;
}

/* One daemon may still be ending while the next one starts. */
static void test_a_lock_that_is_given_up_soon_is_waited_for(void **state)
{
    struct lull_journal *second;
    struct lull_error error;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, close_soon, *state), 0);
    assert_int_equal(lull_journal_open(directory, &second, &error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    *state = second;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_saved_comes_back),
        CASE(test_every_damaged_byte_is_noticed),
        CASE(test_f45_a_note_is_renewed_in_place),
        CASE(test_f45_a_note_goes_to_the_record_that_is_there),
        CASE(test_f46_a_deferred_record_comes_back),
        CASE(test_the_checksum_is_what_it_was),
        CASE(test_f38_a_record_of_another_version_is_refused),
        CASE(test_what_is_read_ends),
        CASE(test_an_earlier_boot_is_stale),
        CASE(test_links_and_pipes_are_refused),
        CASE(test_foreign_names_are_refused),
        CASE(test_which_names_are_uuids),
        CASE(test_the_longest_path),
        CASE(test_one_process_at_a_time),
        CASE(test_a_lock_that_is_given_up_soon_is_waited_for),
        CASE(test_what_is_made_is_for_its_user_to_write),
        CASE(test_a_writable_directory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
