/* Finds the gaps that computation leaves. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/oracle_play_state.h"

/* No driver is quick enough to use a shorter gap; leaving those out keeps the sweep short. */
#define SHORTEST_GAP_NS (100 * LULL_NS_PER_US)

struct compute {
    struct lull_play_span span;
    uint32_t op;
};

static int gaps_compare_begins(const void *a, const void *b)
{
    const struct compute *x = a;
    const struct compute *y = b;

    return (x->span.begin_ns > y->span.begin_ns) - (x->span.begin_ns < y->span.begin_ns);
}

static void add_gap(struct lull_oracle_play *oracle, uint32_t rank, uint32_t after,
                    int64_t begin_ns, int64_t end_ns)
{
    if (end_ns - begin_ns < SHORTEST_GAP_NS)
        return;
    oracle->gap_after[rank][after] = (int32_t)oracle->gap_count;
    oracle->gaps[oracle->gap_count++] = (struct lull_oracle_gap){
        .rank = rank, .after = after, .begin_ns = begin_ns, .length_ns = end_ns - begin_ns};
}

/* The play repeats, so the gap after the last operation ends with the next period's first one. */
static void find_rank_gaps(struct lull_oracle_play *oracle, uint32_t rank, struct compute *computes,
                           uint32_t count, int64_t period_ns)
{
    const uint32_t first = oracle->gap_count;
    uint32_t latest = 0;

    qsort(computes, count, sizeof(computes[0]), gaps_compare_begins);
    for (uint32_t i = 1; i <= count; i++) {
        const int64_t begin_ns =
            i < count ? computes[i].span.begin_ns : computes[0].span.begin_ns + period_ns;

        if (begin_ns > computes[latest].span.end_ns)
            add_gap(oracle, rank, computes[latest].op, computes[latest].span.end_ns, begin_ns);
        if (i < count && computes[i].span.end_ns >= computes[latest].span.end_ns)
            latest = i;
    }
    for (uint32_t i = first; i < oracle->gap_count; i++) {
        const uint32_t next = i + 1 < oracle->gap_count ? i + 1 : first;
        struct lull_oracle_gap *gap = &oracle->gaps[i];

        gap->compute_ns = oracle->gaps[next].begin_ns - gap->begin_ns - gap->length_ns +
                          (next <= i ? period_ns : 0);
    }
}

static int gaps_find(struct lull_oracle_play *oracle, struct lull_play_span *spans[LULL_PLAY_RANKS],
                     int64_t period_ns, struct lull_error *err)
{
    const struct lull_play *play = &oracle->play;

    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        const struct lull_play_rank *ops = &play->ranks[rank];
        struct compute *computes = calloc(ops->count, sizeof(computes[0]));
        uint32_t count = 0;

        if (computes == NULL)
            return lull_error_set(err, -ENOMEM, "oracle: no memory");
        for (uint32_t i = 0; i < ops->count; i++) {
            oracle->gap_after[rank][i] = LULL_ORACLE_NO_GAP;
            if (ops->ops[i].kind == LULL_PLAY_COMPUTE)
                computes[count++] = (struct compute){spans[rank][i], i};
        }
        if (count > 0)
            find_rank_gaps(oracle, rank, computes, count, period_ns);
        free(computes);
    }
    return 0;
}

int lull_oracle_play_foresee(struct lull_oracle_play *oracle, int64_t *period_ns_out,
                             struct lull_error *err)
{
    const struct lull_play *play = &oracle->play;
    struct lull_play_span *spans[LULL_PLAY_RANKS];
    uint32_t steps[LULL_PLAY_RANKS];
    int result;

    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        steps[rank] = lull_oracle_queue_step(&oracle->queue, rank, oracle->top_step);
    result = lull_play_sim_spans(play, &oracle->model, steps, spans, period_ns_out, err);
    if (result < 0)
        return result;
    oracle->gap_count = 0;
    result = gaps_find(oracle, spans, *period_ns_out, err);
    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        free(spans[rank]);
    for (uint32_t i = 0; i < oracle->gap_count; i++)
        oracle->lengths_ns[i] = oracle->gaps[i].length_ns;
    return result;
}
