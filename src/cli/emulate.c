/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/emulate.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "emulator/node.h"

struct arguments {
    const char *spec;
    char **command;
    const char *faults;
    const char *report;
    int64_t seed;
    double time_scale;
    double warm_w;
};

enum { KEY_SEED = 1000, KEY_TIME_SCALE, KEY_WARM, KEY_FAULT, KEY_REPORT };

static const struct argp_option options[] = {
    {"seed", KEY_SEED, "N", 0, "Unit spread and noise; 0: nominal units without noise (1)", 0},
    {"time-scale", KEY_TIME_SCALE, "X", 0, "Emulated seconds per second (1)", 0},
    {"warm", KEY_WARM, "W", 0,
     "Start at the temperature that a job of so many watts per GPU leaves (idle)", 0},
    {"fault", KEY_FAULT, "LIST", 0,
     "Inject faults: [GPU:]NAME[=VALUE[xCOUNT][@AFTER]],... with the names set_code, hang_ms, "
     "no_effect, settle_factor, no_permission, no_energy, get_code, any_user (sets without root)",
     0},
    {"report", KEY_REPORT, "FILE", 0, "Write what really happened on the GPUs as JSON at the end",
     0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;

    switch (key) {
    case KEY_SEED:
        if (lull_text_parse_int(arg, 0, INT64_MAX, &arguments->seed) < 0)
            argp_error(state, "--seed %s: expected a whole number from 0", arg);
        break;
    case KEY_TIME_SCALE:
        if (lull_text_parse_number(arg, &arguments->time_scale) < 0 ||
            !(arguments->time_scale >= 0.01 && arguments->time_scale <= 1000))
            argp_error(state, "--time-scale %s: expected a number from 0.01 to 1000", arg);
        break;
    case KEY_WARM:
        if (lull_text_parse_number(arg, &arguments->warm_w) < 0 || arguments->warm_w < 0.0)
            argp_error(state, "--warm %s: expected watts from 0", arg);
        break;
    case KEY_FAULT:
        arguments->faults = arg;
        break;
    case KEY_REPORT:
        arguments->report = arg;
        break;
    case ARGP_KEY_ARG:
        if (arguments->spec == NULL) {
            arguments->spec = arg;
        } else { /* the rest is the command's, options included */
            arguments->command = state->argv + state->next - 1;
            state->next = state->argc;
        }
        break;
    case ARGP_KEY_END:
        if (arguments->command == NULL)
            argp_error(state, "expected SPEC and COMMAND, e.g. 4xA100-SXM4-40GB -- nvidia-smi");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "SPEC -- COMMAND [ARG...]",
    .doc = "Runs COMMAND on a node of emulated GPUs, e.g. 4xA100-SXM4-40GB or 2xH100,2xA40.\v"
           "The command and its children see the GPUs through libnvidia-ml.so.1 (AMD's, 2xMI300X, "
           "through libamd_smi.so.26; Intel's, 2xMax1550, through libze_loader.so.1). They vanish "
           "with the command. The status is the command's; 128+N if signal N ended it.",
};

/* ---- the command ---- */

static int set_environment(const struct lull_node *node, const char *directory)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char path[2 * PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s%s%s", directory,
                         before != NULL && *before != '\0' ? ":" : "",
                         before != NULL ? before : "") >= sizeof(path))
        return -ENAMETOOLONG;
    if (setenv("LD_LIBRARY_PATH", path, 1) < 0 ||
        setenv(LULL_NODE_VARIABLE, lull_node_path(node), 1) < 0)
        return -errno;
    return 0;
}

/* In the child: becomes the command, or tells the parent why not. */
static void __attribute__((noreturn))
exec_command(char **command, const sigset_t *old_mask, int failure_fd)
{
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    execvp(command[0], command);

    const int reason = errno;

    if (write(failure_fd, &reason, sizeof(reason)) < 0)
        _exit(LULL_EXIT_FAILED);
    _exit(LULL_EXIT_FAILED);
}

