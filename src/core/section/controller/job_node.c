/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/controller/job_node.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/section/controller/state.h"

/* A node says something at least this often, and counts as silent when eight words in a row are
 * missing: a network may lose some. */
static const int64_t word_ns = 250 * LULL_NS_PER_MS;
static const int64_t silence_ns = 2000 * LULL_NS_PER_MS;
/* A result holds only after this long, so that all nodes have heard of it by then. */
static const double notice_ms = 1000.0;
enum { NOTICE_ITERATIONS = 2 };

/* Keeps what this node last said of a section. */
struct voice {
    struct lull_proposal_entry entry;
    bool is_overruled; /* another node keeps this node above the clock that it would choose */
};

struct lull_job_node {
    struct lull_agreement *agreement;
    struct lull_arrivals *arrivals;
    struct lull_proposal proposal;
    struct voice voices[LULL_PROPOSAL_MAX_ENTRIES];
    uint32_t voice_count;
    uint64_t iteration;
    int64_t next_word_ns;
    enum lull_agreement_state state;
    bool is_alone;     /* the others do not count any more */
    uint32_t received; /* until then */
    uint32_t agreed;
    uint64_t disagreements;
};

struct lull_job_node *lull_job_node_create(uint32_t self, uint32_t nodes, uint64_t incarnation)
{
    struct lull_job_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->proposal =
        (struct lull_proposal){.node = self, .nodes = nodes, .incarnation = incarnation};
    node->agreement = lull_agreement_create(self, nodes, silence_ns);
    node->arrivals = lull_arrivals_create(self, nodes);
    if (node->agreement == NULL || node->arrivals == NULL) {
        lull_job_node_destroy(node);
        return NULL;
    }
    return node;
}

void lull_job_node_destroy(struct lull_job_node *node)
{
    if (node == NULL)
        return;
    lull_agreement_destroy(node->agreement);
    lull_arrivals_destroy(node->arrivals);
    free(node);
}

/* ---- points and clocks ------------------------------------------------------------------- */

static bool is_present(const struct lull_job_node_view *view, uint32_t gpu)
{
    return (view->present >> gpu & 1) != 0;
}

struct range {
    uint32_t lowest_mhz;
    uint32_t highest_mhz;
};

/* Returns the lowest and the highest clock that this node's GPUs have at a point of a target: nodes
 * exchange clocks, because their points may differ. */
static struct range job_node_clocks_of(const struct lull_job_node_view *view,
                                       const struct lull_target *target, uint32_t point)
{
    struct range range = {UINT32_MAX, 0};

    for (uint32_t i = 0; i < view->gpu_count; i++) {
        uint32_t mhz;

        if (!is_present(view, i) || view->clocks_mhz[i] == NULL)
            continue;
        mhz = view->clocks_mhz[i][lull_controller_point_on(view->controller, i, target, point)];
        if (mhz < range.lowest_mhz)
            range.lowest_mhz = mhz;
        if (mhz > range.highest_mhz)
            range.highest_mhz = mhz;
    }
    return range;
}

/* Returns the lowest point at which no GPU runs below this clock; 0 (the reference) if all others
 * do. */
static uint32_t point_not_below(const struct lull_job_node_view *view,
                                const struct lull_target *target, uint32_t mhz)
{
    uint32_t point = target->descent.count - 1;

    while (point > 0 && job_node_clocks_of(view, target, point).lowest_mhz < mhz)
        point--;
    return point;
}

/* Returns the highest point at which a GPU runs at this clock or lower; the descent's count if
 * there is none. */
static uint32_t point_refused(const struct lull_job_node_view *view,
                              const struct lull_target *target, uint32_t mhz)
{
    uint32_t point = 1;

    while (point < target->descent.count &&
           job_node_clocks_of(view, target, point).lowest_mhz > mhz)
        point++;
    return point < target->descent.count ? point : target->descent.count;
}

/* ---- what this node says ----------------------------------------------------------------- */

static struct voice *voice_of(struct lull_job_node *node, uint64_t signature)
{
    for (uint32_t i = 0; i < node->voice_count; i++)
        if (node->voices[i].entry.signature == signature)
            return &node->voices[i];
    return NULL;
}

