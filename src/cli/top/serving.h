/*
 * Serving: a server whose clocks follow its load, as lines of text. An unknown figure is "-"; where
 * a whole line is unknown, it has the reason. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_TOP_SERVING_H
#define LULL_CLI_TOP_SERVING_H

#include <stddef.h>
#include <stdint.h>

#include "wire/live.h"

enum { LULL_TOP_SERVING_LINES = 4 };

/* Each writes one line: mode and its reason; objective and misses; load and latencies; energy. */
void lull_top_serving_line(const struct lull_live_serving *serving, uint32_t line, int64_t now_ns,
                           char *text, size_t size);

#endif
