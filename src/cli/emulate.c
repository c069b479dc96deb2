/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "emulator/node.h"
#include "emulator/sysfs.h"
#include "base/child.h"

struct emulate_arguments {
    const char *faults;
    const char *truth;
    const char *driver;
    uint64_t seed;
    double time_scale;
    double warm_w;
    bool is_in_sysfs;
};

static const struct lull_option rows[] = {
    LULL_SEED_ROW(struct emulate_arguments, seed,
                  "Seed of the differences between GPUs and of the noise in their readings; "
                  "0: nominal GPUs without noise."),
    LULL_VALUE("warm", "W", NUMBER, struct emulate_arguments, warm_w,
               "Start at the temperature of GPUs after a job that draws this power on each.",
               .otherwise = "the temperature of idle GPUs"),
    LULL_VALUE("time-scale", "X", NUMBER, struct emulate_arguments, time_scale,
               "Speed of the node's clock: seconds on the node per real second.", .least = 0.01,
               .most = 1000, .default_value = "1"),
    LULL_VALUE(
        "driver", "VERSION", TEXT, struct emulate_arguments, driver,
        "Release of NVIDIA's driver, such as 570 or 570.86.10: its NVML has no newer functions, "
        "and the versions of NVML and CUDA are those of the release.",
        .otherwise = "the newest release, which has all functions"),
    LULL_VALUE("fault", "LIST", TEXT, struct emulate_arguments, faults,
               "Inject faults: [GPU:]NAME[=VALUE[xCOUNT][@AFTER]],... `lull emulate set --list` "
               "lists the names.",
               .more =
                   "A fault happens COUNT times instead of for ever, after AFTER calls without "
                   "one. Give x1 to what happens to the GPU itself, at its next call: an XID, a "
                   "loss, a reload, another program's call. Codes are the vendor's own. The "
                   "faults in $LULL_EMULATED_FAULT are injected as well."),
    LULL_FLAG("sysfs", struct emulate_arguments, is_in_sysfs,
              "Show the GPUs of NVIDIA in /sys/bus/pci/devices too, for hwloc. Needs root or user "
              "namespaces."),
    LULL_VALUE("truth", "FILE", TEXT, struct emulate_arguments, truth,
               "Write what really happened on the GPUs into this file at the end, as JSON.",
               .hint = LULL_OPTION_FILE),
    {0},
};

/* ---- the command ---- */

/* Puts a directory before those of a variable that lists directories. */
static int put_first(const char *variable, const char *directory)
{
    const char *before = getenv(variable);
    const size_t size = strlen(directory) + (before != NULL ? strlen(before) : 0) + 2;
    char *const path = malloc(size);
    int result;

    if (path == NULL)
        return -ENOMEM;
    snprintf(path, size, "%s%s%s", directory, before != NULL && *before != '\0' ? ":" : "",
             before != NULL ? before : "");
    result = setenv(variable, path, 1) < 0 ? -errno : 0;
    free(path);
    return result;
}

/* The library of an older driver release lies in a directory named after its branch. */
static int put_release_first(const struct lull_node *node, const char *libraries)
{
    const uint32_t branch = lull_node_release(node)->branch;
    char older[PATH_MAX + 16];

    if (branch == lull_release_newest()->branch)
        return 0;
    if ((size_t)snprintf(older, sizeof(older), "%s/%u", libraries, branch) >= sizeof(older))
        return -ENAMETOOLONG;
    return put_first("LD_LIBRARY_PATH", older);
}

/* `programs` has nvidia-smi, or is empty. */
static int set_environment(const struct lull_node *node, const char *libraries,
                           const char *programs)
{
    int result = put_first("LD_LIBRARY_PATH", libraries);

    if (result == 0)
        result = put_release_first(node, libraries);
    /* Without PATH, programs are found in the system's directories. */
    if (result == 0 && *programs != '\0' && getenv("PATH") != NULL)
        result = put_first("PATH", programs);
    if (result == 0 && setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1) < 0)
        result = -errno;
    return result;
}

