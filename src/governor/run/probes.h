/*
 * What `lull run` adds to the environment of a job so that it loads the probes.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PROBES_H
#define LULL_GOVERNOR_RUN_PROBES_H

#include <limits.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_PROBES_VARIABLES = 10, LULL_PROBES_TEXT_BYTES = PATH_MAX + 32 };

/* Caller's storage; zero-initialised is empty. */
struct lull_probes {
    uint32_t count;
    char variables[LULL_PROBES_VARIABLES][LULL_PROBES_TEXT_BYTES]; /* the first: the job */
    const char *environment[LULL_PROBES_VARIABLES + 1];
};

/*
 * Adds the MPI shim that fits the command; a command without MPI needs none. Errors: the shim is
 * not installed.
 */
int lull_probes_add_mpi(struct lull_probes *probes, char *const command[], struct lull_error *err);

/* Adds the gloo shim where the command may run PyTorch. Errors: the shim is not installed. */
int lull_probes_add_gloo(struct lull_probes *probes, char *const command[], struct lull_error *err);

/*
 * Adds the window in which CUPTI records compute kernels. Errors: it is not installed; -EBUSY the
 * user has given CUDA another library to load (CUDA_INJECTION64_PATH), which is respected.
 */
int lull_probes_add_exposure(struct lull_probes *probes, struct lull_error *err);

/*
 * Adds the library that makes sections of the ranges that programs announce to profilers (NVTX).
 * Another one that the user has chosen (NVTX_INJECTION64_PATH) is loaded by ours. Errors: it is not
 * installed.
 */
int lull_probes_add_nvtx(struct lull_probes *probes, struct lull_error *err);

/*
 * Adds the shim that marks NCCL's collectives on their streams, in place of the plugin: both would
 * tell everything twice. Errors: it is not installed.
 */
int lull_probes_add_markers(struct lull_probes *probes, struct lull_error *err);

/*
 * Adds the NCCL profiler plugin. Another plugin that the user has chosen, or NCCL would have loaded
 * by default, is then loaded by ours. Errors: the plugin is not installed; LULL_E_UNSUPPORTED the
 * user has switched NCCL's profiler off or linked one in ("none", "STATIC_PLUGIN"), which is
 * respected.
 */
int lull_probes_add_nccl(struct lull_probes *probes, struct lull_error *err);

/*
 * All of it with the path of a job's segment, NULL-terminated, as lull_child_start takes it;
 * borrowed until the next call.
 */
const char *const *lull_probes_environment(struct lull_probes *probes, const char *job_path);

#endif
