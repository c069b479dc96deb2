/* Arrivals of requests: drawn, read and scaled. SPDX-License-Identifier: Apache-2.0 */
#include "../emulator/check.h"

#include "../text_file.h"
#include "base/error.h"
#include "simulator/serving/arrivals_file.h"

static const char azure[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                            "2023-11-16 18:15:46.5000000,374,44\n"
                            "2023-11-16 18:15:47.5000000,396,109\n"
                            "2023-11-16 18:15:50.5000000,879,55\n";

static void read_text(const char *text, struct lull_server_arrivals *trace,
                      struct lull_server_arrivals_skipped *skipped)
{
    struct lull_error err = {0};

    assert_int_equal(lull_server_arrivals_read(text_file(text, strlen(text)), trace, skipped, &err),
                     0);
}

static void test_the_format_of_azure(void **state)
{
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};

    (void)state;
    read_text(azure, &trace, &skipped);
    assert_int_equal(skipped.rows, 0);
    assert_int_equal(trace.count, 3);
    assert_int_equal(trace.items[0].time_ns, 0);
    assert_int_equal(trace.items[2].time_ns, S(4));
    assert_int_equal(trace.items[2].prompt_tokens, 879);
    assert_int_equal(trace.items[1].output_tokens, 109);
    assert_true(fabs(lull_server_arrivals_rate(&trace) - 0.5) < 1e-6);
    lull_server_arrivals_fini(&trace);
}

static void test_foreign_rows_are_counted_and_ordered(void **state)
{
    static const char text[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2023-11-16 18:15:46,374,44\n"
                               "yesterday,396,109\n"
                               "2023-11-16 18:15:47,396,0\n"
                               "2023-11-16 18:15:48,396\n"
                               "2023-11-16 18:15:44,1,2\n";
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};

    (void)state;
    read_text(text, &trace, &skipped);
    assert_int_equal(skipped.rows, 3);
    assert_non_null(strstr(skipped.reason, "line 3"));
    assert_int_equal(trace.count, 2);
    assert_int_equal(trace.items[0].prompt_tokens, 1);
    assert_int_equal(trace.items[1].time_ns, S(2));
    lull_server_arrivals_fini(&trace);
}

static void test_unusable_tables_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "time,prompt\n1,2\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n5,1,1\n5,1,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct lull_server_arrivals_skipped skipped;
        struct lull_server_arrivals trace = {0};
        struct lull_error err = {0};

        assert_int_equal(lull_server_arrivals_read(text_file(texts[i], strlen(texts[i])), &trace,
                                                   &skipped, &err),
                         LULL_E_FORMAT);
        printf("%s\n", err.text);
        assert_true(err.text[0] != '\0' && trace.items == NULL);
    }
}

static void test_only_the_rate_changes(void **state)
{
    const struct lull_server_arrivals_part part = {.rate_per_s = 5.0, .duration_ns = S(2)};
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};
    struct lull_server_arrivals scaled = {0};

    (void)state;
    read_text(azure, &trace, &skipped);
    assert_int_equal(lull_server_arrivals_scale(&trace, &part, &scaled), 0);
    assert_int_equal(scaled.count, 11); /* 3.3 repetitions of 0.6 s */
    for (size_t i = 0; i < scaled.count; i++) {
        assert_int_equal(scaled.items[i].prompt_tokens, trace.items[i % 3].prompt_tokens);
        assert_true(llabs(scaled.items[i].time_ns -
                          (trace.items[i % 3].time_ns / 10 + (int64_t)(i / 3) * MS(600))) < 100);
    }
    lull_server_arrivals_fini(&scaled);
    lull_server_arrivals_fini(&trace);
}

static void test_a_part_begins_within_the_trace(void **state)
{
    const struct lull_server_arrivals_part part = {
        .rate_per_s = 0.5, .duration_ns = S(6), .start_ratio = 0.5};
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};
    struct lull_server_arrivals scaled = {0};

    (void)state;
    read_text(azure, &trace, &skipped);
    assert_int_equal(lull_server_arrivals_scale(&trace, &part, &scaled), 0);
    assert_int_equal(scaled.count, 3);
    assert_int_equal(scaled.items[0].prompt_tokens, 879);
    assert_true(llabs(scaled.items[0].time_ns - S(1)) < 100);
    assert_int_equal(scaled.items[1].prompt_tokens, 374);
    lull_server_arrivals_fini(&scaled);
    lull_server_arrivals_fini(&trace);
}

static void test_drawn_requests_have_rate_and_lengths(void **state)
{
    const struct lull_server_arrivals_poisson poisson = {.rate_per_s = 20.0,
                                                         .duration_ns = S(3600),
                                                         .prompt_tokens = 1000.0,
                                                         .output_tokens = 200.0,
                                                         .seed = 3};
    struct lull_server_arrivals arrivals = {0};
    double prompts = 0.0;
    double outputs = 0.0;

    (void)state;
    assert_int_equal(lull_server_arrivals_draw(&poisson, &arrivals), 0);
    for (size_t i = 0; i < arrivals.count; i++) {
        assert_true(i == 0 || arrivals.items[i].time_ns >= arrivals.items[i - 1].time_ns);
        prompts += arrivals.items[i].prompt_tokens;
        outputs += arrivals.items[i].output_tokens;
    }
    check_within("requests per second", lull_server_arrivals_rate(&arrivals), 19.7, 20.3);
    check_within("prompt tokens", prompts / (double)arrivals.count, 985.0, 1015.0);
    check_within("output tokens", outputs / (double)arrivals.count, 197.0, 203.0);
    lull_server_arrivals_fini(&arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_format_of_azure),
        cmocka_unit_test(test_foreign_rows_are_counted_and_ordered),
        cmocka_unit_test(test_unusable_tables_are_refused),
        cmocka_unit_test(test_only_the_rate_changes),
        cmocka_unit_test(test_a_part_begins_within_the_trace),
        cmocka_unit_test(test_drawn_requests_have_rate_and_lengths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
