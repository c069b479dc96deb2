/*
 * The output of `lull top` for unusual runs and GPUs: correct, or "-" with a reason.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "cli/live_json.h"
#include "cli/top/lines.h"
#include "wire/live.h"

static struct lull_device_info info[4];
static struct lull_live_run run;
static struct lull_top_view view;
static struct lull_top_lines lines;

static struct lull_live_figure known(double value)
{
    return lull_live_figure(value, LULL_LIVE_TOO_EARLY);
}

/* A run on GPU 2 of four, which has settled. */
static int begin(void **state)
{
    struct lull_live_gpu *const gpu = &run.gpus[0];

    (void)state;
    memset(&run, 0, sizeof(run));
    memset(&view, 0, sizeof(view));
    run = (struct lull_live_run){.pid = 4711,
                                 .command = "./train",
                                 .begin_ns = LULL_NS_PER_S,
                                 .written_ns = 90 * LULL_NS_PER_S,
                                 .tolerance_ratio = 0.01,
                                 .ruler = LULL_LIVE_BY_SECTION,
                                 .verdict = LULL_LIVE_PROVEN,
                                 .learning = "settled",
                                 .iterations = 1234,
                                 .iteration_ms = known(100.0),
                                 .iterations_left = known(0.0),
                                 .saving_ratio = known(0.114),
                                 .slowdown_ratio = known(0.002),
                                 .slowdown_upper_ratio = known(0.007),
                                 .budget_earned_ms = known(1000.0),
                                 .budget_left_ms = known(870.0),
                                 .power_w = known(250.0),
                                 .energy_j = known(22500.0),
                                 .gpu_count = 2};
    *gpu = (struct lull_live_gpu){.index = 2,
                                  .state = LULL_LIVE_MANAGED,
                                  .is_leased = 1,
                                  .ranks = 1,
                                  .clock_mhz = known(1320.0),
                                  .wanted_mhz = known(1320.0),
                                  .lowest_mhz = known(210.0),
                                  .highest_mhz = known(1410.0),
                                  .power_w = known(250.0),
                                  .power_limit_w = known(400.0),
                                  .temperature_c = known(60.0),
                                  .lowered_ratio = known(0.42),
                                  .throttled = known(0.0),
                                  .section = LULL_LIVE_COMMUNICATION,
                                  .section_name = "allreduce",
                                  .forecasts = 100,
                                  .forecast_hits = 97};
    run.gpus[1].state = LULL_LIVE_UNUSED;
    view.now_ns = 91 * LULL_NS_PER_S;
    view.run_count = 1;
    view.runs[0] = &run;
    view.has_driver = true;
    view.gpu_count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        view.gpus[i] = (struct lull_top_gpu){.index = i, .info = &info[i], .has_run = i == 2};
        snprintf(info[i].uuid, sizeof(info[i].uuid), "GPU-%u", i);
    }
    snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-2");
    return 0;
}

static int end(void **state)
{
    (void)state;
    lull_top_lines_fini(&lines);
    return 0;
}

/* Returns the first line with this text; NULL: there is none. */
static const struct lull_top_line *find(const char *text)
{
    for (uint32_t i = 0; i < lines.count; i++)
        if (strstr(lines.items[i].text, text) != NULL)
            return &lines.items[i];
    return NULL;
}

#define assert_line(TEXT)                                                                          \
    do {                                                                                           \
        lull_top_make_lines(&view, &lines);                                                        \
        if (find(TEXT) == NULL)                                                                    \
            for (uint32_t i = 0; i < lines.count; i++)                                             \
                fprintf(stderr, "%s\n", lines.items[i].text);                                      \
        assert_non_null(find(TEXT));                                                               \
    } while (0)

static void a_run_that_has_settled(void **state)
{
    (void)state;
    assert_line("run 4711 of ");
    assert_non_null(find("90.0 s: ./train"));
    assert_non_null(find("  settled; guard: not degraded at 1 %"));
    assert_non_null(
        find("  saved about 11.4 % of the energy per iteration; 0.2 % slower (at most 0.7 %)"));
    assert_non_null(
        find("  1,234 iterations of 100.0 ms; 250 W, 22.50 kJ; slowdown budget 87 % left"));
    assert_non_null(find("   2  1320  1320  210-1410   250   400  60  42%  97%  allreduce"));
    assert_int_equal(find("allreduce")->style, LULL_TOP_LOWERED);
    /* The columns stand above what they name. */
    assert_int_equal(strstr(lull_top_columns(), "section") - lull_top_columns(),
                     strstr(find("allreduce")->text, "allreduce") - find("allreduce")->text);
}

