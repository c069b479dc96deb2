/*
 * SimAI's workloads: valid files are read completely; damaged ones are refused with
 * the line. With an argument it prints the contents of that file.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/text_file.h"
#include "cluster/trace/simai.h"

#define HEADER "HYBRID model_parallel_NPU_group: 2 ep: 16 pp: 12 vpp: 8 ga: 24 all_gpus: 9216 x: 0"

static int read_text(const char *text, struct lull_simai_workload *workload, struct lull_error *err)
{
    return lull_simai_read(text_file(text, strlen(text)), workload, err);
}

static void test_what_is_told(void **state)
{
    static const char text[] =
        HEADER " pp_comm 50331648\n2\n"
               "grads\t-1\t1\tNONE\t0\t2\tALLREDUCE\t50331648\t3\t"
               "ALLGATHER_DP_EP\t280775\t100\r\n"
               "mlp   -1 556000  ALLTOALL_EP 7   1 REDUCESCATTER 0 1 NONE 0  1\n\n";
    struct lull_simai_workload workload;
    struct lull_error err = {0};
    const struct lull_simai_work *work;

    (void)state;
    if (read_text(text, &workload, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(workload.tensor_parallel == 2 && workload.expert_parallel == 16);
    assert_true(workload.pipeline_parallel == 12 && workload.virtual_stages == 8);
    assert_true(workload.micro_batches == 24 && workload.gpus == 9216);
    assert_int_equal(workload.pipeline_bytes, 50331648);
    assert_int_equal(workload.count, 2);
    assert_string_equal(lull_simai_name(&workload, workload.layers[0].name), "grads");
    work = &workload.layers[0].parts[LULL_SIMAI_FORWARD];
    assert_true(work->compute_ns == 1 && work->collective == LULL_CHAKRA_UNTOLD);
    work = &workload.layers[0].parts[LULL_SIMAI_INPUT_GRADIENT];
    assert_true(work->compute_ns == 2 && work->collective == LULL_CHAKRA_ALL_REDUCE);
    assert_true(work->size_bytes == 50331648 && work->group == UINT32_MAX);
    work = &workload.layers[0].parts[LULL_SIMAI_WEIGHT_GRADIENT];
    assert_int_equal(work->collective, LULL_CHAKRA_ALL_GATHER);
    assert_string_equal(lull_simai_name(&workload, work->group), "DP_EP");
    work = &workload.layers[1].parts[LULL_SIMAI_FORWARD];
    assert_true(work->compute_ns == 556000 && work->collective == LULL_CHAKRA_ALL_TO_ALL);
    assert_string_equal(lull_simai_name(&workload, work->group), "EP");
    lull_simai_fini(&workload);
}

static void test_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "ends after line 0"},
        {"\n1\n", "line 1: there is no strategy"},
        {"H ep: x\n1\n", "line 1: there is no number"},
        {"H ep:\n1\n", "line 1: there is no number"},
        {"H ep: 1\n", "ends after line 1"},
        {"H ep: 1\n0\n", "line 2: this should be the number of layers"},
        {"H ep: 1\n2 3\n", "line 2: this should be the number of layers"},
        {"H ep: 1\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "ends after line 3"},
        {"H ep: 1\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\nb -1", "line 4: there are more layers"},
        {"H ep: 1\n1\na x 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "line 3: there is no number after"},
        {"H ep: 1\n1\na -1 -1 NONE 0 1 NONE 0 1 NONE 0 1\n", "line 3: there is no time"},
        {"H ep: 1\n1\na -1 1 ALL 0 1 NONE 0 1 NONE 0 1\n", "line 3: a collective is neither NONE"},
        {"H ep: 1\n1\na -1 1 NONE 0 1 NONE x 1 NONE 0 1\n", "line 3: there is no number of bytes"},
        {"H ep: 1\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0\n", "line 3: a layer does not end"},
        {"H ep: 1\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1 1\n", "line 3: a layer does not end"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_simai_workload workload;
        struct lull_error err = {0};

        assert_int_equal(read_text(cases[i].text, &workload, &err), LULL_E_FORMAT);
        if (strstr(err.text, cases[i].said) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, cases[i].said);
        assert_null(workload.layers);
    }
}

static int tell(const char *path)
{
    struct lull_simai_workload workload;
    struct lull_error err = {0};
    int64_t compute_ns = 0;
    int64_t bytes = 0;

    if (lull_simai_read(path, &workload, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < workload.count; i++)
        for (int part = 0; part < LULL_SIMAI_PARTS; part++) {
            compute_ns += workload.layers[i].parts[part].compute_ns;
            bytes += workload.layers[i].parts[part].size_bytes;
        }
    printf("%zu layers on %" PRId64 " GPUs: %" PRId64 " ns of computation, %" PRId64 " bytes\n",
           workload.count, workload.gpus, compute_ns, bytes);
    lull_simai_fini(&workload);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told),
        cmocka_unit_test(test_refused_with_the_place),
    };

    return argc > 1 ? tell(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
