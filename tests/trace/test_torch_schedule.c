/*
 * usage: test_torch_schedule SCHEDULES, the directory that make_torch_schedules.py wrote.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/torch_schedule.h"

#include <stdio.h>
#include <string.h>

#include "../core/pipeline/pipeline_unit.h"
#include "../text_file.h"
#include "trace/lines.h"

static const char *schedules;

/* ---- what torch wrote ---- */

struct fixture {
    char name[64]; /* SCHEDULE_RANKSxCHUNKS_MICROBATCHES */
    char kind[40];
    uint32_t ranks;
    uint32_t chunks;
    uint32_t microbatches;
    int64_t columns; /* torch's table */
    int64_t steps;   /* as make_torch_schedules.py simulates it */
    int is_aligned;
};

static void read_fixture(const struct fixture *fixture, const char *format,
                         struct lull_pipeline_order *order)
{
    struct lull_error err = {0};
    char path[512];

    snprintf(path, sizeof(path), "%s/%s.%s.csv", schedules, fixture->name, format);
    if (lull_torch_schedule_read(path, order, &err) < 0)
        fail_msg("%s", err.text);
}

static int64_t makespan_units(const struct lull_pipeline_order *order)
{
    const struct lull_pipeline_links links = {NULL, 0};
    const struct lull_pipeline_replicas replicas = {.count = 1};
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .parts = 1, .input_ratio = 0.5};
    struct lull_pipeline_graph graph;
    struct lull_error err = {0};
    int64_t end_ns;

    unit_profile(&measured, 1);
    lull_pipeline_profile_init(&fitted);
    if (lull_pipeline_order_build(order, &links, &replicas, &fit, &graph, &err) < 0)
        fail_msg("%s", err.text);
    end_ns = makespan_ns(&graph, &fitted);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
    return end_ns / UNIT_NS;
}

static void expect_same(const struct fixture *fixture, const struct lull_pipeline_order *one,
                        const struct lull_pipeline_order *other)
{
    assert_int_equal(one->devices, other->devices);
    assert_int_equal(one->stages, other->stages);
    assert_int_equal(one->microbatches, other->microbatches);
    for (uint32_t d = 0; d < one->devices; d++) {
        assert_int_equal(one->rows[d].count, other->rows[d].count);
        for (size_t i = 0; i < one->rows[d].count; i++) {
            const struct lull_pipeline_action *a = &one->rows[d].actions[i];
            const struct lull_pipeline_action *b = &other->rows[d].actions[i];

            if (a->kind != b->kind || a->stage != b->stage || a->microbatch != b->microbatch ||
                a->partner_stage != b->partner_stage ||
                a->partner_microbatch != b->partner_microbatch)
                fail_msg("%s: device %u, action %zu differs", fixture->name, d, i);
        }
    }
}

/* The text of our schedule that must be the same; "": there is none. */
static void name_schedule(const struct fixture *fixture, char *text, size_t size)
{
    const uint32_t rounds = fixture->microbatches / fixture->ranks;
    const uint32_t group = fixture->microbatches / (rounds > 0 ? rounds : 1);
    const struct {
        const char *kind;
        const char *text;
    } pairs[] = {{"GPipe", "gpipe"},
                 {"1F1B", "1f1b"},
                 {"InterleavedZeroBubble", fixture->chunks == 1 ? "zb-h1" : ""},
                 {"ZBVZeroBubble", "zbv"},
                 {"DualPipeV", "dualpipev"}};

    text[0] = '\0';
    if (strcmp(fixture->kind, "Interleaved1F1B") == 0)
        snprintf(text, size, "interleaved:%u,%u", fixture->chunks, group);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(fixture->kind, pairs[i].kind) == 0)
            snprintf(text, size, "%s", pairs[i].text);
}

