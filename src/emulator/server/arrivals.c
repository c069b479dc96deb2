/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/server/arrivals.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "emulator/noise.h"

void lull_server_arrivals_fini(struct lull_server_arrivals *arrivals)
{
    free(arrivals->items);
    *arrivals = (struct lull_server_arrivals){0};
}

int lull_server_arrivals_add(struct lull_server_arrivals *arrivals,
                             const struct lull_server_arrival *arrival)
{
    const int result = lull_array_grow(&arrivals->items, arrivals->count, sizeof(*arrival));

    if (result == 0)
        arrivals->items[arrivals->count++] = *arrival;
    return result;
}

double lull_server_arrivals_rate(const struct lull_server_arrivals *trace)
{
    return (double)trace->count * 1e9 / (double)trace->period_ns;
}

/* The number of the first request from a time of the trace on; the count: there is none. */
static size_t arrivals_find(const struct lull_server_arrivals *trace, int64_t time_ns)
{
    size_t at = 0;

    while (at < trace->count && trace->items[at].time_ns < time_ns)
        at++;
    return at;
}

int lull_server_arrivals_scale(const struct lull_server_arrivals *trace,
                               const struct lull_server_arrivals_part *part,
                               struct lull_server_arrivals *arrivals_out)
{
    const double stretch = lull_server_arrivals_rate(trace) / part->rate_per_s;
    const int64_t start_ns = (int64_t)(part->start_ratio * (double)trace->period_ns);
    const size_t first = arrivals_find(trace, start_ns);

    assert(trace->count > 0 && trace->period_ns > trace->items[trace->count - 1].time_ns);
    for (size_t i = first;; i++) {
        struct lull_server_arrival arrival = trace->items[i % trace->count];
        const size_t rounds = i / trace->count;
        const double passed_ns =
            (double)rounds * (double)trace->period_ns + (double)(arrival.time_ns - start_ns);
        int result;

        if (passed_ns * stretch >= (double)part->duration_ns)
            break;
        arrival.time_ns = (int64_t)(passed_ns * stretch);
        result = lull_server_arrivals_add(arrivals_out, &arrival);
        if (result < 0)
            return result;
    }
    arrivals_out->period_ns = part->duration_ns;
    return 0;
}

static uint32_t draw_length(double mean, uint64_t *random)
{
    const double most = 8.0;

    return 1 + (uint32_t)((mean - 1.0) * fmin(-log(lull_noise_next(random)), most));
}

int lull_server_arrivals_draw(const struct lull_server_arrivals_poisson *poisson,
                              struct lull_server_arrivals *arrivals_out)
{
    uint64_t random = lull_noise_mix(poisson->seed ^ 0x61727276u);
    double time_ns = 0.0;

    for (;;) {
        struct lull_server_arrival arrival;
        int result;

        time_ns -= 1e9 / poisson->rate_per_s * log(lull_noise_next(&random));
        if (time_ns >= (double)poisson->duration_ns)
            break;
        arrival.time_ns = (int64_t)time_ns;
        arrival.prompt_tokens = draw_length(poisson->prompt_tokens, &random);
        arrival.output_tokens = draw_length(poisson->output_tokens, &random);
        result = lull_server_arrivals_add(arrivals_out, &arrival);
        if (result < 0)
            return result;
    }
    arrivals_out->period_ns = poisson->duration_ns;
    return 0;
}
