/*
 * All lines are read first: edges may stand before their operations, and how a profile fits
 * depends on the number of stages.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/graph_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/schedule/order.h"
#include "trace/array.h"
#include "trace/json_lines.h"

/* Upper bounds of fixed operations, in the units of their members. */
enum {
    MAX_S = LULL_PIPELINE_MAX_TIME_NS / 1000000000,
    MOST_J = LULL_PIPELINE_MAX_ENERGY_NJ / 1000000000
};

struct op_line {
    int64_t id;
    int64_t device;
    int64_t stage;
    int64_t microbatch;
    int64_t chunk;
    int64_t partner;
    enum lull_pipeline_kind kind;
    double time_s; /* of a fixed one */
    double energy_j;
    size_t row;
};

struct edge_line {
    int64_t from;
    int64_t to;
    double latency_s;
    size_t row;
};

/* Index entry that maps an operation's number to its index. */
struct op_entry {
    int64_t id;
    uint32_t index;
};

struct graph_reader {
    const char *path;
    struct lull_error *err;
    struct op_line *ops;
    size_t op_count;
    struct edge_line *edges;
    size_t edge_count;
    struct op_entry *entries; /* by id */
    uint32_t stages;
};

static int64_t graph_lines_to_nano(double value)
{
    return llround(value * 1e9);
}

/* ---- lines ---- */

static int graph_lines_read_kind(const struct lull_lines *lines, const json_t *object,
                                 struct op_line *line, struct lull_error *err)
{
    const char *const kind = json_string_value(json_object_get(object, "kind"));
    const bool has_time = json_object_get(object, "time_s") != NULL;

    if (kind == NULL || lull_pipeline_kind_parse(kind, &line->kind) < 0)
        return lull_lines_refuse(lines, err,
                                 "\"kind\" must be forward, backward, input, weight, recompute, "
                                 "overlap or fixed");
    if (has_time != (line->kind == LULL_PIPELINE_FIXED))
        return lull_lines_refuse(
            lines, err, "\"time_s\" is required with kind \"fixed\", and only permitted there");
    if (has_time && graph_lines_to_nano(line->time_s) == 0)
        return lull_lines_refuse(lines, err, "\"time_s\" must be above 0");
    if (line->kind != LULL_PIPELINE_OVERLAP)
        line->partner = 0;
    else if (json_object_get(object, "partner") == NULL)
        return lull_lines_refuse(lines, err, "\"partner\" is required with kind \"overlap\"");
    return 0;
}

static void cover_stage(struct graph_reader *reader, int64_t stage)
{
    if (stage >= reader->stages)
        reader->stages = (uint32_t)stage + 1;
}

#define OP(name, is_optional, count, member)                                                       \
    name, LULL_MEMBER_INTEGER, is_optional, 0, (count)-1, offsetof(struct op_line, member)

static int read_op(struct graph_reader *reader, const struct lull_lines *lines,
                   const json_t *object)
{
    static const struct lull_member members[] = {
        {OP("op", false, INT64_MAX, id)},
        {OP("device", false, LULL_PIPELINE_MAX_STAGES, device)},
        {OP("stage", false, LULL_PIPELINE_MAX_STAGES, stage)},
        {OP("microbatch", true, LULL_PIPELINE_MAX_MICROBATCHES, microbatch)},
        {OP("chunk", true, LULL_PIPELINE_MAX_STAGES, chunk)},
        {OP("partner", true, LULL_PIPELINE_MAX_STAGES, partner)},
        {"kind", LULL_MEMBER_OTHER},
        {"time_s", LULL_MEMBER_NUMBER, true, 0, MAX_S, offsetof(struct op_line, time_s)},
        {"energy_j", LULL_MEMBER_NUMBER, true, 0, MOST_J, offsetof(struct op_line, energy_j)},
        {NULL},
    };
    struct op_line line = {.row = lull_lines_number(lines)};
    int rc = lull_json_lines_members(lines, object, members, &line, reader->err);

    if (rc < 0)
        return rc;
    rc = graph_lines_read_kind(lines, object, &line, reader->err);
    if (rc < 0)
        return rc;
    cover_stage(reader, line.stage);
    cover_stage(reader, line.partner);
    return lull_trace_append(&reader->ops, &reader->op_count, &line, sizeof(line), reader->path,
                             reader->err);
}

