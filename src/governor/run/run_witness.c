/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_witness.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits for the number of examined processes, their depth, and the size of their maps. Default: a
 * rank of PyTorch has 300 KB of map lines. */
enum { MAX_PROCESSES = 256, MAX_DEPTH = 16, MAX_MAPS = 4 << 20, CHUNK = 1 << 16 };

/* ---- one process ------------------------------------------------------------------------- */

/* The libraries that a process has mapped, by the names in its /proc/PID/maps. */
struct mapped {
    bool has_probe;
    bool has_openmpi_shim;
    bool has_mpich_shim;
    bool has_gloo;
    bool has_torch;
    char library[64]; /* that communicates; "": none */
};

static const char *run_witness_base_of(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool run_witness_has_prefix(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Takes a line of the maps; the file is its last field. */
static void take_line(const char *line, struct mapped *mapped)
{
    static const char *const libraries[] = {"libtorch_cpu.so", "libmpi.so", "libmpich.so",
                                            "libnccl.so"};
    const char *const path = strchr(line, '/');
    const char *name;

    if (path == NULL)
        return;
    name = run_witness_base_of(path);
    mapped->has_probe = mapped->has_probe || run_witness_has_prefix(name, "liblull-");
    mapped->has_openmpi_shim =
        mapped->has_openmpi_shim || run_witness_has_prefix(name, "liblull-mpi-openmpi");
    mapped->has_mpich_shim =
        mapped->has_mpich_shim || run_witness_has_prefix(name, "liblull-mpi-mpich");
    mapped->has_gloo = mapped->has_gloo || run_witness_has_prefix(name, "libgloo.so");
    mapped->has_torch = mapped->has_torch || run_witness_has_prefix(name, "libtorch_cpu.so");
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (mapped->library[0] == '\0' && run_witness_has_prefix(name, libraries[i]))
            snprintf(mapped->library, sizeof(mapped->library), "%.60s", name);
}

static bool read_maps(FILE *file, struct mapped *mapped_out)
{
    size_t left = MAX_MAPS;
    char *line = NULL;
    size_t size = 0;
    ssize_t length = 0;

    *mapped_out = (struct mapped){0};
    while (left > 0 && (length = getline(&line, &size, file)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        take_line(line, mapped_out);
        left -= (size_t)length < left ? (size_t)length : left;
    }
    free(line);
    return left < MAX_MAPS;
}

/* The MPICH ABI is libmpich.so, or libmpi.so.12; Open MPI's numbers are 20, 40 and 80. */
static bool lacks_shim(const struct mapped *mapped)
{
    if (run_witness_has_prefix(mapped->library, "libmpich.so") ||
        run_witness_has_prefix(mapped->library, "libmpi.so.12"))
        return !mapped->has_mpich_shim;
    return run_witness_has_prefix(mapped->library, "libmpi.so") && !mapped->has_openmpi_shim;
}

static enum lull_run_probing run_witness_classify(const struct mapped *mapped)
{
    const bool communicates = mapped->library[0] != '\0';

    if (!mapped->has_probe)
        return communicates ? LULL_RUN_PROBING_MISSED : LULL_RUN_PROBING_NO_PROBE;
    if (!communicates)
        return LULL_RUN_PROBING_PLAIN;
    if (lacks_shim(mapped))
        return LULL_RUN_PROBING_NO_SHIM;
    return mapped->has_torch && !mapped->has_gloo ? LULL_RUN_PROBING_STATIC_GLOO
                                                  : LULL_RUN_PROBING_SILENT;
}

static FILE *open_of(pid_t pid, const char *what)
{
    char path[128];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
    return fopen(path, "re");
}

static void run_witness_read_name(pid_t pid, char *name, size_t size)
{
    FILE *const file = open_of(pid, "comm");

    name[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(name, (int)size, file) != NULL)
        name[strcspn(name, "\n")] = '\0';
    fclose(file);
}

static void run_witness_inspect(struct lull_run_witness *witness, pid_t pid)
{
    FILE *const file = open_of(pid, "maps");
    struct mapped mapped;
    bool is_read;

    if (file == NULL)
        return;
    is_read = read_maps(file, &mapped);
    fclose(file);
    if (!is_read || run_witness_classify(&mapped) <= witness->probing)
        return;
    witness->probing = run_witness_classify(&mapped);
    witness->pid = pid;
    run_witness_read_name(pid, witness->name, sizeof(witness->name));
    memcpy(witness->library, mapped.library, sizeof(witness->library));
}

/* ---- all processes ----------------------------------------------------------------------- */

struct witness_search {
    struct lull_run_witness *witness;
    uint32_t left;
};

static void run_witness_visit(struct witness_search *search, pid_t pid, int depth);

/* Visits the children that one thread of a process has started. */
static void visit_children(struct witness_search *search, pid_t pid, const char *thread, int depth)
{
    char path[64];
    FILE *file;
    int child;

    snprintf(path, sizeof(path), "task/%.20s/children", thread);
    file = open_of(pid, path);
    if (file == NULL)
        return;
    while (fscanf(file, "%d", &child) == 1)
        run_witness_visit(search, child, depth + 1);
    fclose(file);
}

static void run_witness_visit(struct witness_search *search, pid_t pid, int depth)
{
    const struct dirent *entry;
    char path[64];
    DIR *threads;

    if (search->left == 0 || depth > MAX_DEPTH || pid <= 0)
        return;
    search->left--;
    run_witness_inspect(search->witness, pid);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    if (threads == NULL)
        return;
    while ((entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            visit_children(search, pid, entry->d_name, depth);
    closedir(threads);
}

void lull_run_witness_look(struct lull_run_witness *witness, pid_t command)
{
    struct witness_search search = {.witness = witness, .left = MAX_PROCESSES};

    run_witness_visit(&search, command, 0);
}

/* ---- words ------------------------------------------------------------------------------- */

/* Programs whose job is started by another process: a daemon, a server, or another node. */
static const char *find_starter(const char *name)
{
    static const char *const starters[] = {
        "docker", "podman", "nerdctl", "ctr",  "kubectl", "tmux", "screen", "ssh",
        "pdsh",   "sbatch", "srun",    "flux", "qsub",    "bsub", "sudo",   "systemd-run",
    };

    for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
        if (strcmp(name, starters[i]) == 0)
            return starters[i];
    return NULL;
}

const char *lull_run_witness_elsewhere(char *const command[])
{
    for (; *command != NULL; command++) {
        const char *starter = find_starter(run_witness_base_of(*command));
        char *const text = starter == NULL ? strdup(*command) : NULL;
        char *rest = NULL;

        /* The script after a shell's -c is one word. */
        for (char *word = text != NULL ? strtok_r(text, " \t\n;&|()", &rest) : NULL;
             word != NULL && starter == NULL; word = strtok_r(NULL, " \t\n;&|()", &rest))
            starter = find_starter(run_witness_base_of(word));
        free(text);
        if (starter != NULL)
            return starter;
    }
    return NULL;
}

/* Describes the process that explains most. False: it gives no reason. */
static bool describe_lock_state(const struct lull_run_witness *witness, char *text, size_t size)
{
    switch (witness->probing) {
    case LULL_RUN_PROBING_MISSED:
        snprintf(text, size,
                 "no rank was detected: %s (process %d) uses %s without Lull's probes: it was "
                 "started without LD_PRELOAD (env -i, sudo, or a script that clears it). Keep "
                 "LD_PRELOAD, or run that program with lull run",
                 witness->name, (int)witness->pid, witness->library);
        return true;
    case LULL_RUN_PROBING_NO_SHIM:
        snprintf(text, size,
                 "no rank was detected: %s (process %d) uses %s, for which this build of Lull has "
                 "no shim. Build Lull with the headers of Open MPI and MPICH installed",
                 witness->name, (int)witness->pid, witness->library);
        return true;
    case LULL_RUN_PROBING_STATIC_GLOO:
        snprintf(text, size,
                 "no rank was detected: the PyTorch of %s (process %d) links gloo statically, so "
                 "only its NCCL can be observed. Mark steps and sections with lull.h, or use NCCL",
                 witness->name, (int)witness->pid);
        return true;
    case LULL_RUN_PROBING_SILENT:
        snprintf(text, size,
                 "no rank was detected: %s (process %d) uses %s and has not communicated through "
                 "it. Run it with several ranks, or mark steps and sections with lull.h",
                 witness->name, (int)witness->pid, witness->library);
        return true;
    default:
        return false;
    }
}

void lull_run_witness_describe(const struct lull_run_witness *witness, char *const command[],
                               char *text, size_t size)
{
    const char *const starter = lull_run_witness_elsewhere(command);

    if (describe_lock_state(witness, text, size))
        return;
    if (starter != NULL)
        snprintf(text, size,
                 "no NCCL, MPI or gloo process was detected: %s starts the job elsewhere (its "
                 "server, a container or another node), without the environment of lull run. Use "
                 "lull run there, as in: %s ... lull run -- ./train",
                 starter, starter);
    else if (witness->probing == LULL_RUN_PROBING_NO_PROBE)
        snprintf(text, size,
                 "no NCCL, MPI or gloo process was detected: %s (process %d) runs without Lull's "
                 "probes: it is linked statically, or was started without LD_PRELOAD. Keep "
                 "LD_PRELOAD, run that program with lull run, or mark its sections with "
                 "lull_section_begin() of lull.h",
                 witness->name, (int)witness->pid);
    else
        snprintf(
            text, size,
            "no NCCL, MPI or gloo process was detected, and none that calls lull.h. If the command "
            "starts the job elsewhere (ssh, a container, a scheduler), use lull run there; "
            "otherwise mark its sections with lull_section_begin() of lull.h");
}
