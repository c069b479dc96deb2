/*
 * All lines are read first: edges may stand ahead of their operations, and how a profile fits
 * depends on the number of stages.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/graph_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/schedule/order.h"
#include "trace/lines.h"

struct op_line {
    int64_t id;
    size_t row;
    uint32_t stage;
    uint32_t partner;
    enum lull_pipeline_kind kind;
    int64_t time_ns; /* of a fixed one */
    int64_t energy_nj;
    struct lull_pipeline_op op; /* but for its class */
};

struct edge_line {
    int64_t from;
    int64_t to;
    int64_t latency_ns;
    size_t row;
};

/* Where an operation is found by its number. */
struct graph_lines_entry {
    int64_t id;
    uint32_t index;
};

struct graph_lines_reader {
    struct lull_lines *lines;
    struct lull_error *err;
    struct op_line *ops;
    size_t op_count;
    size_t op_capacity;
    struct edge_line *edges;
    size_t edge_count;
    size_t edge_capacity;
    struct graph_lines_entry *entries; /* by id */
    uint32_t stages;
};

static int no_memory(const struct graph_lines_reader *reader)
{
    return lull_error_set(reader->err, -ENOMEM, "%s: no memory", lull_lines_name(reader->lines));
}

/* ---- members ---- */

static int wrong(const struct graph_lines_reader *reader, const char *key, const char *what)
{
    return lull_error_set(reader->err, LULL_E_FORMAT, "%s: row %zu: \"%s\" must be %s",
                          lull_lines_name(reader->lines), lull_lines_number(reader->lines), key,
                          what);
}

/* A whole number below limit; 0 where it is optional and not there. */
static int get_integer(const struct graph_lines_reader *reader, const json_t *object,
                       const char *key, bool is_optional, int64_t limit, int64_t *value_out)
{
    const json_t *member = json_object_get(object, key);
    int64_t value = 0;

    if (member == NULL && !is_optional)
        return wrong(reader, key, "there");
    if (member != NULL) {
        if (!json_is_integer(member))
            return wrong(reader, key, "a whole number");
        value = json_integer_value(member);
    }
    if (value < 0 || value >= limit)
        return wrong(reader, key, "in range: not negative, nor larger than lull plans for");
    *value_out = value;
    return 0;
}

static int get_uint32(const struct graph_lines_reader *reader, const json_t *object,
                      const char *key, bool is_optional, int64_t limit, uint32_t *value_out)
{
    int64_t value;
    const int rc = get_integer(reader, object, key, is_optional, limit, &value);

    if (rc == 0)
        *value_out = (uint32_t)value;
    return rc;
}

/* Seconds or joules as whole nano-units; 0 where it is not there. */
static int get_nano(const struct graph_lines_reader *reader, const json_t *object, const char *key,
                    int64_t most, int64_t *value_out)
{
    const json_t *member = json_object_get(object, key);
    double value;

    if (member == NULL) {
        *value_out = 0;
        return 0;
    }
    if (!json_is_number(member))
        return wrong(reader, key, "a number");
    value = json_number_value(member) * 1e9;
    if (!(value >= 0.0) || value > (double)most)
        return wrong(reader, key, "in range: at most 100 s or 10 MJ, and not negative");
    *value_out = llround(value);
    return 0;
}

/* So that a word that is spelt wrongly is not just passed over. */
static int check_keys(const struct graph_lines_reader *reader, json_t *object,
                      const char *const *known)
{
    const char *key;
    json_t *member;

    json_object_foreach(object, key, member)
    {
        bool is_known = false;

        for (size_t i = 0; known[i] != NULL; i++)
            is_known |= strcmp(key, known[i]) == 0;
        if (!is_known)
            return lull_error_set(reader->err, LULL_E_FORMAT, "%s: row %zu: unknown \"%.40s\"",
                                  lull_lines_name(reader->lines), lull_lines_number(reader->lines),
                                  key);
    }
    return 0;
}

/* ---- lines ---- */

static int get_kind(const struct graph_lines_reader *reader, const json_t *object,
                    struct op_line *line)
{
    const json_t *member = json_object_get(object, "kind");
    const bool has_time = json_object_get(object, "time_s") != NULL;
    int rc;

    if (!json_is_string(member) ||
        lull_pipeline_kind_parse(json_string_value(member), &line->kind) < 0)
        return wrong(reader, "kind",
                     "forward, backward, input, weight, recompute, overlap or fixed");
    if (has_time != (line->kind == LULL_PIPELINE_FIXED))
        return wrong(reader, "time_s", "there with kind \"fixed\", and only there");
    rc = get_nano(reader, object, "time_s", LULL_PIPELINE_MAX_TIME_NS, &line->time_ns);
    if (rc == 0 && has_time && line->time_ns == 0)
        return wrong(reader, "time_s", "above 0");
    if (rc == 0)
        rc = get_nano(reader, object, "energy_j", LULL_PIPELINE_MAX_ENERGY_NJ, &line->energy_nj);
    if (rc == 0 && line->kind == LULL_PIPELINE_OVERLAP)
        rc = get_uint32(reader, object, "partner", false, LULL_PIPELINE_MAX_STAGES, &line->partner);
    return rc;
}