static int graph_lines_read_edge(struct graph_reader *reader, const struct lull_lines *lines,
                                 const json_t *object)
{
    static const struct lull_member members[] = {
        {"from", LULL_MEMBER_INTEGER, false, 0, INT64_MAX - 1, offsetof(struct edge_line, from)},
        {"to", LULL_MEMBER_INTEGER, false, 0, INT64_MAX - 1, offsetof(struct edge_line, to)},
        {"latency_s", LULL_MEMBER_NUMBER, true, 0, MAX_S, offsetof(struct edge_line, latency_s)},
        {NULL},
    };
    struct edge_line line = {.row = lull_lines_number(lines)};
    int rc = lull_json_lines_members(lines, object, members, &line, reader->err);

    if (rc < 0)
        return rc;
    return lull_trace_append(&reader->edges, &reader->edge_count, &line, sizeof(line), reader->path,
                             reader->err);
}

static int graph_lines_read(const struct lull_lines *lines, const json_t *object, void *context,
                            struct lull_error *err)
{
    struct graph_reader *const reader = context;

    if (json_object_get(object, "op") != NULL)
        return read_op(reader, lines, object);
    if (json_object_get(object, "from") != NULL)
        return graph_lines_read_edge(reader, lines, object);
    return lull_lines_refuse(lines, err,
                             "this is neither an operation (\"op\") nor an edge (\"from\")");
}

/* ---- the graph ---- */

/* Orders by id, equal ones in the order of the file. An index of UINT32_MAX, that of a key which is
 * looked for, equals any other. */
static int graph_lines_compare_entries(const void *left, const void *right)
{
    const struct op_entry *const a = left;
    const struct op_entry *const b = right;

    if (a->id != b->id || a->index == UINT32_MAX)
        return (a->id > b->id) - (a->id < b->id);
    return (a->index > b->index) - (a->index < b->index);
}

/* LULL_E_FORMAT, with the file and a line that was read before. */
static int graph_lines_refuse(const struct graph_reader *reader, size_t row, const char *what)
{
    return lull_error_set(reader->err, LULL_E_FORMAT, "%s: line %zu: %.160s", reader->path, row,
                          what);
}

static int index_ops(struct graph_reader *reader)
{
    reader->entries = calloc(reader->op_count, sizeof(*reader->entries));
    if (reader->entries == NULL)
        return lull_error_set(reader->err, -ENOMEM, "%s: not enough memory for %zu operations",
                              reader->path, reader->op_count);
    for (size_t i = 0; i < reader->op_count; i++)
        reader->entries[i] = (struct op_entry){reader->ops[i].id, (uint32_t)i};
    qsort(reader->entries, reader->op_count, sizeof(*reader->entries), graph_lines_compare_entries);
    for (size_t i = 1; i < reader->op_count; i++)
        if (reader->entries[i - 1].id == reader->entries[i].id)
            return lull_error_set(reader->err, LULL_E_FORMAT,
                                  "%s: line %zu: operation %" PRId64 " is in line %zu already",
                                  reader->path, reader->ops[reader->entries[i].index].row,
                                  reader->entries[i].id,
                                  reader->ops[reader->entries[i - 1].index].row);
    return 0;
}

/* The profile is fitted when the number of stages is known, hence after all lines were read. */
static int graph_lines_add_op(const struct graph_reader *reader, struct lull_pipeline_fit *fit,
                              struct lull_pipeline_graph *graph, const struct op_line *line)
{
    struct lull_pipeline_op op = {(uint32_t)line->device, 0, (uint32_t)line->microbatch,
                                  (uint32_t)line->chunk};
    struct lull_error why = {0};
    int64_t rc;

