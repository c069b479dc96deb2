/*
 * Ensures one writer per GPU, whatever its runtime directory. A process claims the GPUs by their
 * PCI addresses before it changes any of them.
 *
 * A claim consists of two locks, and fails if either is taken. One is a socket with an abstract
 * name, which is visible in the whole network namespace and ends with its process. The other is a
 * locked file in /run/lull, which services with a private network share with the host. A container
 * with neither the host's network nor its /run/lull is not covered: there Lull only notices the
 * changes of a second writer (restore.h).
 *
 * Any process can bind a name. A name therefore counts only if its owner is root or this process's
 * user.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_CLAIM_H
#define LULL_DEVICE_CLAIM_H

#include "base/error.h"
#include "device/device.h"

struct lull_claim;

/*
 * Claims every GPU of devices that has a PCI address. Errors: -EBUSY another process has claimed
 * one (the text names both); -ENOMEM; -errno no socket can be created.
 */
int lull_claim_take(const struct lull_devices *devices, struct lull_claim **claim_out,
                    struct lull_error *err);

/* Releases the GPUs. The end of the process does so too. NULL is allowed. */
void lull_claim_release(struct lull_claim *claim);

#endif
