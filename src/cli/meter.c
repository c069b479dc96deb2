/* lull meter: the energy of GPUs for programs that ask, line by line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/shared/answers.h"
#include "governor/energy/energy_meter.h"
#include "governor/energy/window_meter.h"
#include "governor/report/report_fields.h"

/* ---- one sum ----------------------------------------------------------------------------- */

static int meter_command_answer(struct lull_energy_meter *meter)
{
    const double energy_j = lull_energy_meter_read(meter);

    if (isnan(energy_j))
        fputs("unknown\n", stdout);
    else
        printf("%.3f\n", energy_j);
    return fflush(stdout);
}

static int meter_command_sum(struct lull_error *err)
{
    struct lull_energy_meter meter;
    char *line = NULL;
    size_t size = 0;
    int result = lull_energy_meter_open(&meter, err);

    if (result < 0)
        return result;
    result = lull_energy_meter_begin(&meter, err);
    while (result == 0 && getline(&line, &size, stdin) > 0)
        if (meter_command_answer(&meter) == EOF)
            result = lull_error_set(err, -errno, "standard output cannot be written: %s",
                                    strerror(errno));
    free(line);
    lull_energy_meter_close(&meter);
    return result;
}

/* ---- windows ----------------------------------------------------------------------------- */

static const char *const node_names[LULL_RAPL_KINDS] = {
    [LULL_RAPL_CPU] = "cpu", [LULL_RAPL_DRAM] = "dram"};

static void meter_set_figure(json_t *object, const struct lull_window_meter_figure *figure)
{
    lull_field_known(object, "energy_j", figure->energy.joules, figure->is_known);
    lull_field_known(object, "uncertainty_j", figure->energy.uncertainty_j, figure->is_known);
    lull_field_boolean(object, "is_estimate", figure->is_known && figure->energy.is_estimate);
    lull_field_text(object, "reason", figure->is_known ? NULL : figure->reason);
}

static json_t *meter_gpus_json(const struct lull_window_meter *meter)
{
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < lull_window_meter_gpu_count(meter); i++) {
        const struct lull_device_info *info = lull_window_meter_gpu_info(meter, i);
        json_t *gpu = json_object();

        lull_field_integer(gpu, "gpu", i);
        lull_field_integer(gpu, "index", lull_window_meter_gpu_index(meter, i));
        lull_field_text(gpu, "name", info->name);
        lull_field_text(gpu, "uuid", info->uuid);
        lull_field_known(gpu, "power_limit_min_w", info->power_limit_min_mw * 1e-3,
                         info->power_limit_min_mw > 0);
        lull_field_known(gpu, "power_limit_max_w", info->power_limit_max_mw * 1e-3,
                         info->power_limit_max_mw > 0);
        json_array_append_new(gpus, gpu);
    }
    return gpus;
}

static json_t *meter_greeting(const struct lull_window_meter *meter)
{
    json_t *document = json_object();

    lull_field_json(document, "gpus", meter_gpus_json(meter));
    lull_field_text(document, "node_reason", lull_window_meter_node_reason(meter));
    return document;
}

static json_t *meter_failure(int result)
{
    if (result == -ENOENT)
        return lull_answers_error("no such window is open");
    if (result == -ENOSPC)
        return lull_answers_error("too many windows are open; close some of them");
    return lull_answers_error(strerror(-result));
}

static json_t *meter_number_json(int64_t number)
{
    json_t *document;

    if (number < 0)
        return meter_failure((int)number);
    document = json_object();
    lull_field_integer(document, "window", number);
    return document;
}

