/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/live_json.h"
#include "cli/node_json.h"
#include "cli/top/lines.h"
#include "cli/top/screen.h"
#include "governor/report/report_fields.h"
#include "wire/job_file.h"

/* Time that a single view waits for the driver: eight readings of each of 64 GPUs take less if a
 * reading takes a millisecond. */
enum { ONCE_MS = 1000 };

enum { MAX_PIDS = 64 };

struct top_arguments {
    bool is_once;
    bool is_json;
    int64_t interval_ns;
    const char *runtime_dir;
    const char *directory;
};

/* ---- JSON -------------------------------------------------------------------------------- */

/* Finds the name of the run that uses a GPU; NULL: none does. */
static const char *top_command_run_of(const struct lull_top_view *view, const char *uuid)
{
    for (uint32_t i = 0; i < view->run_count; i++)
        if (lull_top_gpu_of(view->runs[i], uuid) != NULL)
            return view->entries[i].file;
    return NULL;
}

/* If a driver hangs in a reading of a GPU, none of its readings is valid. */
static json_t *top_command_gpu_as_json(const struct lull_top_view *view,
                                       const struct lull_top_gpu *gpu)
{
    static const struct lull_device_reading none;
    json_t *object = json_object();

    if (gpu->info != NULL) {
        json_decref(object);
        object = lull_node_gpu_json(gpu->index, gpu->info, gpu->is_stuck ? &none : &gpu->reading);
    }
    lull_field_json(object, "lulld",
                    gpu->has_state ? lull_node_state_json(&gpu->state) : json_null());
    lull_field_text(
        object, "run",
        top_command_run_of(view, gpu->info != NULL ? gpu->info->uuid : gpu->state.uuid));
    return object;
}

static int top_command_print_json(const struct lull_top_view *view)
{
    json_t *document = json_object();
    json_t *runs = json_array();
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < view->run_count; i++)
        json_array_append_new(runs,
                              lull_live_run_json(&view->entries[i], view->runs[i], view->now_ns));
    for (uint32_t i = 0; i < view->gpu_count; i++)
        json_array_append_new(gpus, top_command_gpu_as_json(view, &view->gpus[i]));
    lull_field_text(document, "host", view->host);
    lull_field_text(document, "driver_reason", view->has_driver ? NULL : view->no_driver.text);
    lull_field_text(document, "lulld_reason", view->has_daemon ? NULL : view->no_daemon.text);
    lull_field_json(document, "runs", runs);
    lull_field_json(document, "gpus", gpus);
    return lull_cli_print_json(document, 0);
}

/* ---- text -------------------------------------------------------------------------------- */

static void top_command_print_text(const struct lull_top_view *view)
{
    struct lull_top_lines lines = {0};
    char title[256];

    lull_top_title(view, title, sizeof(title));
    lull_top_make_lines(view, &lines);
    printf("%s\n%s\n", title, lull_top_columns());
    for (uint32_t i = 0; i < lines.count; i++)
        printf("%s\n", lines.items[i].text);
    lull_top_lines_fini(&lines);
}

/* ---- the command ------------------------------------------------------------------------- */

static int parse_pids(const struct lull_operands *operands, int64_t *pids, struct lull_error *err)
{
    for (uint32_t i = 0; i < operands->count; i++)
        if (lull_text_parse_int(operands->words[i], 1, INT32_MAX, &pids[i]) < 0)
            return lull_error_set(err, -EINVAL,
                                  "%.60s: must be the number of a run, as shown by lull top",
                                  operands->words[i]);
    return 0;
}

static int top_command_show(const struct top_arguments *arguments,
                            const struct lull_top_options *options, struct lull_error *err)
{
    struct lull_top *top;
    int result = lull_top_open(options, &top, err);

    if (result < 0)
        return result;
    if (arguments->is_json)
        result = top_command_print_json(lull_top_look(top, ONCE_MS));
    else if (arguments->is_once)
        top_command_print_text(lull_top_look(top, ONCE_MS));
    else
        result = lull_top_show_screen(top, options, arguments->interval_ns, err);
    lull_top_close(top);
    return result;
}

static int top_command_run(void *given, const struct lull_operands *operands)
{
    const struct top_arguments *const arguments = given;
    int64_t pids[MAX_PIDS];
    const struct lull_top_options options = {
        .directory = arguments->directory,
        .runtime_dir = arguments->runtime_dir,
        .pids = pids,
        .pid_count = operands->count,
    };
    struct lull_error err = {0};

    if (parse_pids(operands, pids, &err) < 0 || top_command_show(arguments, &options, &err) < 0)
        return lull_cli_fail("top", &err);
    return LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_FLAG("once", struct top_arguments, is_once,
              "Print once as plain text; needs no terminal."),
    LULL_JSON_ROW(struct top_arguments, is_json),
    LULL_VALUE("every", "S", TIME, struct top_arguments, interval_ns,
               "Seconds between two updates.", .least = 0.2, .most = 60, .default_value = "1"),
    LULL_CLI_RUNTIME_DIR_ROW(struct top_arguments, runtime_dir),
    LULL_VALUE("jobs-dir", "DIR", TEXT, struct top_arguments, directory,
               "Directory in which runs publish their state.", .hint = LULL_OPTION_FOLDER,
               .default_value = LULL_JOB_DIRECTORY),
    {0},
};

const struct lull_program_command lull_top_command = {
    .name = "top",
    .summary = "watch runs and GPUs, pause and restore",
    .arguments = "[RUN...]",
    .about = "Shows the active runs on this node: their searches, savings and GPUs, with clocks, "
             "leases, power and the current section. Requires no privileges. Keys pause your own "
             "runs and restore the node. RUN is the process number of a run; default: all runs.",
    .tables = {{rows, 0}},
    .operands = {.most = MAX_PIDS},
    .size = sizeof(struct top_arguments),
    .run = top_command_run,
};
