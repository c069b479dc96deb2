/*
 * Slurm's plugin: options for srun, sbatch and salloc; on each node the job's GPUs made known to
 * lulld, and a governor (`lull run --launcher-fd`) beside each step that decides about them, or a
 * holder of the clock that `lull schedule` has chosen for the job (`lull job hold`). All that needs
 * to be known of GPUs and probes is known by those programs, which this one starts.
 *
 * Every hook returns 0: a failure of Lull never fails a job. Every wait is bounded.
 * Threads: one, of whatever program of Slurm has loaded it. SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdint.h>
/* Slurm's headers need it first. */
#include <slurm/spank.h>

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slurm/helper.h"
#include "slurm/step_gpus.h"
#include "slurm/wish.h"

SPANK_PLUGIN(lull, 1)

/* Steps that Slurm numbers by itself. */
#define STEP_OF_BATCH 0xfffffffbU
#define STEP_OF_INTERACTIVE 0xfffffffaU
#define STEP_OF_EXTERN 0xfffffffcU

enum {
    NAME_BYTES = 512,
    GPUS_BYTES = 1024,
    WORDS_BYTES = 16384,
    ENVIRONMENT_BYTES = 65536,
    MOST_VARIABLES = 4096,
    REGISTER_S = 2, /* chosen, not measured, as are the others: lulld answers within 1 ms */
    RESTORE_S = 10,
    FINISH_MS = 2000,   /* `lull run` ends within that */
    FINISH_SHARE = 100, /* but a step waits no more than this part of its time for it */
    DEFAULT_START_MS = 2000,
};

static const int64_t ns_per_ms = 1000000;
static const int64_t ns_per_s = 1000000000;

/* What plugstack.conf says behind the plugin's path. */
static struct {
    char program[NAME_BYTES];
    char runtime_dir[NAME_BYTES];
    char scheduler[NAME_BYTES]; /* "": the program's name with -schedule behind it */
    bool is_default;            /* jobs that ask for nothing are managed as well */
    bool is_scheduled;          /* and may have been placed by lull schedule */
    int64_t start_ms;
} site = {.program = LULL_PROGRAM, .runtime_dir = "/run/lull", .start_ms = DEFAULT_START_MS};

static struct lull_wish wish;

/* What slurmstepd knows of its step. Tasks are forked off it and have it as well. */
static struct {
    uint32_t job;
    uint32_t number;
    char gpus[GPUS_BYTES]; /* this node's, with commas; "": none */
    bool is_managed;
    bool lacks_gpus; /* and somebody wants them managed */
    struct lull_helper registration;
    struct lull_helper governor;
    struct lull_helper holder; /* of a clock; its socket stays open as long as the step lives */
    bool has_clock;            /* the holder has said so */
    int64_t begin_ns;
    int64_t wait_until_ns; /* for the environment */
    uint32_t tasks_left;
    int status; /* the highest of its tasks so far */
} step = {.registration = {-1, -1}, .governor = {-1, -1}, .holder = {-1, -1}};

/* ---- options ------------------------------------------------------------------------------- */

static int refuse(const char *option, const char *text, const char *expected)
{
    slurm_error("lull: --%s: \"%s\" is not %s", option, text != NULL ? text : "", expected);
    return -1;
}

/* On a node a wrong text can only be that of another version of this plugin. */
static int on_option(int value, const char *text, int remote)
{
    static int (*const takers[])(struct lull_wish *, const char *, const char **) = {
        lull_wish_take_policy, lull_wish_take_tolerance, lull_wish_take_deadline,
        lull_wish_take_batch_job, lull_wish_take_schedule};
    static const char *const names[] = {"lull", "lull-tolerance", "lull-deadline", "lull-batch-job",
                                        "lull-schedule"};
    const char *expected = NULL;

    if (takers[value](&wish, text, &expected) < 0)
        return remote ? 0 : refuse(names[value], text, expected);
    return 0;
}

