/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "core/section/controller/job_node.h"
#include "core/stats/random.h"
#include "governor/peers/job_key.h"

/* Retry interval for reading the key of the first node. */
static const int64_t key_wait_ns = 1000 * LULL_NS_PER_MS;
struct lull_peers {
    struct lull_peers_options options;
    struct lull_peer_network *network; /* NULL: no key yet */
    struct lull_job_node *node;
    int64_t next_key_ns;
    enum lull_agreement_state state;
};

/* ---- number of this node ----------------------------------------------------------------- */

/* Variables with which launchers pass the node's number and the number of nodes. With one lull run
 * per node the ranks of the launcher are the nodes. */
static const struct {
    const char *self;
    const char *count;
} launchers[] = {
    {"SLURM_NODEID", "SLURM_STEP_NUM_NODES"},
    {"SLURM_NODEID", "SLURM_NNODES"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", "PMIX_SIZE"},
};

static int peers_set_nodes(const char *self, const char *count, struct lull_nodes *nodes_out)
{
    int64_t index;
    int64_t nodes;

    if (lull_text_parse_int(count, 1, LULL_AGREEMENT_MAX_NODES, &nodes) < 0 ||
        lull_text_parse_int(self, 0, nodes - 1, &index) < 0)
        return -EINVAL;
    *nodes_out = (struct lull_nodes){(uint32_t)index, (uint32_t)nodes};
    return 0;
}

int lull_nodes_parse(const char *text, struct lull_nodes *nodes_out)
{
    const char *slash = strchr(text, '/');
    char self[8];

    if (slash == NULL || (size_t)(slash - text) >= sizeof(self))
        return -EINVAL;
    memcpy(self, text, (size_t)(slash - text));
    self[slash - text] = '\0';
    return peers_set_nodes(self, slash + 1, nodes_out);
}

int lull_nodes_find(struct lull_nodes *nodes_out, struct lull_error *err)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *self = getenv(launchers[i].self);
        const char *count = getenv(launchers[i].count);

        if (self != NULL && count != NULL && peers_set_nodes(self, count, nodes_out) == 0)
            return 0;
    }
    return lull_error_set(err, -ENOENT,
                          "the launcher does not set the number of this node and of all nodes (at "
                          "most %d); use --node I/N",
                          LULL_AGREEMENT_MAX_NODES);
}

/* Variables that batch systems set alike on all nodes of a job, and of a step within it. */
static const char *const job_variables[][2] = {
    {"SLURM_JOB_ID", "SLURM_STEP_ID"},
    {"PBS_JOBID", NULL},
    {"LSB_JOBID", NULL},
    {"FLUX_JOB_ID", NULL},
};

