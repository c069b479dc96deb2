/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/peers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "core/section/agreement.h"
#include "governor/peers/job_key.h"

/* A node says something at least this often, and counts as silent when eight words in a row are
 * missing: a network may lose some. Chosen, not measured. */
static const int64_t word_ns = 250 * LULL_NS_PER_MS;
static const int64_t silence_ns = 2000 * LULL_NS_PER_MS;
/* The key of the first node is looked for this often. */
static const int64_t key_wait_ns = 1000 * LULL_NS_PER_MS;
/* A result holds only after this long, so that all nodes have heard of it by then. */
static const double notice_ms = 1000.0;
enum { NOTICE_ITERATIONS = 2 };

/* What this node last said of a section. */
struct voice {
    struct lull_proposal_entry entry;
    bool is_overruled; /* another node keeps this node above the clock that it would choose */
};

struct lull_peers {
    struct lull_peers_options options;
    struct lull_peer_network *network; /* NULL: no key yet */
    struct lull_agreement *agreement;
    struct lull_proposal proposal;
    struct voice voices[LULL_PROPOSAL_MAX_ENTRIES];
    uint32_t voice_count;
    uint64_t iteration;
    int64_t next_word_ns;
    int64_t next_key_ns;
    enum lull_agreement_state state;
    bool is_alone;  /* the others are not heard any more, and do not hear this one */
    uint32_t heard; /* until then */
    uint32_t agreed;
    uint64_t disagreements;
};

/* What the functions of one tick are given. */
struct view {
    struct lull_control *control;
    const struct lull_controller *controller;
    struct lull_devices *devices;
};

/* ---- which node this is ------------------------------------------------------------------ */

/* How launchers name the node and the number of nodes. With one lull run per node the ranks of the
 * launcher are the nodes. */
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

static int set_nodes(const char *self, const char *count, struct lull_nodes *nodes_out)
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
    return set_nodes(self, slash + 1, nodes_out);
}

int lull_nodes_find(struct lull_nodes *nodes_out, struct lull_error *err)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *self = getenv(launchers[i].self);
        const char *count = getenv(launchers[i].count);

        if (self != NULL && count != NULL && set_nodes(self, count, nodes_out) == 0)
            return 0;
    }
    return lull_error_set(err, -ENOENT,
                          "no launcher says which node of how many (at most %d) this is; give "
                          "--node I/N",
                          LULL_AGREEMENT_MAX_NODES);
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

/* The first node may write its key later, so its lack is no error; any other failure is final. */
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
                              "nodes talk to each other with a job key only; give --together-key");
    peers = calloc(1, sizeof(*peers));
    if (peers == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the other nodes");
    peers->options = *options;
    peers->options.nodes = nodes;
    peers->proposal = (struct lull_proposal){
        .node = nodes.self, .nodes = nodes.count, .incarnation = incarnation_now()};
    peers->agreement = lull_agreement_create(nodes.self, nodes.count, silence_ns);
    if (peers->agreement == NULL)
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
    if (peers == NULL)
        return;
    if (peers->network != NULL && !peers->is_alone) {
        peers->proposal.leaving = 1;
        peers->proposal.sequence++;
        lull_peer_network_say(peers->network, &peers->proposal);
    }
    lull_peer_network_close(peers->network);
    lull_agreement_destroy(peers->agreement);
    free(peers);
}

static void look_for_key(struct lull_peers *peers, int64_t now_ns)
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

/* ---- points and clocks ------------------------------------------------------------------- */

struct range {
    uint32_t lowest_mhz;
    uint32_t highest_mhz;
};

/* Returns the lowest and the highest clock that this node's GPUs have at a point of a target: nodes
 * tell each other clocks, because their points may differ. */
static struct range clocks_of(const struct view *view, const struct lull_target *target,
                              uint32_t point)
{
    struct range range = {UINT32_MAX, 0};

    for (uint32_t i = 0; i < lull_control_gpu_count(view->control); i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(view->control, i);
        const struct lull_device_info *info = lull_device_info(view->devices, gpu->device);
        uint32_t mhz;

        if (gpu->process < 0 || info->sm_clock_count == 0)
            continue;
        mhz = info->sm_clocks_mhz[lull_controller_point_on(view->controller, i, target, point)];
        if (mhz < range.lowest_mhz)
            range.lowest_mhz = mhz;
        if (mhz > range.highest_mhz)
            range.highest_mhz = mhz;
    }
    return range;
}

/* Returns the lowest point at which no GPU runs below this clock; 0 (the reference) if all others
 * do. */
static uint32_t point_not_below(const struct view *view, const struct lull_target *target,
                                uint32_t mhz)
{
    uint32_t point = target->descent.count - 1;

    while (point > 0 && clocks_of(view, target, point).lowest_mhz < mhz)
        point--;
    return point;
}

