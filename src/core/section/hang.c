/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/hang.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

enum {
    /* Operations of one communicator that are open at once: sends and receives on several streams.
     */
    OPEN_CALLS = 8,
    /* After so many later ones have ended, the end of an operation was not reported. */
    FORGOTTEN_AFTER = 64,
    /* With so many operations enqueued since its last timed kernel, as many as a driver's queue
     * holds, the kernels of a rank are not timed any more. */
    UNTIMED_AFTER = 1024,
};

/* A call or kernel that has begun and not ended. */
struct open_call {
    int64_t begin_ns; /* 0: the place is free */
    uint32_t number;
    uint32_t passed; /* later ones that have ended */
    uint16_t operation;
    bool is_kernel;
    bool is_collective;
};

struct hang_communicator {
    uint32_t id; /* 0: unknown */
    uint32_t ranks;
    bool is_used;
    bool is_enqueued; /* its collectives are enqueued, and run on the GPU */
    uint64_t entered;
    int64_t entered_ns; /* when the last collective was */
    struct open_call open[OPEN_CALLS];
};

struct hang_rank {
    bool is_present;
    bool has_lost; /* its counts are void */
    enum lull_hang_process process;
    bool has_communicator;
    bool is_timed;    /* begin and end of its kernels are reported */
    uint32_t untimed; /* operations enqueued since the last such report */
    struct lull_hang_call last;
    struct hang_communicator communicators[LULL_HANG_COMMUNICATORS];
};

struct lull_hang {
    int64_t bound_ns;
    uint32_t count; /* ranks 0..count-1 have been present */
    int64_t progress_ns;
    struct hang_rank ranks[LULL_HANG_RANKS];
};

struct lull_hang *lull_hang_create(int64_t bound_ns)
{
    struct lull_hang *hang = calloc(1, sizeof(*hang));

    assert(bound_ns > 0);
    if (hang != NULL)
        hang->bound_ns = bound_ns;
    return hang;
}

void lull_hang_destroy(struct lull_hang *hang)
{
    free(hang);
}

/* ---- edges ------------------------------------------------------------------------------- */

static struct hang_rank *hang_rank_of(struct lull_hang *hang, uint32_t rank)
{
    assert(rank < LULL_HANG_RANKS);
    if (!hang->ranks[rank].is_present)
        lull_hang_join(hang, rank);
    return &hang->ranks[rank];
}

/* The last place is that of several communicators, so it has no size. */
static struct hang_communicator *hang_communicator_of(struct hang_rank *rank,
                                                      const struct lull_hang_edge *edge)
{
    const uint32_t last = LULL_HANG_COMMUNICATORS - 1;
    struct hang_communicator *const communicator =
        &rank->communicators[lull_min_u32(edge->communicator, last)];

    if (!communicator->is_used) {
        *communicator = (struct hang_communicator){.is_used = true};
        communicator->ranks = edge->communicator < last ? edge->ranks : 0;
    }
    rank->has_communicator = true;
    return communicator;
}

void lull_hang_join(struct lull_hang *hang, uint32_t rank)
{
    assert(rank < LULL_HANG_RANKS);
    memset(&hang->ranks[rank], 0, sizeof(hang->ranks[rank]));
    hang->ranks[rank].is_present = true;
    hang->count = lull_max_u32(hang->count, rank + 1);
}

void lull_hang_set_process(struct lull_hang *hang, uint32_t rank, enum lull_hang_process process)
{
    hang_rank_of(hang, rank)->process = process;
}

void lull_hang_announce(struct lull_hang *hang, uint32_t rank, uint32_t communicator, uint32_t id,
                        uint32_t ranks)
{
    struct hang_rank *const taker = hang_rank_of(hang, rank);

    if (communicator >= LULL_HANG_COMMUNICATORS - 1)
        return;
    taker->has_communicator = true;
    taker->communicators[communicator] =
        (struct hang_communicator){.id = id, .ranks = ranks, .is_used = true};
}

static void hang_advance(struct lull_hang *hang, int64_t time_ns)
{
    if (time_ns > hang->progress_ns)
        hang->progress_ns = time_ns;
}

static void hang_note(struct hang_rank *rank, const struct lull_hang_edge *edge)
{
    rank->last = (struct lull_hang_call){
        .time_ns = edge->time_ns,
        .communicator = edge->communicator,
        .operation = edge->operation,
    };
}

static void hang_count(struct hang_communicator *communicator, const struct lull_hang_edge *edge)
{
    if (!edge->is_collective)
        return;
    communicator->entered++;
    communicator->entered_ns = edge->time_ns;
}

