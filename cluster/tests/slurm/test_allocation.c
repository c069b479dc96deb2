/* F53: the GPUs of a job are those reported by slurmd, whatever its user claims.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cluster/slurm/allocation.h"

static void test_f53_a_claim_may_only_narrow(void **state)
{
    (void)state;
    assert_true(lull_allocation_covers("0,3,12", "12,0"));
    assert_true(lull_allocation_covers("7", "7"));
    assert_false(lull_allocation_covers("0,3", "0,1"));
    assert_false(lull_allocation_covers("12", "1"));
    assert_false(lull_allocation_covers("1", "12"));
    assert_false(lull_allocation_covers("", "0"));
    assert_false(lull_allocation_covers("0", ""));
    for (size_t i = 0; i < 8; i++) {
        static const char *const bad[] = {"0,",  ",0",  "0 ",   "-0",
                                          "0x0", "0;3", "0,,3", "4294967296000"};

        assert_false(lull_allocation_covers("0,3", bad[i]));
    }
}

static void test_f53_what_is_kept(void **state)
{
    char folder[] = "/tmp/lull-allocation-XXXXXX";
    char path[128], gpus[8];

    (void)state;
    assert_non_null(mkdtemp(folder));
    lull_allocation_read(folder, 5, gpus, sizeof(gpus));
    assert_string_equal(gpus, "");
    assert_int_equal(lull_allocation_keep(folder, 5, "0,3"), 0);
    lull_allocation_read(folder, 5, gpus, sizeof(gpus));
    assert_string_equal(gpus, "0,3");
    lull_allocation_read(folder, 5, gpus, 3); /* no room: unknown, rather than a part */
    assert_string_equal(gpus, "");
    lull_allocation_read(folder, 6, gpus, sizeof(gpus));
    assert_string_equal(gpus, "");
    assert_int_equal(lull_allocation_keep(folder, 5, NULL), 0);
    lull_allocation_read(folder, 5, gpus, sizeof(gpus));
    assert_string_equal(gpus, "");
    assert_int_equal(lull_allocation_keep(folder, 5, "1"), 0);
    snprintf(path, sizeof(path), "%s/slurm", folder);
    assert_int_equal(chmod(path, 0777), 0); /* any user may have written it */
    lull_allocation_read(folder, 5, gpus, sizeof(gpus));
    assert_string_equal(gpus, "");
    lull_allocation_forget(folder, 5);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f53_a_claim_may_only_narrow),
        cmocka_unit_test(test_f53_what_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