/* Waits for the child. Signals that others send to this process are passed on to it. */
static int emulate_await(struct lull_child *child, const sigset_t *watched)
{
    int status;

    for (;;) {
        siginfo_t info;
        const int number = sigwaitinfo(watched, &info);

        /* Signals from the terminal reach the child as well, so passing them on would send them
         * twice. */
        if (number > 0 && number != SIGCHLD && info.si_code <= 0)
            lull_child_signal(child, number);
        if (lull_child_reap(child, false, &status))
            return status;
    }
}

static int emulate_run_child(char **command, const sigset_t *watched)
{
    struct lull_child child;
    struct lull_error err = {0};

    if (lull_child_start(command, NULL, &child, &err) < 0)
        return lull_cli_fail_to_start("emulate", &err);
    return emulate_await(&child, watched);
}

/* Blocks the signals that end programs, so that the node file is removed on the way out. */
static void emulate_block_signals(sigset_t *watched_out, sigset_t *old_mask_out)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};

    sigemptyset(watched_out);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(watched_out, numbers[i]);
    sigprocmask(SIG_BLOCK, watched_out, old_mask_out);
    signal(SIGCHLD,
           SIG_DFL); /* if it was inherited as ignored, the child could not be waited for */
}

/* ---- the truth ---- */

static void emulate_write_gpu(FILE *file, struct lull_node *node, uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    fprintf(file,
            "%s\n  {\"gpu\": %u, \"time_s\": %.6f, \"energy_j\": %.6f, \"temperature_c\": %.2f, "
            "\"is_locked\": %s, \"asked_mhz\": %.1f, \"requests_low\": %" PRIu64
            ", \"kernels_started\": %" PRIu64 ", \"kernels_started_low\": %" PRIu64
            ", \"kernel_low_ms\": %.3f}",
            gpu > 0 ? "," : "", gpu, (double)truth.now_ns * 1e-9, truth.energy_j,
            truth.temperature_c, truth.is_locked ? "true" : "false", truth.asked_mhz,
            truth.requests_low, truth.kernels_started, truth.kernels_started_low,
            (double)truth.kernel_low_ns * 1e-6);
}

static int emulate_write_report(const void *context, FILE *file)
{
    struct lull_node *const node = *(struct lull_node *const *)context;

    fprintf(file, "{\"gpus\": [");
    for (uint32_t i = 0; i < lull_node_gpu_count(node); i++)
        emulate_write_gpu(file, node, i);
    fprintf(file, "\n]}\n");
    return 0;
}

/* ---- all together ---- */

/* Finds the directory of a file of Lull's own. */
static int find_directory(const char *build_path, const char *installed_name,
                          char directory[PATH_MAX], struct lull_error *err)
{
    char found[PATH_MAX];
    int result = lull_file_find_own(build_path, installed_name, found, sizeof(found), err);

    if (result < 0)
        return result;
    /* The directory of the link counts and not that of the file: the dynamic linker looks for the
     * names of the links. */
    if (realpath(dirname(found), directory) == NULL)
        return lull_error_set(err, -errno, "%s: %s", found, strerror(errno));
    return 0;
}

static bool has_nvidia_gpu(const struct lull_node_spec *spec)
{
    for (uint32_t i = 0; i < spec->gpu_count; i++)
        if (spec->models[i]->vendor == LULL_GPU_NVIDIA)
            return true;
    return false;
}

/* Finds the libraries, and the directory of nvidia-smi if it would see a GPU: its mere presence
 * lets tools expect one. */