static struct spank_option options[] = {
    {"lull", "policy",
     "let Lull lower the clocks of the job's GPUs where it does not become slower: on, off, steady "
     "(one clock for whole iterations) or limit (a power limit)",
     2, 0, on_option},
    {"lull-tolerance", "ratio", "how much slower the job may become: 1%, unless given", 1, 1,
     on_option},
    {"lull-deadline", "time",
     "when the job is to be done: a time, or how long from now, as with --time", 1, 2, on_option},
    {"lull-batch-job", "name",
     "the job runs `lull batch run`, for the recurring job of this name, which manages its GPUs", 1,
     3, on_option},
    {"lull-schedule", "on",
     "let `lull schedule` say when, on which nodes and at which clock a batch job runs: on or off",
     2, 4, on_option},
};

/* Takes a directory, in which %n stands for the node's name, for hosts that are several nodes. */
static bool take_directory(const char *text, char place[NAME_BYTES])
{
    const char *const mark = strstr(text, "%n");
    const char *const node = getenv("SLURMD_NODENAME");

    if (mark == NULL)
        return (size_t)snprintf(place, NAME_BYTES, "%s", text) < NAME_BYTES;
    return (size_t)snprintf(place, NAME_BYTES, "%.*s%s%s", (int)(mark - text), text,
                            node != NULL ? node : "", mark + 2) < NAME_BYTES;
}

/* Takes a word of plugstack.conf, NAME=VALUE. */
static bool take_setting(const char *word)
{
    if (strncmp(word, "lull=/", 6) == 0)
        return (size_t)snprintf(site.program, NAME_BYTES, "%s", word + 5) < NAME_BYTES;
    if (strncmp(word, "runtime_dir=/", 13) == 0)
        return take_directory(word + 12, site.runtime_dir);
    if (strncmp(word, "start_ms=", 9) == 0)
        return (site.start_ms = strtol(word + 9, NULL, 10)) > 0;
    if (strncmp(word, "scheduler=/", 11) == 0)
        return (size_t)snprintf(site.scheduler, NAME_BYTES, "%s", word + 10) < NAME_BYTES;
    if (strcmp(word, "schedule=on") == 0 || strcmp(word, "schedule=off") == 0) {
        site.is_scheduled = strcmp(word, "schedule=on") == 0;
        return true;
    }
    if (strcmp(word, "default=on") == 0 || strcmp(word, "default=off") == 0) {
        site.is_default = strcmp(word, "default=on") == 0;
        return true;
    }
    return false;
}

static void take_settings(int count, char *const *words)
{
    for (int i = 0; i < count; i++)
        if (!take_setting(words[i]))
            slurm_error("lull: plugstack.conf: \"%s\" is not lull=PATH, runtime_dir=DIR, "
                        "scheduler=PATH, start_ms=N, default=on, default=off, schedule=on or "
                        "schedule=off",
                        words[i]);
}

/* ---- the step ------------------------------------------------------------------------------ */

/* Tells whether the user has asked, and not the site alone. */
static bool is_asked(void)
{
    return lull_wish_is_on(&wish, false);
}

static bool is_batch(void)
{
    return step.number == STEP_OF_BATCH || step.number == STEP_OF_INTERACTIVE;
}

/* A step that a batch script starts inherits SLURM_JOB_GPUS, but those are the batch node's. */
static void find_step(spank_t spank)
{
    if (spank_get_item(spank, S_JOB_ID, &step.job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step.number) != ESPANK_SUCCESS ||
        step.number == STEP_OF_EXTERN)
        return;
    if (spank_getenv(spank, "SLURM_STEP_GPUS", step.gpus, GPUS_BYTES) == ESPANK_SUCCESS)
        return;
    if (!is_batch() ||
        spank_getenv(spank, "SLURM_JOB_GPUS", step.gpus, GPUS_BYTES) != ESPANK_SUCCESS)
        step.gpus[0] = '\0';
}