/* Returns the first iteration in which a result that is sent now can hold on all nodes: all have
 * received it by then. */
static uint64_t job_node_notice(const struct lull_job_node_view *view, uint32_t gpu,
                                uint64_t iteration)
{
    const double iteration_ms = lull_track_iteration_ms(view->controller->gpus[gpu].track)->mean;
    const double iterations = iteration_ms > 0.0 ? ceil(notice_ms / iteration_ms) : 0.0;

    return iteration + (uint64_t)fmin(iterations, 1e9) + NOTICE_ITERATIONS;
}

static struct lull_proposal_entry entry_of(const struct lull_job_node_view *view,
                                           const struct lull_target *target)
{
    const struct lull_descent *descent = &target->descent;

    return (struct lull_proposal_entry){
        .signature = target->signature,
        .kept_mhz = descent->good == 0
                        ? LULL_AGREEMENT_REFERENCE
                        : job_node_clocks_of(view, target, descent->good).highest_mhz,
        .refused_mhz = descent->bad < descent->count
                           ? job_node_clocks_of(view, target, descent->bad).highest_mhz
                           : 0,
        .settled = target->settled,
    };
}

/* Returns the first GPU whose place in the iteration is known; -1: there is none. */
static int32_t known_gpu(const struct lull_job_node_view *view)
{
    for (uint32_t i = 0; i < view->gpu_count; i++)
        if (is_present(view, i) &&
            lull_track_phase(view->controller->gpus[i].track) == LULL_TRACK_KNOWN)
            return (int32_t)i;
    return -1;
}

/* Fills in what this node says of each target. A lower clock than before holds only from a later
 * iteration on, by which all nodes have heard of it. */
