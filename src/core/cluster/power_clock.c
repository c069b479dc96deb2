/* At which clock a job starts under power caps. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/cluster/power_room.h"

/* While more than this share of the watts is free, somebody waits for something else: they lose
 * value, so much of it for each share beyond. */
#define SPARE_RATIO 0.2
#define SPARE_LOSS 4.0

bool lull_power_room_is_clock_of(const struct lull_power_room *room, uint32_t job, uint32_t mode,
                                 uint32_t of)
{
    const struct lull_cluster_mode *modes = room->jobs->all[job].modes;

    return modes[mode].type == modes[of].type && modes[mode].gpus == modes[of].gpus;
}

/* Whether there is a cap of the cluster that leaves watts for jobs. */
static bool has_price(const struct lull_power_room *room)
{
    return room->cap.cluster_w > room->idle_w;
}

static struct lull_power_use use_of(const struct lull_power_room *room, uint32_t job, uint32_t mode)
{
    const struct lull_cluster_mode *asked = &room->jobs->all[job].modes[mode];
    const double time_s = (double)asked->time_ns * 1e-9;

    return (struct lull_power_use){time_s * asked->gpus / (double)room->gpus,
                                   time_s * lull_power_room_total_w(room, job, mode) /
                                       (room->cap.cluster_w - room->idle_w)};
}

/* The clocks that the caps allow of the first mode that they allow; returns how many. */
static uint32_t clocks_of(const struct lull_power_room *room, uint32_t job,
                          struct lull_power_use *uses_out)
{
    uint32_t first = LULL_POWER_NONE;
    uint32_t count = 0;

    for (uint32_t mode = 0; mode < room->jobs->all[job].mode_count; mode++) {
        if (!lull_power_room_could(room, job, mode) ||
            (count > 0 && !lull_power_room_is_clock_of(room, job, mode, first)))
            continue;
        if (count == 0)
            first = mode;
        uses_out[count++] = use_of(room, job, mode);
    }
    return count;
}

void lull_power_room_wait(struct lull_power_room *room, uint32_t job, bool waits)
{
    struct lull_power_use uses[LULL_CLUSTER_MOST_MODES];

    if (!has_price(room))
        return;
    if (waits)
        lull_power_price_add(&room->price, uses, clocks_of(room, job, uses));
    else
        lull_power_price_remove(&room->price, uses, clocks_of(room, job, uses));
}

static double watts_ratio(const struct lull_power_room *room)
{
    const double free_ratio =
        (room->cap.cluster_w - room->sum_w) / (room->cap.cluster_w - room->nodes_w);

    return lull_power_price_ratio(&room->price) - SPARE_LOSS * fmax(free_ratio - SPARE_RATIO, 0.0);
}

uint32_t lull_power_room_thrifty_mode(const struct lull_power_room *room,
                                      const struct lull_cluster_decision *decision, int64_t now_ns)
{
    const struct lull_cluster_job *job = &room->jobs->all[decision->job];
    const int64_t left_ns = job->deadline_ns - now_ns;
    const bool is_late = left_ns < job->modes[decision->mode].time_ns;
    double least_s = INFINITY;
    uint32_t best = decision->mode;
    double ratio;

    if (!has_price(room) || room->price.count < 2 || job->mode_count == 1)
        return best;
    ratio = watts_ratio(room);
    for (uint32_t mode = 0; mode < job->mode_count && ratio > 0.0; mode++) {
        const struct lull_power_use use = use_of(room, decision->job, mode);
        const double cost_s = ratio * use.watts_s + (1.0 - ratio) * use.gpus_s;

        if (!lull_power_room_is_clock_of(room, decision->job, mode, decision->mode) ||
            cost_s >= least_s || (!is_late && left_ns < job->modes[mode].time_ns))
            continue;
        least_s = cost_s;
        best = mode;
    }
    return best;
}
