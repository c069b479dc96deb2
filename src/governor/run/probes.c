/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/probes.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "wire/event.h"

#define OPENMPI_SHIM "liblull-mpi-openmpi.so"
#define NCCL_PLUGIN_ENV "NCCL_PROFILER_PLUGIN"

static int find_probe(const char *file, char *path_out, size_t size, struct lull_error *err)
{
    char build_path[64];

    snprintf(build_path, sizeof(build_path), "probe/%s", file);
    return lull_file_find_own(build_path, file, path_out, size, err);
}

/* A library with a sanitizer cannot be loaded into programs that have none, such as a shell. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#if !defined(IS_SANITIZED) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define IS_SANITIZED true
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

/* ---- probes by command -------------------------------------------------------------------- */

static bool is_always(const struct lull_probes_request *request)
{
    (void)request;
    return true;
}

static bool may_be_preloaded(const struct lull_probes_request *request)
{
    (void)request;
    return !IS_SANITIZED;
}

static bool wants_markers(const struct lull_probes_request *request)
{
    return request->markers;
}

static bool wants_plugin(const struct lull_probes_request *request)
{
    return !request->markers;
}

static bool wants_exposure(const struct lull_probes_request *request)
{
    return request->exposure;
}

/* Alone, MPICH's shim would cut the handles of a program of Open MPI (mpi_shim.c). */
static bool follows_openmpi(const struct lull_probes_request *request)
{
    struct lull_error missing = {0};
    char path[PATH_MAX];

    (void)request;
    return !IS_SANITIZED && find_probe(OPENMPI_SHIM, path, sizeof(path), &missing) == 0;
}

/* CUDA loads only one library, and passes it no information about others. */
static bool is_any_library(const char *chosen)
{
    (void)chosen;
    return true;
}

/* Values for which NCCL's profiler is off, or is linked into the program. */
static bool is_no_plugin(const char *chosen)
{
    return strcmp(chosen, "none") == 0 || strcmp(chosen, "STATIC_PLUGIN") == 0;
}

/* ---- the probes --------------------------------------------------------------------------- */

/* A new probe is a new row, and a library in src/probe/. */
static const struct probe {
    const char *library;
    bool (*is_needed)(const struct lull_probes_request *request);
    bool is_optional; /* it is built only where the headers of its MPI are */
    const char
        *variable;     /* the environment variable that loads it; +: added to its present value */
    const char *chain; /* variable that passes the user's own choice to it; NULL: none */
    const char *otherwise; /* library loaded without a choice of the user; NULL: none */
    bool (*is_respected)(
        const char *chosen); /* condition under which it is not loaded; NULL: it is always loaded */
    const char *loss;        /* consequence for observation if it is not loaded, and the remedy */
    const char *besides;     /* another variable that is set with it; NULL: none */
} all_probes[] = {
    /* The processes that a command starts are not known before it runs (make, a Python program, a
     * container's entry), so these go into every process: without their library nothing in them is
     * called. Each is put before the present value, and Open MPI's must come before MPICH's
     * (mpi_shim.c). */
    {
        .library = "liblull-gloo.so",
        .is_needed = may_be_preloaded,
        .variable = "+LD_PRELOAD",
        /* AddressSanitizer ends a program in which another library is loaded before its own. */
        .besides = "+ASAN_OPTIONS=verify_asan_link_order=0",
    },
    {
        .library = "liblull-mpi-mpich.so",
        .is_needed = follows_openmpi,
        .is_optional = true,
        .variable = "+LD_PRELOAD",
    },
    {
        .library = OPENMPI_SHIM,
        .is_needed = may_be_preloaded,
        .is_optional = true,
        .variable = "+LD_PRELOAD",
    },
    {
        .library = "liblull-nccl.so",
        .is_needed = wants_markers,
        .variable = "+LD_PRELOAD",
        .besides = NCCL_PLUGIN_ENV "=none", /* with both, every event would be reported twice */
    },
    {
        .library = "libnccl-profiler-lull.so",
        .is_needed = wants_plugin,
        .variable = NCCL_PLUGIN_ENV,
        .chain = LULL_NCCL_CHAIN_ENV,
        .otherwise = "libnccl-profiler.so",
        .is_respected = is_no_plugin,
        .loss = "communication through NCCL is not observed; unset it to enable that",
    },
    {
        .library = "liblull-nvtx.so",
        .is_needed = is_always,
        .variable = "NVTX_INJECTION64_PATH",
        .chain = LULL_NVTX_CHAIN_ENV,
    },
    {
        .library = "liblull-cupti.so",
        .is_needed = wants_exposure,
        .variable = "CUDA_INJECTION64_PATH",
        .is_respected = is_any_library,
        .loss = "compute kernels are not recorded; unset it to enable that",
    },
};

