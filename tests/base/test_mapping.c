/* F58: truncating a file while it is mapped loses its contents, but does not end the process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mapping.h"
#include "base/thread.h"

enum { SIZE = 1 << 16 };

static char *map_file(int *fd_out)
{
    char *memory;

    *fd_out = memfd_create("test", 0);
    assert_true(*fd_out >= 0);
    assert_int_equal(ftruncate(*fd_out, SIZE), 0);
    memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd_out, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 7, SIZE);
    return memory;
}

static void *write_last(void *memory)
{
    ((volatile char *)memory)[SIZE - 1] = 9;
    return NULL;
}

static void test_what_was_cut_reads_as_zeros(void **state)
{
    int fds[2];
    char *const cut = map_file(&fds[0]);
    char *const other = map_file(&fds[1]);
    const int number = lull_mapping_guard(cut, SIZE);
    const int other_number = lull_mapping_guard(other, SIZE);
    pthread_t thread;

    (void)state;
    assert_true(number >= 0 && other_number >= 0 && number != other_number);
    assert_int_equal(ftruncate(fds[0], 0), 0);
    assert_false(lull_mapping_is_cut(number));
    assert_int_equal(lull_thread_start(&thread, write_last, cut), 0); /* it blocks signals */
    pthread_join(thread, NULL);
    assert_true(lull_mapping_is_cut(number));
    assert_int_equal(cut[0], 0);
    assert_int_equal(cut[SIZE - 1], 9);
    assert_int_equal(other[SIZE - 1], 7);
    assert_false(lull_mapping_is_cut(other_number));
    for (int i = 0; i < 2; i++) {
        lull_mapping_release(i == 0 ? number : other_number);
        munmap(i == 0 ? cut : other, SIZE);
        close(fds[i]);
    }
}

/* Access to a mapping that is not guarded, or no longer, ends the process by SIGBUS. */
static void test_other_faults_end_the_process(void **state)
{
    const struct rlimit no_core = {0, 0};
    const pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        int fd;
        char *const memory = map_file(&fd);

        signal(SIGBUS, SIG_DFL); /* of a sanitizer */
        setrlimit(RLIMIT_CORE, &no_core);
        lull_mapping_release(lull_mapping_guard(memory, SIZE));
        if (ftruncate(fd, 0) == 0)
            write_last(memory);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void test_there_is_an_end_of_mappings(void **state)
{
    int numbers[64];
    int count = 0;
    int fd;
    char *const memory = map_file(&fd);

    (void)state;
    do
        numbers[count] = lull_mapping_guard(memory, SIZE);
    while (numbers[count] >= 0 && ++count < 64);
    assert_true(count >= 4 && count < 64);
    assert_false(lull_mapping_is_cut(numbers[count]));
    lull_mapping_release(numbers[count]);
    while (count > 0)
        lull_mapping_release(numbers[--count]);
    munmap(memory, SIZE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_faults_end_the_process), /* first: it installs its own */
        cmocka_unit_test(test_what_was_cut_reads_as_zeros),
        cmocka_unit_test(test_there_is_an_end_of_mappings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