static json_t *meter_window_json(struct lull_window_meter *meter, int64_t number)
{
    struct lull_window_meter_figure figures[LULL_DEVICE_MAX_GPUS + LULL_RAPL_KINDS];
    const uint32_t gpu_count = lull_window_meter_gpu_count(meter);
    double seconds = 0.0;
    const int result = lull_window_meter_end(meter, number, &seconds, figures);
    json_t *document;
    json_t *gpus;

    if (result < 0)
        return meter_failure(result);
    document = json_object();
    gpus = json_array();
    lull_field_integer(document, "window", number);
    lull_field_number(document, "seconds", seconds);
    for (uint32_t i = 0; i < gpu_count; i++) {
        json_t *gpu = json_object();

        lull_field_integer(gpu, "gpu", i);
        meter_set_figure(gpu, &figures[i]);
        json_array_append_new(gpus, gpu);
    }
    lull_field_json(document, "gpus", gpus);
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        json_t *node = json_object();

        meter_set_figure(node, &figures[gpu_count + kind]);
        lull_field_json(document, node_names[kind], node);
    }
    return document;
}

/* The number behind a word and a space; -EINVAL: the line is something else. */
static int64_t meter_parse(const char *line, const char *word)
{
    const size_t length = strlen(word);
    int64_t number;

    if (strncmp(line, word, length) != 0 || line[length] != ' ' ||
        lull_text_parse_int(line + length + 1, 0, INT64_MAX, &number) < 0)
        return -EINVAL;
    return number;
}

static json_t *meter_answer(void *context, const char *line)
{
    struct lull_window_meter *meter = context;
    const int64_t ended = meter_parse(line, "end");
    const int64_t cancelled = meter_parse(line, "cancel");

    if (strcmp(line, "begin") == 0)
        return meter_number_json(lull_window_meter_begin(meter));
    if (ended >= 0)
        return meter_window_json(meter, ended);
    if (cancelled >= 0) {
        const int result = lull_window_meter_cancel(meter, cancelled);

        return meter_number_json(result < 0 ? result : cancelled);
    }
    return lull_answers_error("not a request; use begin, end N or cancel N");
}

static int meter_read(void *meter, struct lull_error *err)
{
    (void)err;
    lull_window_meter_read(meter);
    return 0;
}

static int meter_wait_ms(const void *meter)
{
    return lull_window_meter_is_open(meter) ? LULL_WINDOW_METER_OPEN_MS : LULL_WINDOW_METER_IDLE_MS;
}

static int meter_command_windows(struct lull_error *err)
{
    struct lull_window_meter *meter;
    int result = lull_window_meter_open(&meter, err);

    if (result < 0)
        return result;
    result = lull_answers_serve(
        &(struct lull_answers){
            .answer = meter_answer, .idle = meter_read, .wait_ms = meter_wait_ms, .context = meter},
        meter_greeting(meter), err);
    lull_window_meter_close(meter);
    return result;
}

/* ---- the command ------------------------------------------------------------------------- */

struct meter_arguments {
    bool is_windows;
};

static int meter_command_run(void *options, const struct lull_operands *operands)
{
    const struct meter_arguments *const arguments = options;
    struct lull_error err = {0};
    int result;

    (void)operands;
    if (arguments->is_windows)
        result = meter_command_windows(&err);
    else
        result = meter_command_sum(&err);
    return result < 0 ? lull_cli_fail("meter", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_FLAG("windows", struct meter_arguments, is_windows,
              "Measure windows: print a line of JSON about the GPUs, then answer the lines begin, "
              "end N and cancel N with one each.",
              .more =
                  "N is the number that begin returned. Each GPU, the processors and the memory "
                  "have energy_j and uncertainty_j, half of the 95 % interval; null is not "
                  "known, with the reason."),
    {0},
};

const struct lull_program_command lull_meter_command = {
    .name = "meter",
    .summary = "answer each line of input with the energy that GPUs have drawn",
    .about =
        "Answers each line of standard input with the energy (J) that the GPUs used since the "
        "start, from their counters, or with the word unknown. CUDA_VISIBLE_DEVICES and "
        "similar variables select the GPUs. Exits at the end of input. For batch systems, "
        "whose plugins must not wait for a driver; with --windows for programs such as those of "
        "the Python package.",
    .tables = {{rows, 0}},
    .size = sizeof(struct meter_arguments),
    .run = meter_command_run,
};
