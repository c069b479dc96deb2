/* lulld: the privileged half of Lull. It leases clocks and restores everything, and does nothing
 * else, so that its code stays short enough to be audited. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/program.h"
#include "daemon/policy_file.h"
#include "daemon/sandbox.h"
#include "daemon/server.h"
#include "device/keeper.h"
#include "device/restore.h"

/* Some 30 of lulld's own, those of the driver's library, and the keeper's. */
enum { MIN_DESCRIPTORS = 64 };

/* Chosen; docs/research/measurements/overhead.md has the measurement. */
enum { NICENESS = -20 };

struct settings {
    struct lull_server_options server;
    bool is_for_all;
    bool is_mode_given;
    bool is_policy_given;
    bool is_restoring;
    bool is_checking;
    bool is_unconfined;
};

static int parse_mode(const char *text, void *mode, struct lull_error *err)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 8);

    (void)err;
    if (end == text || *end != '\0' || value > 0777)
        return -EINVAL;
    *(mode_t *)mode = (mode_t)value;
    return 0;
}

static int parse_group(const char *text, void *place, struct lull_error *err)
{
    const struct group *const group = getgrnam(text);

    if (group == NULL)
        return lull_error_set(err, -EINVAL, "there is no such group");
    *(gid_t *)place = group->gr_gid;
    return 0;
}

static const struct lull_option rows[] = {
    LULL_VALUE("runtime-dir", "DIR", TEXT, struct settings, server.runtime_dir,
               "Keep the socket (lulld.sock), the lock and the journals (saved/) here.",
               .letter = 'r', .hint = LULL_OPTION_FOLDER, .default_value = "/run/lull",
               .environment = "LULL_RUNTIME_DIR"),
    LULL_VALUE(
        "socket-mode", "OCTAL", OWN, struct settings, server.socket_mode,
        "File mode of the socket: who may connect. Permissions on GPUs are decided separately.",
        .parse = parse_mode, .expected = "an octal mode such as 0660", .default_value = "0660",
        .more = "With a policy and without --socket-group, the default is 0666.",
        LULL_GIVEN(struct settings, is_mode_given)),
    LULL_VALUE("socket-group", "GROUP", OWN, struct settings, server.socket_group,
               "The group of the socket; without a policy it may lease every GPU.",
               .parse = parse_group),
    LULL_FLAG("allow-all", struct settings, is_for_all,
              "Without a policy, every user may lease every GPU, from containers as well.",
              .excludes = "socket-mode|policy"),
    LULL_VALUE("policy", "FILE", TEXT, struct settings, server.policy_path,
               "Policy file: who may control which GPU, within which limits; see lulld-policy(5).",
               .hint = LULL_OPTION_FILE, .default_value = LULL_POLICY_FILE,
               .environment = "LULL_POLICY",
               .more = "The default file may be missing. lull reload reads it again.",
               LULL_GIVEN(struct settings, is_policy_given)),
    LULL_FLAG("restore", struct settings, is_restoring,
              "Restore GPUs left behind by a dead lulld, and exit."),
    LULL_FLAG("check", struct settings, is_checking,
              "Check the policy, print each error, and exit; starts and changes nothing.",
              .excludes = "restore|allow-all"),
    LULL_FLAG("reset-at-start", struct settings, server.is_resetting,
              "First reset the clocks and set the default power limit of every GPU.",
              .more = "For containers, whose journals are lost with them."),
    LULL_FLAG(
        "no-sandbox", struct settings, is_unconfined,
        "Keep every capability and system call, for debuggers and sanitizers.",
        .more =
            "By default the daemon keeps only CAP_SYS_ADMIN and the system calls that it needs."),
    LULL_VALUE("ready-fd", "N", WHOLE, struct settings, server.ready_fd,
               "Write a line to this descriptor when it listens.", .most = 1 << 20,
               .more = "NOTIFY_SOCKET is served as well."),
    {0},
};

static void lulld_prepare(void *options)
{
    struct settings *const settings = options;

    settings->server.socket_group = (gid_t)-1;
    settings->server.ready_fd = -1;
    /* The sanitizers' runtime starts processes and makes calls of its own. */
    settings->is_unconfined = LULL_HAS_SANITIZER;
}