static int read_op(struct graph_lines_reader *reader, json_t *object)
{
    static const char *const known[] = {"op",      "device", "stage",  "kind",     "microbatch",
                                        "partner", "chunk",  "time_s", "energy_j", NULL};
    struct op_line line = {.row = lull_lines_number(reader->lines)};
    struct op_line *grown;
    int rc = check_keys(reader, object, known);

    rc = rc < 0 ? rc : get_integer(reader, object, "op", false, INT64_MAX, &line.id);
    rc = rc < 0 ? rc
                : get_uint32(reader, object, "device", false, LULL_PIPELINE_MAX_STAGES,
                             &line.op.device);
    rc = rc < 0 ? rc
                : get_uint32(reader, object, "stage", false, LULL_PIPELINE_MAX_STAGES, &line.stage);
    rc = rc < 0 ? rc
                : get_uint32(reader, object, "microbatch", true, LULL_PIPELINE_MAX_MICROBATCHES,
                             &line.op.microbatch);
    rc = rc < 0
             ? rc
             : get_uint32(reader, object, "chunk", true, LULL_PIPELINE_MAX_STAGES, &line.op.chunk);
    rc = rc < 0 ? rc : get_kind(reader, object, &line);
    if (rc < 0)
        return rc;
    if (reader->op_count == reader->op_capacity) {
        reader->op_capacity = 2 * reader->op_capacity + 256;
        grown = realloc(reader->ops, reader->op_capacity * sizeof(*grown));
        if (grown == NULL)
            return no_memory(reader);
        reader->ops = grown;
    }
    reader->stages = line.stage >= reader->stages ? line.stage + 1 : reader->stages;
    reader->stages = line.partner >= reader->stages ? line.partner + 1 : reader->stages;
    reader->ops[reader->op_count++] = line;
    return 0;
}

static int read_edge(struct graph_lines_reader *reader, json_t *object)
{
    static const char *const known[] = {"from", "to", "latency_s", NULL};
    struct edge_line line = {.row = lull_lines_number(reader->lines)};
    struct edge_line *grown;
    int rc = check_keys(reader, object, known);

    rc = rc < 0 ? rc : get_integer(reader, object, "from", false, INT64_MAX, &line.from);
    rc = rc < 0 ? rc : get_integer(reader, object, "to", false, INT64_MAX, &line.to);
    rc = rc < 0
             ? rc
             : get_nano(reader, object, "latency_s", LULL_PIPELINE_MAX_TIME_NS, &line.latency_ns);
    if (rc < 0)
        return rc;
    if (reader->edge_count == reader->edge_capacity) {
        reader->edge_capacity = 2 * reader->edge_capacity + 256;
        grown = realloc(reader->edges, reader->edge_capacity * sizeof(*grown));
        if (grown == NULL)
            return no_memory(reader);
        reader->edges = grown;
    }
    reader->edges[reader->edge_count++] = line;
    return 0;
}

static int read_line(struct graph_lines_reader *reader, const char *text)
{
    json_error_t why;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    int rc;

    if (object == NULL)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: row %zu, column %d: %.100s",
                              lull_lines_name(reader->lines), lull_lines_number(reader->lines),
                              why.column, why.text);
    if (json_object_get(object, "op") != NULL)
        rc = read_op(reader, object);
    else if (json_object_get(object, "from") != NULL)
        rc = read_edge(reader, object);
    else
        rc = lull_error_set(reader->err, LULL_E_FORMAT,
                            "%s: row %zu: neither an operation (\"op\") nor an edge (\"from\")",
                            lull_lines_name(reader->lines), lull_lines_number(reader->lines));
    json_decref(object);
    return rc;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t")] == '\0';
}

static int read_all(struct graph_lines_reader *reader)
{
    char *text;
    int rc;

    while ((rc = lull_lines_next(reader->lines, &text, reader->err)) > 0) {
        rc = is_blank(text) ? 0 : read_line(reader, text);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && reader->op_count == 0)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: no operations",
                              lull_lines_name(reader->lines));
    return rc;
}

/* ---- the graph ---- */

static int by_id(const void *a, const void *b)
{
    const int64_t left = ((const struct graph_lines_entry *)a)->id;
    const int64_t right = ((const struct graph_lines_entry *)b)->id;

    return (left > right) - (left < right);
}

