/* The file that names the group of viewers. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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

#include "wire/viewers.h"

static char directory[] = "/tmp/lull-viewers-XXXXXX";
static char path[64];
static struct lull_error error;

static void write_text(const char *text)
{
    FILE *const file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void what_is_written_is_read(void **state)
{
    static const gid_t groups[] = {0, 1, 12345, UINT32_MAX - 1};
    gid_t group = 7;

    (void)state;
    assert_false(lull_viewers_read(directory, &group));
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        struct stat info;
        const mode_t mask = umask(0077);

        assert_int_equal(lull_viewers_write(directory, true, groups[i], &error), 0);
        umask(mask);
        assert_true(lull_viewers_read(directory, &group));
        assert_int_equal(group, groups[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0644);
    }
    assert_int_equal(lull_viewers_write(directory, false, 0, &error), 0);
    assert_int_equal(lull_viewers_write(directory, false, 0, &error), 0);
    assert_false(lull_viewers_read(directory, &group));
    assert_int_equal(lull_viewers_write("/nonexistent", true, 1, &error), -ENOENT);
}

static void what_others_could_have_written_is_not_believed(void **state)
{
    static const char *const texts[] = {"",        "-1\n",   "4294967295\n",
                                        "12 13\n", "root\n", "00000000000000000000000000000012\n"};
    gid_t group = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_text(texts[i]);
        assert_false(lull_viewers_read(directory, &group));
    }
    write_text("12\n");
    assert_true(lull_viewers_read(directory, &group));
    assert_int_equal(chmod(path, 0664), 0);
    assert_false(lull_viewers_read(directory, &group));
    assert_int_equal(chmod(path, 0646), 0);
    assert_false(lull_viewers_read(directory, &group));
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, (gid_t)-1), 0);
        assert_false(lull_viewers_read(directory, &group));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_false(lull_viewers_read(directory, &group));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0); /* is not waited for */
    assert_false(lull_viewers_read(directory, &group));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(group, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_others_could_have_written_is_not_believed),
    };
    int failed;

    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/viewers", directory);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