/* A crowd of processes of others would otherwise keep each of its threads waiting for a processor,
 * also when they only have to end before the keeper restores. lulld computes for microseconds at a
 * time, and the limits on its clients bound how much in all. Nothing changes where this is not
 * permitted (it needs CAP_SYS_NICE or RLIMIT_NICE). Threads and the keeper inherit it. */
static void raise_priority(void)
{
    if (getpriority(PRIO_PROCESS, 0) > NICENESS)
        setpriority(PRIO_PROCESS, 0, NICENESS);
}

/* The keeper comes before the driver, so that every death of this process finds it. Without one,
 * lulld still serves: its next start restores what its death has left. */
static void lulld_start_keeper(struct settings *settings)
{
    struct lull_error error;

    if (settings->is_restoring ||
        lull_keeper_start(settings->server.runtime_dir, &settings->server.keeper, &error) == 0)
        return;
    lull_log(LULL_LOG_WARNING, "lulld",
             "%s; if lulld is killed, clocks stay low until it starts again", error.text);
}

/* The group of the socket has every GPU where no policy says otherwise. */
static int load_policy(struct settings *settings, struct lull_error *err)
{
    struct lull_server_options *const server = &settings->server;
    const bool has_group = server->socket_group != (gid_t)-1;

    if (!settings->is_for_all) {
        const int result = lull_policy_load(server->policy_path, NULL, &server->policy, err);

        server->opens_with_policy = !settings->is_mode_given && !has_group;
        if (result == 0 && server->opens_with_policy)
            server->socket_mode = LULL_SERVER_OPEN_MODE;
        if (result != -ENOENT || settings->is_policy_given)
            return result;
    }
    lull_policy_without_file(has_group ? server->socket_group : getegid(), settings->is_for_all,
                             &server->policy);
    return 0;
}

/* A driver may not be there yet, as at boot, or may fail temporarily. The device writer waits for
 * it, and restores the GPUs before any of them can be leased. */
static int lulld_open_devices(const struct settings *settings, struct lull_devices **devices_out,
                              struct lull_error *err)
{
    const int result = lull_devices_open(devices_out, err);

    if ((result != LULL_E_NO_DEVICE && result != LULL_E_DRIVER && result != -EAGAIN) ||
        settings->is_restoring)
        return result;
    lull_log(LULL_LOG_WARNING, "lulld", "%s; serving without GPUs until the driver is there",
             err->text);
    return lull_devices_open_later(devices_out, err);
}

/* Restores what a dead daemon has left, where there is a driver to do it with. */
static int lulld_restore(struct lull_devices *devices, struct lull_journal *journal,
                         const struct settings *settings, struct lull_error *err)
{
    struct lull_restore_report report;

    if (lull_devices_count(devices) == 0)
        return 0;
    return settings->server.is_resetting ? lull_restore_forced(devices, journal, &report, err)
                                         : lull_restore_all(devices, journal, &report, err);
}

/* Restores before serving, so that no client leases a GPU that a dead daemon has left lowered. A
 * GPU that cannot be restored now has a record, and the device writer tries again. The sandbox is
 * entered between the two: the driver is open by then, and no client can connect yet. */
static int lulld_restore_and_serve(struct lull_devices *devices, struct lull_journal *journal,
                                   struct settings *settings, struct lull_error *err)
{
    int result = lulld_restore(devices, journal, settings, err);

    if (settings->is_restoring)
        return result;
    result = load_policy(settings, err);
    if (result < 0)
        return result;
    if (settings->is_unconfined)
        lull_log(LULL_LOG_WARNING, "lulld", "not in a sandbox: it keeps every privilege");
    else {
        result = lull_sandbox_enter(settings->server.socket_group, err);
        if (result < 0)
            return result;
    }
    result = lull_keeper_watch(settings->server.keeper, err);
    if (result < 0)
        return result;
    return lull_server_run(devices, journal, &settings->server, err);
}

