/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/graph_lines.h"

#include <string.h>

#include "../core/pipeline/pipeline_unit.h"
#include "../text_file.h"

struct read {
    struct lull_pipeline_profile measured;
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
};

static int read_text(const char *text, struct read *read, struct lull_error *err)
{
    struct lull_pipeline_fit fit = {
        .measured = &read->measured, .fitted = &read->fitted, .parts = 1, .input_ratio = 0.5};
    int rc;

    unit_profile(&read->measured, 2);
    lull_pipeline_profile_init(&read->fitted);
    rc = lull_graph_lines_read(text_file(text, strlen(text)), &fit, &read->graph, err);
    return rc;
}

static void forget(struct read *read, int rc)
{
    if (rc == 0)
        lull_pipeline_graph_fini(&read->graph);
    lull_pipeline_profile_fini(&read->fitted);
    lull_pipeline_profile_fini(&read->measured);
}

static void test_a_graph(void **state)
{
    struct lull_error err = {0};
    struct read read;
    int rc;

    (void)state;
    rc = read_text(
        "{\"from\": 10, \"to\": 20, \"latency_s\": 5e-7}\n"
        "{\"op\": 10, \"device\": 0, \"stage\": 0, \"kind\": \"forward\", \"microbatch\": 3}\n"
        "\n"
        "{\"op\": 40, \"device\": 0, \"stage\": 0, \"kind\": \"fixed\", \"time_s\": 3e-6,"
        " \"energy_j\": 2}\n"
        "{\"op\": 20, \"device\": 1, \"stage\": 1, \"kind\": \"backward\", \"chunk\": 0}\n"
        "{\"op\": 21, \"device\": 1, \"stage\": 1, \"kind\": \"overlap\", \"partner\": 0}\n",
        &read, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    assert_int_equal(read.graph.op_count, 4);
    assert_int_equal(read.graph.device_count, 2);
    assert_int_equal(read.graph.ops[0].microbatch, 3);
    assert_int_equal(makespan_ns(&read.graph, &read.fitted), 1000 + 500 + 2000 + 1000);
    forget(&read, rc);
}

#define OP(id, device, kind)                                                                       \
    "{\"op\":" #id ",\"device\":" #device ",\"stage\":0,\"kind\":\"" kind "\"}\n"

static void test_bad_files(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"", "no operations"},
        {"{\"from\":1,\"to\":2}\n", "no operations"},
        {"{\"op\": 1,\n", "line 1: byte"},
        {OP(1, 0, "forward") "nonsense\n", "line 2: byte"},
        {"[1]\n", "line 1: this is not an object"},
        {"{}\n", "line 1: this is neither an operation"},
        {"{\"op\":1,\"op\":2}\n", "duplicate"},
        {OP(1.5, 0, "forward"), "\"op\" must be a whole number"},
        {OP(-1, 0, "forward"), "\"op\" must be a whole number from 0"},
        {OP(1, 5000, "forward"), "\"device\" must be a whole number from 0 to 4095"},
        {OP(1, "0", "forward"), "\"device\" must be a whole number"},
        {OP(1, 0, "sideways"), "\"kind\" must be forward"},
        {OP(1, 0, "fixed"), "\"time_s\" is required"},
        {OP(1, 0, "overlap"), "\"partner\" is required"},
        {"{\"op\":1,\"device\":0,\"kind\":\"forward\"}\n",
         "\"stage\" must be a whole number from 0 to 4095"},
        {"{\"op\":1,\"device\":0,\"stage\":0,\"kind\":\"forward\",\"time_s\":1}\n",
         "\"time_s\" is required with kind"},
        {"{\"op\":1,\"device\":0,\"stage\":0,\"kind\":\"fixed\",\"time_s\":-1}\n",
         "\"time_s\" must be a number from 0 to 100"},
        {"{\"op\":1,\"device\":0,\"stage\":0,\"kind\":\"fixed\",\"time_s\":0}\n", "above 0"},
        {"{\"op\":1,\"device\":0,\"stage\":0,\"kind\":\"fixed\",\"time_s\":\"1\"}\n", "a number"},
        {"{\"op\":1,\"device\":0,\"stage\":0,\"kind\":\"forward\",\"microbach\":1}\n",
         "line 1: unknown \"microbach\""},
        {OP(1, 0, "forward") OP(2, 0, "forward") OP(1, 0, "forward"),
         "line 3: operation 1 is in line 1 already"},
        {OP(1, 0, "forward") "{\"from\":1,\"to\":7}\n", "line 2: there is no operation 7"},
        {OP(1, 0, "forward") "{\"from\":1,\"to\":1}\n", "/proc/self/fd/"},
        {OP(1, 0, "forward") OP(2, 0, "backward") "{\"from\":2,\"to\":1}\n", "/proc/self/fd/"},
        {OP(1, 0, "forward") "{\"from\":1,\"to\":1,\"latency_s\":-1}\n", "\"latency_s\" must be"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_error err = {0};
        struct read read;
        const int rc = read_text(bad[i].text, &read, &err);

        if (rc != LULL_E_FORMAT)
            fail_msg("'%s' was taken", bad[i].text);
        if (strstr(err.text, bad[i].message) == NULL)
            fail_msg("'%s' gives '%s', lacks '%s'", bad[i].text, err.text, bad[i].message);
        forget(&read, rc);
    }
}

static void test_a_class_that_was_not_measured(void **state)
{
    static const char text[] = OP(1, 0, "forward");
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .parts = 1, .input_ratio = 0.5};
    struct lull_pipeline_graph graph;
    struct lull_error err = {0};

    (void)state;
    lull_pipeline_profile_init(&measured);
    lull_pipeline_profile_init(&fitted);
    assert_int_equal(lull_graph_lines_read(text_file(text, strlen(text)), &fit, &graph, &err),
                     LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "line 1: stage 0 of the pipeline needs forward"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_graph),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_a_class_that_was_not_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
