/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/communicator.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/minmax.h"

enum {
    SMALLEST_BYTES = 4096, /* smaller reductions are losses and norms; */
    LONGEST_WORD = 16,
    LAYERS_PER_ITERATION = 4, /* fewer reductions of one size are buckets of gradients; chosen */
};

/* Shares of a communicator's operations. test_communicator has the
 * recorded jobs that they distinguish. */
#define SAME_SIZE_RATIO 0.9 /* of the most frequent size, from which it is tensor parallelism */
#define DEFAULT_RATIO 0.5   /* of the kind that decides what the communicator is for */
#define ALLTOALL_RATIO 0.1  /* of all-to-all, from which it is expert parallelism */

/* ---- by name ---- */

enum { DATA = 1, TENSOR = 2, PIPELINE = 4, EXPERT = 8, SEVERAL = 16, REST = 32 };

struct communicator_word {
    const char *text;
    uint32_t meaning;
};

static const struct communicator_word words[] = {
    {"DATA", DATA},       {"DP", DATA},       {"DDP", DATA},       {"FSDP", DATA},
    {"HSDP", DATA},       {"ZERO", DATA},     {"EDP", DATA},       {"EMBEDDING", DATA},
    {"TENSOR", TENSOR},   {"TP", TENSOR},     {"CONTEXT", TENSOR}, {"CP", TENSOR},
    {"SEQUENCE", TENSOR}, {"SP", TENSOR},     {"ETP", TENSOR},     {"PIPELINE", PIPELINE},
    {"PP", PIPELINE},     {"EXPERT", EXPERT}, {"EP", EXPERT},      {"MOE", EXPERT},
    {"AND", SEVERAL},     {"WITH", REST},
};

static char communicator_upper(char letter)
{
    if (letter >= 'a' && letter <= 'z')
        return (char)(letter - 'a' + 'A');
    return letter;
}

static bool communicator_is_in_word(char letter)
{
    return (communicator_upper(letter) >= 'A' && communicator_upper(letter) <= 'Z') ||
           (letter >= '0' && letter <= '9');
}

static uint32_t communicator_meaning_of(const char *start, size_t length)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t same = 0;

        while (same < length && communicator_upper(start[same]) == words[i].text[same])
            same++;
        if (same == length && words[i].text[same] == '\0')
            return words[i].meaning;
    }
    return 0;
}

/* The bits of all words before a colon, or before "with": what follows there is secondary. */
static uint32_t meanings_of(const char *name)
{
    uint32_t meanings = 0;

    while (*name != '\0' && *name != ':' && (meanings & REST) == 0) {
        size_t length = 0;

        while (communicator_is_in_word(name[length]))
            length++;
        if (length > 0 && length <= LONGEST_WORD)
            meanings |= communicator_meaning_of(name, length);
        name += lull_max_size(length, 1);
    }
    return meanings & ~(uint32_t)REST;
}

enum lull_parallelism lull_parallelism_of_name(const char *name)
{
    switch (name == NULL ? 0 : meanings_of(name)) {
    case DATA:
    case DATA | EXPERT: /* gradients of the experts */
    case DATA | TENSOR: /* "dp_shard_cp" */
        return LULL_PARALLELISM_DATA;
    case TENSOR:
    case TENSOR | EXPERT:
        return LULL_PARALLELISM_TENSOR;
    case PIPELINE:
        return LULL_PARALLELISM_PIPELINE;
    case EXPERT:
        return LULL_PARALLELISM_EXPERT;
    default:
        return LULL_PARALLELISM_UNKNOWN;
    }
}

const char *lull_parallelism_name(enum lull_parallelism parallelism)
{
    static const char *const names[] = {
        [LULL_PARALLELISM_UNKNOWN] = "unknown", [LULL_PARALLELISM_DATA] = "data",
        [LULL_PARALLELISM_TENSOR] = "tensor",   [LULL_PARALLELISM_PIPELINE] = "pipeline",
        [LULL_PARALLELISM_EXPERT] = "expert",
    };

    return (size_t)parallelism < sizeof(names) / sizeof(*names) ? names[parallelism] : "unknown";
}

/* ---- by what it carries ---- */

void lull_communicator_init(struct lull_communicator *communicator, const char *name,
                            uint32_t ranks, uint32_t nodes, int32_t rank)
{
    *communicator = (struct lull_communicator){
        .named = lull_parallelism_of_name(name),
        .ranks = ranks,
        .nodes = nodes,
        .rank = rank,
    };
}

static void take_size(struct lull_communicator *communicator, uint64_t bytes)
{
    uint32_t i;

    for (i = 0; i < communicator->size_count && communicator->sizes[i] != bytes; i++)
        continue;
    if (i == LULL_COMMUNICATOR_SIZES) {
        communicator->other_sizes++;
        return;
    }
    assert(i <= communicator->size_count);
    communicator->sizes[i] = bytes;
    communicator->size_counts[i]++;
    if (i == communicator->size_count)
        communicator->size_count++;
}

