/*
 * Chakra's JSON: an object with workload_graph, an array of nodes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "trace/chakra_build.h"
#include "trace/decimal.h"
#include "trace/json_fields.h"

#define MOST_MICROS INT64_C(1000000000000000) /* 30 years */

/* A node while it is read: the numbers of its fields; -1: not told. */
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

static int read_name(struct lull_json_reader *reader, void *object)
{
    struct draft *const draft = object;
    struct lull_json_text text;
    const int rc = lull_json_expect(reader, LULL_JSON_STRING, "expected a string", &text);

    return rc < 0 ? rc
                  : lull_chakra_add_name(building_of(reader), text.bytes, text.length,
                                         &draft->node.name);
}

static int read_group(struct lull_json_reader *reader, void *object)
{
    struct draft *const draft = object;
    struct lull_json_text text;
    const int rc = lull_json_expect(reader, LULL_JSON_STRING, "expected a string", &text);

    return rc < 0 ? rc
                  : lull_chakra_add_name(building_of(reader), text.bytes, text.length,
                                         &draft->node.group);
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

    while (rc == 0) {
        int64_t id = 0;

        rc = lull_json_next(reader->json, &text, reader->err);
        if (rc == LULL_JSON_ARRAY_END)
            return 0;
        if (rc < 0)
            return rc;
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

#define AT(member) offsetof(struct draft, member)

static const struct lull_json_field fields[] = {
    {"Id", 0, LULL_DECIMAL_MAX, AT(id), NULL},
    {"Name", 0, 0, 0, read_name},
    {"NodeType", 0, LULL_CHAKRA_COLLECTIVE, AT(kind), NULL},
    {"runtime", 3, MOST_MICROS * 1000, AT(duration_ns), NULL},
    {"is_cpu_op", 0, 0, 0, read_host},
    {"ctrlDeps", 0, 0, 0, read_control},
    {"ctrl_deps", 0, 0, 0, read_control},
    {"data_deps", 0, 0, 0, read_data},
    {"comm_type", 0, LULL_DECIMAL_MAX, AT(collective), NULL},
    {"comm_size", 0, LULL_DECIMAL_MAX, AT(node.size_bytes), NULL},
    {"tensor_size", 0, LULL_DECIMAL_MAX, AT(node.tensor_bytes), NULL},
    {"num_ops", 0, LULL_DECIMAL_MAX, AT(node.operations), NULL},
    {"comm_src", 0, LULL_DECIMAL_MAX, AT(node.source), NULL},
    {"comm_dst", 0, LULL_DECIMAL_MAX, AT(node.target), NULL},
    {"comm_tag", 0, LULL_DECIMAL_MAX, AT(node.tag), NULL},
    {"pg_name", 0, 0, 0, read_group},
    {NULL, 0, 0, 0, NULL},
};

static int read_node(struct lull_json_reader *reader, void *object)
{
    struct draft draft = {.id = -1, .kind = -1, .collective = -1};
    int rc;

    (void)object;
    lull_chakra_node_init(&draft.node);
    rc = lull_json_read_fields(reader, fields, &draft);
    if (rc < 0)
        return rc;
    if (draft.id < 0 || draft.kind < 0)
        return lull_json_refuse(reader, "a node without Id or NodeType ends here");
    draft.node.id = (uint64_t)draft.id;
    draft.node.kind = (enum lull_chakra_kind)draft.kind;
    draft.node.duration_ns = draft.duration_ns;
    if (draft.collective >= 0 && draft.collective < LULL_CHAKRA_COLLECTIVES)
        draft.node.collective = (enum lull_chakra_collective)draft.collective;
    return lull_chakra_add(building_of(reader), &draft.node);
}

static int read_graph(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_OBJECT_BEGIN, read_node, object);
}

static ssize_t fill(void *context, char *buffer, size_t size, struct lull_error *err)
{
    return lull_chakra_input_read(context, buffer, size, err);
}

int lull_chakra_read_json(struct lull_chakra_input *input, struct lull_chakra_building *building)
{
    static const struct lull_json_field top[] = {{"workload_graph", 0, 0, 0, read_graph},
                                                 {NULL, 0, 0, 0, NULL}};
    struct lull_json_reader reader = {.name = input->name,
                                      .json = lull_json_create(input->name, fill, input),
                                      .err = building->err,
                                      .context = building};
    struct lull_json_text text;
    int rc;

    if (reader.json == NULL)
        return lull_error_set(building->err, -ENOMEM, "%s: no memory to read it", input->name);
    rc = lull_json_read_object(&reader, top, NULL);
    if (rc == 0)
        rc = lull_json_expect(&reader, LULL_JSON_END, "more behind the closing brace", &text);
    if (rc == 0 && building->graph->count == 0)
        rc = lull_error_set(building->err, LULL_E_FORMAT,
                            "%s: no nodes in workload_graph; PyTorch's own execution traces must "
                            "be converted to Chakra first",
                            input->name);
    lull_json_destroy(reader.json);
    return rc;
}
