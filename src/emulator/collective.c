/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/collective.h"

#include <math.h>
#include <string.h>

static const struct lull_collective_gpu *find_exactly(const char *model)
{
    for (uint32_t i = 0; i < lull_collective_gpu_count; i++)
        if (strcmp(lull_collective_gpus[i].name, model) == 0)
            return &lull_collective_gpus[i];
    return NULL;
}

const struct lull_collective_gpu *lull_collective_find(const char *model)
{
    const struct lull_collective_gpu *const found = find_exactly(model);

    return found != NULL ? found : find_exactly("A100-SXM4-80GB");
}

double lull_collective_moved(enum lull_collective operation, uint32_t ranks, double bytes)
{
    const double share = (ranks - 1.0) / ranks;

    return (operation == LULL_COLLECTIVE_ALL_REDUCE ? 2.0 : 1.0) * share * bytes;
}

struct lull_collective_time lull_collective_over(const struct lull_collective_line *line,
                                                 enum lull_collective operation, uint32_t ranks,
                                                 double bytes)
{
    return (struct lull_collective_time){
        .start_s = line->start_us * 1e-6,
        .transfer_s = lull_collective_moved(operation, ranks, bytes) / (line->bus_gbs * 1e9),
    };
}

static double between(double low, double high, double share)
{
    return low * pow(high / low, share);
}

/* The line of a protocol for this number of ranks. */
static struct lull_collective_line
line_of(const struct lull_collective_line lines[LULL_COLLECTIVE_SIZES][LULL_COLLECTIVE_LINES],
        uint32_t protocol, uint32_t ranks)
{
    const double place = log2(ranks) - 1.0; /* of 2 ranks: 0; of 4: 1 */
    const uint32_t below = place < 1.0 ? 0 : 1;
    const struct lull_collective_line *const low = &lines[below][protocol];
    const struct lull_collective_line *const high = &lines[below + 1][protocol];

    return (struct lull_collective_line){
        .start_us = between(low->start_us, high->start_us, place - below),
        .bus_gbs = between(low->bus_gbs, high->bus_gbs, fmin(place - below, 1.0)),
    };
}

static double total_s(const struct lull_collective_time *time)
{
    return time->start_s + time->transfer_s;
}

struct lull_collective_time lull_collective_in_node(const struct lull_collective_gpu *gpu,
                                                    enum lull_collective operation, uint32_t ranks,
                                                    double bytes)
{
    struct lull_collective_time best = {INFINITY, 0};

    for (uint32_t protocol = 0; protocol < LULL_COLLECTIVE_LINES; protocol++) {
        const struct lull_collective_line line = line_of(gpu->lines[operation], protocol, ranks);
        const struct lull_collective_time time =
            lull_collective_over(&line, operation, ranks, bytes);

        if (total_s(&time) < total_s(&best))
            best = time;
    }
    return best;
}
