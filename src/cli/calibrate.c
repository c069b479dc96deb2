/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/state_directory.h"
#include "base/json_string.h"
#include "base/text.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/shared/stop_signals.h"
#include "governor/control/calibrate.h"

struct calibrate_arguments {
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t gpu_count; /* 0: all GPUs of the node */
    uint32_t rounds;
    bool is_json;
    bool no_daemon;
    const char *runtime_dir;
    char **command;
};

static int calibrate_parse_gpu(const char *text, void *place, struct lull_error *err)
{
    struct calibrate_arguments *const arguments = place;
    int64_t gpu = 0;

    (void)err;
    if (lull_text_parse_int(text, 0, LULL_DEVICE_MAX_GPUS - 1, &gpu) < 0)
        return -EINVAL;
    for (uint32_t i = 0; i < arguments->gpu_count; i++)
        if (arguments->gpus[i] == (uint32_t)gpu)
            return 0;
    arguments->gpus[arguments->gpu_count++] = (uint32_t)gpu;
    return 0;
}

static const struct lull_option rows[] = {
    {.name = "gpu",
     .letter = 'g',
     .value = "N",
     .type = LULL_OPTION_OWN,
     .parse = calibrate_parse_gpu,
     .expected = "a GPU number as shown by `lull gpus`",
     .otherwise = "all GPUs",
     .help = "Measure this GPU, as `lull gpus` numbers it; may be given again."},
    LULL_VALUE("rounds", "N", WHOLE, struct calibrate_arguments, rounds,
               "How many times each clock is switched to and back.", .least = 1,
               .most = LULL_CALIBRATION_SWITCHES, .default_value = "20"),
    LULL_JSON_ROW(struct calibrate_arguments, is_json),
    LULL_CLI_NO_DAEMON_ROW(struct calibrate_arguments, no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(struct calibrate_arguments, runtime_dir),
    {0},
};

/* ---- while it runs ----------------------------------------------------------------------- */

struct progress_line {
    struct lull_stop_signals stop;
    bool is_terminal;
};

/* The clocks are restored before a signal ends this. */
static bool calibrate_is_stopped(void *context)
{
    return lull_is_stopped(&((struct progress_line *)context)->stop);
}

static void calibrate_show_progress(void *context, uint32_t done, uint32_t total)
{
    const struct progress_line *progress_line = context;

    if (progress_line->is_terminal)
        lull_progress_draw("lull: round %u of %u", done, total);
}

/* ---- what was measured ---- */

struct measured_gpus {
    uint32_t gpus[LULL_DEVICE_MAX_GPUS]; /* their numbers */
    uint32_t count;                      /* of those with a record */
    bool is_whole;                       /* nothing stopped any of them */
    struct lull_calibration_record *records;
    struct lull_calibrate_outcome *outcomes; /* of all GPUs that were requested */
};

/* Moves the records of which there is something to the front. */
static void calibrate_collect(const struct calibrate_arguments *arguments,
                              struct measured_gpus *findings)
{
    findings->is_whole = true;
    for (uint32_t i = 0; i < arguments->gpu_count; i++) {
        if (findings->outcomes[i].rounds == 0)
            continue;
        if (findings->outcomes[i].rounds < arguments->rounds)
            findings->is_whole = false;
        findings->gpus[findings->count] = arguments->gpus[i];
        if (findings->count != i)
            findings->records[findings->count] = findings->records[i];
        findings->count++;
    }
}

/* Reports which GPUs were left out, unless the final error reports the same. */
static void calibrate_report_left_out(const struct calibrate_arguments *arguments,
                                      const struct measured_gpus *findings)
{
    if (findings->count == 0)
        return;
    for (uint32_t i = 0; i < arguments->gpu_count; i++)
        if (findings->outcomes[i].reason.code != 0)
            fprintf(stderr, "lull calibrate: left out: %s\n", findings->outcomes[i].reason.text);
}

/* ---- what it found ----------------------------------------------------------------------- */

static void print_quantiles(const struct lull_calibration_switches *switches,
                            double (*quantile)(const struct lull_calibration_switches *, double))
{
    static const double places[] = {0.5, 0.9, 0.99};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const double value = quantile(switches, places[i]);

        if (isfinite(value))
            printf(" %7.1f", value);
        else
            printf(" %7s", "-");
    }
}

static void print_direction(uint32_t from_mhz, uint32_t to_mhz,
                            const struct lull_calibration_switches *switches)
{
    printf("  %5u -> %5u MHz  ", from_mhz, to_mhz);
    print_quantiles(switches, lull_calibration_call_ms);
    printf("   ");
    print_quantiles(switches, lull_calibration_settle_ms);
    printf("\n");
}

