/* Fills in the live state of a managed server. Threads: the main thread. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef LULL_GOVERNOR_SERVING_SERVING_LIVE_H
#define LULL_GOVERNOR_SERVING_SERVING_LIVE_H

#include "governor/serving/serving.h"
#include "wire/live.h"

/* Writes the present state and the figures of the last minute. */
void lull_serving_live_show(const struct lull_serving *serving, int64_t now_ns,
                            struct lull_live_serving *live_out);

#endif
