/* Brings together who a client is and what gives it a right, for the requests of clients and for a
 * policy that has changed. SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/evidence.h"

int lull_server_judge(struct lull_server *server, const struct lull_connection *connection,
                      uint32_t gpu, struct lull_policy_limits *limits_out, struct lull_error *err)
{
    const struct lull_peer *const peer = &connection->peer;
    const struct lull_device_info *const info = lull_device_info(server->devices, gpu);
    gid_t groups[LULL_PEER_MAX_GROUPS];
    uid_t users[LULL_DEVICE_MAX_PROCESSES];
    char cgroups[LULL_PEER_CGROUP_BYTES];
    const struct lull_evidence evidence = {
        .person = {peer->uid, groups, lull_peer_groups(connection->fd, groups)},
        .has_device =
            (connection->proven >> gpu & 1) != 0 &&
            lull_policy_find_device(&server->policy, info->uuid, info->pci_bus_id) != NULL,
        .is_foreign = peer->pid == 0 || lull_evidence_is_unmapped(peer->uid),
        .cgroups = cgroups,
        .uuid = info->uuid,
        .pci = info->pci_bus_id,
        .users = users,
        .user_count = lull_users_of(&server->users, gpu, users),
    };

    /* If it cannot be read, the text is empty, and no job with a control group is the client's.
     */
    cgroups[0] = '\0';
    if (server->jobs.count > 0)
        lull_peer_cgroups(peer, cgroups);
    return lull_evidence_judge(&evidence, &server->policy, &server->jobs, limits_out, err);
}

bool lull_server_is_administrator(const struct lull_server *server,
                                  const struct lull_connection *connection)
{
    gid_t groups[LULL_PEER_MAX_GROUPS];
    const struct lull_policy_person person = {connection->peer.uid, groups,
                                              lull_peer_groups(connection->fd, groups)};

    return lull_policy_is_administrator(&server->policy, &person);
}

int lull_server_find_gpu(const struct lull_server *server, const char *name)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        const struct lull_device_info *const info = lull_device_info(server->devices, gpu);

        if (lull_policy_is_name_of(name, info->uuid, info->pci_bus_id))
            return (int)gpu;
    }
    return -ENODEV;
}

bool lull_server_prepare_proof(const struct lull_server *server, struct lull_proof *proof)
{
    bool is_any = false;

    proof->gpu_count = lull_devices_count(server->devices);
    for (uint32_t gpu = 0; gpu < proof->gpu_count; gpu++) {
        const struct lull_device_info *const info = lull_device_info(server->devices, gpu);
        const char *const device =
            lull_policy_find_device(&server->policy, info->uuid, info->pci_bus_id);

        snprintf(proof->devices[gpu], sizeof(proof->devices[gpu]), "%s",
                 device != NULL ? device : "");
        is_any |= device != NULL;
    }
    return is_any;
}

static void answer_proof(struct lull_server *server, struct lull_connection *connection)
{
    const struct lull_proof_result *const proof = &connection->proof;

    if (proof->code == -EPROTO) {
        lull_connection_close(connection);
        return;
    }
    if (proof->code < 0)
        lull_server_log(server, connection->peer.uid, LULL_LOG_WARNING,
                        "proof refused (uid=%ld pid=%ld): no descriptor is an opened device of a "
                        "GPU",
                        (long)(int)connection->peer.uid, (long)connection->peer.pid);
    lull_server_reply_code(connection, proof->sequence, proof->code,
                           proof->code == 0 ? "" : "no descriptor is an opened device of a GPU");
}

void lull_server_end_proofs(struct lull_server *server)
{
    if (server->proving_count == 0)
        return;
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        if (lull_connection_end_proof(c))
            answer_proof(server, c);
}

/* A lease keeps its band for life: one that has become too wide ends, and its client, which comes
 * back within two seconds, gets a narrower one. */
static void judge_lease(struct lull_server *server, uint32_t gpu, const struct lull_lease *lease)
{
    const struct lull_connection *const owner = lull_server_find_connection(server, lease->client);
    struct lull_policy_limits limits;
    struct lull_band band = lease->band;
    struct lull_error error;

    if (owner == NULL || owner->is_closing)
        return; /* the lease is about to end */
    if (lull_server_judge(server, owner, gpu, &limits, &error) < 0)
        lull_server_revoke(server, gpu, -EACCES, error.text);
    else if (!lull_policy_fit_band(&limits, &band) || band.min_mhz != lease->band.min_mhz ||
             band.max_mhz != lease->band.max_mhz || band.min_limit_mw != lease->band.min_limit_mw ||
             band.max_limit_mw != lease->band.max_limit_mw ||
             band.profiles != lease->band.profiles || band.smoothing != lease->band.smoothing)
        lull_server_revoke(server, gpu, -EACCES, "the policy leaves it a narrower band");
}

void lull_server_judge_again(struct lull_server *server)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        struct lull_lease lease;

        if (lull_enforcer_find(server->enforcer, gpu, &lease))
            judge_lease(server, gpu, &lease);
    }
}