    if (line->kind == LULL_PIPELINE_FIXED)
        rc = lull_pipeline_fit_fixed(fit, (uint32_t)line->stage, graph_lines_to_nano(line->time_s),
                                     graph_lines_to_nano(line->energy_j), &why);
    else
        rc = lull_pipeline_fit_class(fit, (uint32_t)line->stage, line->kind,
                                     (uint32_t)line->partner, &why);
    if (rc == -ENOMEM)
        return lull_error_set(reader->err, -ENOMEM, "%s: %s", reader->path, why.text);
    if (rc < 0)
        return graph_lines_refuse(reader, line->row, why.text);
    op.class_index = (uint32_t)rc;
    rc = lull_pipeline_graph_add(graph, &op);
    if (rc < 0)
        return lull_error_set(reader->err, (int)rc, "%s: line %zu: there are too many operations",
                              reader->path, line->row);
    return 0;
}

static const struct op_entry *graph_lines_find(const struct graph_reader *reader, int64_t id)
{
    const struct op_entry key = {.id = id, .index = UINT32_MAX};

    return bsearch(&key, reader->entries, reader->op_count, sizeof(*reader->entries),
                   graph_lines_compare_entries);
}

static int graph_lines_add_edge(const struct graph_reader *reader,
                                struct lull_pipeline_graph *graph, const struct edge_line *line)
{
    const struct op_entry *from = graph_lines_find(reader, line->from);
    const struct op_entry *to = graph_lines_find(reader, line->to);
    int rc;

    if (from == NULL || to == NULL)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: line %zu: there is no operation %" PRId64, reader->path,
                              line->row, from == NULL ? line->from : line->to);
    rc = lull_pipeline_graph_connect(graph, from->index, to->index,
                                     graph_lines_to_nano(line->latency_s));
    if (rc < 0)
        return lull_error_set(reader->err, rc, "%s: line %zu: there is no room for the edge",
                              reader->path, line->row);
    return 0;
}

/* Edges may name operations of later lines, so all operations come first. */
static int graph_lines_fill(struct graph_reader *reader, struct lull_pipeline_fit *fit,
                            struct lull_pipeline_graph *graph)
{
    struct lull_error why = {0};
    int rc;

    if (reader->op_count == 0)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: there are no operations",
                              reader->path);
    rc = index_ops(reader);
    fit->stages = reader->stages;
    for (size_t i = 0; rc >= 0 && i < reader->op_count; i++)
        rc = graph_lines_add_op(reader, fit, graph, &reader->ops[i]);
    for (size_t i = 0; rc >= 0 && i < reader->edge_count; i++)
        rc = graph_lines_add_edge(reader, graph, &reader->edges[i]);
    if (rc < 0)
        return rc;
    rc = lull_pipeline_graph_finish(graph, fit->fitted, &why);
    if (rc < 0)
        return lull_error_set(reader->err, rc == -ENOMEM ? rc : LULL_E_FORMAT, "%s: %.200s",
                              reader->path, why.text);
    return 0;
}

int lull_graph_lines_read(const char *path, struct lull_pipeline_fit *fit,
                          struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    struct graph_reader reader = {.path = path, .err = err};
    struct lull_pipeline_graph graph;
    int rc;

    lull_pipeline_graph_init(&graph);
    rc = lull_json_lines_read(path, graph_lines_read, &reader, err);
    if (rc >= 0)
        rc = graph_lines_fill(&reader, fit, &graph);
    free(reader.entries);
    free(reader.edges);
    free(reader.ops);
    if (rc < 0)
        lull_pipeline_graph_fini(&graph);
    else
        *graph_out = graph;
    return rc;
}