static void lulld_print_error(void *context, const char *text)
{
    uint32_t *const count = context;

    (*count)++;
    fprintf(stderr, "%s\n", text);
}

/* Checks the policy that lulld would read, with all errors in one go. */
static int lulld_check_options(const struct settings *settings)
{
    uint32_t count = 0;
    const struct lull_policy_listener listener = {lulld_print_error, &count};
    const char *const path = settings->server.policy_path;
    struct lull_policy policy;
    struct lull_error error = {0};
    const int result = lull_policy_load(path, &listener, &policy, &error);

    if (result == 0)
        printf("%s: no errors; sections about users, groups and GPUs: %u\n", path,
               policy.rule_count);
    else if (result == -ENOENT && !settings->is_policy_given)
        printf("%s: no such file; lulld runs without a policy: its socket's group has all GPUs\n",
               path);
    else if (count == 0)
        fprintf(stderr, "%s\n", error.text);
    else
        fprintf(stderr,
                "%s: errors: %u; lulld does not start with this policy, and lull reload keeps the "
                "previous one\n",
                path, count);
    return result == 0 || (result == -ENOENT && !settings->is_policy_given) ? LULL_EXIT_OK
                                                                            : LULL_EXIT_FAILED;
}

/* Without the descriptors of its own threads and of root's clients lulld could not restore, and the
 * event loop's library ends the process. */
static int check_descriptors(struct lull_error *err)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= MIN_DESCRIPTORS)
        return 0;
    if (limit.rlim_max >= MIN_DESCRIPTORS) {
        limit.rlim_cur = MIN_DESCRIPTORS; /* it is raised further once it serves */
        return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
    }
    return lull_error_set(err, -EMFILE,
                          "the limit of open files is %llu, and lulld needs %d: raise it with "
                          "LimitNOFILE= of its unit, or ulimit -n",
                          (unsigned long long)limit.rlim_max, MIN_DESCRIPTORS);
}

static int lulld_run(void *options, const struct lull_operands *operands)
{
    struct settings *const settings = options;
    struct lull_journal *journal = NULL;
    struct lull_devices *devices = NULL;
    struct lull_error error = {0};
    int result = 0;

    (void)operands;
    if (settings->is_checking)
        return lulld_check_options(settings);
    if (settings->is_for_all)
        settings->server.socket_mode = LULL_SERVER_OPEN_MODE;
    /* A reader of standard error that has gone, or a limit on the size of files, is reported by the
     * call that fails, also while it restores. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    raise_priority();
    lull_log_init(LULL_LOG_INFO);
    if (!settings->is_restoring)
        result = check_descriptors(&error);
    if (result == 0)
        result = lull_journal_open(settings->server.runtime_dir, &journal, &error);
    if (result == 0) {
        lulld_start_keeper(settings);
        result = lulld_open_devices(settings, &devices, &error);
    }
    if (result == 0)
        result = lulld_restore_and_serve(devices, journal, settings, &error);
    if (result < 0)
        lull_log(LULL_LOG_ERROR, "lulld", "%s", error.text);
    if (result == -EINPROGRESS)
        /* A thread is stuck in the driver and may use all of this; the keeper or the next
         * daemon restores what the journal still holds. */
        _Exit(LULL_EXIT_FAILED);
    lull_keeper_stop(settings->server.keeper, result == 0);
    lull_devices_close(devices);
    lull_journal_close(journal);
    return (int)lull_error_exit_status(result);
}

int main(int argc, char **argv)
{
    static const struct lull_program_command command = {
        .name = "lulld",
        .summary = "the GPU clock daemon",
        .about = "Leases GPU clocks to `lull run` and puts them back when a client ends, however "
                 "it ends.",
        .tables = {{rows, 0}},
        .size = sizeof(struct settings),
        .prepare = lulld_prepare,
        .run = lulld_run,
    };
    static const struct lull_program_command *const commands[] = {&command, NULL};
    static const struct lull_program program = {
        .name = "lulld", .version = LULL_VERSION, .commands = commands};

    return lull_program_main(&program, argc, argv);
}