void lull_hang_enqueue(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge)
{
    struct hang_rank *const taker = hang_rank_of(hang, rank);
    struct hang_communicator *const communicator = hang_communicator_of(taker, edge);

    communicator->is_enqueued = true;
    hang_count(communicator, edge);
    hang_note(taker, edge);
    taker->untimed++;
    if (taker->untimed > UNTIMED_AFTER)
        taker->is_timed = false;
    if (!taker->is_timed)
        hang_advance(hang, edge->time_ns);
}

static void hang_note_timed(struct hang_rank *rank, const struct lull_hang_edge *edge)
{
    if (!edge->is_kernel)
        return;
    rank->is_timed = true;
    rank->untimed = 0;
}

/* Without a free place the oldest call, whose end is probably lost, gives up its place. */
static struct open_call *find_place(struct hang_communicator *communicator)
{
    struct open_call *place = &communicator->open[0];

    for (uint32_t i = 1; i < OPEN_CALLS; i++)
        if (communicator->open[i].begin_ns < place->begin_ns)
            place = &communicator->open[i];
    return place;
}

void lull_hang_begin(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge)
{
    struct hang_rank *const taker = hang_rank_of(hang, rank);
    struct hang_communicator *const communicator = hang_communicator_of(taker, edge);

    hang_note_timed(taker, edge);
    if (!edge->is_kernel) { /* kernels are counted when they are enqueued */
        hang_count(communicator, edge);
        hang_note(taker, edge);
    }
    *find_place(communicator) = (struct open_call){
        .begin_ns = edge->time_ns,
        .number = edge->number,
        .operation = edge->operation,
        .is_kernel = edge->is_kernel,
        .is_collective = edge->is_collective,
    };
}

/* Returns whether a call is over when this one has ended. Collectives of one communicator run one
 * after the other, so earlier ones have ended as well. Other kernels may run beside each other. */
static bool hang_is_over(const struct open_call *call, const struct lull_hang_edge *edge)
{
    const int32_t distance = (int32_t)(edge->number - call->number);

    if (call->is_kernel != edge->is_kernel)
        return false;
    if (call->is_kernel && call->is_collective && edge->is_collective)
        return distance >= 0;
    return distance == 0;
}

void lull_hang_end(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge)
{
    struct hang_rank *const taker = hang_rank_of(hang, rank);
    struct hang_communicator *const communicator = hang_communicator_of(taker, edge);

    hang_note_timed(taker, edge);
    if (!edge->is_kernel)
        hang_note(taker, edge);
    hang_advance(hang, edge->time_ns);
    for (uint32_t i = 0; i < OPEN_CALLS; i++) {
        struct open_call *const call = &communicator->open[i];

        if (call->begin_ns == 0)
            continue;
        call->passed++;
        if (call->passed > FORGOTTEN_AFTER || hang_is_over(call, edge))
            call->begin_ns = 0;
    }
}

void lull_hang_lose(struct lull_hang *hang, uint32_t rank)
{
    struct hang_rank *const taker = hang_rank_of(hang, rank);

    taker->has_lost = true;
    for (uint32_t i = 0; i < LULL_HANG_COMMUNICATORS; i++)
        memset(taker->communicators[i].open, 0, sizeof(taker->communicators[i].open));
}

/* ---- what a rank is inside --------------------------------------------------------------- */

/* Finds the oldest call that the rank is inside; NULL: it is inside none. */
static const struct open_call *find_oldest(const struct hang_rank *rank, uint32_t *index_out)
{
    const struct open_call *oldest = NULL;

    for (uint32_t i = 0; i < LULL_HANG_COMMUNICATORS; i++)
        for (uint32_t j = 0; rank->communicators[i].is_used && j < OPEN_CALLS; j++) {
            const struct open_call *const call = &rank->communicators[i].open[j];

            if (call->begin_ns == 0 || (oldest != NULL && oldest->begin_ns <= call->begin_ns))
                continue;
            oldest = call;
            *index_out = i;
        }
    return oldest;
}

/* Returns whether two communicators, each of another rank, are the same as far as known. Those of
 * unknown size pass for one. */
static bool is_same(const struct hang_communicator *a, const struct hang_communicator *b)
{
    return a->is_used && b->is_used && a->id == b->id && a->ranks == b->ranks;
}

/* Returns the rank's part of a communicator of another rank; NULL: it is no member, or has several
 * that may be it. */
static const struct hang_communicator *
find_part(const struct hang_rank *rank, const struct hang_communicator *whole, bool *is_member_out)
{
    const struct hang_communicator *part = NULL;
    uint32_t parts = 0;

    for (uint32_t i = 0; i < LULL_HANG_COMMUNICATORS; i++)
        if (is_same(&rank->communicators[i], whole)) {
            part = &rank->communicators[i];
            parts++;
        }
    *is_member_out = parts > 0;
    return parts == 1 && whole->ranks != 0 ? part : NULL;
}

