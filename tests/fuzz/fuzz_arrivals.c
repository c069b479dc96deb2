/*
 * Traces of requests: refused with a message, or requests in the order of time that can be scaled.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"

#include "simulator/serving/arrivals_file.h"

static void check_order(const struct lull_server_arrivals *arrivals, int64_t until_ns)
{
    for (size_t i = 0; i < arrivals->count; i++) {
        const struct lull_server_arrival *arrival = &arrivals->items[i];

        require(arrival->time_ns >= 0 && arrival->time_ns < until_ns);
        require(i == 0 || arrival->time_ns >= arrivals->items[i - 1].time_ns);
        require(arrival->prompt_tokens > 0 && arrival->output_tokens > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct lull_server_arrivals_part part = {
        .rate_per_s = 10.0, .duration_ns = INT64_C(30000000000), .start_ratio = 0.4};
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};
    struct lull_server_arrivals arrivals = {0};
    struct lull_error err = {0};

    if (lull_server_arrivals_read(text_file(data, size), &trace, &skipped, &err) < 0) {
        require(err.text[0] != '\0' && trace.items == NULL);
        return 0;
    }
    require((skipped.rows > 0) == (skipped.reason[0] != '\0'));
    require(trace.count > 1 && trace.items[0].time_ns == 0);
    require(isfinite(lull_server_arrivals_rate(&trace)) && lull_server_arrivals_rate(&trace) > 0.0);
    check_order(&trace, trace.period_ns);
    require(lull_server_arrivals_scale(&trace, &part, &arrivals) == 0);
    check_order(&arrivals, part.duration_ns);
    lull_server_arrivals_fini(&arrivals);
    lull_server_arrivals_fini(&trace);
    return 0;
}