__attribute__((format(printf, 2, 3))) static void probe_env_append(struct lull_probes *probes,
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

/* Adds a library to a list in a variable, before those that are there already. Errors:
 * -ENAMETOOLONG. */
static int add_to_list(struct lull_probes *probes, const char *variable, const char *path)
{
    const size_t length = strlen(variable);
    char text[LULL_PROBES_TEXT_BYTES];

    for (uint32_t i = 1; i < probes->count; i++) {
        char *const list = probes->variables[i];

        if (strncmp(list, variable, length) != 0 || list[length] != '=')
            continue;
        if (snprintf(text, sizeof(text), "%s=%s:%s", variable, path, list + length + 1) >=
            (int)sizeof(text))
            return -ENAMETOOLONG;
        memcpy(list, text, sizeof(text));
        return 0;
    }
    probe_env_append(probes, "%s=%s", variable, path);
    return 0;
}

/* Returns whether it is our probe already: this is a run within a run. */
static bool probe_env_is_ours(const struct probe *probe, const char *chosen)
{
    return strcmp(chosen, "lull") == 0 || strstr(chosen, probe->library) != NULL;
}

/* Returns whether the path would be read as several. */
static bool is_split(const struct probe *probe, const char *path)
{
    return strcmp(probe->variable, "+LD_PRELOAD") == 0 && strpbrk(path, " :") != NULL;
}

/* The library that our probe must load: the user's choice, unless that is our probe already. */
static const char *probe_env_find_behind(const struct probe *probe, const char *chosen)
{
    if (chosen == NULL)
        return probe->otherwise;
    return probe_env_is_ours(probe, chosen) ? NULL : chosen;
}

uint32_t lull_probes_count(void)
{
    return sizeof(all_probes) / sizeof(all_probes[0]);
}

int lull_probes_add(struct lull_probes *probes, uint32_t index,
                    const struct lull_probes_request *request, struct lull_error *err)
{
    const struct probe *probe = &all_probes[index];
    const char *chosen = getenv(probe->variable);
    const char *behind;
    struct lull_error missing = {0};
    char path[PATH_MAX];
    int result;

    if (!probe->is_needed(request))
        return 0;
    if (chosen != NULL && chosen[0] == '\0')
        chosen = NULL;
    if (chosen != NULL && probe->is_respected != NULL && !probe_env_is_ours(probe, chosen) &&
        probe->is_respected(chosen))
        return lull_error_set(err, LULL_E_UNSUPPORTED, "%s=%s: %s", probe->variable, chosen,
                              probe->loss);
    result = find_probe(probe->library, path, sizeof(path), &missing);
    if (result == 0 && is_split(probe, path))
        return lull_error_set(err, -EINVAL,
                              "%s: cannot be loaded, because the dynamic linker splits LD_PRELOAD "
                              "at blanks and colons; install Lull in another directory",
                              path);
    if (result < 0 && probe->is_optional)
        return 0;
    if (result < 0)
        return lull_error_set(err, result, "%s", missing.text);
    if (add_to_list(probes, probe->variable, path) < 0)
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long to be loaded", path);
    behind = probe_env_find_behind(probe, chosen);
    if (probe->chain != NULL && behind != NULL && getenv(probe->chain) == NULL)
        probe_env_append(probes, "%s=%s", probe->chain, behind);
    if (probe->besides != NULL)
        probe_env_append(probes, "%s", probe->besides);
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
