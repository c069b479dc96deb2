/*
 * Opens the GPUs with a time limit. The driver may hang while it enumerates them, and the job must
 * start nevertheless. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_OPENING_H
#define LULL_GOVERNOR_RUN_OPENING_H

#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

/* Opens the devices on a thread that is abandoned at until_ns. Errors: -ETIMEDOUT the driver has
 * not answered by then; those of lull_devices_open; -errno. */
int lull_devices_open_until(int64_t until_ns, struct lull_devices **devices_out,
                            struct lull_error *err);

#endif
