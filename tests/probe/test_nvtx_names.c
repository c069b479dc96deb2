/* Classification of range names as forward or backward. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/nvtx_names.h"

static void expect(enum lull_nvtx_kind kind, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (lull_nvtx_kind_of(names[i]) != kind)
            fail_msg("\"%s\" means %d", names[i], lull_nvtx_kind_of(names[i]));
}
#define EXPECT(kind, ...)                                                                          \
    do {                                                                                           \
        const char *const names[] = {__VA_ARGS__};                                                 \
        expect(kind, names, sizeof(names) / sizeof(names[0]));                                     \
    } while (0)

static void test_names(void **state)
{
    (void)state;
    EXPECT(LULL_NVTX_FORWARD, "forward", "FORWARD", "fwd", "forward_step", "forward-compute",
           "DeepSpeedEngine.forward", "PipelineEngine._exec_forward_pass", "Forward 3", "fwd_12",
           "forward(microbatch=3)", "forward mb 7", "forward_microbatch_2", "a.b.forward",
           "forward [1]");
    EXPECT(LULL_NVTX_BACKWARD, "backward", "Backward", "bwd", "bwd7", "backward_step",
           "DeepSpeedEngine.backward", "_exec_backward_pass", "backward-compute", "Backward: 2");
}

static void test_other_names(void **state)
{
    char longest[400];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "forward ", 8);
    longest[sizeof(longest) - 1] = '\0';
    EXPECT(LULL_NVTX_NONE, NULL, "", ".", "forward.", "forward_pre_hook", "forward_backward_func",
           "Linear.forward.matmul", "forwarding", "fast_forward", "aten::linear_backward",
           "AddmmBackward0", "autograd::engine::evaluate_function: MulBackward0", "optimizer",
           "step", "(forward)", "forward_3x", "ncclAllReduce", longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_other_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
