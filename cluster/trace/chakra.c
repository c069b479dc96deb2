/*
 * Reading of traces in either form. Chakra's JSON is an object with workload_graph, an array of
 * nodes. SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/trace/chakra.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/trace/chakra_build.h"
#include "trace/decimal.h"
#include "trace/json_fields.h"
#include "trace/string_set.h"

/* ---- JSON --------------------------------------------------------------------------------- */

#define MAX_MICROS INT64_C(1000000000000000) /* 30 years */

/* A node while it is read, with the numbers of its fields as they are in the file; -1: not
 * reported. */
struct draft {
    struct lull_chakra_node node;
    int64_t id;
    int64_t kind;
    int64_t collective;
    int64_t duration_ns;
};

static struct lull_chakra_building *building_of(const struct lull_json_reader *reader)
{
    return reader->context;
}

static int chakra_read_string(struct lull_json_reader *reader, uint32_t *name_out)
{
    struct lull_json_text text;
    const int rc = lull_json_expect(reader, LULL_JSON_STRING, "expected a string", &text);

    if (rc < 0)
        return rc;
    return lull_chakra_add_name(building_of(reader), text.bytes, text.length, name_out);
}

static int chakra_read_name(struct lull_json_reader *reader, void *object)
{
    return chakra_read_string(reader, &((struct draft *)object)->node.name);
}

static int read_group(struct lull_json_reader *reader, void *object)
{
    return chakra_read_string(reader, &((struct draft *)object)->node.group);
}

static int read_host(struct lull_json_reader *reader, void *object)
{
    struct draft *const draft = object;
    struct lull_json_text text;
    const int rc = lull_json_expect(reader, LULL_JSON_SCALAR, "expected true or false", &text);

    if (rc < 0)
        return rc;
    draft->node.is_host = (text.length == 4 && memcmp(text.bytes, "true", 4) == 0) ||
                          (text.length == 1 && text.bytes[0] == '1');
    return 0;
}

static int read_ids(struct lull_json_reader *reader, bool is_control)
{
    struct lull_json_text text;
    int rc = lull_json_expect(reader, LULL_JSON_ARRAY_BEGIN, "expected an array", &text);

    while (rc >= 0) {
        int64_t id = 0;

        rc = lull_json_next(reader->json, &text, reader->err);
        if (rc < 0)
            return rc;
        if (rc == LULL_JSON_ARRAY_END)
            return 0;
        if (rc != LULL_JSON_SCALAR || lull_decimal_parse(text.bytes, text.length, 0, &id) < 0 ||
            id < 0)
            return lull_json_refuse(reader, "expected the id of a node");
        rc = lull_chakra_want(building_of(reader), (uint64_t)id, is_control);
    }
    return rc;
}

static int read_data(struct lull_json_reader *reader, void *object)
{
    (void)object;
    return read_ids(reader, false);
}

static int read_control(struct lull_json_reader *reader, void *object)
{
    (void)object;
    return read_ids(reader, true);
}

#define WHOLE(key, member, max) LULL_JSON_INTEGER(key, struct draft, member, max)

static const struct lull_json_field fields[] = {
    {WHOLE("Id", id, LULL_DECIMAL_MAX)},
    {LULL_JSON_OTHER("Name", chakra_read_name)},
    {WHOLE("NodeType", kind, LULL_CHAKRA_COLLECTIVE)},
    {LULL_JSON_SCALED("runtime", struct draft, duration_ns, 3, MAX_MICROS * 1000)},
    {LULL_JSON_OTHER("is_cpu_op", read_host)},
    {LULL_JSON_OTHER("ctrlDeps", read_control)},
    {LULL_JSON_OTHER("ctrl_deps", read_control)},
    {LULL_JSON_OTHER("data_deps", read_data)},
    {WHOLE("comm_type", collective, LULL_DECIMAL_MAX)},
    {WHOLE("comm_size", node.size_bytes, LULL_DECIMAL_MAX)},
    {WHOLE("tensor_size", node.tensor_bytes, LULL_DECIMAL_MAX)},
    {WHOLE("num_ops", node.operations, LULL_DECIMAL_MAX)},
    {WHOLE("comm_src", node.source, LULL_DECIMAL_MAX)},
    {WHOLE("comm_dst", node.target, LULL_DECIMAL_MAX)},
    {WHOLE("comm_tag", node.tag, LULL_DECIMAL_MAX)},
    {LULL_JSON_OTHER("pg_name", read_group)},
    {NULL},
};

