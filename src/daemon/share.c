/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/share.h"

#include <errno.h>

#include "base/clock.h"

/* Default: a governor changes between two points below the reference some times per
 * second at most, and a power limit every few seconds. */
#define RAISING_INTERVAL_NS (50 * LULL_NS_PER_MS)
#define LIMIT_INTERVAL_NS (200 * LULL_NS_PER_MS)

enum { RAISING_BURST = 2, LIMIT_BURST = 5 };

/* Ten thousand rounds per second are some 3 % of a core, and five times what eight GPUs cause that
 * are read back and switched every millisecond. */
#define ROUNDS_WINDOW_NS (50 * LULL_NS_PER_MS)

enum { ROUNDS_OF_A_FLOOD = 500 };

static void count_round(struct lull_share *share, struct lull_gpu_share *gpu, int64_t now_ns)
{
    if (now_ns - gpu->window_ns >= ROUNDS_WINDOW_NS) {
        gpu->window_ns = now_ns;
        gpu->rounds = 0;
    }
    if (++gpu->rounds == ROUNDS_OF_A_FLOOD)
        share->flooded(share->context);
}

static bool share_page_take(void *context, uint32_t index, struct lull_switch_request *request_out)
{
    struct lull_share *const share = context;
    struct lull_gpu_share *const gpu = &share->gpus[index];
    const int64_t now_ns = lull_now_ns();

    count_round(share, gpu, now_ns);
    if (!share->inner.take(share->inner.context, index, request_out))
        return false;
    if (gpu->applied_mhz != 0 && request_out->sm_mhz > gpu->applied_mhz &&
        !lull_bucket_take(&gpu->raisings, now_ns))
        request_out->sm_mhz = 0;
    return true;
}

static void share_page_publish(void *context, uint32_t index,
                               const struct lull_switch_result *result)
{
    struct lull_share *const share = context;

    if (result->status == 0)
        share->gpus[index].applied_mhz = result->sm_mhz;
    share->inner.publish(share->inner.context, index, result);
}

static bool share_page_take_limit(void *context, uint32_t index,
                                  struct lull_limit_request *request_out)
{
    struct lull_share *const share = context;
    struct lull_limit_result refused = {.status = -EDQUOT};

    if (!share->inner.take_limit(share->inner.context, index, request_out))
        return false;
    if (lull_bucket_take(&share->gpus[index].limits, lull_now_ns()))
        return true;
    refused.sequence = refused.profile_sequence = request_out->sequence;
    refused.smoothing_sequence = request_out->sequence;
    refused.profile_status = refused.smoothing_status = -EDQUOT;
    share->inner.publish_limit(share->inner.context, index, &refused);
    return false;
}

static void share_page_publish_limit(void *context, uint32_t index,
                                     const struct lull_limit_result *result)
{
    struct lull_share *const share = context;

    share->inner.publish_limit(share->inner.context, index, result);
}

void lull_share_init(struct lull_share *share, const struct lull_switch_channel *inner,
                     void (*flooded)(void *context), void *context)
{
    *share = (struct lull_share){.inner = *inner, .flooded = flooded, .context = context};
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++) {
        share->gpus[i].raisings =
            (struct lull_bucket){.interval_ns = RAISING_INTERVAL_NS, .burst = RAISING_BURST};
        share->gpus[i].limits =
            (struct lull_bucket){.interval_ns = LIMIT_INTERVAL_NS, .burst = LIMIT_BURST};
    }
}

struct lull_switch_channel lull_share_channel(struct lull_share *share)
{
    return (struct lull_switch_channel){.context = share,
                                        .take = share_page_take,
                                        .publish = share_page_publish,
                                        .take_limit = share_page_take_limit,
                                        .publish_limit = share_page_publish_limit};
}
