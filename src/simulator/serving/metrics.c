/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/metrics.h"

#include <assert.h>
#include <stdlib.h>

#include "core/stats/random.h"

_Static_assert((int)LULL_ENGINE_BUCKETS <= (int)LULL_SERVING_BUCKETS,
               "a reading has room for the engine's histograms");

struct lull_serving_metrics {
    const struct lull_serving_faults *faults;
    struct lull_random random;
    struct lull_engine_statistics base; /* where the counters began */
    bool is_restarted;                  /* since the answer before */
    uint32_t room;
    uint32_t first; /* of the answers under way */
    uint32_t count;
    struct lull_serving_reading answers[]; /* [room] */
};

struct lull_serving_metrics *lull_serving_metrics_create(const struct lull_serving_faults *faults,
                                                         int64_t period_ns, uint64_t seed)
{
    const uint32_t room = (uint32_t)(faults->lag_ns / period_ns) + 2;
    struct lull_serving_metrics *metrics =
        calloc(1, sizeof(*metrics) + room * sizeof(metrics->answers[0]));

    if (metrics == NULL)
        return NULL;
    metrics->faults = faults;
    metrics->room = room;
    lull_random_init(&metrics->random, seed);
    return metrics;
}

void lull_serving_metrics_destroy(struct lull_serving_metrics *metrics)
{
    free(metrics);
}

void lull_serving_metrics_reset(struct lull_serving_metrics *metrics,
                                const struct lull_engine_statistics *statistics)
{
    metrics->base = *statistics;
    metrics->is_restarted = true;
}

void lull_serving_metrics_restart(struct lull_serving_metrics *metrics)
{
    metrics->base = (struct lull_engine_statistics){0};
    metrics->is_restarted = true;
}

static void read_histogram(const struct lull_engine_histogram *now,
                           const struct lull_engine_histogram *base,
                           struct lull_serving_histogram *histogram)
{
    histogram->count = now->count;
    histogram->sum_s = now->sum_s - base->sum_s;
    for (uint32_t i = 0; i < now->count; i++) {
        histogram->bound_s[i] = now->bound_s[i];
        histogram->total[i] = (double)(now->total[i] - base->total[i]);
    }
}

/* Makes the server's answer of now, at the end of those under way. */
static void metrics_answer(struct lull_serving_metrics *metrics,
                           const struct lull_engine_statistics *now, int64_t now_ns)
{
    const struct lull_engine_statistics *base = &metrics->base;
    struct lull_serving_reading *answer =
        &metrics->answers[(metrics->first + metrics->count++) % metrics->room];

    assert(metrics->count <= metrics->room);
    answer->time_ns = now_ns;
    answer->is_restarted = metrics->is_restarted;
    answer->running = now->running;
    answer->waiting = now->waiting;
    answer->cache_ratio = now->cache_ratio;
    answer->prompt_tokens = (double)(now->prompt_tokens - base->prompt_tokens);
    answer->output_tokens = (double)(now->output_tokens - base->output_tokens);
    answer->finished = (double)(now->finished - base->finished);
    answer->steps = (double)(now->steps - base->steps);
    read_histogram(&now->ttft, &base->ttft, &answer->ttft);
    read_histogram(&now->tpot, &base->tpot, &answer->tpot);
    read_histogram(&now->itl, &base->itl, &answer->itl);
    metrics->is_restarted = false;
}

static bool metrics_lose(struct lull_serving_metrics *metrics, int64_t now_ns)
{
    const struct lull_serving_faults *faults = metrics->faults;

    return (now_ns >= faults->lost_from_ns && now_ns < faults->lost_until_ns) ||
           lull_random_uniform(&metrics->random) < faults->lost_ratio;
}

void lull_serving_metrics_poll(struct lull_serving_metrics *metrics,
                               const struct lull_engine_statistics *statistics, int64_t now_ns,
                               struct lull_serving_controller *controller)
{
    if (statistics != NULL && !metrics_lose(metrics, now_ns))
        metrics_answer(metrics, statistics, now_ns);
    while (metrics->count > 0) {
        const struct lull_serving_reading *answer = &metrics->answers[metrics->first];

        if (answer->time_ns + metrics->faults->lag_ns > now_ns)
            break;
        lull_serving_controller_take(controller, answer);
        metrics->first = (metrics->first + 1) % metrics->room;
        metrics->count--;
    }
}
