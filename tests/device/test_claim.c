/* One writer per GPU, whatever its runtime directory. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_devices.h"

#include "device/claim.c"
#include "device/journal.h"

/* The names are the machine's, so each run has its own. */
static void give_address(uint32_t gpu)
{
    snprintf(fake.gpus[gpu].info.pci_bus_id, sizeof(fake.gpus[gpu].info.pci_bus_id),
             "0000%04X:%02X:00.0", (unsigned int)getpid() & 0xffff, gpu + 1);
}

static int setup(void **state)
{
    (void)state;
    /* As on an emulated node: no file is left in /run. */
    setenv(LULL_EMULATED_NODE_VARIABLE, "/test", 1);
    fake_reset(2);
    give_address(0);
    give_address(1);
    return 0;
}

static void test_the_key_is_the_pci_address(void **state)
{
    struct lull_device_info info = {.pci_bus_id = "00000000:0A:00.0"};
    char key[NAME_MAX];

    (void)state;
    unsetenv(LULL_EMULATED_NODE_VARIABLE);
    assert_true(claim_key_of(&info, key, sizeof(key)));
    assert_string_equal(key, "lull-gpu-0000:0a:00.0");
    snprintf(info.pci_bus_id, sizeof(info.pci_bus_id), "0000:0a:00.0"); /* other vendors' */
    assert_true(claim_key_of(&info, key, sizeof(key)));
    assert_string_equal(key, "lull-gpu-0000:0a:00.0");
    snprintf(info.pci_bus_id, sizeof(info.pci_bus_id), "00010000:0A:00.0");
    assert_true(claim_key_of(&info, key, sizeof(key)));
    assert_string_equal(key, "lull-gpu-00010000:0a:00.0");
    info.pci_bus_id[0] = '\0';
    assert_false(claim_key_of(&info, key, sizeof(key)));
    setenv(LULL_EMULATED_NODE_VARIABLE, "/a", 1);
    snprintf(info.pci_bus_id, sizeof(info.pci_bus_id), "0000:0a:00.0");
    assert_true(claim_key_of(&info, key, sizeof(key)));
    assert_string_equal(key, "lull-gpu-0000:0a:00.0/a");
}

static void test_f50_a_gpu_has_one_writer(void **state)
{
    struct lull_claim *first = NULL;
    struct lull_claim *second = NULL;
    struct lull_error error = {0};

    (void)state;
    assert_int_equal(lull_claim_take(NULL, &first, &error), 0);
    assert_int_equal(first->fd_count, 2);
    assert_int_equal(lull_claim_take(NULL, &second, &error), -EBUSY);
    assert_non_null(strstr(error.text, "another --runtime-dir"));
    assert_null(second);
    lull_claim_release(first);
    assert_int_equal(lull_claim_take(NULL, &second, &error), 0);
    lull_claim_release(second);
    lull_claim_release(NULL);
    /* GPUs that a refused process had already claimed are free again. */
    fake.count = 1;
    give_address(1);
    assert_int_equal(lull_claim_take(NULL, &first, &error), 0);
    fake.count = 2;
    fake.gpus[0].info = fake.gpus[1].info;
    give_address(0);
    assert_int_equal(lull_claim_take(NULL, &second, &error), -EBUSY);
    lull_claim_release(first);
    assert_int_equal(lull_claim_take(NULL, &second, &error), 0);
    lull_claim_release(second);
}

static void test_f50_a_name_of_an_ordinary_user_does_not_count(void **state)
{
    const uid_t nobody = 65534;
    struct lull_claim *claim = NULL;
    struct lull_error error = {0};
    int ready[2];
    int done[2];
    char byte = 0;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe(ready) + pipe(done), 0);
    child = fork();
    if (child == 0) {
        close(done[1]);
        if (setuid(nobody) != 0 || lull_claim_take(NULL, &claim, &error) < 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        _exit(read(done[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    close(done[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(lull_claim_take(NULL, &claim, &error), 0);
    assert_int_equal(claim->fd_count, 0);
    lull_claim_release(claim);
    close(done[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
}

static void test_f50_a_file_is_locked_as_well(void **state)
{
    char directory[] = "/tmp/lull-claim-XXXXXX";
    struct lull_error error = {0};
    char command[64];
    int first;

    (void)state;
    assert_non_null(mkdtemp(directory));
    first = take_file(directory, "lull-gpu-x", &error);
    assert_true(first >= 0);
    assert_int_equal(take_file(directory, "lull-gpu-x", &error), -EBUSY);
    assert_non_null(strstr(error.text, directory));
    close(first);
    first = take_file(directory, "lull-gpu-x", &error);
    assert_true(first >= 0);
    close(first);
    /* If the file cannot be made, or other users could replace it, it does not prove a claim. */
    assert_int_equal(take_file("/proc/lull", "lull-gpu-x", &error), -ENOENT);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(take_file(directory, "lull-gpu-x", &error), -ENOENT);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* Two journals in two directories; a fork of the first owner is covered by its claim. */
static void test_f50_another_directory_is_no_way_around(void **state)
{
    char directory[] = "/tmp/lull-claim-XXXXXX";
    char path[2][64];
    struct lull_journal *journals[2];
    struct lull_error error = {0};
    char command[64];
    int status = -1;
    pid_t child;

    (void)state;
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/%d", directory, i);
        assert_int_equal(lull_journal_open(path[i], &journals[i], &error), 0);
    }
    assert_int_equal(lull_journal_claim(journals[0], NULL, &error), 0);
    assert_int_equal(lull_journal_claim(journals[0], NULL, &error), 0);
    assert_int_equal(lull_journal_claim(journals[1], NULL, &error), -EBUSY);
    child = fork();
    if (child == 0)
        _exit(lull_journal_claim(journals[1], NULL, NULL) == 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lull_journal_close(journals[0]);
    assert_int_equal(lull_journal_claim(journals[1], NULL, &error), 0);
    lull_journal_close(journals[1]);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

#define CASE(test) cmocka_unit_test_setup(test, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_the_key_is_the_pci_address),
        CASE(test_f50_a_gpu_has_one_writer),
        CASE(test_f50_a_name_of_an_ordinary_user_does_not_count),
        CASE(test_f50_a_file_is_locked_as_well),
        CASE(test_f50_another_directory_is_no_way_around),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