static bool compare_with_ours(const struct fixture *fixture,
                              const struct lull_pipeline_order *theirs)
{
    const struct lull_pipeline_shape shape = {.devices = fixture->ranks,
                                              .microbatches = fixture->microbatches};
    struct lull_pipeline_schedule schedule;
    struct lull_pipeline_order ours;
    struct lull_error err = {0};
    char text[64];

    name_schedule(fixture, text, sizeof(text));
    if (text[0] == '\0')
        return false;
    if (lull_pipeline_schedule_parse(text, &schedule, &err) < 0 ||
        lull_pipeline_schedule_order(&schedule, &shape, NULL, &ours, &err) < 0)
        fail_msg("%s: %s", fixture->name, err.text);
    expect_same(fixture, &ours, theirs);
    lull_pipeline_order_fini(&ours);
    return true;
}

static bool check_fixture(const struct fixture *fixture)
{
    struct lull_pipeline_order plain, lowered;
    bool is_compared;

    read_fixture(fixture, "compute_only", &plain);
    read_fixture(fixture, "compute_comms", &lowered);
    assert_int_equal(plain.devices, fixture->ranks);
    assert_int_equal(plain.stages, fixture->ranks * fixture->chunks);
    assert_int_equal(plain.microbatches, fixture->microbatches);
    assert_int_equal(makespan_units(&plain), fixture->steps);
    if (fixture->is_aligned)
        assert_true(fixture->steps <= fixture->columns);
    expect_same(fixture, &plain, &lowered);
    is_compared = compare_with_ours(fixture, &plain);
    lull_pipeline_order_fini(&plain);
    lull_pipeline_order_fini(&lowered);
    return is_compared;
}

static bool next_fixture(struct lull_lines *lines, struct fixture *fixture)
{
    struct lull_error err = {0};
    char *text;
    const int rc = lull_lines_next(lines, &text, &err);

    if (rc < 0)
        fail_msg("%s", err.text);
    if (rc == 0)
        return false;
    assert_int_equal(sscanf(text, "%63[^,],%" SCNd64 ",%" SCNd64 ",%d", fixture->name,
                            &fixture->columns, &fixture->steps, &fixture->is_aligned),
                     4);
    assert_int_equal(sscanf(fixture->name, "%39[^_]_%ux%u_%u", fixture->kind, &fixture->ranks,
                            &fixture->chunks, &fixture->microbatches),
                     4);
    return true;
}

