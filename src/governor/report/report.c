/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_string.h"
#include "base/path.h"
#include "governor/report/frontier_report.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/serving_report.h"
#include "governor/report/timeline.h"
#include "governor/report/verdict_lines.h"

static bool run_document_is_used(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_control_gpu *const state = lull_control_gpu(report->managed, gpu);

    return state->process >= 0 || (report->serving != NULL && state->leased);
}

static json_t *strings_json(const char *const *strings)
{
    json_t *array = json_array();

    for (; strings != NULL && *strings != NULL; strings++)
        json_array_append_new(array, lull_json_string(*strings));
    return array;
}

static json_t *gpus_json(const struct lull_report *report)
{
    json_t *gpus = json_array();

    if (report->managed == NULL)
        return gpus;
    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++)
        if (run_document_is_used(report, i))
            json_array_append_new(gpus, lull_gpu_report_json(report, i));
    return gpus;
}

static json_t *peers_json(const struct lull_peers_summary *peers)
{
    json_t *object;

    if (peers == NULL)
        return json_null();
    object = json_object();
    lull_field_integer(object, "nodes", peers->nodes);
    lull_field_integer(object, "heard", peers->received);
    lull_field_integer(object, "agreed", peers->agreed);
    lull_field_integer(object, "disagreements", (json_int_t)peers->disagreements);
    lull_field_integer(object, "refused", (json_int_t)peers->refused);
    lull_field_text(object, "state", peers->state);
    return object;
}

static void find_frontier(const struct lull_report *report,
                          struct lull_job_frontier_point *points_out)
{
    const struct lull_report_gain gain = lull_verdict_gain(report);

    lull_tried_report_frontier(report, &gain, points_out);
}

static json_t *frontier_json(const struct lull_report *report)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    if (report->frontier == NULL)
        return json_null();
    find_frontier(report, points);
    return lull_job_frontier_report_json(points);
}

static json_t *report_json(const struct lull_report *report)
{
    const char *driver_version =
        report->devices != NULL ? lull_devices_driver_version(report->devices) : "";
    json_t *root = json_object();

    lull_field_integer(root, "version", 2);
    lull_field_json(root, "command", strings_json((const char *const *)report->command));
    lull_field_integer(root, "status", report->status);
    lull_field_text(root, "driver_version", driver_version);
    lull_field_number(root, "tolerance_ratio", report->tolerance_ratio);
    lull_field_json(root, "verdict", lull_verdict_report_json(report));
    lull_run_report_add(report, root);
    lull_field_json(root, "frontier", frontier_json(report));
    lull_field_json(root, "tried", lull_tried_report_json(report));
    lull_field_json(root, "levers", lull_levers_report_json(report));
    lull_field_json(root, "gpus", gpus_json(report));
    lull_field_json(root, "together", peers_json(report->peers));
    lull_field_json(root, "pipeline", lull_pipeline_report_json(report));
    lull_field_json(root, "power_limit", lull_limits_report_json(report));
    lull_field_json(root, "serving", lull_serving_report_json(report));
    lull_field_json(root, "energy", lull_energy_report_json(&report->energy));
    lull_field_json(root, "cost", lull_cost_report_json(report));
    lull_field_json(root, "missing_right", lull_prospect_report_json(report));
    lull_field_json(root, "swing", lull_swing_report_json(report));
    lull_field_json(root, "smoothing", lull_smoothing_report_json(report));
    lull_field_json(root, "timeline", lull_timeline_report_json(report));
    lull_field_json(root, "hangs", lull_hang_report_json(report->hangs));
    lull_field_json(root, "notes", strings_json(report->notes));
    return root;
}

static int write_json(const json_t *root, const char *path, struct lull_error *err)
{
    char *const text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    int result;

    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for the report", path);
    result = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return result;
}

struct report_files {
    const struct lull_report *report;
    const json_t *root; /* of report.json */
    const char *directory;
};

/* In a process of its own: the folder's file system may hang. */
static int report_write_files(void *context, struct lull_error *err)
{
    const struct report_files *const files = context;
    const struct lull_report *const report = files->report;
    const char *const directory = files->directory;
    char path[PATH_MAX];
    int result = lull_file_make_directory(directory, 0777, err);

    if (result < 0)
        return result;
    if ((size_t)snprintf(path, sizeof(path), "%s/report.json", directory) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    result = write_json(files->root, path, err);
    if (result == 0 && report->online != NULL)
        result = lull_online_write_profile(report->online, directory, err);
    if (result == 0 && report->managed != NULL)
        result = lull_timeline_write(
            report->devices, report->managed,
            json_string_value(json_object_get(json_object_get(files->root, "verdict"), "sentence")),
            directory, err);
    return result;
}

int lull_report_write(const struct lull_report *report, const char *directory,
                      struct lull_error *err)
{
    json_t *const root = report_json(report);
    struct report_files files = {report, root, directory};
    const int result =
        lull_path_do(directory, LULL_PATH_FILE_MS, report_write_files, &files, sizeof(files), err);

    json_decref(root);
    return result;
}

/* Prints the savings at other tolerances. Under a power limit no trial has compared clocks. */
static void run_document_print_frontier(const struct lull_report *report, FILE *out)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    char text[1024];

    if (report->frontier == NULL || report->limits != NULL || report->runner != NULL)
        return;
    find_frontier(report, points);
    fprintf(out, "  %s\n\n", lull_job_frontier_report_text(points, text, sizeof(text)));
}

/* Prints the state of the job's other nodes, if there are any. */
static void print_peers(const struct lull_peers_summary *peers, FILE *out)
{
    if (peers == NULL)
        return;
    fprintf(out, "  nodes: %u of %u connected, %s", peers->received, peers->nodes, peers->state);
    if (peers->agreed > 0)
        fprintf(out, "; clocks that all of them have lowered: %u", peers->agreed);
    if (peers->refused > 0)
        fprintf(out, "; connections without the job key refused: %" PRIu64, peers->refused);
    fprintf(out, "\n");
}

/* Prints the findings, except for the one that the lines at the end have. */
static void print_findings(const struct lull_report *report, FILE *out)
{
    const struct lull_report_gain gain = lull_verdict_gain(report);
    const bool is_first_shown = lull_verdict_lines_have_finding(report, &gain);

    for (uint32_t i = 0; report->findings[i] != NULL; i++)
        if (i > 0 || !is_first_shown)
            fprintf(out, "\n  %s\n", report->findings[i]);
}

/* Prints the tables, which the page and report.json have too. */
static void print_details(const struct lull_report *report, FILE *out)
{
    lull_verdict_report_print_basis(report, out);
    lull_prospect_report_print_basis(report, out);
    print_findings(report, out);
    if (report->managed == NULL)
        return;
    lull_run_report_print(report, out);
    print_peers(report->peers, out);
    run_document_print_frontier(report, out);
    lull_pipeline_report_print(report, out);
    lull_limits_report_print(report, out);
    lull_serving_report_print(report, out);
    lull_swing_report_print(report, out);
    lull_smoothing_report_print(report, out);
    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++)
        if (run_document_is_used(report, i))
            lull_gpu_report_print(report, i, out);
    lull_levers_report_print(report, out);
    lull_energy_report_print(&report->energy, out);
    lull_cost_report_print(report, out);
}

void lull_report_print(const struct lull_report *report, FILE *out)
{
    if (report->verbose)
        print_details(report, out);
    lull_verdict_report_print(report, out);
    lull_prospect_report_print(report, out);
    if (report->folder != NULL)
        fprintf(out, "  Report: %s/report.html%s\n", report->folder,
                report->verbose ? "" : " (--verbose prints details here)");
}
