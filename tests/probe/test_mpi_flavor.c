/*
 * Which MPI a command uses; and damaged ELF files, which must never do harm.
 *   test_mpi_flavor [OPENMPI_PROGRAM MPICH_PROGRAM]
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "governor/run/mpi_flavor.h"

enum { MUTATIONS = 20000 };

static const char *programs[3] = {NULL, NULL, NULL}; /* by enum lull_mpi_flavor */

static enum lull_mpi_flavor flavor_of(const char *first, const char *second, const char *third)
{
    char *const argv[] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second,
                          (char *)(uintptr_t)third, NULL};

    return lull_mpi_flavor_of_command(argv);
}

static void programs_without_mpi(void **state)
{
    (void)state;
    assert_int_equal(flavor_of("/bin/sh", "-c", "true"), LULL_MPI_NONE);
    assert_int_equal(flavor_of("no such program", "", "/"), LULL_MPI_NONE);
    assert_int_equal(flavor_of("/dev/null", "/proc/self/mem", NULL), LULL_MPI_NONE);
    assert_int_equal(flavor_of(NULL, NULL, NULL), LULL_MPI_NONE);
}

static void programs_with_mpi(void **state)
{
    (void)state;
    for (int flavor = LULL_MPI_OPENMPI; flavor <= LULL_MPI_MPICH; flavor++) {
        if (programs[flavor] == NULL) {
            print_message("skipped: Open MPI and MPICH are not both installed\n");
            skip();
        }
        assert_int_equal(flavor_of(programs[flavor], NULL, NULL), flavor);
        assert_int_equal(flavor_of("env", programs[flavor], NULL), flavor);
        /* The program decides, whatever launches it. */
        assert_int_equal(flavor_of("mpirun.openmpi", "-v", programs[flavor]), flavor);
    }
}

static void launchers_of_scripts(void **state)
{
    char directory[] = "/tmp/lull-flavor-XXXXXX";
    static const char text[] = "#!/bin/sh\nset -e\nexec mpirun -n 4 ./train \"$@\"\n";
    char target[64];
    char link[64];
    char job[64];
    char *path;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(target, sizeof(target), "%s/mpiexec.hydra", directory);
    snprintf(link, sizeof(link), "%s/mpirun", directory);
    assert_int_equal(lull_file_write_atomic(target, "#!/bin/sh\n", 10, 0755, NULL), 0);
    assert_int_equal(symlink(target, link), 0);
    path = strdup(getenv("PATH"));
    setenv("PATH", directory, 1);
    assert_int_equal(flavor_of("mpirun", "-n", "script"), LULL_MPI_MPICH);
    assert_int_equal(flavor_of(link, NULL, NULL), LULL_MPI_MPICH);
    snprintf(job, sizeof(job), "%s/job", directory);
    assert_int_equal(lull_file_write_atomic(job, text, strlen(text), 0755, NULL), 0);
    assert_int_equal(flavor_of(job, NULL, NULL), LULL_MPI_MPICH);
    assert_int_equal(flavor_of("env", "job", NULL), LULL_MPI_MPICH);
    assert_int_equal(flavor_of("cat", "-n", "job.txt"), LULL_MPI_NONE);
    unlink(job);
    setenv("PATH", path, 1);
    free(path);
    unlink(link);
    unlink(target);
    rmdir(directory);
}

/* Reads beyond the end show under the address sanitizer: the copy has exactly the file's size. */
static void damaged_files_are_harmless(void **state)
{
    const char *path = programs[1] != NULL ? programs[1] : "/proc/self/exe";
    unsigned seed = 20240607;
    char *original;
    size_t size;

    (void)state;
    assert_int_equal(lull_file_read(path, 64 << 20, &original, &size, NULL), 0);
    for (int i = 0; i < MUTATIONS; i++) {
        const size_t kept = i % 3 == 0 ? seed / 7u % (size + 1) : size < 4096 ? size : 4096;
        char *copy = malloc(kept > 0 ? kept : 1);

        assert_non_null(copy);
        memcpy(copy, original, kept);
        for (int change = 0; change < 8 && kept > 0; change++) {
            seed = seed * 1103515245u + 12345u;
            /* Mostly in the headers, where it matters. */
            copy[seed / 16u % (change < 6 && kept > 1024 ? 1024 : kept)] = (char)(seed >> 24);
        }
        lull_mpi_flavor_of_elf(copy, kept);
        free(copy);
    }
    for (size_t kept = 0; kept < 2048 && kept < size; kept++)
        lull_mpi_flavor_of_elf(original, kept);
    free(original);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_without_mpi),
        cmocka_unit_test(programs_with_mpi),
        cmocka_unit_test(launchers_of_scripts),
        cmocka_unit_test(damaged_files_are_harmless),
    };

    if (argc == 3) {
        programs[LULL_MPI_OPENMPI] = argv[1];
        programs[LULL_MPI_MPICH] = argv[2];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