/* The members of a communicator on this node, and the most collectives that one has entered. */
struct members {
    uint32_t count;
    bool is_comparable;
    uint64_t most_entered;
    uint64_t least_entered;
};

static struct members find_members(const struct lull_hang *hang,
                                   const struct hang_communicator *whole)
{
    struct members members = {.is_comparable = true, .least_entered = UINT64_MAX};

    for (uint32_t i = 0; i < hang->count; i++) {
        const struct hang_rank *const rank = &hang->ranks[i];
        const struct hang_communicator *part;
        bool is_member = false;

        if (!rank->has_communicator)
            continue;
        part = find_part(rank, whole, &is_member);
        members.count += is_member;
        if (!is_member)
            continue;
        if (part == NULL || rank->has_lost) {
            members.is_comparable = false;
            continue;
        }
        if (part->entered > members.most_entered)
            members.most_entered = part->entered;
        if (part->entered < members.least_entered)
            members.least_entered = part->entered;
    }
    if (members.count > whole->ranks)
        members.is_comparable = false;
    return members;
}

/* Returns the communicator in which a rank without timed kernels has entered more collectives than
 * another member; NULL: there is none. */
static const struct hang_communicator *find_ahead(const struct lull_hang *hang,
                                                  const struct hang_rank *rank)
{
    if (rank->is_timed || rank->has_lost)
        return NULL;
    for (uint32_t i = 0; i + 1 < LULL_HANG_COMMUNICATORS; i++) {
        const struct hang_communicator *const communicator = &rank->communicators[i];
        struct members members;

        if (!communicator->is_enqueued)
            continue;
        members = find_members(hang, communicator);
        if (members.is_comparable && communicator->entered > members.least_entered)
            return communicator;
    }
    return NULL;
}

/* Finds what a rank is inside, and since when. False: nothing. */
static bool find_inside(const struct lull_hang *hang, const struct hang_rank *rank,
                        const struct hang_communicator **communicator_out, int64_t *since_ns_out)
{
    uint32_t index = 0;
    const struct open_call *const call = find_oldest(rank, &index);

    if (call != NULL) {
        *communicator_out = &rank->communicators[index];
        *since_ns_out = call->begin_ns;
        return true;
    }
    *communicator_out = find_ahead(hang, rank);
    if (*communicator_out == NULL)
        return false;
    *since_ns_out = (*communicator_out)->entered_ns;
    return true;
}

/* Returns the rank that has been inside for the longest time, of those that live; count: none is
 * inside. */
static uint32_t find_oldest_rank(const struct lull_hang *hang, int64_t *since_ns_out)
{
    uint32_t oldest = hang->count;

    for (uint32_t i = 0; i < hang->count; i++) {
        const struct hang_communicator *communicator;
        int64_t since_ns = 0;

        if (!hang->ranks[i].has_communicator || hang->ranks[i].process == LULL_HANG_ENDED ||
            !find_inside(hang, &hang->ranks[i], &communicator, &since_ns))
            continue;
        if (oldest < hang->count && *since_ns_out <= since_ns)
            continue;
        oldest = i;
        *since_ns_out = since_ns;
    }
    return oldest;
}

bool lull_hang_is_due(const struct lull_hang *hang, int64_t now_ns)
{
    int64_t since_ns = INT64_MAX;

    if (now_ns - hang->progress_ns < hang->bound_ns ||
        find_oldest_rank(hang, &since_ns) == hang->count)
        return false;
    return now_ns - since_ns >= hang->bound_ns;
}

struct lull_hang_call lull_hang_look(const struct lull_hang *hang, uint32_t rank)
{
    const struct hang_rank *const looked_at = &hang->ranks[rank];
    const struct hang_communicator *communicator;
    struct lull_hang_call call = looked_at->last;
    uint32_t index = 0;
    const struct open_call *const open = find_oldest(looked_at, &index);

    assert(rank < LULL_HANG_RANKS);
    if (!find_inside(hang, looked_at, &communicator, &call.time_ns))
        return call;
    call.is_inside = true;
    call.communicator = (uint32_t)(communicator - looked_at->communicators);
    if (open == NULL) /* only its enqueueing is known, and the last operation stands for it */
        return call;
    call.operation = open->operation;
    call.is_kernel = open->is_kernel;
    return call;
}

/* ---- who is missing ---------------------------------------------------------------------- */