/* Returns the highest point at which a GPU runs at this clock or lower; the descent's count if
 * there is none. */
static uint32_t point_refused(const struct view *view, const struct lull_target *target,
                              uint32_t mhz)
{
    uint32_t point = 1;

    while (point < target->descent.count && clocks_of(view, target, point).lowest_mhz > mhz)
        point++;
    return point < target->descent.count ? point : target->descent.count;
}

/* ---- what this node says ----------------------------------------------------------------- */

static struct voice *voice_of(struct lull_peers *peers, uint64_t signature)
{
    for (uint32_t i = 0; i < peers->voice_count; i++)
        if (peers->voices[i].entry.signature == signature)
            return &peers->voices[i];
    return NULL;
}

/* Returns the first iteration in which a result that is told now can hold on all nodes: by then all
 * have heard of it. */
static uint64_t notice(const struct view *view, uint32_t gpu, uint64_t iteration)
{
    const double iteration_ms =
        lull_track_iteration_ms(lull_controller_track(view->controller, gpu))->mean;
    const double iterations = iteration_ms > 0.0 ? ceil(notice_ms / iteration_ms) : 0.0;

    return iteration + (uint64_t)fmin(iterations, 1e9) + NOTICE_ITERATIONS;
}

static struct lull_proposal_entry entry_of(const struct view *view,
                                           const struct lull_target *target)
{
    const struct lull_descent *descent = &target->descent;

    return (struct lull_proposal_entry){
        .signature = target->signature,
        .kept_mhz = descent->good == 0 ? LULL_AGREEMENT_REFERENCE
                                       : clocks_of(view, target, descent->good).highest_mhz,
        .refused_mhz =
            descent->bad < descent->count ? clocks_of(view, target, descent->bad).highest_mhz : 0,
        .settled = target->settled,
    };
}

/* Returns the first GPU whose place in the iteration is known; -1: there is none. */
static int32_t known_gpu(const struct view *view)
{
    for (uint32_t i = 0; i < lull_control_gpu_count(view->control); i++)
        if (lull_control_gpu(view->control, i)->process >= 0 &&
            lull_track_phase(lull_controller_track(view->controller, i)) == LULL_TRACK_KNOWN)
            return (int32_t)i;
    return -1;
}

/* Fills in what this node says of each target. A lower clock than before holds only from a later
 * iteration on, by which all nodes have heard of it. */
static void voice_targets(struct lull_peers *peers, const struct view *view, uint32_t gpu)
{
    const uint64_t iteration = lull_track_iteration(lull_controller_track(view->controller, gpu));
    const bool is_counted_anew = iteration < peers->iteration;
    struct voice voices[LULL_PROPOSAL_MAX_ENTRIES] = {0};
    uint32_t count;
    const struct lull_target *targets = lull_controller_targets(view->controller, &count);

    for (uint32_t i = 0; i < count && i < LULL_PROPOSAL_MAX_ENTRIES; i++) {
        const struct voice *before = voice_of(peers, targets[i].signature);

        if (before != NULL)
            voices[i] = *before;
        voices[i].entry = entry_of(view, &targets[i]);
        voices[i].entry.from_iteration =
            before != NULL && !is_counted_anew && voices[i].entry.kept_mhz >= before->entry.kept_mhz
                ? before->entry.from_iteration
                : notice(view, gpu, iteration);
    }
    memcpy(peers->voices, voices, sizeof(voices));
    peers->voice_count = count < LULL_PROPOSAL_MAX_ENTRIES ? count : LULL_PROPOSAL_MAX_ENTRIES;
    peers->iteration = iteration;
}

/* Members are compared one by one, because the padding of an entry may hold anything. */
static bool is_other_entry(const struct lull_proposal_entry *left,
                           const struct lull_proposal_entry *right)
{
    return left->signature != right->signature || left->from_iteration != right->from_iteration ||
           left->kept_mhz != right->kept_mhz || left->refused_mhz != right->refused_mhz ||
           left->settled != right->settled;
}

static bool is_other(const struct lull_proposal *left, const struct lull_proposal *right)
{
    if (left->structure != right->structure || left->entry_count != right->entry_count ||
        left->window_iterations != right->window_iterations)
        return true;
    for (uint32_t i = 0; i < left->entry_count; i++)
        if (is_other_entry(&left->entries[i], &right->entries[i]))
            return true;
    return false;
}

