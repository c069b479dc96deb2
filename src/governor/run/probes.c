/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/probes.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "governor/run/mpi_flavor.h"
#include "governor/run/python_command.h"
#include "wire/event.h"

#define CUDA_INJECTION_ENV "CUDA_INJECTION64_PATH"
#define NVTX_INJECTION_ENV "NVTX_INJECTION64_PATH"
#define NVTX_SECTIONS "liblull-nvtx.so"
#define NCCL_PLUGIN_ENV "NCCL_PROFILER_PLUGIN"
#define NCCL_PLUGIN "libnccl-profiler-lull.so"
#define NCCL_DEFAULT_PLUGIN "libnccl-profiler.so" /* what NCCL looks for by itself */

static int find_probe(const char *file, char *path_out, size_t size, struct lull_error *err)
{
    char build_path[64];

    snprintf(build_path, sizeof(build_path), "probe/%s", file);
    return lull_file_find_own(build_path, file, path_out, size, err);
}

__attribute__((format(printf, 2, 3))) static void add(struct lull_probes *probes,
                                                      const char *format, ...)
{
    va_list arguments;

    if (probes->count == 0)
        probes->count = 1; /* the job's place */
    assert(probes->count < LULL_PROBES_VARIABLES);
    va_start(arguments, format);
    vsnprintf(probes->variables[probes->count++], LULL_PROBES_TEXT_BYTES, format, arguments);
    va_end(arguments);
}

static int preload(struct lull_probes *probes, const char *file, struct lull_error *err)
{
    char path[PATH_MAX];
    int result = find_probe(file, path, sizeof(path), err);

    if (result == 0)
        add(probes, "+LD_PRELOAD=%s", path);
    return result;
}

int lull_probes_add_mpi(struct lull_probes *probes, char *const command[], struct lull_error *err)
{
    static const char *const files[] = {
        [LULL_MPI_OPENMPI] = "liblull-mpi-openmpi.so",
        [LULL_MPI_MPICH] = "liblull-mpi-mpich.so",
    };
    const enum lull_mpi_flavor flavor = lull_mpi_flavor_of_command(command);

    if (flavor != LULL_MPI_OPENMPI && flavor != LULL_MPI_MPICH)
        return 0;
    return preload(probes, files[flavor], err);
}

int lull_probes_add_gloo(struct lull_probes *probes, char *const command[], struct lull_error *err)
{
    return lull_command_runs_python(command) ? preload(probes, "liblull-gloo.so", err) : 0;
}

int lull_probes_add_markers(struct lull_probes *probes, struct lull_error *err)
{
    const int result = preload(probes, "liblull-nccl.so", err);

    if (result == 0)
        add(probes, NCCL_PLUGIN_ENV "=none");
    return result;
}

int lull_probes_add_exposure(struct lull_probes *probes, struct lull_error *err)
{
    const char *chosen = getenv(CUDA_INJECTION_ENV);
    char path[PATH_MAX];
    int result;

    if (chosen != NULL && chosen[0] != '\0')
        return lull_error_set(err, -EBUSY,
                              CUDA_INJECTION_ENV "=%s: kernels are not recorded; unset it to let "
                                                 "Lull record them (--exposure)",
                              chosen);
    result = find_probe("liblull-cupti.so", path, sizeof(path), err);
    if (result == 0)
        add(probes, CUDA_INJECTION_ENV "=%s", path);
    return result;
}

int lull_probes_add_nvtx(struct lull_probes *probes, struct lull_error *err)
{
    const char *chosen = getenv(NVTX_INJECTION_ENV);
    char path[PATH_MAX];
    const int result = find_probe(NVTX_SECTIONS, path, sizeof(path), err);

    if (result < 0)
        return result;
    add(probes, NVTX_INJECTION_ENV "=%s", path);
    if (chosen != NULL && chosen[0] != '\0' && strstr(chosen, NVTX_SECTIONS) == NULL &&
        getenv(LULL_NVTX_CHAIN_ENV) == NULL)
        add(probes, LULL_NVTX_CHAIN_ENV "=%s", chosen);
    return 0;
}

/* What ours has to load in its turn: the user's choice, if it is not ours already. */
static const char *plugin_behind(const char *chosen)
{
    if (chosen == NULL || chosen[0] == '\0')
        return NCCL_DEFAULT_PLUGIN;
    return strcmp(chosen, "lull") == 0 || strstr(chosen, NCCL_PLUGIN) != NULL ? NULL : chosen;
}

int lull_probes_add_nccl(struct lull_probes *probes, struct lull_error *err)
{
    const char *chosen = getenv(NCCL_PLUGIN_ENV);
    const char *behind = plugin_behind(chosen);
    char path[PATH_MAX];
    int result;

    if (chosen != NULL && (strcmp(chosen, "none") == 0 || strcmp(chosen, "STATIC_PLUGIN") == 0))
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              NCCL_PLUGIN_ENV "=%s: communication through NCCL is not observed; "
                                              "unset it to let Lull see it",
                              chosen);
    result = find_probe(NCCL_PLUGIN, path, sizeof(path), err);
    if (result < 0)
        return result;
    add(probes, NCCL_PLUGIN_ENV "=%s", path);
    if (behind != NULL && getenv(LULL_NCCL_CHAIN_ENV) == NULL)
        add(probes, LULL_NCCL_CHAIN_ENV "=%s", behind);
    return 0;
}

const char *const *lull_probes_environment(struct lull_probes *probes, const char *job_path)
{
    uint32_t count = probes->count > 0 ? probes->count : 1;

    snprintf(probes->variables[0], LULL_PROBES_TEXT_BYTES, LULL_JOB_ENV "=%s", job_path);
    for (uint32_t i = 0; i < count; i++)
        probes->environment[i] = probes->variables[i];
    probes->environment[count] = NULL;
    return probes->environment;
}
