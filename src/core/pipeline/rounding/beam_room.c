/*
 * Beam: the memory and tables that all passes share. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>

#include "base/minmax.h"
#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/rounding/beam_state.h"

/* Commit 1c63aea measured these on GPT-3, 8 stages and 12 or 24 micro-batches: half a second for
 * 512 operations. */
enum {
    WORK = 128000, /* operations times width */
    WIDTH_MIN = 16,
    WIDTH_MAX = 512,
    GRAINS = 1 << 16,     /* a deadline has this many */
    SEEN_PER_PARTIAL = 4, /* so that the hash table stays at most a quarter full; chosen */
};

static uint32_t width_for(uint32_t count)
{
    const uint32_t width = WORK / count;

    return lull_min_u32(lull_max_u32(width, WIDTH_MIN), WIDTH_MAX);
}

/* The shortest time from each operation's end to the end of all: every operation after it runs at
 * its fastest step. */
static void find_tails(struct lull_beam *beam)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;

    for (uint32_t op = rounding->count; op-- > 0;) {
        beam->tail_ns[op] = 0;
        for (uint32_t k = rounding->first_out[op]; k < rounding->first_out[op + 1]; k++) {
            const struct lull_rounding_link *link = &rounding->out[k];
            const int64_t tail_ns = link->latency_ns + step_at(rounding, link->op, 0)->time_ns +
                                    beam->tail_ns[link->op];

            if (tail_ns > beam->tail_ns[op])
                beam->tail_ns[op] = tail_ns;
        }
    }
}

static void make_tables(struct lull_beam *beam)
{
    const size_t count = beam->rounding->count;
    const size_t edges = beam->rounding->first_in[count];
    struct lull_memory *const memory = &beam->memory;

    beam->op_price_w = lull_memory_take(memory, count, sizeof(*beam->op_price_w));
    beam->in_price_w = lull_memory_take(memory, edges, sizeof(*beam->in_price_w));
    beam->tail_ns = lull_memory_take(memory, count, sizeof(*beam->tail_ns));
    beam->guide_ns = lull_memory_take(memory, count, sizeof(*beam->guide_ns));
    beam->turns = lull_memory_take(memory, count, sizeof(*beam->turns));
    beam->turn_of = lull_memory_take(memory, count, sizeof(*beam->turn_of));
    beam->last_use = lull_memory_take(memory, count, sizeof(*beam->last_use));
    beam->slot = lull_memory_take(memory, count, sizeof(*beam->slot));
    beam->free_slots = lull_memory_take(memory, count, sizeof(*beam->free_slots));
}

static void make_partials(struct lull_beam *beam)
{
    const size_t width = beam->width;
    const size_t cells = width * beam->rounding->count;
    struct lull_memory *const memory = &beam->memory;

    beam->seen_size = 1;
    while (beam->seen_size < SEEN_PER_PARTIAL * beam->width)
        beam->seen_size *= 2;
    beam->now = lull_memory_take(memory, width, sizeof(*beam->now));
    beam->next = lull_memory_take(memory, width, sizeof(*beam->next));
    beam->now_end_ns = lull_memory_take(memory, cells, sizeof(*beam->now_end_ns));
    beam->next_end_ns = lull_memory_take(memory, cells, sizeof(*beam->next_end_ns));
    beam->candidates = lull_memory_take(memory, width * BEAM_STEPS, sizeof(*beam->candidates));
    beam->seen = lull_memory_take(memory, beam->seen_size, sizeof(*beam->seen));
    beam->origins = lull_memory_take(memory, cells, sizeof(*beam->origins));
}

int lull_beam_create(struct lull_beam *beam, const struct lull_pipeline_rounding *rounding,
                     int64_t deadline_ns)
{
    *beam = (struct lull_beam){.rounding = rounding,
                               .deadline_ns = deadline_ns,
                               .grain_ns = deadline_ns / GRAINS + 1,
                               .width = width_for(rounding->count)};
    assert(rounding->count > 0 && deadline_ns > 0);
    make_tables(beam);
    make_partials(beam);
    if (beam->memory.has_failed)
        return -ENOMEM;
    find_tails(beam);
    return 0;
}

void lull_beam_set_flow(struct lull_beam *beam, const struct lull_certificate *flow)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const struct lull_pipeline_graph *graph = rounding->problem->graph;

    assert(flow->unit_w > 0.0);
    for (uint32_t op = 0; op < rounding->count; op++) {
        const uint32_t id = rounding->place[op];
        const uint32_t *in_edges = graph->in_edges + graph->first_in[id];

        beam->op_price_w[op] = (double)flow->op_flow[id] * flow->unit_w;
        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
            beam->in_price_w[k] =
                (double)flow->edge_flow[in_edges[k - rounding->first_in[op]]] * flow->unit_w;
    }
}