static int index_ops(struct graph_lines_reader *reader)
{
    reader->entries = calloc(reader->op_count, sizeof(*reader->entries));
    if (reader->entries == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < reader->op_count; i++)
        reader->entries[i] = (struct graph_lines_entry){reader->ops[i].id, (uint32_t)i};
    qsort(reader->entries, reader->op_count, sizeof(*reader->entries), by_id);
    for (size_t i = 1; i < reader->op_count; i++) {
        const struct op_line *one = &reader->ops[reader->entries[i - 1].index];
        const struct op_line *other = &reader->ops[reader->entries[i].index];

        if (one->id == other->id)
            return lull_error_set(reader->err, LULL_E_FORMAT,
                                  "%s: row %zu: operation %" PRId64 " is in row %zu already",
                                  lull_lines_name(reader->lines),
                                  other->row > one->row ? other->row : one->row, one->id,
                                  other->row > one->row ? one->row : other->row);
    }
    return 0;
}

static int add_op(const struct graph_lines_reader *reader, struct lull_pipeline_fit *fit,
                  struct lull_pipeline_graph *graph, const struct op_line *line)
{
    struct lull_error why = {0};
    struct lull_pipeline_op op = line->op;
    int64_t rc =
        line->kind == LULL_PIPELINE_FIXED
            ? lull_pipeline_fit_fixed(fit, line->stage, line->time_ns, line->energy_nj, &why)
            : lull_pipeline_fit_class(fit, line->stage, line->kind, line->partner, &why);

    if (rc < 0)
        return lull_error_set(reader->err, rc == -ENOMEM ? -ENOMEM : LULL_E_FORMAT,
                              "%s: row %zu: %.160s", lull_lines_name(reader->lines), line->row,
                              why.text);
    op.class_index = (uint32_t)rc;
    rc = lull_pipeline_graph_add(graph, &op);
    return rc < 0 ? lull_error_set(reader->err, (int)rc, "%s: row %zu: too many operations",
                                   lull_lines_name(reader->lines), line->row)
                  : 0;
}

static const struct graph_lines_entry *find(const struct graph_lines_reader *reader, int64_t id)
{
    const struct graph_lines_entry key = {.id = id};

    return bsearch(&key, reader->entries, reader->op_count, sizeof(*reader->entries), by_id);
}

static int add_edge(const struct graph_lines_reader *reader, struct lull_pipeline_graph *graph,
                    const struct edge_line *line)
{
    const struct graph_lines_entry *from = find(reader, line->from);
    const struct graph_lines_entry *to = find(reader, line->to);
    int rc;

    if (from == NULL || to == NULL)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: row %zu: no operation %" PRId64,
                              lull_lines_name(reader->lines), line->row,
                              from == NULL ? line->from : line->to);
    rc = lull_pipeline_graph_connect(graph, from->index, to->index, line->latency_ns);
    return rc < 0 ? lull_error_set(reader->err, rc, "%s: row %zu: no room for the edge",
                                   lull_lines_name(reader->lines), line->row)
                  : 0;
}

static int fill_graph(struct graph_lines_reader *reader, struct lull_pipeline_fit *fit,
                      struct lull_pipeline_graph *graph)
{
    struct lull_error why = {0};
    int rc = index_ops(reader);

    fit->stages = reader->stages;
    for (size_t i = 0; rc == 0 && i < reader->op_count; i++)
        rc = add_op(reader, fit, graph, &reader->ops[i]);
    for (size_t i = 0; rc == 0 && i < reader->edge_count; i++)
        rc = add_edge(reader, graph, &reader->edges[i]);
    if (rc < 0)
        return rc;
    rc = lull_pipeline_graph_finish(graph, fit->fitted, &why);
    return rc < 0 ? lull_error_set(reader->err, rc == -ENOMEM ? rc : LULL_E_FORMAT, "%s: %.200s",
                                   lull_lines_name(reader->lines), why.text)
                  : 0;
}

static int read_lines(struct lull_lines *lines, struct lull_pipeline_fit *fit,
                      struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    struct graph_lines_reader reader = {.lines = lines, .err = err};
    struct lull_pipeline_graph graph;
    int rc;

    lull_pipeline_graph_init(&graph);
    rc = read_all(&reader);
    if (rc == 0)
        rc = fill_graph(&reader, fit, &graph);
    free(reader.entries);
    free(reader.edges);
    free(reader.ops);
    lull_lines_close(lines);
    if (rc < 0)
        lull_pipeline_graph_fini(&graph);
    else
        *graph_out = graph;
    return rc;
}

int lull_graph_lines_read(const char *path, struct lull_pipeline_fit *fit,
                          struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open(path, &lines, err);

    return rc < 0 ? rc : read_lines(lines, fit, graph_out, err);
}

int lull_graph_lines_read_memory(const char *name, const char *text, size_t size,
                                 struct lull_pipeline_fit *fit,
                                 struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open_memory(name, text, size, &lines, err);

    return rc < 0 ? rc : read_lines(lines, fit, graph_out, err);
}