static void print_record(uint32_t gpu, const struct lull_calibration_record *record)
{
    printf("GPU %u  %s, driver %s\n", gpu, record->gpu_name, record->driver_version);
    printf("%22s %24s   %24s\n", "", "driver call, ms", "settling, ms");
    printf("%22s %8s%8s%8s   %8s%8s%8s\n", "", "p50", "p90", "p99", "p50", "p90", "p99");
    for (uint32_t i = 0; i < record->target_count; i++) {
        const struct lull_calibration_target *target = &record->targets[i];

        print_direction(record->reference_mhz, target->sm_mhz,
                        &target->directions[LULL_DIRECTION_DOWN]);
        print_direction(target->sm_mhz, record->reference_mhz,
                        &target->directions[LULL_DIRECTION_UP]);
    }
}

static void print_table(const struct measured_gpus *findings)
{
    const struct lull_calibration_record *const records = findings->records;

    for (uint32_t i = 0; i < findings->count; i++)
        print_record(findings->gpus[i], &records[i]);
    if (records[0].together_gpus > 0)
        printf("Time to request a clock of all %u GPUs at once: p50 %.1f, p90 %.1f, p99 %.1f ms\n",
               records[0].together_gpus, lull_calibration_together_ms(&records[0], 0.5),
               lull_calibration_together_ms(&records[0], 0.9),
               lull_calibration_together_ms(&records[0], 0.99));
}

static void calibrate_print_json(const struct calibrate_arguments *arguments,
                                 const struct measured_gpus *findings)
{
    json_t *gpus = json_array();
    json_t *left_out = json_array();
    json_t *document = json_pack("{s:o, s:o}", "gpus", gpus, "left_out", left_out);

    for (uint32_t i = 0; i < findings->count; i++) {
        json_t *gpu = lull_calibration_json(&findings->records[i]);

        json_object_set_new(gpu, "index", json_integer((json_int_t)findings->gpus[i]));
        json_array_append_new(gpus, gpu);
    }
    for (uint32_t i = 0; i < arguments->gpu_count; i++)
        if (findings->outcomes[i].reason.code != 0)
            json_array_append_new(
                left_out, json_pack("{s:I, s:o}", "index", (json_int_t)arguments->gpus[i], "reason",
                                    lull_json_string(findings->outcomes[i].reason.text)));
    lull_cli_print_json(document, 0);
}

/* ---- storing ----------------------------------------------------------------------------- */

static uint32_t count_model(const struct lull_calibration_record *records, uint32_t count,
                            const char *gpu_name)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += strcmp(records[i].gpu_name, gpu_name) == 0;
    return found;
}

/* Returns whether what is stored of the same model and driver holds more switches. */
static bool calibrate_has_more(const char *directory, const struct lull_calibration_record *record)
{
    struct lull_calibration_record *const stored = malloc(sizeof(*stored));
    bool is_more = false;

    if (stored != NULL && lull_calibration_load(directory, record->gpu_name, record->driver_version,
                                                stored, NULL) == 0)
        is_more = stored->targets[0].directions[LULL_DIRECTION_DOWN].count >
                  record->targets[0].directions[LULL_DIRECTION_DOWN].count;
    free(stored);
    return is_more;
}

/* Stores one file for a GPU model. It has the same number of switches from each GPU of that model.
 */
static int store_model(const struct measured_gpus *findings, uint32_t first, const char *directory,
                       struct lull_error *err)
{
    const struct lull_calibration_record *const records = findings->records;
    const uint32_t count = findings->count;
    const uint32_t gpus = count_model(records, count, records[first].gpu_name);
    struct lull_calibration_record *merged = malloc(sizeof(*merged));
    char path[PATH_MAX];
    int result;

