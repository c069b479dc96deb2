/*
 * Who runs a run of a recurring job, so that others can tell whether it still lives.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_BATCH_OWNER_H
#define LULL_STORE_BATCH_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* A process, named so that no other ever has the same name. */
struct lull_batch_owner {
    char place[96]; /* the boot and the namespace that its pid is of */
    int64_t pid;
    int64_t start; /* clock ticks after the boot */
};

/* Names this process. -errno: /proc cannot be read. */
int lull_batch_owner_self(struct lull_batch_owner *owner_out, struct lull_error *err);

/*
 * Whether an owner still lives. /proc tells it of an owner in the place of self. An owner elsewhere
 * counts as dead when it has not been heard of for 60 s or more; silence_s is the time since then.
 */
bool lull_batch_owner_is_alive(const struct lull_batch_owner *owner,
                               const struct lull_batch_owner *self, int64_t silence_s);

#endif