/* The communicator in whose collective each rank is; NULL: the rank is in none. */
struct hang_picture {
    const struct hang_communicator *inside[LULL_HANG_RANKS];
};

static void draw_picture(const struct lull_hang *hang, struct hang_picture *picture)
{
    for (uint32_t i = 0; i < hang->count; i++) {
        const struct hang_communicator *communicator;
        int64_t since_ns;

        if (!hang->ranks[i].has_communicator ||
            !find_inside(hang, &hang->ranks[i], &communicator, &since_ns))
            continue;
        picture->inside[i] = communicator;
    }
}

static void mark_missing(struct lull_hang_finding *finding, uint32_t rank)
{
    if (finding->is_missing[rank])
        return;
    finding->is_missing[rank] = true;
    finding->missing_count++;
}

/* Returns whether a rank that is inside nothing may hold up the communicator. A process that has
 * not communicated yet may be the member that the others have not seen. */
static bool may_be_outside(const struct hang_rank *rank, const struct hang_communicator *whole,
                           bool is_member, uint32_t member_count)
{
    if (!rank->has_communicator)
        return whole->id == 0 && member_count < whole->ranks;
    return is_member && (rank->is_timed || !whole->is_enqueued);
}

/* Marks the members of a communicator that are inside nothing. late_only: only those that have
 * entered fewer of its collectives than another member. */
static void mark_absent(const struct lull_hang *hang, const struct hang_picture *picture,
                        const struct hang_communicator *whole, bool late_only,
                        struct lull_hang_finding *finding)
{
    const struct members members = find_members(hang, whole);

    for (uint32_t i = 0; i < hang->count; i++) {
        const struct hang_rank *const rank = &hang->ranks[i];
        const struct hang_communicator *part;
        bool is_member = false;
        bool is_late;

        if (!rank->is_present || picture->inside[i] != NULL)
            continue;
        part = find_part(rank, whole, &is_member);
        is_late = members.is_comparable && part != NULL && part->entered < members.most_entered;
        if (is_late || (!late_only && may_be_outside(rank, whole, is_member, members.count)))
            mark_missing(finding, i);
    }
}

static void mark_stopped(const struct lull_hang *hang, const struct hang_picture *picture,
                         struct lull_hang_finding *finding)
{
    for (uint32_t i = 0; i < hang->count; i++)
        if (picture->inside[i] != NULL && hang->ranks[i].process != LULL_HANG_RUNS)
            mark_missing(finding, i);
}

/* Marks the missing ranks of all communicators that ranks are inside. */
static void mark_all_absent(const struct lull_hang *hang, const struct hang_picture *picture,
                            bool late_only, struct lull_hang_finding *finding)
{
    for (uint32_t i = 0; i < hang->count; i++)
        if (picture->inside[i] != NULL)
            mark_absent(hang, picture, picture->inside[i], late_only, finding);
}

/* Names the case that no rank of this node is missing. */
static enum lull_hang_kind name_case(const struct lull_hang *hang,
                                     const struct hang_picture *picture,
                                     const struct lull_hang_finding *finding)
{
    const struct hang_communicator *const first = picture->inside[finding->oldest];
    enum lull_hang_kind kind = LULL_HANG_INSIDE;

    for (uint32_t i = 0; i < hang->count; i++) {
        const struct hang_communicator *const inside = picture->inside[i];

        if (inside == NULL)
            continue;
        if (inside->ranks > find_members(hang, inside).count)
            return LULL_HANG_ELSEWHERE;
        if (!is_same(inside, first))
            kind = LULL_HANG_DEADLOCK;
    }
    return kind;
}

void lull_hang_find(const struct lull_hang *hang, int64_t now_ns,
                    struct lull_hang_finding *finding_out)
{
    struct hang_picture picture = {0};
    int64_t since_ns = INT64_MAX;

    *finding_out = (struct lull_hang_finding){0};
    if (!lull_hang_is_due(hang, now_ns))
        return;
    finding_out->oldest = find_oldest_rank(hang, &since_ns);
    finding_out->since_ns = since_ns > hang->progress_ns ? since_ns : hang->progress_ns;
    draw_picture(hang, &picture);
    mark_all_absent(hang, &picture, true, finding_out);
    if (finding_out->missing_count == 0)
        mark_all_absent(hang, &picture, false, finding_out);
    mark_stopped(hang, &picture, finding_out);
    finding_out->kind = LULL_HANG_MISSING;
    if (finding_out->missing_count == 0)
        finding_out->kind = name_case(hang, &picture, finding_out);
    for (uint32_t i = 0; i < hang->count; i++)
        finding_out->waiting_count += picture.inside[i] != NULL && !finding_out->is_missing[i];
}