/* Tells lulld as root that the job has its GPUs, so that its user may lease those and no others. */
static void begin_registration(spank_t spank)
{
    char job[16], user[16];
    uid_t uid;

    if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS)
        return;
    snprintf(job, sizeof(job), "%u", step.job);
    snprintf(user, sizeof(user), "%u", (unsigned int)uid);
    lull_helper_start(
        &(struct lull_helper_start){
            .argv = (char *[]){site.program, "job", "add", job, "--user", user, "--gpus", step.gpus,
                               "--runtime-dir", site.runtime_dir, NULL},
            .environment = (char *[]){NULL},
            .limit_s = REGISTER_S,
        },
        &step.registration);
}

/* Hands on what a helper has said, line by line, fit for logs: users can let it say anything. */
static void relay(char *text, void (*say)(const char *format, ...))
{
    char *rest = NULL;

    for (char *c = text; *c != '\0'; c++)
        if (*c != '\n' && iscntrl((unsigned char)*c))
            *c = '?';
    for (const char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        say("%s", line);
}

/* The governor itself tells the user what comes of a missing registration. */
static void end_registration(void)
{
    char text[WORDS_BYTES] = "";
    size_t size = 0;

    if (!lull_helper_listen(&step.registration, lull_helper_now_ns() + REGISTER_S * ns_per_s, text,
                            sizeof(text), &size))
        slurm_info("lull: job %u: lulld does not answer", step.job);
    relay(text, slurm_info);
    lull_helper_forget(&step.registration);
}

/* ---- the clock ----------------------------------------------------------------------------- */

/* Asks slurmctld, as root and beside the step, at which clock the job's GPUs are to be, and holds
 * it. */
static void begin_hold(void)
{
    char job[16], scheduler[NAME_BYTES + 16], conf[NAME_BYTES + 16];
    const char *const named = getenv("SLURM_CONF");

    snprintf(job, sizeof(job), "%u", step.job);
    snprintf(conf, sizeof(conf), "SLURM_CONF=%s", named != NULL ? named : "");
    if (site.scheduler[0] != '\0')
        snprintf(scheduler, sizeof(scheduler), "%s", site.scheduler);
    else
        snprintf(scheduler, sizeof(scheduler), "%s-schedule", site.program);
    lull_helper_start(
        &(struct lull_helper_start){
            .argv = (char *[]){scheduler, "--hold", job, "--gpus", step.gpus, "--lull",
                               site.program, "--runtime-dir", site.runtime_dir, NULL},
            .environment = (char *[]){named != NULL ? conf : NULL, NULL},
            .socket = LULL_HELPER_OWN_SOCKET,
        },
        &step.holder);
}

/* Waits until the clock is set, or there is none. */
static void await_hold(void)
{
    const int64_t until_ns = lull_helper_now_ns() + REGISTER_S * ns_per_s;
    struct pollfd poll_fd = {.fd = step.holder.socket, .events = POLLIN};
    char text[WORDS_BYTES] = "", packet[8];
    size_t size = 0;

    if (step.holder.socket < 0)
        return;
    poll(&poll_fd, 1, REGISTER_S * 1000);
    step.has_clock = recv(step.holder.socket, packet, sizeof(packet), MSG_DONTWAIT) > 0;
    if (step.has_clock)
        return;
    /* One that has ended without a clock says why, if there is a reason. */
    if (!lull_helper_listen(&step.holder, until_ns, text, sizeof(text), &size))
        slurm_info("lull: job %u: nobody says at which clock it is to run", step.job);
    relay(text, slurm_info);
}

/* ---- the governor -------------------------------------------------------------------------- */

static bool is_variable(const char *text, const char *name)
{
    const size_t length = strlen(name);

    return strncmp(text, name, length) == 0 && text[length] == '=';
}

/* The governor sees all of the node's GPUs, so it gets their numbers on the node, where tasks may
 * have been given others. AMD's second variable counts within the first one. */
static size_t narrow_gpus(char lines[4][GPUS_BYTES + 32])
{
    unsigned int count = 1;
    size_t used;

    for (const char *c = step.gpus; *c != '\0'; c++)
        count += *c == ',';
    snprintf(lines[0], sizeof(lines[0]), "CUDA_VISIBLE_DEVICES=%s", step.gpus);
    snprintf(lines[1], sizeof(lines[1]), "ROCR_VISIBLE_DEVICES=%s", step.gpus);
    snprintf(lines[2], sizeof(lines[2]), "ZE_AFFINITY_MASK=%s", step.gpus);
    used = (size_t)snprintf(lines[3], sizeof(lines[3]), "HIP_VISIBLE_DEVICES=0");
    for (unsigned int i = 1; i < count && used < sizeof(lines[3]); i++)
        used += (size_t)snprintf(lines[3] + used, sizeof(lines[3]) - used, ",%u", i);
    return 4;
}

static void write_report_name(spank_t spank, char *name, size_t size)
{
    uint32_t nodes = 1, node = 0;
    char number[16] = "batch";
    char suffix[16] = "";

    if (!is_batch())
        snprintf(number, sizeof(number), "%u", step.number);
    if (spank_get_item(spank, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS && nodes > 1 &&
        spank_get_item(spank, S_JOB_NODEID, &node) == ESPANK_SUCCESS)
        snprintf(suffix, sizeof(suffix), "-node%u", node);
    snprintf(name, size, "lull-report-%u.%s%s", step.job, number, suffix);
}

/* Takes the job's environment but for what is narrowed, and adds that. */
static void write_environment(char *const *from, char lines[4][GPUS_BYTES + 32],
                              char *to[MOST_VARIABLES + 1])
{
    static const char *const replaced[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                           "ZE_AFFINITY_MASK", "HIP_VISIBLE_DEVICES"};
    size_t count = 0;

    for (; *from != NULL && count + 4 < MOST_VARIABLES; from++) {
        bool is_replaced = false;

        for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
            is_replaced = is_replaced || is_variable(*from, replaced[i]);
        if (!is_replaced)
            to[count++] = *from;
    }
    for (size_t i = 0; i < 4; i++)
        to[count++] = lines[i];
    to[count] = NULL;
}

/* Writes the governor's command line, which ends with that of the job. */
static char **write_command(char *report, char *number, int argc, char *const *argv)
{
    const char *from_wish[LULL_WISH_WORDS];
    const size_t wished = lull_wish_options(&wish, from_wish);
    char *const first[] = {site.program,     "run",      "--launcher-fd", number, "--runtime-dir",
                           site.runtime_dir, "--report", report};
    const size_t firsts = sizeof(first) / sizeof(first[0]);
    char **const words = calloc(firsts + wished + 2 + (size_t)argc, sizeof(*words));

    if (words == NULL)
        return NULL;
    memcpy(words, first, sizeof(first));
    memcpy(words + firsts, from_wish, wished * sizeof(*words));
    words[firsts + wished] = "--";
    memcpy(words + firsts + wished + 1, argv, (size_t)argc * sizeof(*words));
    return words;
}

static void start_governor(spank_t spank)
{
    char lines[4][GPUS_BYTES + 32];
    char *variables[MOST_VARIABLES + 1];
    char report[64], number[16];
    char **words, **argv, **environment;
    int argc, result;

    if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1 ||
        spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return;
    narrow_gpus(lines);
    write_environment(environment, lines, variables);
    write_report_name(spank, report, sizeof(report));
    snprintf(number, sizeof(number), "%d", LULL_HELPER_SOCKET_NUMBER);
    words = write_command(report, number, argc, argv);
    if (words == NULL)
        return;
    step.wait_until_ns = lull_helper_now_ns() + site.start_ms * ns_per_ms;
    result = lull_helper_start(&(struct lull_helper_start){.argv = words,
                                                           .environment = variables,
                                                           .socket = LULL_HELPER_OWN_SOCKET,
                                                           .is_of_user = true},
                               &step.governor);
    free(words);
    if (result < 0)
        slurm_spank_log("lull: the job runs unmanaged: %s", strerror(-result));
}

/* Looks for what the governor has told of the tasks' environment. The packet stays where it is, for
 * other tasks. Returns its size; 0: there is none in time. */
static size_t peek_environment(char packet[ENVIRONMENT_BYTES])
{
    struct pollfd poll_fd = {.fd = step.governor.socket, .events = POLLIN};
    ssize_t got;

    for (;;) {
        const int64_t left_ms = (step.wait_until_ns - lull_helper_now_ns()) / ns_per_ms;

        got = recv(step.governor.socket, packet, ENVIRONMENT_BYTES, MSG_PEEK | MSG_DONTWAIT);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR) || left_ms <= 0)
            break;
        poll(&poll_fd, 1, (int)left_ms);
    }
    return got > 0 && packet[got - 1] == '\0' ? (size_t)got : 0;
}

