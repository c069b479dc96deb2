/*
 * Clients of NVIDIA's driver. Without persistence mode the driver releases a GPU with its last
 * client, and the settings are gone. Process ids are those of the namespace in which the node was
 * created; clients in another one seem dead. SPDX-License-Identifier: Apache-2.0
 */
#include <unistd.h>

#include "base/process.h"
#include "emulator/node_shared.h"

static bool is_client_alive(const struct lull_node_client *client)
{
    return client->pid != 0 && lull_process_start_ticks((pid_t)client->pid) == client->start_ticks;
}

/* Forgets dead clients. Returns how many are left. */
static uint32_t reap_clients(struct lull_node_shared *shared)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NODE_CLIENTS; i++) {
        if (is_client_alive(&shared->clients[i]))
            count++;
        else
            shared->clients[i].pid = 0;
    }
    return count;
}

/* A context in CUDA uses a GPU as well. */
static bool has_contexts(struct lull_node *node, uint32_t gpu)
{
    const bool has_any = lull_node_begin(node, gpu)->context_count > 0;

    lull_node_end(node, gpu, false);
    return has_any;
}

static void release_gpus(struct lull_node *node)
{
    for (uint32_t i = 0; i < node->shared->gpu_count; i++)
        if (lull_node_setting(node, i, LULL_NODE_PERSISTENCE) == 0 && !has_contexts(node, i))
            lull_node_reset_settings(node, i);
}

/* More clients than the table holds are not counted. */
static void add_client(struct lull_node_shared *shared, int64_t pid)
{
    uint32_t at = NODE_CLIENTS;

    for (uint32_t i = 0; i < NODE_CLIENTS; i++) {
        if (shared->clients[i].pid == pid)
            return;
        if (shared->clients[i].pid == 0)
            at = i;
    }
    if (at < NODE_CLIENTS)
        shared->clients[at] = (struct lull_node_client){pid, lull_process_start_ticks(0)};
}

void lull_node_join(struct lull_node *node)
{
    struct lull_node_shared *shared = node->shared;

    lull_node_lock(&shared->clients_mutex);
    if (reap_clients(shared) == 0)
        release_gpus(node);
    add_client(shared, getpid());
    pthread_mutex_unlock(&shared->clients_mutex);
}

void lull_node_leave(struct lull_node *node)
{
    struct lull_node_shared *shared;
    const int64_t self = getpid();

    if (node == NULL)
        return;
    shared = node->shared;
    lull_node_lock(&shared->clients_mutex);
    for (uint32_t i = 0; i < NODE_CLIENTS; i++)
        if (shared->clients[i].pid == self)
            shared->clients[i].pid = 0;
    if (reap_clients(shared) == 0)
        release_gpus(node);
    pthread_mutex_unlock(&shared->clients_mutex);
}
