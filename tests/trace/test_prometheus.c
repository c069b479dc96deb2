/*
 * Pages of metrics: samples of both formats, names and labels in quotes, times, exemplars, and
 * invalid lines, each of which costs itself alone. SPDX-License-Identifier: Apache-2.0
 */
#include "trace/prometheus.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SHOWN_BYTES = 4096 };

struct shown {
    char text[SHOWN_BYTES];
    size_t used;
};

static void show(struct shown *shown, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void show(struct shown *shown, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    shown->used += (size_t)vsnprintf(shown->text + shown->used, sizeof(shown->text) - shown->used,
                                     format, arguments);
    va_end(arguments);
    assert_true(shown->used < sizeof(shown->text));
}

/* Shows a sample as "name[label=value,...]value@time;". */
static void take(void *context, const struct lull_prometheus_sample *sample)
{
    struct shown *const shown = context;

    show(shown, "%.*s[", (int)sample->name.length, sample->name.bytes);
    for (uint32_t i = 0; i < sample->label_count; i++)
        show(shown, "%s%.*s=%.*s", i > 0 ? "," : "", (int)sample->labels[i].name.length,
             sample->labels[i].name.bytes, (int)sample->labels[i].value.length,
             sample->labels[i].value.bytes);
    show(shown, "]%g", sample->value);
    if (!isnan(sample->time_s))
        show(shown, "@%.3f", sample->time_s);
    show(shown, ";");
}

static struct lull_prometheus_page read_page(const char *text, struct shown *shown)
{
    struct lull_prometheus_page page;
    struct lull_error err = {0};

    *shown = (struct shown){0};
    assert_int_equal(lull_prometheus_read(text, strlen(text), take, shown, &page, &err), 0);
    return page;
}

static void test_samples(void **state)
{
    static const struct {
        const char *line;
        const char *shown;
    } cases[] = {
        {"a 1\n", "a[]1;"},
        {"vllm:a_total{} 2.5e3\n", "vllm:a_total[]2500;"},
        {"a{x=\"1\",y=\"2\"} 3\n", "a[x=1,y=2]3;"},
        {"a{x=\"1\" , y = \"2\" , } 3\n", "a[x=1,y=2]3;"},
        {"  a\t{ x=\"1\" }\t+3 \r\n", "a[x=1]3;"},
        {"a{x=\"q\\\"}{ b\\\\\"} 1\n", "a[x=q\\\"}{ b\\\\]1;"},
        {"a{x=\"\"} -0.5\n", "a[x=]-0.5;"},
        {"a +Inf\nb -inf\nc NaN\n", "a[]inf;b[]-inf;c[]nan;"},
        {"a 1 1700000000123\n", "a[]1@1700000000.123;"},
        {"a_bucket{le=\"0.5\"} 8 # {trace_id=\"x y\"} 0.4 1700000000\n", "a_bucket[le=0.5]8;"},
        {"{\"my.name\",x=\"1\"} 2\n", "my.name[x=1]2;"},
        {"a{\"x.y\"=\"1\"} 2\n", "a[x.y=1]2;"},
        {"a{x=\"\xff\xfe\"} 1\n", "a[x=\xff\xfe]1;"},
        {"# HELP a 1\n# TYPE a counter\n#\n\n \t\na 1\n", "a[]1;"},
        {"a 1.0\n# EOF\n", "a[]1;"},
        {"a 1 1700000000.5\n# EOF", "a[]1@1700000000.500;"},
    };
    struct shown shown;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct lull_prometheus_page page = read_page(cases[i].line, &shown);

        assert_string_equal(shown.text, cases[i].shown);
        assert_int_equal(page.bad_lines, 0);
        assert_false(page.is_cut);
        assert_int_equal(page.has_end, strstr(cases[i].line, "# EOF") != NULL);
    }
}