static void one_of_four_gpus_is_the_runs_and_three_are_not(void **state)
{
    uint32_t others = 0;

    (void)state;
    view.gpus[0].reading = (struct lull_device_reading){
        .valid = LULL_READING_SM_CLOCK | LULL_READING_POWER, .sm_mhz = 210, .power_mw = 52400};
    assert_line("GPUs not used by these runs");
    for (uint32_t i = 0; i < lines.count; i++)
        others += strstr(lines.items[i].text, "no run") != NULL;
    assert_int_equal(others, 3);
    assert_non_null(find("   0   210     -         -    52     -   -    -    -  no run"));
    assert_non_null(find("   1     -     -         -     -     -   -    -    -  no run"));
}

static void what_is_not_known_is_no_figure(void **state)
{
    (void)state;
    run.saving_ratio = lull_live_figure(NAN, LULL_LIVE_NOTHING_LOW);
    run.slowdown_ratio = run.saving_ratio;
    run.whole_slowdown_ratio = known(0.0001);
    run.whole_slowdown_upper_ratio = lull_live_figure(NAN, LULL_LIVE_TOO_EARLY);
    run.power_w = lull_live_figure(NAN, LULL_LIVE_LOST);
    run.verdict = LULL_LIVE_UNDECIDED;
    run.iterations_left = known(78.0);
    run.gpus[0].forecasts = 0;
    run.gpus[0].forecast_hits = 0;
    assert_line(
        "  nothing saved yet; no slowdown measured (no bound known) so far, search included");
    assert_non_null(find("settled, 78 iterations or more; guard: undecided"));
    assert_non_null(find("power not known, 22.50 kJ"));
    assert_non_null(find("42%    -  allreduce"));
    run.verdict = LULL_LIVE_NOTHING_KEPT;
    assert_line("nothing saved: no lower clock has passed the test");
    run.saving_ratio = lull_live_figure(NAN, LULL_LIVE_TOO_EARLY);
    assert_line("  saving not measured yet");
}

static void a_lost_gpu_has_no_figures_and_a_reason(void **state)
{
    struct lull_live_gpu *const gpu = &run.gpus[0];

    (void)state;
    gpu->clock_mhz = gpu->power_w = gpu->temperature_c = gpu->power_limit_w = gpu->throttled =
        lull_live_figure(NAN, LULL_LIVE_LOST);
    assert_line("   2     -  1320  210-1410     -     -   -  42%  97%  allreduce");
    assert_non_null(find("the driver has lost the GPU"));
    assert_int_equal(find("lost the GPU")->style, LULL_TOP_WARNING);
}

static void several_ranks_on_one_gpu_leave_it_alone(void **state)
{
    (void)state;
    run.gpus[0].state = LULL_LIVE_LEFT_ALONE;
    run.gpus[0].ranks = 4;
    snprintf(run.gpus[0].state_text, sizeof(run.gpus[0].state_text),
             "not managed: several ranks share this GPU");
    assert_line("       not managed: several ranks share this GPU");
    snprintf(run.gpus[0].state_text, sizeof(run.gpus[0].state_text), "MIG is on");
    assert_line("       not managed: MIG is on");
}

static void what_lulld_says_of_other_gpus(void **state)
{
    (void)state;
    view.has_daemon = true;
    for (uint32_t i = 0; i < 4; i++)
        view.gpus[i].has_state = true;
    view.gpus[0].state.is_partitioned = 1;
    view.gpus[1].state = (struct lull_message_state){
        .is_leased = 1, .owner_pid = 77, .min_mhz = 300, .max_mhz = 1400, .applied_mhz = 900};
    view.gpus[3].state.health = 3;
    assert_line("MIG is on: not leased");
    assert_non_null(
        find("   1     -   900  300-1400     -     -   -    -    -  leased by process 77"));
    assert_non_null(find("lulld: LOST"));
    assert_null(find("no lulld"));
    view.gpus[0].is_stuck = true;
    assert_line("the driver does not return");
}

static void a_clock_that_is_held_down_says_by_what(void **state)
{
    (void)state;
    run.gpus[0].throttled = known(LULL_CLOCK_REASON_POWER_CAP | LULL_CLOCK_REASON_IDLE |
                                  LULL_CLOCK_REASON_HARDWARE_THERMAL);
    assert_line("allreduce [power cap, hw thermal]");
}

static void runs_that_do_nothing_now_say_so(void **state)
{
    (void)state;
    run.is_paused = 1;
    assert_line("PAUSED");
    run.is_paused = 0;
    run.has_lost_leases = 1;
    assert_line("it has lost its leases");
    run.has_lost_leases = 0;
    snprintf(run.hang, sizeof(run.hang), "rank 2 is missing");
    run.hang_since_ns = view.now_ns - 400 * LULL_NS_PER_S;
    assert_line("HANGS for 6.67 min:");
    assert_line("rank 2 is missing");
    run.hang[0] = '\0';
    run.ruler = LULL_LIVE_BY_NONE;
    assert_line("observed only");
    assert_null(find("saved"));
    run.written_ns = 80 * LULL_NS_PER_S;
    assert_line("its governor has not reported for 11.0 s");
    run.gpus[0].state = LULL_LIVE_UNUSED;
    assert_line("no rank of it uses a GPU yet");
    view.run_count = 0;
    assert_line("no active run");
    view.has_driver = false;
    snprintf(view.no_driver.text, sizeof(view.no_driver.text), "no library");
    assert_line("GPUs are not read here: no library");
}

