/* Scalar files on a disk that hangs, and checksums. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "governor/report/scalar_files.h"
#include "trace/event_file.h"

/* ---- a disk that hangs --------------------------------------------------------------------- */

/* Shared with the process that writes. */
static struct disk {
    atomic_bool is_hung;
    atomic_bool hangs; /* a process waits for it */
} * disk;

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);

static void reach_disk(void)
{
    while (atomic_load(&disk->is_hung)) {
        atomic_store(&disk->hangs, true);
        for (;;)
            pause();
    }
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    reach_disk();
    return __real_write(fd, data, size);
}

int __wrap_open64(const char *path, int flags, mode_t mode)
{
    reach_disk();
    return __real_open64(path, flags, mode);
}

/* -------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/lull-scalars-XXXXXX";
static char lines_path[64];

static struct lull_scalar_files *open_files(void)
{
    static struct lull_scalar scalars[LULL_SCALARS_MAX];
    struct lull_scalar_files *files = NULL;
    struct lull_error err = {0};

    for (uint32_t i = 0; i < LULL_SCALARS_MAX; i++) {
        snprintf(scalars[i].name, sizeof(scalars[i].name), "lull/scalar%u", i);
        scalars[i].help = "A number.";
    }
    assert_int_equal(lull_scalar_files_open(folder, scalars, LULL_SCALARS_MAX, 1.7e9, &files, &err),
                     0);
    return files;
}

static void add_row(struct lull_scalar_files *files, int64_t step)
{
    struct lull_scalar_row row = {.unix_s = 1.7e9 + (double)step, .step = step};

    for (uint32_t i = 0; i < LULL_SCALARS_MAX; i++)
        row.values[i] = i % 2 == 0 ? (double)step + i : (double)NAN;
    lull_scalar_files_add(files, &row);
}

/* Waits until the process is in the call that hangs. */
static void wait_until_it_hangs(void)
{
    while (!atomic_load(&disk->hangs))
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    atomic_store(&disk->hangs, false);
}

static void test_a_disk_that_hangs(void **state)
{
    struct lull_scalar_files *files = open_files();
    struct lull_error text = {0};
    const int64_t begin_ns = lull_now_ns();

    (void)state;
    assert_false(lull_scalar_files_take_error(files, &text));
    atomic_store(&disk->is_hung, true);
    for (int64_t step = 0; step < 200; step++)
        add_row(files, step);
    wait_until_it_hangs();
    assert_true(lull_scalar_files_take_error(files, &text));
    assert_non_null(strstr(text.text, "too slow"));
    assert_false(lull_scalar_files_take_error(files, &text));
    text.code = 0;
    lull_scalar_files_close(files, lull_now_ns() + 50 * LULL_NS_PER_MS, &text);
    assert_int_equal(text.code, -ETIMEDOUT);
    assert_non_null(strstr(text.text, "does not answer"));
    /* None of it has waited for the disk, which never answers. */
    assert_true(lull_now_ns() - begin_ns < 60 * LULL_NS_PER_S);
    atomic_store(&disk->is_hung, false);
    assert_int_equal(unlink(lines_path), 0);
}

/* F56: a job begins although its files cannot be opened for ever. */
static void test_a_disk_that_hangs_from_the_beginning(void **state)
{
    struct lull_scalar_files *files;
    struct lull_error text = {0};

    (void)state;
    atomic_store(&disk->is_hung, true);
    files = open_files();
    wait_until_it_hangs();
    add_row(files, 1);
    lull_scalar_files_close(files, lull_now_ns() + 50 * LULL_NS_PER_MS, &text);
    assert_int_equal(text.code, -ETIMEDOUT);
    assert_non_null(strstr(text.text, "does not answer"));
    atomic_store(&disk->is_hung, false);
}

/* F56: a pipe that others have put there is refused, whether a process reads it or not. */
static void test_a_pipe_is_no_file(void **state)
{
    static const struct lull_scalar scalar = {.name = "lull/a", .help = "A number."};
    struct lull_scalar_files *files = NULL;
    struct lull_error err = {0};
    int reader;

    (void)state;
    unlink(lines_path);
    assert_int_equal(mkfifo(lines_path, 0600), 0);
    assert_true(lull_scalar_files_open(folder, &scalar, 1, 1.7e9, &files, &err) < 0);
    assert_non_null(strstr(err.text, lines_path));
    reader = open(lines_path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(lull_scalar_files_open(folder, &scalar, 1, 1.7e9, &files, &err), -EINVAL);
    assert_non_null(strstr(err.text, "neither a file nor a device"));
    assert_null(files);
    close(reader);
    assert_int_equal(unlink(lines_path), 0);
}

/* Earlier rows stay, and each row is complete. */
static void test_rows_are_appended(void **state)
{
    struct lull_error text = {0};
    char line[32768];
    int64_t rows = 0;
    FILE *file;

    (void)state;
    for (int64_t run = 0; run < 2; run++) {
        struct lull_scalar_files *const files = open_files();

        for (int64_t step = 0; step < 20; step++)
            add_row(files, step);
        lull_scalar_files_close(files, lull_now_ns() + 60 * LULL_NS_PER_S, &text);
        assert_int_equal(text.code, 0);
    }
    file = fopen(lines_path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char begin[64];

        snprintf(begin, sizeof(begin),
                 "{\"time_unix_s\": %.3f, \"step\": %d, \"lull/scalar0\": %d,",
                 1.7e9 + (double)(rows % 20), (int)(rows % 20), (int)(rows % 20));
        assert_memory_equal(line, begin, strlen(begin));
        assert_non_null(strstr(line, "\"lull/scalar319\": null}\n"));
        rows++;
    }
    assert_int_equal(rows, 40);
    fclose(file);
}

static void test_checksum(void **state)
{
    const unsigned char zeros[32] = {0};

    (void)state;
    /* RFC 3720, B.4 */
    assert_int_equal(lull_event_crc32c(zeros, sizeof(zeros)), 0x8a9136aa);
    assert_int_equal(lull_event_crc32c("123456789", 9), 0xe3069283);
}

/* Numbers of 7, 8 and 14 bits, as steps. */
static void test_numbers(void **state)
{
    static const struct {
        int64_t step;
        const char *bytes;
    } cases[] = {{127, "\x10\x7f\x2a"}, {128, "\x10\x80\x01\x2a"}, {16383, "\x10\xff\x7f\x2a"}};
    const struct lull_event_scalar scalar = {"a", 1.0F, NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *const out = open_memstream(&text, &size);

        assert_int_equal(lull_event_file_add(out, 0.0, cases[i].step, &scalar, 1), 0);
        fclose(out);
        /* Behind the record's head of 12 bytes and the time of 9. */
        assert_memory_equal(text + 21, cases[i].bytes, strlen(cases[i].bytes));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_appended),
        cmocka_unit_test(test_a_disk_that_hangs),
        cmocka_unit_test(test_a_disk_that_hangs_from_the_beginning),
        cmocka_unit_test(test_a_pipe_is_no_file),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_numbers),
    };
    char command[96];
    int failed;

    disk = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (disk == MAP_FAILED || mkdtemp(folder) == NULL)
        return 1;
    snprintf(lines_path, sizeof(lines_path), "%s/scalars.jsonl", folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) == 0 ? failed : 1;
}