static void say(struct lull_peers *peers, const struct view *view, int64_t now_ns)
{
    const int32_t gpu = known_gpu(view);
    struct lull_proposal *proposal = &peers->proposal;
    const struct lull_proposal before = *proposal;

    proposal->structure = 0;
    if (gpu >= 0) {
        const struct lull_track *track = lull_controller_track(view->controller, (uint32_t)gpu);

        proposal->structure = lull_signature_join(0, lull_track_period(track));
        proposal->window_iterations = lull_controller_window(view->controller);
        voice_targets(peers, view, (uint32_t)gpu);
    }
    proposal->entry_count = peers->voice_count;
    for (uint32_t i = 0; i < peers->voice_count; i++)
        proposal->entries[i] = peers->voices[i].entry;
    if (now_ns < peers->next_word_ns && !is_other(proposal, &before))
        return;
    peers->next_word_ns = now_ns + word_ns;
    proposal->sequence++;
    lull_agreement_take(peers->agreement, proposal, now_ns);
    if (peers->network != NULL && !peers->is_alone)
        lull_peer_network_say(peers->network, proposal);
}

static void hear(struct lull_peers *peers, int64_t now_ns)
{
    struct lull_proposal proposal;

    if (peers->is_alone)
        return;
    while (peers->network != NULL && lull_peer_network_hear(peers->network, &proposal))
        lull_agreement_take(peers->agreement, &proposal, now_ns);
}

/* ---- what follows ------------------------------------------------------------------------ */

static void note_state(struct lull_peers *peers, int64_t now_ns)
{
    const enum lull_agreement_state state = lull_agreement_state(peers->agreement, now_ns);

    if (state == peers->state)
        return;
    if (peers->state == LULL_AGREEMENT_AGREED)
        peers->disagreements++;
    if (state == LULL_AGREEMENT_SILENT || state == LULL_AGREEMENT_DIFFERENT)
        lull_log(LULL_LOG_WARNING, "run", "the GPUs go to full clocks: %s",
                 lull_agreement_state_text(state));
    peers->state = state;
}

/* Gives up the others where they do not come together: this node agrees with itself from now on.
 * Its network goes on, since the first node's carries what others say to each other. */
static void part(struct lull_peers *peers, int64_t now_ns)
{
    struct lull_agreement *alone;

    if (peers->is_alone || !lull_agreement_is_hopeless(peers->agreement, now_ns,
                                                       (int64_t)(peers->options.patience_s * 1e9)))
        return;
    alone = lull_agreement_create(0, 1, silence_ns);
    if (alone == NULL)
        return;
    lull_log(LULL_LOG_WARNING, "run",
             "this node is managed alone: in %g s the nodes have not agreed, because %s",
             peers->options.patience_s, lull_agreement_state_text(peers->state));
    peers->is_alone = true;
    peers->heard = lull_agreement_heard(peers->agreement);
    lull_agreement_destroy(peers->agreement);
    peers->agreement = alone;
    peers->proposal.node = 0;
    peers->proposal.nodes = 1;
    lull_agreement_take(alone, &peers->proposal, now_ns);
    peers->state = lull_agreement_state(alone, now_ns);
}

static void note_overruling(struct lull_peers *peers, const struct lull_agreement_clock *clock,
                            uint64_t signature)
{
    struct voice *voice = voice_of(peers, signature);
    const bool is_overruled = voice != NULL && voice->entry.settled == 1 &&
                              voice->entry.kept_mhz < clock->mhz &&
                              peers->state == LULL_AGREEMENT_AGREED;

    if (voice == NULL)
        return;
    if (is_overruled && !voice->is_overruled)
        peers->disagreements++;
    voice->is_overruled = is_overruled;
}

static void apply(struct lull_peers *peers, struct lull_controller *controller,
                  const struct view *view, int64_t now_ns)
{
    uint32_t count;
    const struct lull_target *targets = lull_controller_targets(controller, &count);

    peers->agreed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct lull_target *target = &targets[i];
        const struct lull_agreement_clock clock =
            lull_agreement_clock(peers->agreement, target->signature, now_ns);

        note_overruling(peers, &clock, target->signature);
        peers->agreed += clock.mhz != LULL_AGREEMENT_REFERENCE && target->settled;
        lull_controller_agree(controller, i, point_not_below(view, target, clock.mhz),
                              clock.from_iteration, point_refused(view, target, clock.refused_mhz));
    }
    lull_controller_align(controller, lull_agreement_window(peers->agreement));
}

void lull_peers_tick(struct lull_peers *peers, struct lull_control *control,
                     struct lull_devices *devices, int64_t now_ns)
{
    struct lull_controller *controller = lull_control_controlled(control);
    const struct view view = {control, controller, devices};

    look_for_key(peers, now_ns);
    lull_control_lock(control);
    say(peers, &view, now_ns);
    hear(peers, now_ns);
    note_state(peers, now_ns);
    part(peers, now_ns);
    apply(peers, controller, &view, now_ns);
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
        .heard = peers->is_alone ? peers->heard : lull_agreement_heard(peers->agreement),
        .agreed = peers->is_alone ? 0 : peers->agreed,
        .disagreements = peers->disagreements,
        .refused = counts.refused,
        .state = peers->is_alone ? "the nodes did not agree; each is managed alone"
                                 : lull_agreement_state_text(peers->state),
    };
}