/* An id and a type are needed to place a node; all other fields may be missing, as in published
 * traces. */
static int chakra_read_node(struct lull_json_reader *reader, void *object)
{
    struct draft draft = {.id = -1, .kind = -1, .collective = -1};
    int rc;

    (void)object;
    lull_chakra_node_init(&draft.node);
    rc = lull_json_read_fields(reader, fields, &draft);
    if (rc < 0)
        return rc;
    if (draft.id < 0 || draft.kind < 0)
        return lull_json_refuse(reader, "the node that ends here has no Id or no NodeType");
    draft.node.id = (uint64_t)draft.id;
    draft.node.kind = (enum lull_chakra_kind)draft.kind;
    draft.node.duration_ns = draft.duration_ns;
    if (draft.collective >= 0 && draft.collective < LULL_CHAKRA_COLLECTIVES)
        draft.node.collective = (enum lull_chakra_collective)draft.collective;
    return lull_chakra_add(building_of(reader), &draft.node);
}

static int read_json(struct lull_source *source, struct lull_chakra_building *building)
{
    static const struct lull_json_field document[] = {
        {LULL_JSON_OBJECTS("workload_graph", chakra_read_node)},
        {NULL},
    };
    const int rc =
        lull_json_read_document(source, building->name, document, NULL, building, building->err);

    if (rc < 0)
        return rc;
    if (building->graph->count == 0)
        return lull_error_set(building->err, LULL_E_FORMAT,
                              "%s: there are no nodes in workload_graph; PyTorch's own execution "
                              "traces must be converted to Chakra first",
                              building->name);
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

static size_t chakra_skip_space(const char *head, size_t size, size_t at)
{
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a NUL is no white space. */
    while (at < size && memchr(" \t\r\n", head[at], 4) != NULL)
        at++;
    return at;
}

/* JSON is an opening brace with a key behind it. A message of 123 bytes begins with a brace, too,
 * but not with an empty name or one of 34 spaces. */
static bool is_json(const char *head, size_t size)
{
    const size_t brace = chakra_skip_space(head, size, 0);
    const size_t behind = chakra_skip_space(head, size, brace + 1);

    return brace < size && head[brace] == '{' && behind < size &&
           (head[behind] == '"' || head[behind] == '}');
}

static int chakra_read_source(struct lull_source *source, struct lull_chakra_building *building)
{
    const char *head;
    const ssize_t size = lull_source_peek(source, &head, building->err);
    int rc;

    if (size < 0)
        return (int)size;
    if (size == 0)
        return lull_error_set(building->err, LULL_E_FORMAT, "%s: the file is empty",
                              building->name);
    if (is_json(head, (size_t)size))
        rc = read_json(source, building);
    else
        rc = lull_chakra_read_messages(source, building);
    return rc < 0 ? rc : lull_chakra_finish(building);
}

int lull_chakra_read(const char *path, struct lull_chakra_graph *graph_out, struct lull_error *err)
{
    struct lull_chakra_building building = {.graph = graph_out, .name = path, .err = err};
    struct lull_source *source = NULL;
    int rc;

    *graph_out = (struct lull_chakra_graph){.names = lull_string_set_create()};
    if (graph_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its graph", path);
    rc = lull_source_open(path, &source, err);
    if (rc >= 0)
        rc = chakra_read_source(source, &building);
    lull_source_close(source);
    free(building.wanted);
    if (rc < 0)
        lull_chakra_fini(graph_out);
    return rc;
}
