/* Which commands run Python. SPDX-License-Identifier: Apache-2.0 */
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

#include "base/file.h"
#include "governor/run/program.h"

static char directory[] = "/tmp/lull-python-XXXXXX";
static char path[64];

/* The directory on PATH holds links and scripts under the names that people type. */
static int set_up(void **state)
{
    static char variable[128];

    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(variable, sizeof(variable), "%s:/usr/bin:/bin", directory);
    return setenv("PATH", variable, 1);
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(directory);
}

static const char *place(const char *name, const char *text)
{
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(lull_file_write_atomic(path, text, strlen(text), 0755, NULL), 0);
    return path;
}

static bool runs_python(const char *first, const char *second)
{
    char *const argv[] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second, NULL};

    return lull_command_runs_python(argv);
}

static void interpreters(void **state)
{
    (void)state;
    for (const char *const *name = (const char *const[]){"python3.99", "python", "pypy3", NULL};
         *name != NULL; name++) {
        place(*name, "");
        assert_true(runs_python(*name, "train.py"));
        assert_true(runs_python("env", *name));
        assert_true(runs_python(path, NULL));
        unlink(path);
        assert_false(runs_python(*name, "train.py"));
    }
    place("python3-config", "");
    assert_false(runs_python("python3-config", NULL));
    unlink(path);
}

static void links(void **state)
{
    char link[64];

    (void)state;
    place("python3.99", "");
    snprintf(link, sizeof(link), "%s/trainer", directory);
    assert_int_equal(symlink(path, link), 0);
    assert_true(runs_python("trainer", NULL));
    unlink(link);
    unlink(path);
}

static void scripts(void **state)
{
    static const struct {
        const char *text;
        bool expected;
    } rows[] = {
        {"#!/bin/python3.99\nimport torch\n", false}, /* there is no such file */
        {"#!python3.99", true},
        {"#! python3.99 -u\n", true},
        {"#!/usr/bin/env python3.99\r\n", true},
        {"#!/usr/bin/env -S python3.99 -u\n", true},
        {"#!/bin/sh\npython3.99 train\n", true},
        {"#!/bin/sh\nexec /opt/conda/bin/python3 -m x\n", true}, /* found only when it runs */
        {"#!/bin/bash -e\nOMP_NUM_THREADS=1 srun --mpi=pmix bash -c 'accelerate launch train.py'",
         true},
        {"#!/bin/sh\nexec ./train --pythonic x.pyc\n", false},
        {"#!/bin/sh\ninner; true\n", true},
        {"#!\n", false},
        {"#", false},
        {"", false},
        {"\x7f"
         "ELF#!python3.99",
         false},
    };
    char interpreter[64];
    char inner[64];

    (void)state;
    memcpy(interpreter, place("python3.99", ""), sizeof(interpreter));
    memcpy(inner, place("inner", "#!/bin/sh\nexec \"python3.99\" -u"), sizeof(inner));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        place("torchrun", rows[i].text);
        assert_int_equal(runs_python("torchrun", "x"), rows[i].expected);
        unlink(path);
    }
    unlink(inner);
    unlink(interpreter);
}

static void texts_for_a_shell(void **state)
{
    char *const with_text[] = {"env", "bash", "-c", "cd x && python9 -m train", NULL};
    char *const without[] = {"env", "bash", "-c", "cd x && ./train", NULL};
    char *const no_shell[] = {"env", "echo", "python9 is gone", NULL};

    (void)state;
    assert_true(lull_command_runs_python(with_text));
    assert_false(lull_command_runs_python(without));
    assert_false(lull_command_runs_python(no_shell));
    assert_true(lull_command_is_script(without));
    assert_false(lull_command_is_script(no_shell));
    place("job.txt", "python9 -m train"); /* not executable by itself, but the shell reads it */
    assert_int_equal(chmod(path, 0644), 0);
    assert_true(runs_python("sh", path));
    assert_false(runs_python("cat", path));
    unlink(path);
}

/* A script that names itself is left after some levels. */
static void endless_scripts(void **state)
{
    (void)state;
    place("again", "#!/bin/sh\nagain; again; again\n");
    assert_false(runs_python("again", NULL));
    unlink(path);
}

static void anything_else(void **state)
{
    (void)state;
    assert_false(runs_python("/bin/sh", "-c"));
    assert_false(runs_python("no such program", ""));
    assert_false(runs_python("/dev/zero", "/proc/self/mem"));
    assert_false(runs_python(NULL, NULL));
    assert_false(runs_python("/", "."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpreters),    cmocka_unit_test(links),
        cmocka_unit_test(scripts),         cmocka_unit_test(texts_for_a_shell),
        cmocka_unit_test(endless_scripts), cmocka_unit_test(anything_else),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
