/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/plan_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"

static void write_seconds(FILE *file, const char *before, int64_t time_ns)
{
    fprintf(file, "%s%" PRId64 ".%09" PRId64, before, time_ns / 1000000000, time_ns % 1000000000);
}

static void plan_writer_write_real(FILE *file, const char *before, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    fprintf(file, "%s%s", before, text);
}

static void write_text(FILE *file, const char *member, const char *text)
{
    size_t left = strlen(text);

    fprintf(file, "  \"%s\": \"", member);
    while (left > 0) {
        const struct lull_printable_piece piece =
            lull_printable_take(LULL_PRINTABLE_LINE, text, left);

        if (*text != '"' && *text != '\\')
            fwrite(piece.text, 1, piece.length, file);
        text += piece.taken;
        left -= piece.taken;
    }
    fprintf(file, "\",\n");
}

static void plan_writer_write_head(const struct lull_plan_file *plan, FILE *file)
{
    fprintf(file, "{\n  \"lull_plan\": 1,\n");
    write_text(file, "title", plan->title);
    if (plan->planner[0] != '\0')
        write_text(file, "planner", plan->planner);
    fprintf(file, "  \"parts\": %" PRId64 ",\n", plan->parts);
    write_seconds(file, "  \"deadline_s\": ", plan->deadline_ns);
    write_seconds(file, ",\n  \"period_s\": ", plan->period_ns);
    write_seconds(file, ",\n  \"time_s\": ", plan->time_ns);
    plan_writer_write_real(file, ",\n  \"energy_j\": ", plan->energy_j);
    plan_writer_write_real(file, ",\n  \"bound_j\": ", plan->bound_j);
    write_seconds(file, ",\n  \"switching\": {\"down_s\": ", plan->switching.down_ns);
    write_seconds(file, ", \"up_s\": ", plan->switching.up_ns);
    write_seconds(file, ", \"dwell_s\": ", plan->switching.dwell_ns);
    if (plan->switching.is_fed_forward)
        write_seconds(file, ", \"feed_forward\": 1, \"early_s\": ", plan->switching.early_ns);
    if (plan->switching.call_ns > 0) {
        write_seconds(file, ", \"call_s\": ", plan->switching.call_ns);
        fprintf(file, ", \"drivers\": %" PRIu32, plan->switching.drivers);
    }
    plan_writer_write_real(file, "},\n  \"flow\": {\"unit_w\": ", plan->certificate.unit_w);
    fprintf(file, ", \"value\": %" PRId64 "},\n", plan->certificate.value);
}

static void write_class(const struct lull_pipeline_class *operations, FILE *file)
{
    fprintf(file, "{\"operation\": \"%s\", \"stage\": %u, \"partner\": %u",
            lull_pipeline_kind_name(operations->kind), operations->stage, operations->partner);
    if (operations->copy != 0)
        fprintf(file, ", \"copy\": %u", operations->copy);
    fprintf(file, ", \"options\": [");
    for (size_t i = 0; i < operations->point_count; i++) {
        const struct lull_pipeline_point *const option = &operations->points[i];

        fprintf(file, "%s[%u, ", i > 0 ? ", " : "", option->sm_mhz);
        write_seconds(file, "", option->time_ns);
        fprintf(file, ", %" PRId64 ".%09" PRId64 "]", option->energy_nj / 1000000000,
                option->energy_nj % 1000000000);
    }
    fprintf(file, "]}");
}

/* Members that are 0 in most plans are left out, to keep files small. */
static void plan_writer_write_operation(const struct lull_plan_file *plan, uint32_t op, FILE *file)
{
    const struct lull_pipeline_op *const entry = &plan->graph.ops[op];
    const struct lull_pipeline_class *const operations = &plan->profile.classes[entry->class_index];

    fprintf(file, "{\"operation\": \"%s\", \"stage\": %u, \"microbatch\": %u, \"sm_mhz\": %u",
            lull_pipeline_kind_name(operations->kind), operations->stage, entry->microbatch,
            operations->points[plan->option[op]].sm_mhz);
    if (operations->partner != 0)
        fprintf(file, ", \"partner\": %u", operations->partner);
    if (operations->copy != 0)
        fprintf(file, ", \"copy\": %u", operations->copy);
    if (entry->chunk != 0)
        fprintf(file, ", \"chunk\": %u", entry->chunk);
    fprintf(file, ", \"flow\": %" PRId64 "}", plan->certificate.op_flow[op]);
}