    if (merged == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory to store the calibration");
    *merged = records[first];
    for (uint32_t i = 0; i < merged->target_count; i++)
        for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
            merged->targets[i].directions[k].count = 0;
    for (uint32_t i = first; i < count; i++)
        if (strcmp(records[i].gpu_name, merged->gpu_name) == 0)
            lull_calibration_merge(merged, &records[i],
                                   (LULL_CALIBRATION_SWITCHES + gpus - 1) / gpus);
    if (!findings->is_whole && calibrate_has_more(directory, merged)) {
        fprintf(stderr, "lull calibrate: not stored: the stored calibration of this GPU has more "
                        "measurements\n");
        free(merged);
        return 0;
    }
    result = lull_calibration_store(directory, merged, path, err);
    if (result == 0)
        fprintf(stderr, "lull calibrate: stored in %s\n", path);
    free(merged);
    return result;
}

static int calibrate_write_file(const struct measured_gpus *findings, struct lull_error *err)
{
    const struct lull_calibration_record *const records = findings->records;
    char directory[PATH_MAX];
    int result = lull_state_directory_find(NULL, directory, sizeof(directory), err);

    for (uint32_t i = 0; i < findings->count && result == 0; i++)
        if (count_model(records, i, records[i].gpu_name) == 0)
            result = store_model(findings, i, directory, err);
    return result;
}

/* ---- all of it --------------------------------------------------------------------------- */

static int calibrate_choose_gpus(struct calibrate_arguments *arguments,
                                 const struct lull_devices *devices, struct lull_error *err)
{
    const uint32_t count = lull_devices_count(devices);

    for (uint32_t i = 0; i < arguments->gpu_count; i++)
        if (arguments->gpus[i] >= count)
            return lull_error_set(err, LULL_E_NO_DEVICE,
                                  "--gpu %u: this node has %u; see lull gpus", arguments->gpus[i],
                                  count);
    if (arguments->gpu_count == 0)
        for (uint32_t i = 0; i < count && i < LULL_DEVICE_MAX_GPUS; i++)
            arguments->gpus[arguments->gpu_count++] = i;
    return 0;
}

/* Prints and stores what there is, also of a measurement that was stopped. */
static int calibrate_save(const struct calibrate_arguments *arguments,
                          struct measured_gpus *findings, struct lull_error *err)
{
    calibrate_collect(arguments, findings);
    calibrate_report_left_out(arguments, findings);
    if (findings->count == 0)
        return 0;
    if (arguments->is_json)
        calibrate_print_json(arguments, findings);
    else
        print_table(findings);
    return calibrate_write_file(findings, err);
}

/* Returns the exit status. */
static int calibrate_gpus(const struct calibrate_arguments *arguments, struct lull_devices *devices)
{
    struct progress_line progress_line;
    const struct lull_calibrate_options wanted = {
        .runtime_dir = arguments->runtime_dir,
        .no_daemon = arguments->no_daemon,
        .gpus = arguments->gpus,
        .gpu_count = arguments->gpu_count,
        .rounds = arguments->rounds,
        .command = arguments->command,
        .is_stopped = calibrate_is_stopped,
        .progress = calibrate_show_progress,
        .context = &progress_line,
    };
    struct measured_gpus findings = {
        .records = calloc(arguments->gpu_count, sizeof(*findings.records)),
        .outcomes = calloc(arguments->gpu_count, sizeof(*findings.outcomes)),
    };
    struct lull_error measured = {0};
    struct lull_error kept = {0};
    int status = LULL_EXIT_OK;
    int result;

    if (findings.records == NULL || findings.outcomes == NULL) {
        lull_error_set(&measured, -ENOMEM, "not enough memory for the measurements");
        status = lull_cli_fail("calibrate", &measured);
        goto free;
    }
    lull_stop_signals_begin(&progress_line.stop);
    progress_line.is_terminal = isatty(STDERR_FILENO) == 1;
    result = lull_calibrate(devices, &wanted, findings.records, findings.outcomes, &measured);
    if (progress_line.is_terminal)
        lull_progress_draw("%s", "");
    if (result < 0)
        status = lull_cli_fail("calibrate", &measured);
    if (calibrate_save(arguments, &findings, &kept) < 0)
        status = lull_cli_fail("calibrate", &kept);
    if (progress_line.stop.stopped_by != 0)
        status = 128 + progress_line.stop.stopped_by;
free:
    free(findings.outcomes);
    free(findings.records);
    return status;
}

static int calibrate_command(void *options, const struct lull_operands *operands)
{
    struct calibrate_arguments *const arguments = options;
    struct lull_devices *devices;
    struct lull_error err = {0};
    int status;

    arguments->command = operands->command;
    if (lull_devices_open(&devices, &err) < 0)
        return lull_cli_fail("calibrate", &err);
    if (calibrate_choose_gpus(arguments, devices, &err) < 0)
        status = lull_cli_fail("calibrate", &err);
    else
        status = calibrate_gpus(arguments, devices);
    lull_devices_close(devices);
    return status;
}

const struct lull_program_command lull_calibrate_command = {
    .name = "calibrate",
    .summary = "measure the cost of clock changes on this node",
    .arguments = "[-- COMMAND [ARG...]]",
    .about =
        "Measures how long switching the SM clock takes on the GPUs of this node, and stores it "
        "for `lull run`. Do this once per GPU model and driver version on each node; root's result "
        "holds for all users. An idle GPU does not show when its clock has settled. Calibrate "
        "while a job runs, or give a COMMAND that keeps the GPUs busy; it is stopped afterwards. "
        "GPUs that are idle or leased to another client are skipped. All clocks are restored.",
    .after = "Examples:\n"
             "  lull calibrate -- ./gpu-burn 600\n"
             "  lull calibrate --gpu 0 --rounds 50",
    .tables = {{rows, 0}},
    .operands = {.takes_command = true},
    .size = sizeof(struct calibrate_arguments),
    .run = calibrate_command,
};