uint64_t lull_nodes_seed(void)
{
    for (size_t i = 0; i < sizeof(job_variables) / sizeof(job_variables[0]); i++) {
        const char *const job = getenv(job_variables[i][0]);
        const char *const step = job_variables[i][1] != NULL ? getenv(job_variables[i][1]) : NULL;

        if (job == NULL)
            continue;
        return lull_seed_from(lull_text_hash(job) * 31 + (step != NULL ? lull_text_hash(step) : 0));
    }
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int connect_with_key(struct lull_peers *peers, struct lull_error *err)
{
    const char *path = peers->options.key_path;
    struct lull_job_key key;
    int result;

    if (path == NULL)
        result = lull_job_key_derive(peers->options.secret, &key, err);
    else if (peers->options.nodes.self == 0)
        result = lull_job_key_read_or_make(path, &key, err);
    else
        result = lull_job_key_read(path, &key, err);
    if (result < 0)
        return result;
    return lull_peer_network_open(peers->options.endpoint, &peers->options.nodes, &key,
                                  &peers->network, err);
}

/* The first node may write its key later, so its lack is not an error; any other failure is final.
 */
static int open_network(struct lull_peers *peers, struct lull_error *err)
{
    const int result = connect_with_key(peers, err);

    if (result == -ENOENT && peers->options.nodes.self != 0)
        return 0;
    return result;
}

static uint64_t incarnation_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int lull_peers_create(const struct lull_peers_options *options, struct lull_peers **peers_out,
                      struct lull_error *err)
{
    struct lull_peers *peers;
    struct lull_nodes nodes = options->nodes;
    int result = 0;

    *peers_out = NULL;
    if (nodes.count == 0)
        result = lull_nodes_find(&nodes, err);
    if (result < 0 || nodes.count == 1)
        return result;
    if (options->key_path == NULL && options->secret == NULL)
        return lull_error_set(err, -EINVAL,
                              "nodes communicate only with a job key; give --together-key");
    peers = calloc(1, sizeof(*peers));
    if (peers == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the other nodes");
    peers->options = *options;
    peers->options.nodes = nodes;
    peers->node = lull_job_node_create(nodes.self, nodes.count, incarnation_now());
    if (peers->node == NULL)
        result = lull_error_set(err, -ENOMEM, "no memory for the other nodes");
    else
        result = open_network(peers, err);
    if (result < 0) {
        lull_peers_destroy(peers);
        return result;
    }
    *peers_out = peers;
    return 0;
}

void lull_peers_destroy(struct lull_peers *peers)
{
    struct lull_proposal proposal;

    if (peers == NULL)
        return;
    if (peers->network != NULL && lull_job_node_leave(peers->node, &proposal))
        lull_peer_network_send(peers->network, &proposal);
    lull_peer_network_close(peers->network);
    lull_job_node_destroy(peers->node);
    free(peers);
}

static void peers_poll_key(struct lull_peers *peers, int64_t now_ns)
{
    struct lull_error err = {0};

    if (peers->network != NULL || now_ns < peers->next_key_ns)
        return;
    peers->next_key_ns = now_ns + key_wait_ns;
    if (open_network(peers, &err) == 0)
        return;
    lull_log(LULL_LOG_WARNING, "run", "the GPUs stay at full clocks, without the other nodes: %s",
             err.text);
    peers->next_key_ns = INT64_MAX;
}

/* ---- proposals sent and received --------------------------------------------------------- */

/* Returns this node's GPUs; the control is locked. */
static struct lull_job_node_view peers_list_gpus(struct lull_control *control,
                                                 const struct lull_devices *devices)
{
    struct lull_job_node_view view = {
        .controller = lull_control_controlled(control),
        .gpu_count = lull_control_gpu_count(control),
    };

    for (uint32_t i = 0; i < view.gpu_count; i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(control, i);
        const struct lull_device_info *info = lull_device_info(devices, gpu->device);

        if (gpu->process >= 0)
            view.present |= UINT64_C(1) << i;
        if (info->sm_clock_count > 0)
            view.clocks_mhz[i] = info->sm_clocks_mhz;
    }
    return view;
}

static void peers_send(struct lull_peers *peers, const struct lull_job_node_view *view,
                       int64_t now_ns)
{
    struct lull_proposal proposal;

    if (lull_job_node_send(peers->node, view, now_ns, &proposal) && peers->network != NULL)
        lull_peer_network_send(peers->network, &proposal);
}

static void peers_receive(struct lull_peers *peers, struct lull_controller *controller,
                          int64_t now_ns)
{
    struct lull_proposal proposal;

    if (lull_job_node_is_alone(peers->node))
        return;
    while (peers->network != NULL && lull_peer_network_receive(peers->network, &proposal))
        lull_job_node_take(peers->node, controller, &proposal, now_ns);
}

static void note_state(struct lull_peers *peers, int64_t now_ns)
{
    const enum lull_agreement_state state = lull_job_node_state(peers->node, now_ns);

    if (state != peers->state &&
        (state == LULL_AGREEMENT_SILENT || state == LULL_AGREEMENT_DIFFERENT))
        lull_log(LULL_LOG_WARNING, "run", "the GPUs go to full clocks: %s",
                 lull_agreement_state_text(state));
    peers->state = state;
}

/* The network continues when this node is managed alone, because the first node's network forwards
 * messages between the others. */
static void peers_leave(struct lull_peers *peers, int64_t now_ns)
{
    if (!lull_job_node_part(peers->node, (int64_t)(peers->options.patience_s * 1e9), now_ns))
        return;
    lull_log(LULL_LOG_WARNING, "run",
             "this node is managed alone: in %g s the nodes have not agreed, because %s",
             peers->options.patience_s, lull_agreement_state_text(peers->state));
    peers->state = lull_job_node_state(peers->node, now_ns);
}

void lull_peers_tick(struct lull_peers *peers, struct lull_control *control,
                     struct lull_devices *devices, int64_t now_ns)
{
    struct lull_job_node_view view;

    peers_poll_key(peers, now_ns);
    lull_control_lock(control);
    view = peers_list_gpus(control, devices);
    peers_send(peers, &view, now_ns);
    peers_receive(peers, view.controller, now_ns);
    note_state(peers, now_ns);
    peers_leave(peers, now_ns);
    lull_job_node_apply(peers->node, &view, now_ns);
    lull_control_hold(control, LULL_HOLD_NODES, peers->state != LULL_AGREEMENT_AGREED);
    lull_control_unlock(control);
}

void lull_peers_summary(const struct lull_peers *peers, struct lull_peers_summary *summary_out)
{
    struct lull_peer_network_counts counts = {0};

    if (peers->network != NULL)
        lull_peer_network_counts(peers->network, &counts);
    *summary_out = (struct lull_peers_summary){
        .nodes = peers->options.nodes.count,
        .received = lull_job_node_received(peers->node),
        .agreed = lull_job_node_agreed(peers->node),
        .disagreements = lull_job_node_disagreements(peers->node),
        .refused = counts.refused,
        .state = lull_job_node_is_alone(peers->node)
                     ? "the nodes did not agree; each is managed alone"
                     : lull_agreement_state_text(peers->state),
    };
}