/* Waits for the child; what others send to this process goes on to the child. */
static int wait_for(pid_t child, const sigset_t *watched)
{
    int status;

    for (;;) {
        siginfo_t info;
        const int number = sigwaitinfo(watched, &info);

        if (number > 0 && number != SIGCHLD && info.si_code <= 0)
            kill(child, number); /* the terminal's own signals reach the child anyway */
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

static int run_command(char **command, const sigset_t *watched, const sigset_t *old_mask)
{
    int failure[2];
    int reason = 0;
    ssize_t got;
    pid_t child;

    if (pipe2(failure, O_CLOEXEC) < 0) {
        lull_log(LULL_LOG_ERROR, "emulate", "cannot start %s: %s", command[0], strerror(errno));
        return LULL_EXIT_FAILED;
    }
    child = fork();
    if (child == 0)
        exec_command(command, old_mask, failure[1]);
    if (child < 0)
        reason = errno;
    close(failure[1]);
    do /* ends at exec, which closes the other side */
        got = child > 0 ? read(failure[0], &reason, sizeof(reason)) : 0;
    while (got < 0 && errno == EINTR);
    close(failure[0]);
    if (reason != 0)
        lull_log(LULL_LOG_ERROR, "emulate", "cannot start %s: %s", command[0], strerror(reason));
    return child < 0 ? LULL_EXIT_FAILED : wait_for(child, watched);
}

/* Blocks the signals that end programs, so that the node file is removed on the way out. */
static void block_signals(sigset_t *watched_out, sigset_t *old_mask_out)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};

    sigemptyset(watched_out);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(watched_out, numbers[i]);
    sigprocmask(SIG_BLOCK, watched_out, old_mask_out);
    signal(SIGCHLD, SIG_DFL); /* where it was inherited as ignored, no child could be waited for */
}

/* ---- the report ---- */

static void write_gpu(FILE *file, struct lull_node *node, uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    fprintf(file,
            "%s\n  {\"gpu\": %u, \"time_s\": %.6f, \"energy_j\": %.6f, \"temperature_c\": %.2f, "
            "\"is_locked\": %s, \"asked_mhz\": %.1f, \"kernels_started\": %" PRIu64
            ", \"kernels_started_low\": %" PRIu64 ", \"kernel_low_ms\": %.3f}",
            gpu > 0 ? "," : "", gpu, (double)truth.now_ns * 1e-9, truth.energy_j,
            truth.temperature_c, truth.is_locked ? "true" : "false", truth.asked_mhz,
            truth.kernels_started, truth.kernels_started_low, (double)truth.kernel_low_ns * 1e-6);
}

static int write_report(const char *path, struct lull_node *node, struct lull_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    int result;

    if (file == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for the report", path);
    fprintf(file, "{\"gpus\": [");
    for (uint32_t i = 0; i < lull_node_gpu_count(node); i++)
        write_gpu(file, node, i);
    fprintf(file, "\n]}\n");
    result = fclose(file) == 0 ? lull_file_write_atomic(path, text, size, 0644, err) : -ENOMEM;
    free(text);
    return result;
}

/* ---- all together ---- */

static int find_library_directory(char *directory, size_t size, struct lull_error *err)
{
    char found[PATH_MAX];
    char whole[PATH_MAX];
    int result = lull_file_find_own("emulator/lib/libnvidia-ml.so.1", "emulated/libnvidia-ml.so.1",
                                    found, sizeof(found), err);

    if (result < 0)
        return result;
    /* The directory of the link, not of what it may point to. */
    if (realpath(dirname(found), whole) == NULL)
        return lull_error_set(err, -errno, "%s: %s", found, strerror(errno));
    if ((size_t)snprintf(directory, size, "%s", whole) >= size)
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", whole);
    return 0;
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

static int run_on_node(const struct arguments *arguments, struct lull_node *node,
                       const sigset_t *watched, const sigset_t *old_mask, struct lull_error *err)
{
    char directory[PATH_MAX];
    int status;
    int result = find_library_directory(directory, sizeof(directory), err);

    if (result == 0)
        result = set_faults(node, arguments->faults, err);
    if (result < 0)
        return result;
    result = set_environment(node, directory);
    if (result < 0)
        return lull_error_set(err, result, "cannot set the environment: %s", strerror(-result));
    status = run_command(arguments->command, watched, old_mask);
    result = arguments->report != NULL ? write_report(arguments->report, node, err) : 0;
    return result < 0 && status == 0 ? result : status;
}

int lull_emulate_main(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1, .time_scale = 1};
    struct lull_node_spec spec = {0};
    struct lull_error err = {0};
    struct lull_node *node;
    sigset_t watched;
    sigset_t old_mask;
    int result;

    argp_err_exit_status = LULL_EXIT_USAGE;
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
    spec.seed = (uint64_t)arguments.seed;
    spec.time_scale = arguments.time_scale;
    spec.warm_w = arguments.warm_w;
    result = lull_node_spec_parse(arguments.spec, &spec, &err);
    block_signals(&watched, &old_mask);
    if (result == 0)
        result = lull_node_create(&spec, &node, &err);
    if (result == 0) {
        result = run_on_node(&arguments, node, &watched, &old_mask, &err);
        lull_node_remove(node);
    }
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    if (err.code != 0)
        lull_log(LULL_LOG_ERROR, "emulate", "%s", err.text);
    return result < 0 ? (int)lull_error_exit_status(result) : result;
}
