/*
 * Arbitrary texts of a user's run in output for other users: the metrics, the live page and `lull
 * top` are UTF-8 without control characters, and the texts cannot inject a sample, element or line.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../base/any_text.h"
#include "base/clock.h"
#include "cli/live_json.h"
#include "cli/node_json.h"
#include "cli/serve/live_page.h"
#include "cli/serve/metrics.h"
#include "cli/top/lines.h"

enum { TEXTS_OF_A_RUN = 16, RUNS = 100000 / TEXTS_OF_A_RUN };

static struct lull_live_run run;
static struct lull_device_info info;

/* Writes the next text, or "text" for the texts of a harmless run. */
static void put_text(char *out, size_t size, bool is_any)
{
    char text[MAX_BYTES + 8] = "text";

    while (is_any && draw_text(text) == 0)
        continue;
    snprintf(out, size, "%s", text);
}

#define PUT(member) put_text(member, sizeof(member), is_any)

static void fill_run(bool is_any)
{
    struct lull_live_gpu *const gpu = &run.gpus[0];

    memset(&run, 0, sizeof(run));
    run.pid = 4711;
    run.begin_ns = LULL_NS_PER_S;
    run.written_ns = 90 * LULL_NS_PER_S;
    run.iterations = 1234;
    run.gpu_count = 1;
    run.power_w = run.energy_j = lull_live_figure(250.0, LULL_LIVE_TOO_EARLY);
    PUT(run.command);
    PUT(run.title);
    PUT(run.report);
    PUT(run.slurm_job);
    PUT(run.slurm_step);
    PUT(run.slurm_name);
    PUT(run.pod);
    PUT(run.pod_namespace);
    PUT(run.learning);
    PUT(run.note);
    run.serving.mode = LULL_LIVE_MODE_PROVEN;
    PUT(run.serving.engine);
    PUT(run.serving.metrics);
    PUT(run.serving.reason);
    *gpu =
        (struct lull_live_gpu){.state = LULL_LIVE_MANAGED, .ranks = 1, .section = LULL_LIVE_USER};
    gpu->power_w = gpu->energy_j = run.power_w;
    PUT(gpu->uuid);
    PUT(gpu->name);
    PUT(gpu->pci_bus_id);
    PUT(gpu->state_text);
    PUT(gpu->section_name);
    PUT(gpu->driver_text);
    lull_live_check(&run);
}

/* The node's document, with a GPU of the driver and the run. */
static json_t *make_document(void)
{
    const struct lull_device_reading reading = {.valid = LULL_READING_POWER, .power_mw = 250000};
    const struct lull_live_entry entry = {.file = "live-4711", .user = 1000};

    memcpy(info.uuid, run.gpus[0].uuid, sizeof(info.uuid));
    memcpy(info.name, run.gpus[0].name, sizeof(info.name));
    return json_pack("{s:[o], s:[o], s:b, s:b}", "gpus", lull_node_gpu_json(0, &info, &reading),
                     "jobs", lull_live_run_json(&entry, &run, 91 * LULL_NS_PER_S), "driver_open", 1,
                     "daemon_up", 0);
}

/* ---- metrics ----------------------------------------------------------------------------- */

/* Takes `name="value"`, in which only backslash, quote and n may follow a backslash. */
static const char *take_label(const char *at)
{
    at += strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (strncmp(at, "=\"", 2) != 0)
        return NULL;
    for (at += 2; *at != '"'; at++) {
        if (*at == '\0' || (*at == '\\' && (at[1] == '\0' || strchr("\\\"n", at[1]) == NULL)))
            return NULL;
        at += *at == '\\';
    }
    return at + 1;
}

static bool is_sample(const char *line)
{
    const char *at = line + strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    char *end;

    if (strncmp(line, "lull_", 5) != 0)
        return false;
    if (*at == '{') {
        do {
            at = take_label(at + 1);
        } while (at != NULL && *at == ',');
        if (at == NULL || *at != '}')
            return false;
        at++;
    }
    if (*at != ' ')
        return false;
    (void)strtod(at + 1, &end);
    return end != at + 1 && *end == '\0';
}