static void test_bad_lines(void **state)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"a", "no value"},
        {"a ", "no value"},
        {"1a 1", "no name"},
        {"\xff 1", "no name"},
        {"a-b 1", "the value is not a number"},
        {"a 1x", "the value is not a number"},
        {"a 0x10", "the value is not a number"},
        {"a 1e999", "the value is not a number"},
        {"a --1", "the value is not a number"},
        {"a 1 x", "the time is not a number"},
        {"a 1 NaN", "the time is not a number"},
        {"a 1 2 3", "more words than a value and a time"},
        {"a{x=\"1\" 1", "no comma or brace after a label"},
        {"a{x=\"1} 1", "a quote without its end"},
        {"a{x=\"1\\", "a quote without its end"},
        {"a{x=1} 1", "no quote before the value of a label"},
        {"a{x} 1", "no = after the name of a label"},
        {"a{=\"1\"} 1", "no name of a label"},
        {"a{\"x\"} 1", "no = after the name of a label"},
        {"{x=\"1\"} 1", "no name"},
        {"{\"error\": \"none\"}", "no comma or brace after a label"},
    };
    struct shown shown;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        struct lull_prometheus_page page;

        snprintf(text, sizeof(text), "b 1\n%s\nc 2\n", cases[i].line);
        page = read_page(text, &shown);
        assert_string_equal(shown.text, "b[]1;c[]2;");
        assert_int_equal(page.bad_lines, 1);
        assert_int_equal(page.bad_line, 2);
        assert_string_equal(page.bad_reason, cases[i].reason);
    }
}

static void test_cut(void **state)
{
    struct shown shown;
    struct lull_prometheus_page page = read_page("a 1\nb 12", &shown);

    (void)state;
    assert_true(page.is_cut);
    assert_string_equal(shown.text, "a[]1;");
    page = read_page("a 1\nb 1 # EOF", &shown);
    assert_true(page.is_cut);
    page = read_page("", &shown);
    assert_false(page.is_cut);
    assert_int_equal(page.samples, 0);
}

static void count(void *context, const struct lull_prometheus_sample *sample)
{
    (void)sample;
    (*(size_t *)context)++;
}

static void test_limits(void **state)
{
    const size_t size = LULL_PROMETHEUS_MAX_BYTES + 1;
    char *const text = malloc(size);
    struct lull_prometheus_page page;
    struct lull_error err = {0};
    size_t samples = 0;
    size_t used;

    (void)state;
    memset(text, ' ', size);
    assert_int_equal(lull_prometheus_read(text, size, count, &samples, &page, &err), -EFBIG);
    assert_string_equal(err.text, "the page is larger than 8 MiB");
    memset(text, '\n', size);
    assert_int_equal(
        lull_prometheus_read(text, LULL_PROMETHEUS_MAX_BYTES, count, &samples, &page, &err),
        -EFBIG);
    assert_string_equal(err.text, "the page has more than 131072 lines");

    used = (size_t)sprintf(text, "a{x=\"");
    memset(text + used, 'v', LULL_PROMETHEUS_MAX_LINE);
    used += LULL_PROMETHEUS_MAX_LINE;
    used += (size_t)sprintf(text + used, "\"} 1\nb 1\n");
    assert_int_equal(lull_prometheus_read(text, used, count, &samples, &page, &err), 0);
    assert_int_equal(page.samples, 1);
    assert_string_equal(page.bad_reason, "longer than 64 KiB");

    used = (size_t)sprintf(text, "a{");
    for (int i = 0; i <= LULL_PROMETHEUS_MAX_LABELS; i++)
        used += (size_t)sprintf(text + used, "x%d=\"\",", i);
    used += (size_t)sprintf(text + used, "} 1\nb 1\n");
    assert_int_equal(lull_prometheus_read(text, used, count, &samples, &page, &err), 0);
    assert_int_equal(page.samples, 1);
    assert_string_equal(page.bad_reason, "too many labels");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
