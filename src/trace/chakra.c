/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chakra_build.h"
#include "trace/string_set.h"

/* ---- input -------------------------------------------------------------------------------- */

static ssize_t read_source(struct lull_chakra_input *input, char *buffer, size_t size,
                           struct lull_error *err)
{
    const size_t length = input->size < size ? input->size : size;

    if (input->source != NULL)
        return lull_source_read(input->source, buffer, size, err);
    if (length > 0)
        memcpy(buffer, input->bytes, length);
    input->bytes += length;
    input->size -= length;
    return (ssize_t)length;
}

ssize_t lull_chakra_input_read(struct lull_chakra_input *input, char *buffer, size_t size,
                               struct lull_error *err)
{
    const size_t ahead = input->head_size - input->head_at;
    const size_t taken = ahead < size ? ahead : size;
    ssize_t more = 0;

    memcpy(buffer, input->head + input->head_at, taken);
    input->head_at += taken;
    if (taken < size)
        more = read_source(input, buffer + taken, size - taken, err);
    if (more < 0)
        return more;
    input->offset += (int64_t)taken + more;
    return (ssize_t)taken + more;
}

static int look_ahead(struct lull_chakra_input *input, struct lull_error *err)
{
    const ssize_t got = read_source(input, input->head, sizeof(input->head), err);

    if (got < 0)
        return (int)got;
    input->head_size = (size_t)got;
    return got > 0 ? 0 : lull_error_set(err, LULL_E_FORMAT, "%s: is empty", input->name);
}

static size_t skip_space(const struct lull_chakra_input *input, size_t at)
{
    while (at < input->head_size && strchr(" \t\r\n", input->head[at]) != NULL &&
           input->head[at] != '\0')
        at++;
    return at;
}

/* An opening brace with a key behind it. A message of 123 bytes begins with a brace, too, but not
 * with an empty name or one of 34 spaces. */
static bool is_json(const struct lull_chakra_input *input)
{
    const size_t brace = skip_space(input, 0);
    const size_t behind = skip_space(input, brace + 1);

    return brace < input->head_size && input->head[brace] == '{' && behind < input->head_size &&
           (input->head[behind] == '"' || input->head[behind] == '}');
}

/* ---- reading ------------------------------------------------------------------------------ */

static int read_input(struct lull_chakra_input *input, struct lull_chakra_graph *graph,
                      struct lull_error *err)
{
    struct lull_chakra_building building = {.graph = graph, .name = input->name, .err = err};
    int rc = look_ahead(input, err);

    *graph = (struct lull_chakra_graph){0};
    if (rc < 0)
        return rc;
    graph->names = lull_string_set_create();
    if (graph->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for its graph", input->name);
    rc = is_json(input) ? lull_chakra_read_json(input, &building)
                        : lull_chakra_read_messages(input, &building);
    if (rc == 0)
        rc = lull_chakra_finish(&building);
    free(building.wanted);
    if (rc < 0)
        lull_chakra_fini(graph);
    return rc;
}

int lull_chakra_read_memory(const char *name, const void *bytes, size_t size,
                            struct lull_chakra_graph *graph_out, struct lull_error *err)
{
    struct lull_chakra_input input = {.name = name, .bytes = bytes, .size = size};

    return read_input(&input, graph_out, err);
}

int lull_chakra_read(const char *path, struct lull_chakra_graph *graph_out, struct lull_error *err)
{
    struct lull_chakra_input input = {.name = path};
    int rc = lull_source_open(path, &input.source, err);

    *graph_out = (struct lull_chakra_graph){0};
    if (rc == 0)
        rc = read_input(&input, graph_out, err);
    lull_source_close(input.source);
    return rc;
}

void lull_chakra_fini(struct lull_chakra_graph *graph)
{
    free(graph->nodes);
    free(graph->dependencies);
    free(graph->order);
    lull_string_set_destroy(graph->names);
    *graph = (struct lull_chakra_graph){0};
}

const char *lull_chakra_name(const struct lull_chakra_graph *graph, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(graph->names, name);
}

bool lull_chakra_communicates(const struct lull_chakra_node *node)
{
    return !node->is_host && node->kind >= LULL_CHAKRA_SEND;
}
