/*
 * The filter is a list of allowed system calls, by purpose. A call that is not on it fails with
 * ENOSYS, as on a kernel without that call. Libraries then use an older call or do without. Killing
 * the process instead would leave the clocks lowered until they are restored by others.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "daemon/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    END = -1,
    MAX_GROUPS = 256, /* a process that is in more does not join the socket's. */
};

/* --- what is allowed whatever its arguments --- */

static const int memory[] = {SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
                             END};

/* Signals: the C library blocks them while it starts a thread; the loop receives SIGTERM. */
static const int threads[] = {
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(membarrier),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(sched_get_priority_max),
    /* The writer runs at the lowest real-time priority, which RLIMIT_RTPRIO bounds. */
    SCMP_SYS(sched_setscheduler),
    SCMP_SYS(getcpu),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    END,
};

static const int time_calls[] = {
    SCMP_SYS(clock_gettime),   SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),    SCMP_SYS(time),
    SCMP_SYS(timerfd_create),  SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime), /* The threads of foreign.c interrupt themselves. */
    SCMP_SYS(timer_create),    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_delete),    END,
};

/* Journals, the command tables of clients, and what a driver's library reads below /sys and /proc.
 * Which files these may be is the matter of the unit (ProtectSystem=, DeviceAllow=). */
static const int files[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(lseek),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(close),
    SCMP_SYS(stat),
    SCMP_SYS(fstat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(flock),
    SCMP_SYS(fcntl),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(umask),
    SCMP_SYS(memfd_create),
    SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2),
    /* The socket's mode and group. Without CAP_CHOWN and CAP_FOWNER these reach only files of this
     * process, and only groups that it is in. */
    SCMP_SYS(chmod),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(fchownat),
    /* The drivers' own calls, whose numbers differ by vendor and version. */
    SCMP_SYS(ioctl),
    END,
};

static const int clients[] = {
    SCMP_SYS(bind),
    SCMP_SYS(listen),
    SCMP_SYS(accept4),
    SCMP_SYS(connect),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(setsockopt),
    SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    SCMP_SYS(shutdown),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    /* Deaths of clients. */
    SCMP_SYS(pidfd_open),
    END,
};

/* A keeper that was killed is started again, and restores in children of its own. Nothing is gained
 * by that: any program inherits the filter and the lack of capabilities, permanently. tgkill is for
 * abort() as well; without CAP_KILL it and pidfds reach processes of the own user alone. */
static const int keeper[] = {
    SCMP_SYS(execve),          SCMP_SYS(setsid),
    SCMP_SYS(close_range),     SCMP_SYS(wait4),
    SCMP_SYS(waitid),          SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(tgkill),          SCMP_SYS(arch_prctl),
    SCMP_SYS(set_tid_address), END,
};

static const int itself[] = {
    SCMP_SYS(getpid),    SCMP_SYS(gettid),
    SCMP_SYS(getppid),   SCMP_SYS(getuid),
    SCMP_SYS(geteuid),   SCMP_SYS(getgid),
    SCMP_SYS(getegid),   SCMP_SYS(uname),
    SCMP_SYS(sysinfo),   SCMP_SYS(getrandom),
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage),
    SCMP_SYS(setrlimit), END,
};

static const int *const allowed[] = {memory, threads, time_calls, files, clients, keeper, itself};

/* --- what is allowed for some arguments --- */

struct rule {
    int call;
    struct scmp_arg_cmp argument;
};

#define ARGUMENT_IS(PLACE, VALUE) SCMP_CMP(PLACE, SCMP_CMP_EQ, VALUE)
#define ARGUMENT_HAS(PLACE, MASK, VALUE) SCMP_CMP(PLACE, SCMP_CMP_MASKED_EQ, MASK, VALUE)

