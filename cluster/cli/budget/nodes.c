/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/nodes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* A lulld answers within some 10 ms, also while its driver hangs. */
enum { ANSWER_MS = 500 };

int lull_budget_nodes_open(const struct lull_budget_settings *settings, const char *runtime_dir,
                           struct lull_budget_nodes *nodes_out)
{
    struct lull_budget_connection *nodes = calloc(settings->node_count + 1, sizeof(*nodes));

    if (nodes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < settings->node_count; i++) {
        nodes[i].name = settings->nodes[i].name;
        nodes[i].runtime_dir = settings->nodes[i].runtime_dir[0] != '\0'
                                   ? settings->nodes[i].runtime_dir
                                   : runtime_dir;
    }
    *nodes_out = (struct lull_budget_nodes){settings->node_count, nodes};
    return 0;
}

void lull_budget_nodes_close(struct lull_budget_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        lull_client_close(nodes->nodes[i].client);
    free(nodes->nodes);
    *nodes = (struct lull_budget_nodes){0};
}

static void budget_node_disconnect(struct lull_budget_connection *node,
                                   const struct lull_error *error)
{
    if (!node->was_reported)
        lull_log(LULL_LOG_WARNING, "budget",
                 "node %s: %s; its last power reading is used, and the connection is retried every "
                 "second",
                 node->name, error->text);
    node->was_reported = true;
    node->is_refusing = false;
    lull_client_close(node->client);
    node->client = NULL;
    memset(node->sent_ns, 0, sizeof(node->sent_ns));
}

static int budget_node_query(struct lull_budget_connection *node, uint32_t gpu,
                             struct lull_message_state *state_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_STATUS, .body.status.gpu = gpu};
    struct lull_message answer;
    int result =
        lull_client_call(node->client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL, err);

    if (result == 0)
        *state_out = answer.body.state;
    return result;
}

static int open_connection(struct lull_budget_connection *node, uint32_t *count_out,
                           struct lull_error *err)
{
    struct lull_message_welcome welcome;
    int result = lull_client_connect(node->runtime_dir, &node->client, err);

    if (result < 0) {
        node->client = NULL;
        return result;
    }
    result = lull_client_greet(node->client, ANSWER_MS, &welcome, err);
    if (result == 0)
        *count_out = welcome.gpu_count;
    return result;
}

/* True: other GPUs are there than before. */
static bool budget_node_poll(struct lull_budget_connection *node)
{
    const bool is_new = node->client == NULL;
    uint32_t count = node->gpu_count;
    bool has_changed = false;
    struct lull_error error = {0};

    if (is_new && open_connection(node, &count, &error) < 0) {
        budget_node_disconnect(node, &error);
        return false;
    }
    if (count > LULL_BUDGET_MAX_GPUS)
        count = LULL_BUDGET_MAX_GPUS;
    for (uint32_t gpu = 0; gpu < count; gpu++) {
        struct lull_message_state state;

        if (budget_node_query(node, gpu, &state, &error) < 0) {
            budget_node_disconnect(node, &error);
            return has_changed;
        }
        has_changed |= gpu >= node->gpu_count || strcmp(state.uuid, node->states[gpu].uuid) != 0;
        node->states[gpu] = state;
    }
    has_changed |= count != node->gpu_count;
    node->gpu_count = count;
    if (node->was_reported)
        lull_log(LULL_LOG_INFO, "budget", "node %s answers", node->name);
    node->was_reported = false;
    return has_changed;
}

bool lull_budget_nodes_look(struct lull_budget_nodes *nodes)
{
    bool has_changed = false;

    for (uint32_t i = 0; i < nodes->count; i++)
        has_changed |= budget_node_poll(&nodes->nodes[i]);
    return has_changed;
}

/* Returns whether nothing has to be sent: the GPU has the cap, for long enough, or has none. */
static bool budget_node_is_known(const struct lull_budget_connection *node, uint32_t gpu,
                                 const struct lull_message_cap *cap, int64_t now_ns)
{
    const bool is_lifted = cap->max_mhz == 0 && cap->max_limit_mw == 0;
    const struct lull_message_cap *sent = &node->sent[gpu];

    if (is_lifted && node->sent_ns[gpu] == 0)
        return node->states[gpu].cap_left_ms == 0;
    if (node->sent_ns[gpu] == 0 || sent->max_mhz != cap->max_mhz ||
        sent->max_limit_mw != cap->max_limit_mw)
        return false;
    return is_lifted || (now_ns - node->sent_ns[gpu] < cap->ttl_ms / 3 * LULL_NS_PER_MS &&
                         node->states[gpu].cap_left_ms != 0);
}

void lull_budget_nodes_order(struct lull_budget_nodes *nodes, uint32_t node, uint32_t gpu,
                             const struct lull_steer_order *order, uint32_t hold_ms)
{
    struct lull_budget_connection *connection = &nodes->nodes[node];
    struct lull_message message = {.type = LULL_MESSAGE_CAP};
    struct lull_message_cap *cap = &message.body.cap;
    struct lull_message answer;
    struct lull_error error = {0};
    int result;

    *cap = (struct lull_message_cap){gpu, order->max_mhz, (uint32_t)lround(order->limit_w * 1e3),
                                     hold_ms};
    if (connection->client == NULL || connection->is_refusing ||
        budget_node_is_known(connection, gpu, cap, lull_now_ns()))
        return;
    result = lull_client_call(connection->client, &message, LULL_MESSAGE_REPLY, ANSWER_MS, &answer,
                              NULL, &error);
    if (result == -EPERM) {
        connection->is_refusing = true;
        lull_log(LULL_LOG_ERROR, "budget",
                 "node %s: %s; its GPUs count with their measured power, and it is not queried "
                 "again until its lulld restarts",
                 connection->name, error.text);
    } else if (result < 0) {
        budget_node_disconnect(connection, &error);
    }
    if (result < 0)
        return;
    connection->sent[gpu] = *cap;
    connection->sent_ns[gpu] = lull_now_ns();
}