static int find_directories(const struct lull_node_spec *spec, char libraries[PATH_MAX],
                            char programs[PATH_MAX], struct lull_error *err)
{
    const int result = find_directory("emulator/lib/libnvidia-ml.so.1",
                                      "emulated/libnvidia-ml.so.1", libraries, err);

    programs[0] = '\0';
    if (result < 0 || !has_nvidia_gpu(spec))
        return result;
    return find_directory("emulator/nvidia_smi/nvidia-smi", "emulated/bin/nvidia-smi", programs,
                          err);
}

static int set_faults(struct lull_node *node, const char *option, struct lull_error *err)
{
    const char *variable = getenv(LULL_NODE_FAULT_VARIABLE);
    int result = 0;

    if (variable != NULL)
        result = lull_node_set_faults(node, variable, err);
    if (result == 0 && option != NULL)
        result = lull_node_set_faults(node, option, err);
    return result;
}

static int run_on_node(const struct emulate_arguments *arguments, char **command,
                       const struct lull_node_spec *spec, struct lull_node *node,
                       const sigset_t *watched, struct lull_error *err)
{
    char libraries[PATH_MAX];
    char programs[PATH_MAX];
    int status;
    int result = find_directories(spec, libraries, programs, err);

    if (result == 0)
        result = set_faults(node, arguments->faults, err);
    if (result < 0)
        return result;
    result = set_environment(node, libraries, programs);
    if (result < 0)
        return lull_error_set(err, result, "cannot set the environment: %s", strerror(-result));
    if (arguments->is_in_sysfs)
        result = lull_sysfs_show(spec, err);
    if (result < 0)
        return result;
    status = emulate_run_child(command, watched);
    if (arguments->truth != NULL)
        result = lull_file_write_with(arguments->truth, emulate_write_report, &node, err);
    return result < 0 && status == 0 ? result : status;
}

static int emulate_command(void *options, const struct lull_operands *operands)
{
    const struct emulate_arguments *const arguments = options;
    struct lull_node_spec spec = {
        .seed = arguments->seed, .time_scale = arguments->time_scale, .warm_w = arguments->warm_w};
    struct lull_release release;
    struct lull_error err = {0};
    struct lull_node *node;
    sigset_t watched;
    sigset_t old_mask;
    int result = lull_node_spec_parse(operands->words[0], &spec, &err);

    if (result == 0 && arguments->driver != NULL) {
        result = lull_release_parse(arguments->driver, &release, &err);
        spec.release = &release;
    }
    if (result < 0)
        return lull_cli_fail("emulate", &err);
    /* The signals are blocked before the node exists. Otherwise an early signal would leave the
     * file of the node. */
    emulate_block_signals(&watched, &old_mask);
    result = lull_node_create(&spec, &node, &err);
    if (result == 0) {
        result = run_on_node(arguments, operands->command, &spec, node, &watched, &err);
        lull_node_remove(node);
    }
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    if (err.code != 0)
        lull_cli_fail("emulate", &err);
    return result < 0 ? (int)lull_error_exit_status(result) : result;
}

const struct lull_program_command lull_emulate_command = {
    .name = "emulate",
    .summary = "run a command on an emulated node, no GPU needed",
    .arguments = "SPEC -- COMMAND [ARG...]",
    .about = "Runs COMMAND on a node of emulated GPUs, such as 4xA100-SXM4-40GB or 2xH100,2xA40. "
             "The command and its children see the GPUs through libnvidia-ml.so.1 and nvidia-smi "
             "(AMD's, 2xMI300X, through libamd_smi.so.26 and .27; Intel's, 2xMax1550, through "
             "libze_loader.so.1). They vanish with the command. The exit status is that of the "
             "command, or 128+N if signal N ended it.",
    .after = "Example:\n"
             "  lull emulate 4xA100-SXM4-40GB -- nvidia-smi",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .takes_command = true,
                 .needs_command = true,
                 .missing = "give SPEC and COMMAND, such as 4xA100-SXM4-40GB -- nvidia-smi"},
    .size = sizeof(struct emulate_arguments),
    .returns_jobs_status = true,
    .run = emulate_command,
};
