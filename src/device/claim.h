/*
 * Ensures one writer per GPU, whatever its runtime directory. A process claims the GPUs by their
 * PCI addresses before it changes any of them.
 *
 * A claim is two locks, either of which refuses: a socket with an abstract name, which all
 * processes of one network namespace share and which ends with its process, and a locked file in
 * /run/lull, which services with a network of their own share with the host. A container with
 * neither the host's network nor its /run/lull is not covered: there, only what a second writer
 * changes is noticed (restore.h).
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
 * one, with its address and the process in the text; -ENOMEM; -errno no socket can be made.
 */
int lull_claim_take(const struct lull_devices *devices, struct lull_claim **claim_out,
                    struct lull_error *err);

/* Gives the GPUs up; so does the end of the process. NULL is allowed. */
void lull_claim_release(struct lull_claim *claim);

#endif