static void set_variables(spank_t spank, char *packet, size_t size)
{
    for (char *line = packet; line < packet + size; line += strlen(line) + 1) {
        char *const equals = strchr(line, '=');

        if (equals == NULL)
            continue;
        *equals = '\0';
        spank_setenv(spank, line, equals + 1, 1);
        *equals = '='; /* the length of the line counts again */
    }
}

/* The highest status of its tasks is the step's, as for srun; a signal counts as for a shell. */
static void note_exit(spank_t spank)
{
    int status;

    if (spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS)
        return;
    status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (status > step.status)
        step.status = status;
}

/* Tells the governor that the job has ended, and its user what it has to say if it is quick, else
 * where that will be. */
static void end_governor(spank_t spank)
{
    const int64_t now_ns = lull_helper_now_ns();
    int64_t wait_ns = (now_ns - step.begin_ns) / FINISH_SHARE;
    char text[WORDS_BYTES] = "";
    char status[16], report[64];
    void (*say)(const char *, ...);
    size_t size = 0;
    bool has_ended;

    if (step.governor.words < 0)
        return;
    if (wait_ns > FINISH_MS * ns_per_ms)
        wait_ns = FINISH_MS * ns_per_ms;
    snprintf(status, sizeof(status), "%d", step.status);
    /* One that has ended before says why. */
    if (send(step.governor.socket, status, strlen(status), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        wait_ns = FINISH_MS * ns_per_ms;
    has_ended = lull_helper_listen(&step.governor, now_ns + wait_ns, text, sizeof(text), &size);
    /* Whoever has not asked for Lull is not told of it. */
    say = is_asked() ? slurm_spank_log : slurm_info;
    relay(text, say);
    if (!has_ended) {
        write_report_name(spank, report, sizeof(report));
        say("lull: the step ends before its report is written, which will be in %s", report);
    }
    lull_helper_forget(&step.governor);
}

/* ---- hooks --------------------------------------------------------------------------------- */

int slurm_spank_init(spank_t spank, int ac, char **av)
{
    if (spank_context() == S_CTX_SLURMD)
        return 0;
    take_settings(ac, av);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS)
            slurm_error("lull: --%s is not available", options[i].name);
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    step.begin_ns = lull_helper_now_ns();
    find_step(spank);
    /* For acct_gather_energy/lull, which knows no steps, in this process. */
    setenv(LULL_STEP_GPUS, step.gpus, 1);
    if (step.gpus[0] != '\0' && step.number != STEP_OF_EXTERN &&
        lull_wish_is_scheduled(&wish, site.is_scheduled))
        begin_hold();
    if (!lull_wish_is_on(&wish, site.is_default) || step.number == STEP_OF_EXTERN)
        return 0;
    if (step.gpus[0] == '\0') {
        step.lacks_gpus = is_asked() && !is_batch();
        return 0;
    }
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &step.tasks_left) != ESPANK_SUCCESS)
        return 0;
    step.is_managed = true;
    begin_registration(spank);
    return 0;
}