static void voice_targets(struct lull_job_node *node, const struct lull_job_node_view *view,
                          uint32_t gpu)
{
    const uint64_t iteration = lull_track_iteration(view->controller->gpus[gpu].track);
    const bool is_recounted = iteration < node->iteration;
    struct voice voices[LULL_PROPOSAL_MAX_ENTRIES] = {0};
    const struct lull_targets *targets = &view->controller->targets;

    for (uint32_t i = 0; i < targets->count && i < LULL_PROPOSAL_MAX_ENTRIES; i++) {
        const struct voice *before = voice_of(node, targets->list[i].signature);

        if (before != NULL)
            voices[i] = *before;
        voices[i].entry = entry_of(view, &targets->list[i]);
        voices[i].entry.from_iteration =
            before != NULL && !is_recounted && voices[i].entry.kept_mhz >= before->entry.kept_mhz
                ? before->entry.from_iteration
                : job_node_notice(view, gpu, iteration);
    }
    memcpy(node->voices, voices, sizeof(voices));
    node->voice_count = lull_min_u32(targets->count, LULL_PROPOSAL_MAX_ENTRIES);
    node->iteration = iteration;
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

bool lull_job_node_send(struct lull_job_node *node, const struct lull_job_node_view *view,
                        int64_t now_ns, struct lull_proposal *proposal_out)
{
    const int32_t gpu = known_gpu(view);
    struct lull_proposal *proposal = &node->proposal;
    const struct lull_proposal before = *proposal;
    bool is_new;

    proposal->structure = 0;
    if (gpu >= 0) {
        const struct lull_track *track = view->controller->gpus[gpu].track;

        proposal->structure = lull_signature_join(0, lull_track_period(track));
        proposal->window_iterations = lull_controller_window(view->controller);
        voice_targets(node, view, (uint32_t)gpu);
    }
    proposal->entry_count = node->voice_count;
    for (uint32_t i = 0; i < node->voice_count; i++)
        proposal->entries[i] = node->voices[i].entry;
    /* The last arrival is sent again, because a word may be lost. */
    is_new = lull_controller_report(view->controller, &proposal->arrival);
    if (!is_new && now_ns < node->next_word_ns && !is_other(proposal, &before))
        return false;
    node->next_word_ns = now_ns + word_ns;
    proposal->sequence++;
    *proposal_out = *proposal;
    lull_job_node_take(node, view->controller, proposal, now_ns);
    return !node->is_alone;
}

bool lull_job_node_leave(struct lull_job_node *node, struct lull_proposal *proposal_out)
{
    node->proposal.leaving = 1;
    node->proposal.sequence++;
    *proposal_out = node->proposal;
    return !node->is_alone;
}

/* ---- what others say --------------------------------------------------------------------- */

/* Takes a node's report about how its ranks arrive. What follows from the words of all nodes is
 * applied at once. */
static void take_arrival(struct lull_job_node *node, struct lull_controller *controller,
                         const struct lull_proposal *proposal, int64_t now_ns)
{
    struct lull_arrival latest;

    lull_arrivals_take(node->arrivals, proposal->node, proposal->incarnation, &proposal->arrival);
    while (lull_arrivals_find(node->arrivals, &latest))
        lull_controller_receive(controller, &latest, now_ns);
}

void lull_job_node_take(struct lull_job_node *node, struct lull_controller *controller,
                        const struct lull_proposal *proposal, int64_t now_ns)
{
    lull_agreement_take(node->agreement, proposal, now_ns);
    if (!node->is_alone)
        take_arrival(node, controller, proposal, now_ns);
}

enum lull_agreement_state lull_job_node_state(struct lull_job_node *node, int64_t now_ns)
{
    const enum lull_agreement_state state = lull_agreement_state(node->agreement, now_ns);

    node->disagreements += state != node->state && node->state == LULL_AGREEMENT_AGREED;
    node->state = state;
    return state;
}

bool lull_job_node_part(struct lull_job_node *node, int64_t patience_ns, int64_t now_ns)
{
    struct lull_agreement *alone;

    if (node->is_alone || !lull_agreement_is_hopeless(node->agreement, now_ns, patience_ns))
        return false;
    alone = lull_agreement_create(0, 1, silence_ns);
    if (alone == NULL)
        return false;
    node->is_alone = true;
    node->received = lull_agreement_received(node->agreement);
    lull_agreement_destroy(node->agreement);
    node->agreement = alone;
    node->proposal.node = 0;
    node->proposal.nodes = 1;
    lull_agreement_take(alone, &node->proposal, now_ns);
    node->state = lull_agreement_state(alone, now_ns);
    return true;
}

/* ---- what follows ------------------------------------------------------------------------ */

static void note_overruling(struct lull_job_node *node, const struct lull_agreement_clock *clock,
                            uint64_t signature)
{
    struct voice *voice = voice_of(node, signature);
    const bool is_overruled = voice != NULL && voice->entry.settled == 1 &&
                              voice->entry.kept_mhz < clock->mhz &&
                              node->state == LULL_AGREEMENT_AGREED;

    if (voice == NULL)
        return;
    if (is_overruled && !voice->is_overruled)
        node->disagreements++;
    voice->is_overruled = is_overruled;
}

void lull_job_node_apply(struct lull_job_node *node, const struct lull_job_node_view *view,
                         int64_t now_ns)
{
    const struct lull_targets *targets = &view->controller->targets;

    node->agreed = 0;
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct lull_target *target = &targets->list[i];
        const struct lull_agreement_clock clock =
            lull_agreement_clock(node->agreement, target->signature, now_ns);

        note_overruling(node, &clock, target->signature);
        node->agreed += clock.mhz != LULL_AGREEMENT_REFERENCE && target->settled;
        lull_controller_agree(view->controller, i, point_not_below(view, target, clock.mhz),
                              clock.from_iteration, point_refused(view, target, clock.refused_mhz));
    }
    lull_controller_align(view->controller, lull_agreement_window(node->agreement));
    lull_controller_share_seed(view->controller, lull_agreement_seed(node->agreement));
}

uint32_t lull_job_node_received(const struct lull_job_node *node)
{
    return node->is_alone ? node->received : lull_agreement_received(node->agreement);
}

uint32_t lull_job_node_agreed(const struct lull_job_node *node)
{
    return node->is_alone ? 0 : node->agreed;
}

uint64_t lull_job_node_disagreements(const struct lull_job_node *node)
{
    return node->disagreements;
}

bool lull_job_node_is_alone(const struct lull_job_node *node)
{
    return node->is_alone;
}
