/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/play.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

int lull_play_create(uint32_t rank_count, struct lull_play **play_out, struct lull_error *err)
{
    const double typical_lead_ms = 3.0;
    struct lull_play *play;

    if (rank_count < 1 || rank_count > LULL_PLAY_RANKS)
        return lull_error_set(err, -EINVAL, "a play has 1 to %d ranks, not %u", LULL_PLAY_RANKS,
                              rank_count);
    play = calloc(1, sizeof(*play));
    if (play == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory");
    play->rank_count = rank_count;
    play->lead_ms = typical_lead_ms;
    *play_out = play;
    return 0;
}

void lull_play_destroy(struct lull_play *play)
{
    if (play == NULL)
        return;
    for (uint32_t i = 0; i < play->rank_count; i++)
        free(play->ranks[i].ops);
    free(play);
}

int lull_play_add_communicator(struct lull_play *play, const char *name, uint32_t members,
                               struct lull_error *err)
{
    struct lull_play_communicator *communicator = &play->communicators[play->communicator_count];

    if (play->communicator_count == LULL_PLAY_COMMUNICATORS)
        return lull_error_set(
            err, -ENOSPC,
            "communicator %s: the play has %d communicators already, which is the most", name,
            LULL_PLAY_COMMUNICATORS);
    if (members == 0 || members >> play->rank_count != 0)
        return lull_error_set(
            err, -EINVAL, "communicator %s: it has no members, or some that the play lacks", name);
    snprintf(communicator->name, sizeof(communicator->name), "%s", name);
    communicator->members = members;
    communicator->world_ranks = (uint32_t)__builtin_popcount(members);
    return (int)play->communicator_count++;
}

int lull_play_add(struct lull_play *play, uint32_t rank, const struct lull_play_op *op,
                  struct lull_error *err)
{
    struct lull_play_rank *ops;

    if (rank >= play->rank_count)
        return lull_error_set(err, -EINVAL, "rank %u: the play has only %u ranks", rank,
                              play->rank_count);
    ops = &play->ranks[rank];
    if (ops->count == LULL_PLAY_OPS)
        return lull_error_set(err, -ENOSPC, "rank %u: more than %d operations", rank,
                              LULL_PLAY_OPS);
    if (ops->count == ops->capacity) {
        const uint32_t capacity = ops->capacity > 0 ? 2 * ops->capacity : 64;
        struct lull_play_op *grown = realloc(ops->ops, capacity * sizeof(grown[0]));

        if (grown == NULL)
            return lull_error_set(err, -ENOMEM, "play: no memory");
        ops->ops = grown;
        ops->capacity = capacity;
    }
    ops->ops[ops->count] = *op;
    return (int)ops->count++;
}

const char *lull_play_function_name(enum lull_play_function function)
{
    static const char *const names[LULL_PLAY_FUNCTIONS] = {
        [LULL_PLAY_ALL_REDUCE] = "AllReduce",
        [LULL_PLAY_ALL_GATHER] = "AllGather",
        [LULL_PLAY_REDUCE_SCATTER] = "ReduceScatter",
        [LULL_PLAY_ALL_TO_ALL] = "AlltoAll",
        [LULL_PLAY_BROADCAST] = "Broadcast",
        [LULL_PLAY_SEND_RECV] = "SendRecv",
        [LULL_PLAY_SEND] = "Send",
        [LULL_PLAY_RECV] = "Recv",
    };

    return names[function];
}

/* ---- checking ---- */

static bool is_time(double ms)
{
    return ms >= 0 && ms < 1e9;
}

static const char *fault_of_communication(const struct lull_play *play, uint32_t rank,
                                          const struct lull_play_op *op)
{
    const bool has_peer = op->function == LULL_PLAY_SEND || op->function == LULL_PLAY_RECV;
    uint32_t members;

    if ((unsigned)op->function >= LULL_PLAY_FUNCTIONS)
        return "no such function";
    if (op->communicator >= play->communicator_count)
        return "no such communicator";
    members = play->communicators[op->communicator].members;
    if ((members >> rank & 1) == 0)
        return "the rank is not in the communicator";
    if (has_peer &&
        (op->peer >= play->rank_count || op->peer == rank || (members >> op->peer & 1) == 0))
        return "the peer is not in the communicator";
    if (!(op->link_gbs > 0 && op->link_gbs < 1e6) || op->channels < 1)
        return "the link is out of range";
    return NULL;
}

/* Returns whether a dependency is an operation of this period or of the one before. */
static bool is_index(const struct lull_play_rank *rank, int32_t index)
{
    return index >= 0 && (uint64_t)index < 2 * (uint64_t)rank->count;
}

static const char *fault_of(const struct lull_play *play, uint32_t rank,
                            const struct lull_play_op *op)
{
    if (op->stream >= LULL_PLAY_STREAMS)
        return "no such stream";
    for (uint32_t i = 0; i < LULL_PLAY_DEPENDENCIES; i++)
        if (op->depends[i] != LULL_PLAY_NONE && !is_index(&play->ranks[rank], op->depends[i]))
            return "a dependency does not exist";
    if (op->further_count > LULL_PLAY_FURTHER)
        return "too many dependencies";
    for (uint32_t i = 0; i < op->further_count; i++)
        if (!is_index(&play->ranks[rank], op->further[i]))
            return "a dependency does not exist";
    if (!is_time(op->delay_ms) || !is_time(op->lead_ms) || !is_time(op->duration_ms) ||
        !(op->duration_ms > 0))
        return "a time is out of range";
    if (op->kind == LULL_PLAY_COMPUTE)
        return op->kernels >= 1 ? NULL : "it stands for no kernel";
    return fault_of_communication(play, rank, op);
}

static int play_check_rank(const struct lull_play *play, uint32_t rank, struct lull_error *err)
{
    if (play->ranks[rank].count == 0)
        return lull_error_set(err, -EINVAL, "rank %u of the play does nothing", rank);
    for (uint32_t i = 0; i < play->ranks[rank].count; i++) {
        const char *fault = fault_of(play, rank, &play->ranks[rank].ops[i]);

        if (fault != NULL)
            return lull_error_set(err, -EINVAL, "rank %u, operation %u: %s", rank, i, fault);
    }
    return 0;
}

/* ---- what lull_play_finish() derives ---- */

/* The set of ranks that take part in an operation, one bit each: two for a send or receive, all of
 * the communicator for a collective, and the rank alone for compute. */
static uint32_t play_members_of(const struct lull_play *play, uint32_t rank,
                                const struct lull_play_op *op)
{
    if (op->kind != LULL_PLAY_COMMUNICATION)
        return 1u << rank;
    if (op->function == LULL_PLAY_SEND || op->function == LULL_PLAY_RECV)
        return 1u << rank | 1u << op->peer;
    return play->communicators[op->communicator].members;
}

/* Numbers the meetings: first one per communicator, then one per ordered pair of sender and
 * receiver. */
static uint32_t play_collective_of(const struct lull_play *play, uint32_t rank,
                                   const struct lull_play_op *op)
{
    if (op->function == LULL_PLAY_SEND)
        return play->communicator_count + rank * play->rank_count + op->peer;
    if (op->function == LULL_PLAY_RECV)
        return play->communicator_count + op->peer * play->rank_count + rank;
    return op->communicator;
}

/* Gives each operation its meeting. All operations of one meeting must be on one stream; otherwise
 * the order of a rank's arrivals would be undefined, and with it which operations of the ranks
 * belong together. */
static int play_find_collectives(struct lull_play *play, uint32_t rank, uint32_t *visits,
                                 struct lull_error *err)
{
    struct lull_play_rank *ops = &play->ranks[rank];
    uint32_t streams[LULL_PLAY_COLLECTIVES];

    for (uint32_t i = 0; i < ops->count; i++) {
        struct lull_play_op *op = &ops->ops[i];
        const uint32_t members = play_members_of(play, rank, op);

        op->collective = LULL_PLAY_NO_COLLECTIVE;
        if (members == 1u << rank)
            continue;
        op->collective = play_collective_of(play, rank, op);
        if (visits[op->collective] > 0 && streams[op->collective] != op->stream)
            return lull_error_set(err, -EINVAL,
                                  "rank %u, operation %u: it meets the same ranks on another "
                                  "stream",
                                  rank, i);
        streams[op->collective] = op->stream;
        op->ordinal = visits[op->collective]++;
        play->collective_members[op->collective] = members;
    }
    for (uint32_t i = 0; i < ops->count; i++)
        if (ops->ops[i].collective != LULL_PLAY_NO_COLLECTIVE)
            ops->ops[i].visits = visits[ops->ops[i].collective];
    return 0;
}

/* Lets a delay without dependencies count from the operation before it on its stream. */
static void resolve_delays(struct lull_play_rank *rank)
{
    for (uint32_t i = 0; i < rank->count; i++) {
        struct lull_play_op *op = &rank->ops[i];
        uint32_t before = i;

        if (!(op->delay_ms > 0) || op->depends[0] != LULL_PLAY_NONE ||
            op->depends[1] != LULL_PLAY_NONE || op->further_count > 0)
            continue;
        do /* ends at the operation itself, in the period before, if its stream has no other */
            before = (before + rank->count - 1) % rank->count;
        while (rank->ops[before].stream != op->stream);
        op->depends[0] = (int32_t)before;
    }
}

static void count_steps(struct lull_play_rank *rank)
{
    rank->steps = 0;
    for (uint32_t i = 0; i < rank->count; i++)
        rank->steps += rank->ops[i].begins_step;
    if (rank->steps == 0) {
        rank->ops[0].begins_step = true;
        rank->steps = 1;
    }
}

/* Ranks that meet must do so equally often, otherwise one would wait forever. */
static int check_collective(const struct lull_play *play, uint32_t collective,
                            uint32_t visits[][LULL_PLAY_COLLECTIVES], struct lull_error *err)
{
    const uint32_t members = play->collective_members[collective];
    const uint32_t first = members != 0 ? (uint32_t)__builtin_ctz(members) : 0;

    for (uint32_t rank = first; rank < play->rank_count; rank++)
        if ((members >> rank & 1) != 0 && visits[rank][collective] != visits[first][collective])
            return lull_error_set(err, -EINVAL,
                                  "ranks %u and %u communicate with each other, but not equally "
                                  "often in a period",
                                  first, rank);
    return 0;
}

int lull_play_finish(struct lull_play *play, struct lull_error *err)
{
    uint32_t visits[LULL_PLAY_RANKS][LULL_PLAY_COLLECTIVES] = {{0}};
    int result;

    if (!(play->lead_ms > 0) || !is_time(play->lead_ms) ||
        !(play->jitter_ratio >= 0 && play->jitter_ratio <= 1))
        return lull_error_set(err, -EINVAL, "play: lead or jitter is out of range");
    if (!(play->straggler.factor >= 0 && play->straggler.factor <= 100) ||
        (play->straggler.factor > 0 && play->straggler.rank >= play->rank_count))
        return lull_error_set(err, -EINVAL,
                              "play: the straggler is rank %u of %u, slower by %g: no such rank, "
                              "or more than 100",
                              play->straggler.rank, play->rank_count, play->straggler.factor);
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        result = play_check_rank(play, rank, err);
        if (result < 0)
            return result;
        result = play_find_collectives(play, rank, visits[rank], err);
        if (result < 0)
            return result;
        resolve_delays(&play->ranks[rank]);
        count_steps(&play->ranks[rank]);
    }
    play->collective_count = play->communicator_count + play->rank_count * play->rank_count;
    for (uint32_t collective = 0; collective < play->collective_count; collective++) {
        result = check_collective(play, collective, visits, err);
        if (result < 0)
            return result;
    }
    return 0;
}