static void text_of_others_is_harmless(void **state)
{
    (void)state;
    snprintf(run.command, sizeof(run.command), "a\x1b[2Jb\xff\xc3\xa4");
    snprintf(run.note, sizeof(run.note), "\a\n%%s");
    assert_line("a\\u001b[2Jb\xef\xbf\xbd\xc3\xa4");
    assert_non_null(find("last note: \\u0007\\u000a%s"));
}

static void a_line_is_cut_between_characters(void **state)
{
    (void)state;
    assert_int_equal(lull_top_fit("abc", 2), 2);
    assert_int_equal(lull_top_fit("abc", 80), 3);
    assert_int_equal(lull_top_fit("abc", 0), 0);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        return;
    assert_int_equal(lull_top_fit("\xc3\xa4\xc3\xa4", 1), 2);
    assert_int_equal(lull_top_fit("\xe4\xb8\xad\xe4\xb8\xad", 3), 3); /* two columns each */
    assert_int_equal(lull_top_fit("a\xff", 5), 1);
}

/* ---- what a hostile governor publishes ------------------------------------------------------ */

static uint64_t random_state = 36;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Fills memory with bytes that texts, numbers and times may be made of: any, or those of UTF-8, or
 * the extremes of numbers. */
static void fill(void *memory, size_t size)
{
    static const uint64_t extremes[] = {
        0, 1, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX, 0x7fefffffffffffff, 0x8010000000000000};
    unsigned char *const bytes = memory;
    const uint64_t kind = draw() % 3;

    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(kind == 1 ? 0x80 + draw() % 0x80 : draw());
    for (size_t i = 0; kind == 2 && i + 8 <= size; i += 8)
        memcpy(&bytes[i], &extremes[draw() % 7], 8);
}

/* Keeps of a random state what makes readers look at all of it, with known figures. */
static void forge_run(void)
{
    fill(&run, sizeof(run));
    run.gpu_count = (uint32_t)(draw() % 4);
    run.ruler = (uint32_t)(draw() % (LULL_LIVE_RULER_COUNT + 1));
    run.verdict = (uint32_t)(draw() % (LULL_LIVE_VERDICT_COUNT + 1));
    run.iterations_left.unknown = run.energy_j.unknown = run.power_w.unknown = LULL_LIVE_KNOWN;
    for (uint32_t i = 0; i < run.gpu_count; i++)
        run.gpus[i].state = (uint32_t)(draw() % (LULL_LIVE_STATE_COUNT + 1));
    lull_live_check(&run);
    view.now_ns = (int64_t)(draw() >> (1 + draw() % 63));
}

/* Returns whether a text is UTF-8 without control characters; shares no code with base/printable.
 */
static bool is_shown_safely(const char *text)
{
    mbstate_t state = {0};

    while (*text != '\0') {
        wchar_t character;
        const size_t bytes = mbrtowc(&character, text, strlen(text), &state);

        if (bytes > strlen(text) || character < 0x20 || (character >= 0x7f && character < 0xa0))
            return false;
        text += bytes;
    }
    return true;
}

static void check_json(const struct lull_live_entry *entry)
{
    json_t *const object = lull_live_run_json(entry, &run, view.now_ns);
    char *const text = json_dumps(object, 0);

    assert_non_null(text);
    assert_non_null(json_object_get(object, "run_s"));
    assert_true(json_integer_value(json_object_get(object, "iterations")) >= 0);
    for (size_t i = 0; i < json_array_size(json_object_get(object, "gpus")); i++)
        assert_true(json_integer_value(json_object_get(
                        json_array_get(json_object_get(object, "gpus"), i), "events")) >= 0);
    free(text);
    json_decref(object);
}

static void a_forged_state_is_shown_safely(void **state)
{
    (void)state;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        skip();
    for (uint32_t i = 0; i < 2000; i++) {
        forge_run();
        lull_top_make_lines(&view, &lines);
        for (uint32_t l = 0; l < lines.count; l++)
            assert_true(is_shown_safely(lines.items[l].text));
        check_json(&view.entries[0]);
    }
}

static void times_of_a_forged_state_can_be_subtracted(void **state)
{
    (void)state;
    run.written_ns = run.begin_ns = run.gpus[0].section_begin_ns = INT64_MIN;
    run.begin_unix_ns = INT64_MIN;
    lull_live_check(&run);
    assert_int_equal(run.written_ns, 0);
    assert_int_equal(run.begin_ns, 0);
    assert_int_equal(run.begin_unix_ns, 0);
    assert_int_equal(run.gpus[0].section_begin_ns, 0);
}