static void test_all_that_torch_wrote(void **state)
{
    struct lull_lines *lines;
    struct lull_error err = {0};
    struct fixture fixture;
    char path[512];
    char *header;
    int count = 0, compared = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/lengths.csv", schedules);
    if (lull_lines_open(path, &lines, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(lull_lines_next(lines, &header, &err), 1);
    while (next_fixture(lines, &fixture)) {
        compared += check_fixture(&fixture);
        count++;
    }
    lull_lines_close(lines);
    assert_int_equal(count, 27);
    assert_int_equal(compared, 23); /* all but LoopedBFS and the interleaved zero bubble */
}

/* The tables of torch 2.15's simple schedules: GPipe's has reductions but no transfers; that of
 * 1F1B forwards a micro-batch on the last rank that no other process has. */
static void test_tables_of_simple_schedules(void **state)
{
    struct lull_pipeline_order order;
    struct lull_error err = {0};
    char path[512];

    (void)state;
    snprintf(path, sizeof(path), "%s/GPipe_table.csv", schedules);
    if (lull_torch_schedule_read(path, &order, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(order.microbatches, 3);
    lull_pipeline_order_fini(&order);
    snprintf(path, sizeof(path), "%s/1F1B_table.csv", schedules);
    assert_int_equal(lull_torch_schedule_read(path, &order, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "row 1: the forward of stage 0, micro-batch 3 is missing"));
}

/* ---- texts ---- */

static int read_text(const char *text, struct lull_pipeline_order *order, struct lull_error *err)
{
    return lull_torch_schedule_read(text_file(text, strlen(text)), order, err);
}

static void test_collectives_are_left_out(void **state)
{
    struct lull_pipeline_order order;
    struct lull_error err = {0};

    (void)state;
    if (read_text("0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0REDUCE_GRAD\n1F0,1B0\n\n", &order, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(order.rows[0].count, 2);
    lull_pipeline_order_fini(&order);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"", "the file is empty"},
        {"\n\n", "the file is empty"},
        {"0F0,0X0\n", "row 1, column 2: '0X0' is not an action"},
        {"0F0,,B0\n", "row 1, column 3: 'B0' is not an action"},
        {"0F\n", "column 1: '0F' is not an action"},
        {"0F0x\n", "is not an action"},
        {"0SEND_F\n", "is not an action"},
        {"0OVERLAP_F_B0\n", "is not an action"},
        {"(0F0;0F1)OVERLAP_F_B\n", "is not an action"},
        {"(0F0)OVERLAP_F_B\n", "is not an action"},
        {"(0F0;0B1)OVERLAP\n", "is not an action"},
        {"(0F0;0B1\n", "is not an action"},
        {"0F0,0B99999999999999999999\n", "column 2: '0B99999999999999999999': stages are below"},
        {"4096F0\n", "stages are below 4096"},
        {"0F0,0B0\n,,\n", "row 2: there are no actions"},
        {"0F0,0B0\n\n1F0,1B0\n", "row 2 is blank"},
        {"0UNSHARD\n", "no stages"},
        {"4095F65535\n", "some are missing"},
        {"0F0,0B0\n1F0\n", "row 2: the backward of stage 1, micro-batch 0 is missing"},
        {"0F0,0I0\n", "row 1: the weight gradient of stage 0, micro-batch 0 is missing"},
        {"0F0,0B0,2F0,2B0\n", "the forward of stage 1, micro-batch 0 is missing"},
        {"0F0,0B0,0F1\n", "row 1: the backward of stage 0, micro-batch 1 is missing"},
        {"0F0,0F0,0B0\n", "row 1, column 2: device 0: the forward of stage 0, micro-batch 0 comes"},
        {"0F0,1F0,,0B0\n,1B0\n", "row 2, column 2: stage 1 is on device 0 and on device 1"},
        {"0B0,0F0\n", "row 1, column 1: it never gets its turn"},
        {"0F0,0B0\n,1B0,1F0\n", "row 1, column 2: it never gets its turn"},
        {"0F0,0W0,0I0\n", "row 1, column 2: it never gets its turn"},
        {"(0F0;0B0)OVERLAP_F_B\n", "row 1, column 1: it never gets its turn"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
         "row 2, column 1: F of stage 1, micro-batch 0: no RECV_F"},
        {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "row 1, column 3: B of stage 0"},
        {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
         "row 1, column 1: SEND_F of stage 0, micro-batch 0: it comes before"},
        {"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "row 2, column 1: RECV_F of stage 1"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", "row 1, column 3: RECV_B of stage 0"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0\n",
         "row 2, column 5: SEND_F of stage 1, micro-batch 0: no stage receives it"},
        {"0F0,0REDUCE_GRAD,0B0\n", "row 1, column 2: REDUCE_GRAD of stage 0"},
        {"0F0,0B0,7REDUCE_GRAD\n", "row 1, column 3: REDUCE_GRAD of stage 7"},
        {"0F0,0B0\n1F0,1B0,0REDUCE_GRAD\n", "its stage is on another rank"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_pipeline_order order;
        struct lull_error err = {0};

        if (read_text(bad[i].text, &order, &err) != LULL_E_FORMAT)
            fail_msg("'%s' was taken: %s", bad[i].text, err.text);
        if (strstr(err.text, bad[i].message) == NULL)
            fail_msg("'%s' gives '%s', lacks '%s'", bad[i].text, err.text, bad[i].message);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_torch_wrote),
        cmocka_unit_test(test_tables_of_simple_schedules),
        cmocka_unit_test(test_collectives_are_left_out),
        cmocka_unit_test(test_bad_files),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: test_torch_schedule SCHEDULES\n");
        return 2;
    }
    schedules = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
