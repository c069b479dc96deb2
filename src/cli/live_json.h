/*
 * An active run as JSON, for every command that shows one: the state published by its governor
 * (wire/live.h). An unknown figure is null, and the object "unknown" next to it has the reason.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_LIVE_JSON_H
#define LULL_CLI_LIVE_JSON_H

#include <stdint.h>

#include <jansson.h>

#include "wire/live.h"

/* Returns a new object of a run as it was read at now_ns; GPUs that no rank uses are left out.
 * NULL: out of memory. */
json_t *lull_live_run_json(const struct lull_live_entry *entry, const struct lull_live_run *run,
                           int64_t now_ns);

#endif