int slurm_spank_user_init(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    await_hold();
    if (!step.is_managed)
        return 0;
    /* Two cannot hold the GPUs: the cluster's clock goes before the governor's. */
    if (wish.batch_job[0] == '\0' && !step.has_clock)
        start_governor(spank);
    end_registration();
    return 0;
}

/* Without probes the governor sees no rank and leases nothing; it still counts the energy. */
static void say_frequency(const char *frequency, bool is_first)
{
    if (is_first)
        slurm_spank_log("lull: --gpu-freq=%s fixes the clocks of this step's GPUs, so Lull leaves "
                        "them alone; give one of --lull and --gpu-freq",
                        frequency);
}

/* What is said before a task is there does not reach the user. */
int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
    char packet[ENVIRONMENT_BYTES];
    char frequency[64];
    int task = 0;

    (void)ac;
    (void)av;
    spank_get_item(spank, S_TASK_ID, &task);
    if (step.lacks_gpus && task == 0)
        slurm_spank_log("lull: the step has no GPU here, so there is nothing to manage; ask for "
                        "some with --gpus or --gres=gpu:N");
    if (wish.batch_job[0] != '\0')
        spank_setenv(spank, "LULL_BATCH_JOB", wish.batch_job, 1);
    /* What a batch script's governor has set is not for a step that wants none. */
    if (wish.is_given && !lull_wish_is_on(&wish, false))
        spank_unsetenv(spank, "LULL_JOB");
    if (step.governor.socket < 0)
        return 0;
    if (spank_getenv(spank, "SLURMD_TRES_FREQ", frequency, sizeof(frequency)) == ESPANK_SUCCESS &&
        strncmp(frequency, "gpu:", 4) == 0)
        say_frequency(frequency + 4, task == 0);
    else
        set_variables(spank, packet, peek_environment(packet));
    return 0;
}