static void write_device(const struct lull_plan_file *plan, uint32_t device, FILE *file)
{
    const struct lull_pipeline_graph *const graph = &plan->graph;

    plan_writer_write_real(file, "    {\"blocking_w\": ", plan->blocking_w[device]);
    fprintf(file, ", \"operations\": [");
    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        fprintf(file, "%s\n      ", i > graph->first_on[device] ? "," : "");
        plan_writer_write_operation(plan, graph->on_device[i], file);
    }
    fprintf(file, "]}");
}

/* Writes what stands before the tuple with this index: four of them share a line. */
static void write_separator(size_t index, FILE *file)
{
    if (index > 0)
        putc(',', file);
    fputs(index % 4 == 0 ? "\n    " : " ", file);
}

static void plan_writer_write_point(const struct lull_pipeline_waiting_point *point, FILE *file)
{
    fprintf(file, "{\"sm_mhz\": %u", point->sm_mhz);
    plan_writer_write_real(file, ", \"power_w\": ", point->power_w);
    write_seconds(file, ", \"down_s\": ", point->down_ns);
    write_seconds(file, ", \"up_s\": ", point->up_ns);
    plan_writer_write_real(file, ", \"switch_j\": ", point->switch_j);
    fprintf(file, "}");
}

/* Writes the member "waiting", if the plan has clocks for waiting. number: of every operation in
 * the file. */
static void write_waits(const struct lull_plan_file *plan, const uint32_t *number, FILE *file)
{
    if (plan->waiting_point_count == 0)
        return;
    plan_writer_write_real(file, "  \"waiting\": {\"saved_j\": ", plan->waiting_saved_j);
    fprintf(file, ", \"points\": [");
    for (size_t i = 0; i < plan->waiting_point_count; i++) {
        fprintf(file, "%s\n    ", i > 0 ? "," : "");
        plan_writer_write_point(&plan->waiting_points[i], file);
    }
    fprintf(file, "],\n    \"gaps\": [");
    for (size_t i = 0; i < plan->wait_count; i++) {
        const struct lull_pipeline_wait *const wait = &plan->waits[i];
        const size_t before =
            wait->before_op == UINT32_MAX ? plan->graph.op_count : number[wait->before_op];

        write_separator(i, file);
        fprintf(file, "[%u, %zu, %u, ", wait->device, before, wait->point);
        write_seconds(file, "", wait->begin_ns);
        write_seconds(file, ", ", wait->wake_ns);
        fprintf(file, "]");
    }
    fprintf(file, "]},\n");
}

/* Operations are numbered as they stand in the file: device by device, each in its order. */
static void write_edges(const struct lull_plan_file *plan, const uint32_t *number, FILE *file)
{
    const struct lull_pipeline_graph *const graph = &plan->graph;

    fprintf(file, "  \"edges\": [");
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[i];

        write_separator(i, file);
        fprintf(file, "[%u, %u, ", number[edge->from], number[edge->to]);
        write_seconds(file, "", edge->latency_ns);
        fprintf(file, ", %" PRId64 "]", plan->certificate.edge_flow[i]);
    }
    fprintf(file, "]\n}\n");
}

int lull_plan_file_write(const struct lull_plan_file *plan, FILE *file)
{
    const struct lull_pipeline_graph *const graph = &plan->graph;
    uint32_t *const number = calloc(graph->op_count, sizeof(*number));

    if (number == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < graph->op_count; i++)
        number[graph->on_device[i]] = i;
    plan_writer_write_head(plan, file);
    write_waits(plan, number, file);
    fprintf(file, "  \"classes\": [\n");
    for (size_t i = 0; i < plan->profile.class_count; i++) {
        fprintf(file, "%s    ", i > 0 ? ",\n" : "");
        write_class(&plan->profile.classes[i], file);
    }
    fprintf(file, "],\n  \"devices\": [\n");
    for (uint32_t device = 0; device < graph->device_count; device++) {
        fprintf(file, "%s", device > 0 ? ",\n" : "");
        write_device(plan, device, file);
    }
    fprintf(file, "],\n");
    write_edges(plan, number, file);
    free(number);
    return 0;
}
