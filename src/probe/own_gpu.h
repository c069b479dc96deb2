/*
 * Reports to the job which GPUs this process uses, by the PCI addresses that CUDA or HIP gives
 * them: their own numbers are not the driver library's.
 *
 * Slow, and it calls the driver: never on the path of a communication. Silent; without a driver, or
 * before the client has joined, nothing is reported. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_OWN_GPU_H
#define LULL_PROBE_OWN_GPU_H

/* Reports that a communicator of this process runs on a device, by the number that CUDA or HIP
 * gives it. */
void lull_own_gpu_report(int device);

/* The same for the device whose context is current on the calling thread. */
void lull_own_gpu_report_current(void);

/* Reports all devices on which CUDA has a primary context of this process. Returns how many. */
int lull_own_gpu_report_contexts(void);

#endif