int slurm_spank_task_exit(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    if (!step.is_managed)
        return 0;
    note_exit(spank);
    if (step.tasks_left > 0 && --step.tasks_left == 0)
        end_governor(spank);
    return 0;
}

/* A step whose tasks were never started has a governor all the same. */
int slurm_spank_exit(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    end_governor(spank);
    lull_helper_forget(&step.holder);
    return 0;
}

/* Ends the job's leases, and waits until its GPUs are as they were, before others get them. lulld
 * keeps a file for each job that it knows. Slurm calls no other hook in this process. */
int slurm_spank_job_epilog(spank_t spank, int ac, char **av)
{
    struct lull_helper helper = {-1, -1};
    char path[NAME_BYTES + 32], job_text[16], text[WORDS_BYTES] = "";
    size_t size = 0;
    uint32_t job;

    take_settings(ac, av);
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return 0;
    snprintf(path, sizeof(path), "%s/jobs/%u", site.runtime_dir, job);
    if (access(path, F_OK) < 0)
        return 0;
    snprintf(job_text, sizeof(job_text), "%u", job);
    if (lull_helper_start(
            &(struct lull_helper_start){.argv = (char *[]){site.program, "job", "remove", job_text,
                                                           "--runtime-dir", site.runtime_dir, NULL},
                                        .environment = (char *[]){NULL},
                                        .limit_s = RESTORE_S},
            &helper) < 0)
        return 0;
    if (!lull_helper_listen(&helper, lull_helper_now_ns() + RESTORE_S * ns_per_s, text,
                            sizeof(text), &size))
        slurm_error("lull: job %u: lulld does not answer; its GPUs may still be lowered", job);
    relay(text, slurm_info);
    lull_helper_forget(&helper);
    return 0;
}
