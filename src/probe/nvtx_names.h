/*
 * Returns which ranges of NVTX mean a forward or a backward. The function is pure. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NVTX_NAMES_H
#define LULL_PROBE_NVTX_NAMES_H

enum lull_nvtx_kind { LULL_NVTX_NONE, LULL_NVTX_FORWARD, LULL_NVTX_BACKWARD };

/*
 * By what is behind the last dot of the name ("DeepSpeedEngine.forward"), without regard to case,
 * leading underscores and "exec_", and a number: forward, fwd, forward_step, forward_pass,
 * forward-compute, forward_microbatch, "Forward 3", forward_3, forward(mb=3); likewise backward and
 * bwd. Anything else, such as forward_pre_hook or Linear.forward.matmul, is none. name: NULL is
 * none; no more than 128 bytes are looked at.
 */
enum lull_nvtx_kind lull_nvtx_kind_of(const char *name);

#endif