/* A server under an objective, with all figures known. */
static void make_server(void)
{
    run.ruler = LULL_LIVE_BY_OBJECTIVE;
    run.iterations = 0;
    run.budget_earned_ms = lull_live_figure(NAN, LULL_LIVE_NOT_SOUGHT);
    run.serving = (struct lull_live_serving){
        .mode = LULL_LIVE_MODE_PROVEN,
        .engine = "vLLM",
        .reason = "1320 MHz keep the objective",
        .ttft_bound_ms = known(500.0),
        .tpot_bound_ms = known(50.0),
        .share_ratio = known(0.99),
        .running = known(7.0),
        .waiting = known(12.0),
        .requests = known(12345.0),
        .missed_ratio = known(0.0041),
        .missed_bound_ratio = known(0.003),
        .ttft_p50_ms = known(120.4),
        .ttft_p99_ms = known(1430.2),
        .tpot_p50_ms = known(31.26),
        .tpot_p99_ms = known(999.7),
        .tokens_per_s = known(1830.4),
        .j_per_output_token = known(0.4242),
        .j_per_request = known(88.12),
        .saved_ratio = known(0.312),
    };
}

static void a_server(void **state)
{
    (void)state;
    make_server();
    assert_line("  proven: 1320 MHz keep the objective");
    assert_non_null(
        find("  TTFT 500 ms, TPOT 50 ms, p99: 0.41 % of 12,345 missed (by Lull at most 0.3 %)"));
    assert_non_null(
        find("  vLLM: 7 running, 12 waiting; TTFT 120/1430 ms, TPOT 31.3/1000 ms (p50/p99)"));
    assert_non_null(find("  1830 tokens/s, 0.424 J/token, 88.1 J/request; 31 % saved"));
    for (uint32_t i = 1; i < 5; i++)
        assert_true(strlen(lines.items[i].text) <= 80);
    assert_non_null(find("  250 W, 22.50 kJ"));
    assert_null(find("iteration"));
    run.serving.mode = LULL_LIVE_MODE_IDLE;
    run.serving.parked_s = 10.0;
    run.serving.parked_since_ns = view.now_ns - 5 * LULL_NS_PER_S;
    assert_line("31 % saved; parked 15.0 s");
    run.serving.ttft_bound_ms = lull_live_figure(NAN, LULL_LIVE_NO_BOUND);
    assert_line("  TPOT 50 ms, p99: 0.41 %");
}

static void a_server_that_is_not_read(void **state)
{
    const struct lull_live_figure none = lull_live_figure(NAN, LULL_LIVE_NO_METRICS);

    (void)state;
    make_server();
    run.serving.mode = LULL_LIVE_MODE_BLIND;
    run.serving.running = run.serving.missed_ratio = run.serving.tokens_per_s = none;
    run.serving.saved_ratio = lull_live_figure(NAN, LULL_LIVE_TOO_EARLY);
    assert_line("  blind: 1320 MHz keep the objective");
    assert_int_equal(find("  blind")->style, LULL_TOP_WARNING);
    assert_non_null(find("p99: misses not known: the server's metrics are not read"));
    assert_non_null(find("  requests not known: the server's metrics are not read"));
    assert_non_null(find("  - tokens/s, 0.424 J/token, 88.1 J/request; saving not known"));
    run.serving.ttft_bound_ms = run.serving.tpot_bound_ms = none;
    assert_line("  no latency objective: only idle GPUs are lowered");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_that_has_settled, begin),
        cmocka_unit_test_setup(one_of_four_gpus_is_the_runs_and_three_are_not, begin),
        cmocka_unit_test_setup(what_is_not_known_is_no_figure, begin),
        cmocka_unit_test_setup(a_lost_gpu_has_no_figures_and_a_reason, begin),
        cmocka_unit_test_setup(several_ranks_on_one_gpu_leave_it_alone, begin),
        cmocka_unit_test_setup(what_lulld_says_of_other_gpus, begin),
        cmocka_unit_test_setup(a_clock_that_is_held_down_says_by_what, begin),
        cmocka_unit_test_setup(runs_that_do_nothing_now_say_so, begin),
        cmocka_unit_test_setup(text_of_others_is_harmless, begin),
        cmocka_unit_test(a_line_is_cut_between_characters),
        cmocka_unit_test_setup(times_of_a_forged_state_can_be_subtracted, begin),
        cmocka_unit_test_setup(a_forged_state_is_shown_safely, begin),
        cmocka_unit_test_setup(a_server, begin),
        cmocka_unit_test_setup(a_server_that_is_not_read, begin),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