static void take_peer(struct lull_communicator *communicator, int32_t peer)
{
    for (uint32_t i = 0; i < communicator->peer_count; i++)
        if (communicator->peers[i] == peer)
            return;
    if (communicator->peer_count < LULL_COMMUNICATOR_PEERS)
        communicator->peers[communicator->peer_count++] = peer;
}

static bool is_message(enum lull_transfer transfer)
{
    return transfer == LULL_TRANSFER_SEND || transfer == LULL_TRANSFER_RECEIVE;
}

static bool is_reduction(enum lull_transfer transfer)
{
    return transfer == LULL_TRANSFER_ALLREDUCE || transfer == LULL_TRANSFER_ALLGATHER ||
           transfer == LULL_TRANSFER_REDUCE_SCATTER;
}

void lull_communicator_take(struct lull_communicator *communicator, enum lull_transfer transfer,
                            uint64_t bytes, int32_t peer)
{
    if ((unsigned)transfer >= LULL_TRANSFER_COUNT ||
        (is_reduction(transfer) && bytes < SMALLEST_BYTES))
        return;
    communicator->transfers[transfer]++;
    if (is_reduction(transfer))
        take_size(communicator, bytes);
    if (is_message(transfer) && peer >= 0)
        take_peer(communicator, peer);
}

static bool is_neighbor(const struct lull_communicator *communicator, int32_t peer)
{
    const int64_t ranks = communicator->ranks;

    assert(ranks > 0 && communicator->rank >= 0);
    const int64_t distance = ((int64_t)peer - communicator->rank + ranks) % ranks;

    return distance == 1 || distance == ranks - 1;
}

/* If peers are unknown, the answer is certain only with two ranks: every message goes to the one
 * neighbour. */
static enum lull_parallelism of_messages(const struct lull_communicator *communicator)
{
    if (communicator->ranks == 2)
        return LULL_PARALLELISM_PIPELINE;
    if (communicator->peer_count == LULL_COMMUNICATOR_PEERS)
        return LULL_PARALLELISM_EXPERT;
    if (communicator->peer_count == 0 || communicator->ranks == 0 || communicator->rank < 0)
        return LULL_PARALLELISM_UNKNOWN;
    for (uint32_t i = 0; i < communicator->peer_count; i++)
        if (!is_neighbor(communicator, communicator->peers[i]))
            return LULL_PARALLELISM_UNKNOWN;
    return LULL_PARALLELISM_PIPELINE;
}

static enum lull_parallelism of_reductions(const struct lull_communicator *communicator,
                                           uint64_t iterations)
{
    uint64_t all = communicator->other_sizes;
    uint64_t most = 0;

    for (uint32_t i = 0; i < communicator->size_count; i++) {
        all += communicator->size_counts[i];
        if (communicator->size_counts[i] > most)
            most = communicator->size_counts[i];
    }
    if (communicator->nodes > 1 || (double)most < SAME_SIZE_RATIO * (double)all)
        return LULL_PARALLELISM_DATA;
    if (iterations == 0 || communicator->nodes == 0)
        return LULL_PARALLELISM_UNKNOWN;
    if (most >= LAYERS_PER_ITERATION * iterations)
        return LULL_PARALLELISM_TENSOR;
    return LULL_PARALLELISM_DATA;
}

enum lull_parallelism lull_communicator_parallelism(const struct lull_communicator *communicator,
                                                    uint64_t iterations)
{
    uint64_t all = 0;
    uint64_t messages = 0;
    uint64_t reductions = 0;

    if (communicator->named != LULL_PARALLELISM_UNKNOWN)
        return communicator->named;
    for (unsigned i = 0; i < LULL_TRANSFER_COUNT; i++) {
        all += communicator->transfers[i];
        if (is_message((enum lull_transfer)i))
            messages += communicator->transfers[i];
        if (is_reduction((enum lull_transfer)i))
            reductions += communicator->transfers[i];
    }
    if (communicator->ranks == 1 || all < LULL_COMMUNICATOR_MIN_TRANSFERS)
        return LULL_PARALLELISM_UNKNOWN;
    if ((double)communicator->transfers[LULL_TRANSFER_ALLTOALL] >= ALLTOALL_RATIO * (double)all)
        return LULL_PARALLELISM_EXPERT;
    if ((double)messages > DEFAULT_RATIO * (double)all)
        return of_messages(communicator);
    if ((double)reductions > DEFAULT_RATIO * (double)all)
        return of_reductions(communicator, iterations);
    return LULL_PARALLELISM_UNKNOWN;
}