static uint32_t count_samples(char *text)
{
    uint32_t samples = 0;
    char *rest = text;

    assert_true(is_harmless(text, true));
    for (const char *line = strsep(&rest, "\n"); rest != NULL; line = strsep(&rest, "\n")) {
        if (line[0] == '#')
            continue;
        if (!is_sample(line))
            fprintf(stderr, "%s\n", line);
        assert_true(is_sample(line));
        samples++;
    }
    return samples;
}

static uint32_t write_metrics(const json_t *table, bool is_any, enum lull_serve_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    json_t *document;
    uint32_t samples;

    fill_run(is_any);
    document = make_document();
    lull_serve_metrics_write(table, document, format, out);
    fclose(out);
    samples = count_samples(text);
    json_decref(document);
    free(text);
    return samples;
}

static void test_metrics(void **user)
{
    json_t *const table = lull_serve_metrics_open();

    (void)user;
    for (enum lull_serve_format format = LULL_SERVE_TEXT; format <= LULL_SERVE_OPENMETRICS;
         format++) {
        const uint32_t samples = write_metrics(table, false, format);

        assert_true(samples > 20);
        for (uint32_t i = 0; i < RUNS / 2; i++)
            assert_int_equal(write_metrics(table, true, format), samples);
    }
    json_decref(table);
}

/* ---- live page --------------------------------------------------------------------------- */

static uint32_t count_marks(const char *text, const char *marks)
{
    uint32_t count = 0;

    for (const char *at = strpbrk(text, marks); at != NULL; at = strpbrk(at + 1, marks))
        count++;
    return count;
}

/* Returns how many brackets and quotes the page has: any of a text would be one more. */
static uint32_t write_page(bool is_any, const struct lull_serve_history *history)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    json_t *const runs = json_array();
    json_t *document;
    uint32_t marks;

    fill_run(is_any);
    document = make_document();
    lull_serve_page_write_head(out, run.command);
    lull_serve_page_write_live(out, document, runs, history);
    fclose(out);
    assert_true(is_harmless(text, true));
    marks = count_marks(text, "<>\"");
    json_decref(document);
    json_decref(runs);
    free(text);
    return marks;
}

static void test_live_page(void **user)
{
    struct lull_serve_history history;
    uint32_t marks;

    (void)user;
    lull_serve_history_init(&history);
    marks = write_page(false, &history);
    assert_true(marks > 100);
    for (uint32_t i = 0; i < RUNS; i++)
        assert_int_equal(write_page(true, &history), marks);
}

/* ---- lull top ---------------------------------------------------------------------------- */

static uint32_t count_lines(bool is_any, struct lull_top_lines *lines)
{
    struct lull_top_view view = {.now_ns = 91 * LULL_NS_PER_S,
                                 .run_count = 1,
                                 .runs = {&run},
                                 .has_driver = true,
                                 .gpu_count = 1};

    fill_run(is_any);
    memcpy(info.uuid, run.gpus[0].uuid, sizeof(info.uuid));
    memcpy(info.name, run.gpus[0].name, sizeof(info.name));
    view.gpus[0] = (struct lull_top_gpu){.info = &info, .has_run = true};
    lull_top_make_lines(&view, lines);
    for (uint32_t i = 0; i < lines->count; i++)
        assert_true(is_harmless(lines->items[i].text, false));
    return lines->count;
}

static void test_top(void **user)
{
    struct lull_top_lines lines = {0};
    const uint32_t count = count_lines(false, &lines);

    (void)user;
    assert_true(count >= 4);
    for (uint32_t i = 0; i < RUNS; i++)
        assert_int_equal(count_lines(true, &lines), count);
    lull_top_lines_fini(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_live_page),
        cmocka_unit_test(test_top),
    };

    begin_decoding();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