static int add_rules(scmp_filter_ctx filter)
{
    const uint64_t write_and_run = PROT_WRITE | PROT_EXEC;
    const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    const struct rule rules[] = {
        /* Memory is written or run, never both, so what a client sends is never run. A driver's
         * library that is loaded again is mapped to be run from its file. */
        {SCMP_SYS(mmap), ARGUMENT_HAS(2, write_and_run, 0)},
        {SCMP_SYS(mmap), ARGUMENT_HAS(2, write_and_run, PROT_WRITE)},
        {SCMP_SYS(mmap), ARGUMENT_HAS(2, write_and_run, PROT_EXEC)},
        {SCMP_SYS(mprotect), ARGUMENT_HAS(2, PROT_EXEC, 0)},
        /* Threads, and the keeper's processes, but no namespaces. clone3, whose flags no filter can
         * see, fails with ENOSYS, and the C library falls back to clone. */
        {SCMP_SYS(clone), ARGUMENT_HAS(0, namespaces, 0)},
        {SCMP_SYS(prctl), ARGUMENT_IS(0, PR_SET_NAME)},
        {SCMP_SYS(prctl), ARGUMENT_IS(0, PR_SET_TIMERSLACK)},
        {SCMP_SYS(prctl), ARGUMENT_IS(0, PR_SET_PDEATHSIG)},
        {SCMP_SYS(prlimit64), ARGUMENT_IS(0, 0)},
        /* The listener, and systemd's notification socket. */
        {SCMP_SYS(socket), ARGUMENT_IS(0, AF_UNIX)},
        {SCMP_SYS(socketpair), ARGUMENT_IS(0, AF_UNIX)},
    };

    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        for (const int *call = allowed[i]; *call != END; call++) {
            const int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, *call, 0);

            if (result < 0)
                return result;
        }
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const int result =
            seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call, 1, &rules[i].argument);

        if (result < 0)
            return result;
    }
    return 0;
}

static int load_filter(void)
{
    const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int result;

    if (filter == NULL)
        return -ENOMEM;
    /* A vendor's library may have started threads when it was opened. */
    result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    /* A tree of comparisons instead of a list, for kernels that do not remember what is always
     * allowed (before Linux 5.11). */
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (result == 0)
        result = add_rules(filter);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result;
}

/* --- capabilities --- */

/* Adds a group to those of this process, so that no CAP_CHOWN is needed to give it the socket. */
static int join_group(gid_t group)
{
    gid_t groups[MAX_GROUPS + 1];
    const int count = getgroups(MAX_GROUPS, groups);

    if (count < 0)
        return -errno;
    groups[count] = group;
    return setgroups((size_t)count + 1, groups) < 0 ? -errno : 0;
}

/* CAP_SYS_ADMIN stays where it was: without it every driver refuses to set a clock. All else goes;
 * journals and devices belong to the user that the daemon runs as. */
static int drop_capabilities(void)
{
    const bool is_admin = capng_have_capability(CAPNG_PERMITTED, CAP_SYS_ADMIN) != 0;

    capng_clear(CAPNG_SELECT_CAPS);
    if (is_admin)
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SYS_ADMIN);
    return capng_apply(CAPNG_SELECT_CAPS) < 0 ? -EPERM : 0;
}

int lull_sandbox_enter(gid_t socket_group, struct lull_error *err)
{
    /* This right to the lowest real-time priority replaces CAP_SYS_NICE. If it is refused, the
     * writer runs at the typical priority. */
    const struct rlimit lowest_priority = {1, 1};
    int result;

    setrlimit(RLIMIT_RTPRIO, &lowest_priority);
    if (capng_get_caps_process() < 0)
        return lull_error_set(err, -EIO, "sandbox: the own capabilities cannot be read");
    result = socket_group == (gid_t)-1 ? 0 : join_group(socket_group);
    if (result < 0)
        return lull_error_set(err, result, "sandbox: cannot join the group of the socket: %s",
                              strerror(-result));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return lull_error_set(err, -errno, "sandbox: no_new_privs is refused: %s", strerror(errno));
    result = drop_capabilities();
    if (result < 0)
        return lull_error_set(err, result, "sandbox: capabilities cannot be dropped");
    result = load_filter();
    if (result < 0)
        return lull_error_set(err, result,
                              "sandbox: the kernel refuses the system-call filter (%s); "
                              "--no-sandbox does without",
                              strerror(-result));
    return 0;
}
