/*
 * Slurm's plugin: options for srun, sbatch and salloc; on each node the job's GPUs made known to
 * lulld, and a governor (`lull run --launcher-fd`) beside each step that decides about them, or a
 * holder of the clock that `lull-schedule` has chosen for the job (`lull job hold`). All that needs
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

#include "cluster/slurm/allocation.h"
#include "cluster/slurm/helper.h"
#include "cluster/slurm/node_address.h"
#include "cluster/slurm/site.h"
#include "cluster/slurm/step_gpus.h"
#include "cluster/slurm/together.h"
#include "cluster/slurm/job_options.h"

SPANK_PLUGIN(lull, 1)

/* Steps with special numbers that Slurm assigns. */
#define STEP_OF_BATCH 0xfffffffbU
#define STEP_OF_INTERACTIVE 0xfffffffaU
#define STEP_OF_EXTERN 0xfffffffcU

/* The key of a step's governors on its way from srun to the nodes. Variables that begin with
 * SLURM_ are passed regardless of --export. */
#define STEP_KEY "SLURM_LULL_KEY"
/* And from here to the governor (lull-run(1)). */
#define GOVERNOR_KEY "LULL_TOGETHER_KEY"

enum {
    GPUS_BYTES = 1024,
    WORDS_BYTES = 16384,
    ENVIRONMENT_BYTES = 65536,
    MAX_VARIABLES = 4096,
    MAX_LINES = 6, /* additional variables of the governor's environment */
    NODES_BYTES = 8192,
    ENDPOINT_BYTES = LULL_TOGETHER_NAME + 32,
    REGISTER_S = 2, /* default: lulld answers within 1 ms */
    RESTORE_S = 10,
    FINISH_MS = 2000,   /* `lull run` ends within that */
    FINISH_SHARE = 100, /* but a step waits at most this part of its time for it */
};

static const int64_t ns_per_ms = 1000000;
static const int64_t ns_per_s = 1000000000;

static struct lull_site site = LULL_SITE_DEFAULT;
static struct lull_job_options job_options;

/* State of the step in slurmstepd. Its forked tasks inherit a copy. */
static struct {
    uint32_t job;
    uint32_t number;
    char gpus[GPUS_BYTES];            /* this node's, with commas; "": none */
    uint32_t node, nodes;             /* this one, from 0, and how many there are */
    char key[LULL_TOGETHER_KEY_TEXT]; /* of its governors; "": each manages its node alone */
    bool is_managed;
    bool lacks_gpus; /* although the user requested Lull */
    struct lull_helper registration;
    struct lull_helper governor;
    struct lull_helper holder; /* of a clock; its socket stays open as long as the step lives */
    bool has_clock;            /* as reported by the holder */
    int64_t begin_ns;
    int64_t wait_until_ns; /* for the environment */
    uint32_t tasks_left;
    int status; /* the highest of its tasks so far */
} step = {.registration = {-1, -1}, .governor = {-1, -1}, .holder = {-1, -1}};

/* ---- options ------------------------------------------------------------------------------- */

static int spank_refuse(const char *option, const char *text, const char *expected)
{
    slurm_error("lull: --%s: \"%s\" is not %s", option, text != NULL ? text : "", expected);
    return -1;
}

/* On a node a wrong text can only be that of another version of this plugin. */
static int on_option(int value, const char *text, int remote)
{
    static int (*const takers[])(struct lull_job_options *, const char *, const char **) = {
        lull_job_options_set_policy, lull_job_options_set_tolerance, lull_job_options_set_deadline,
        lull_job_options_set_batch_job, lull_job_options_set_schedule};
    static const char *const names[] = {"lull", "lull-tolerance", "lull-deadline", "lull-batch-job",
                                        "lull-schedule"};
    const char *expected = NULL;

    if (takers[value](&job_options, text, &expected) < 0)
        return remote ? 0 : spank_refuse(names[value], text, expected);
    return 0;
}

static struct spank_option options[] = {
    {"lull", "policy",
     "lower the clocks of the job's GPUs where that causes no slowdown: on, off, steady (one clock "
     "for whole iterations) or limit (a power limit)",
     2, 0, on_option},
    {"lull-tolerance", "ratio", "how much slower the job may become: 1%, unless given", 1, 1,
     on_option},
    {"lull-deadline", "time",
     "when the job is to be done: a time, or how long from now, as with --time", 1, 2, on_option},
    {"lull-batch-job", "name",
     "the job runs `lull batch run`, for the recurring job of this name, which manages its GPUs", 1,
     3, on_option},
    {"lull-schedule", "on",
     "let lull-schedule choose start time, nodes and clock of a batch job: on or off", 2, 4,
     on_option},
};

static void take_settings(int count, char *const *words)
{
    for (int i = 0; i < count; i++)
        if (!lull_site_take(&site, words[i]))
            slurm_error("lull: plugstack.conf: \"%s\" is not " LULL_SITE_SETTINGS, words[i]);
}

/* ---- the step ------------------------------------------------------------------------------ */

/* Returns whether the user has requested Lull, and not only the site. */
static bool spank_is_requested(void)
{
    return lull_job_options_is_on(&job_options, false);
}

/* Returns whether steps have governors that search, and so have something to agree on. */
static bool is_for_governors(void)
{
    return lull_job_options_is_on(&job_options, site.is_default) &&
           job_options.batch_job[0] == '\0' &&
           strcmp(lull_job_options_policy(&job_options), "on") == 0;
}

static bool is_batch(void)
{
    return step.number == STEP_OF_BATCH || step.number == STEP_OF_INTERACTIVE;
}

/* Writes the GPUs of the step's environment. A step that a batch script starts inherits
 * SLURM_JOB_GPUS, but those are the batch node's. */
static void read_claim(spank_t spank, char claim[GPUS_BYTES])
{
    if (spank_getenv(spank, "SLURM_STEP_GPUS", claim, GPUS_BYTES) == ESPANK_SUCCESS)
        return;
    if (!is_batch() || spank_getenv(spank, "SLURM_JOB_GPUS", claim, GPUS_BYTES) != ESPANK_SUCCESS)
        claim[0] = '\0';
}

/* The environment of a step may be its user's, so it counts only for GPUs of the job. */
static void find_step(spank_t spank)
{
    char allocated[GPUS_BYTES], claim[GPUS_BYTES];

    if (spank_get_item(spank, S_JOB_ID, &step.job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step.number) != ESPANK_SUCCESS ||
        step.number == STEP_OF_EXTERN)
        return;
    read_claim(spank, claim);
    lull_allocation_read(site.runtime_dir, step.job, allocated, sizeof(allocated));
    if (lull_allocation_covers(allocated, claim))
        memcpy(step.gpus, claim, sizeof(step.gpus));
    else if (claim[0] != '\0')
        slurm_error(
            "lull: job %u: its environment names GPUs that slurmd's prolog has not given it "
            "here; they are not managed",
            step.job);
}

/* Takes the key out of the environment, in which neither tasks nor prologs are to see it. */
static void spank_take_key(spank_t spank)
{
    char key[2 * LULL_TOGETHER_KEY_TEXT] = "";

    if (spank_getenv(spank, STEP_KEY, key, sizeof(key)) == ESPANK_ENV_NOEXIST)
        return;
    spank_unsetenv(spank, STEP_KEY);
    if (lull_together_is_key(key) &&
        spank_get_item(spank, S_JOB_NNODES, &step.nodes) == ESPANK_SUCCESS &&
        spank_get_item(spank, S_JOB_NODEID, &step.node) == ESPANK_SUCCESS)
        memcpy(step.key, key, sizeof(step.key));
}

/* Registers the job's GPUs with lulld as root, so that its user may lease only those. */
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

/* Relays a helper's output line by line, escaped for logs, because users can control it. */
static void spank_relay(char *text, void (*say)(const char *format, ...))
{
    char *rest = NULL;

    for (char *c = text; *c != '\0'; c++)
        if (*c != '\n' && iscntrl((unsigned char)*c))
            *c = '?';
    for (const char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        say("%s", line);
}

/* The governor itself reports the effect of a missing registration to the user. */
static void end_registration(void)
{
    char text[WORDS_BYTES] = "";
    size_t size = 0;

    if (!lull_helper_listen(&step.registration, lull_helper_now_ns() + REGISTER_S * ns_per_s, text,
                            sizeof(text), &size))
        slurm_info("lull: job %u: lulld does not answer", step.job);
    spank_relay(text, slurm_info);
    lull_helper_forget(&step.registration);
}

/* ---- the clock ----------------------------------------------------------------------------- */

/* Asks slurmctld, as root and beside the step, at which clock the job's GPUs are to be, and holds
 * it. */
static void begin_hold(void)
{
    char job[16], scheduler[LULL_SITE_NAME + 16], conf[LULL_SITE_NAME + 16];
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
    /* A holder that has ended without a clock has printed the reason, if there is one. */
    if (!lull_helper_listen(&step.holder, until_ns, text, sizeof(text), &size))
        slurm_info("lull: job %u: its clock is not set", step.job);
    spank_relay(text, slurm_info);
}

/* ---- the governor -------------------------------------------------------------------------- */

static bool is_variable(const char *text, const char *name)
{
    const size_t length = strlen(name);

    return strncmp(text, name, length) == 0 && text[length] == '=';
}

/* The governor sees all of the node's GPUs, so it gets their numbers on the node, where tasks may
 * have been given others. AMD's second variable counts within the first one. */
static size_t narrow_gpus(char lines[MAX_LINES][GPUS_BYTES + 32])
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
    /* Slurm numbers GPUs by their addresses. */
    snprintf(lines[4], sizeof(lines[4]), "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    return 5;
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

/* Copies the job's environment except for the governor's own variables, and adds those. */
static void write_environment(char *const *from, char lines[MAX_LINES][GPUS_BYTES + 32],
                              size_t line_count, char *to[MAX_VARIABLES + 1])
{
    static const char *const replaced[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                           "ZE_AFFINITY_MASK",     "HIP_VISIBLE_DEVICES",
                                           "CUDA_DEVICE_ORDER",    GOVERNOR_KEY};
    size_t count = 0;

    for (; *from != NULL && count + MAX_LINES < MAX_VARIABLES; from++) {
        bool is_replaced = false;

        for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
            is_replaced = is_replaced || is_variable(*from, replaced[i]);
        if (!is_replaced)
            to[count++] = *from;
    }
    for (size_t i = 0; i < line_count; i++)
        to[count++] = lines[i];
    to[count] = NULL;
}

/* Writes the address at which the step's first node listens; "" if the nodes cannot connect. All
 * nodes come to the same result, except if the address is unknown; then the name replaces it. */
static void write_endpoint(spank_t spank, char endpoint[ENDPOINT_BYTES])
{
    const unsigned int port = lull_together_port(&site.ports, step.job, step.number);
    char nodes[NODES_BYTES], first[LULL_TOGETHER_NAME];
    char address[LULL_NODE_ADDRESS_TEXT];

    endpoint[0] = '\0';
    if (step.key[0] == '\0' || port == 0 ||
        spank_getenv(spank, "SLURM_STEP_NODELIST", nodes, sizeof(nodes)) != ESPANK_SUCCESS ||
        !lull_together_first_node(nodes, first))
        return;
    if (step.node == 0)
        snprintf(endpoint, ENDPOINT_BYTES, "tcp://*:%u", port);
    else if (lull_node_address_find(first, address))
        snprintf(endpoint, ENDPOINT_BYTES, "tcp://%s:%u", address, port);
    else
        snprintf(endpoint, ENDPOINT_BYTES, "tcp://%s:%u", first, port);
}

/* Writes the governor's command line, which ends with that of the job. */
static char **spank_write_command(char *report, char *number, char *endpoint, char *node, int argc,
                                  char *const *argv)
{
    const char *from_options[LULL_JOB_OPTIONS_WORDS];
    const size_t wished = lull_job_options_table(&job_options, from_options);
    char *const first[] = {site.program,     "run",      "--launcher-fd", number, "--runtime-dir",
                           site.runtime_dir, "--report", report};
    char *const together[] = {"--together", endpoint, "--node", node};
    const size_t togethers = endpoint[0] != '\0' ? sizeof(together) / sizeof(together[0]) : 0;
    size_t count = sizeof(first) / sizeof(first[0]);
    char **const words = calloc(count + wished + togethers + 2 + (size_t)argc, sizeof(*words));

    if (words == NULL)
        return NULL;
    memcpy(words, first, sizeof(first));
    memcpy(words + count, from_options, wished * sizeof(*words));
    count += wished;
    memcpy(words + count, together, togethers * sizeof(*words));
    count += togethers;
    words[count++] = "--";
    memcpy(words + count, argv, (size_t)argc * sizeof(*words));
    return words;
}

static void start_governor(spank_t spank)
{
    char lines[MAX_LINES][GPUS_BYTES + 32];
    char *variables[MAX_VARIABLES + 1];
    char report[64], number[16], endpoint[ENDPOINT_BYTES], node[32];
    char **words, **argv, **environment;
    size_t line_count;
    int argc, result;

    if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1 ||
        spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return;
    write_endpoint(spank, endpoint);
    line_count = narrow_gpus(lines);
    if (endpoint[0] != '\0')
        snprintf(lines[line_count++], sizeof(lines[0]), GOVERNOR_KEY "=%s", step.key);
    write_environment(environment, lines, line_count, variables);
    write_report_name(spank, report, sizeof(report));
    snprintf(number, sizeof(number), "%d", LULL_HELPER_SOCKET_NUMBER);
    snprintf(node, sizeof(node), "%u/%u", step.node, step.nodes);
    words = spank_write_command(report, number, endpoint, node, argc, argv);
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

/* Peeks at the governor's packet with the tasks' environment. The packet stays in the socket for
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

/* Reports the job's end to the governor, and relays its output to the user if it comes in time,
 * else the path of the report. */
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
    /* A governor that has already ended has printed the reason. */
    if (send(step.governor.socket, status, strlen(status), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        wait_ns = FINISH_MS * ns_per_ms;
    has_ended = lull_helper_listen(&step.governor, now_ns + wait_ns, text, sizeof(text), &size);
    /* Users who have not requested Lull get no messages. */
    say = spank_is_requested() ? slurm_spank_log : slurm_info;
    spank_relay(text, say);
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

/* In srun, once it is known how many nodes the step has. The governors of several share a key.
 * Parts of a heterogeneous job are launched by threads, while which nothing may change the
 * environment. */
int slurm_spank_local_user_init(spank_t spank, int ac, char **av)
{
    char key[LULL_TOGETHER_KEY_TEXT];
    uint32_t nodes = 0;

    (void)ac;
    (void)av;
    if (getenv("SLURM_HET_SIZE") != NULL)
        return 0;
    unsetenv(STEP_KEY);
    if (spank_get_item(spank, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS && nodes > 1 &&
        nodes <= LULL_TOGETHER_MAX_NODES && is_for_governors() && lull_together_draw_key(key))
        setenv(STEP_KEY, key, 1);
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
    spank_take_key(spank);
    /* For acct_gather_energy/lull, which knows no steps, in this process. */
    setenv(LULL_STEP_GPUS, step.gpus, 1);
    if (step.gpus[0] != '\0' && step.number != STEP_OF_EXTERN &&
        lull_job_options_is_scheduled(&job_options, site.is_scheduled))
        begin_hold();
    if (!lull_job_options_is_on(&job_options, site.is_default) || step.number == STEP_OF_EXTERN)
        return 0;
    if (step.gpus[0] == '\0') {
        step.lacks_gpus = spank_is_requested() && !is_batch();
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
    /* Only one process can hold the GPUs, and the cluster's clock has priority over the governor.
     */
    if (job_options.batch_job[0] == '\0' && !step.has_clock)
        start_governor(spank);
    end_registration();
    return 0;
}

/* Without probes the governor sees no rank and leases nothing; it still counts the energy. */
static void spank_warn_frequency(const char *frequency, bool is_first)
{
    if (is_first)
        slurm_spank_log("lull: --gpu-freq=%s fixes the clocks of this step's GPUs, so Lull does "
                        "not manage them; give one of --lull and --gpu-freq",
                        frequency);
}

/* Messages before the first task do not reach the user. */
int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
    char packet[ENVIRONMENT_BYTES];
    char frequency[64];
    int task = 0;

    (void)ac;
    (void)av;
    spank_get_item(spank, S_TASK_ID, &task);
    if (step.lacks_gpus && task == 0)
        slurm_spank_log(
            "lull: the step has no GPU on this node; request some with --gpus or --gres=gpu:N");
    if (job_options.batch_job[0] != '\0')
        spank_setenv(spank, "LULL_BATCH_JOB", job_options.batch_job, 1);
    /* Variables set by a batch script's governor must not reach a step without one. */
    if (job_options.is_given && !lull_job_options_is_on(&job_options, false))
        spank_unsetenv(spank, "LULL_JOB");
    if (step.governor.socket < 0)
        return 0;
    if (spank_getenv(spank, "SLURMD_TRES_FREQ", frequency, sizeof(frequency)) == ESPANK_SUCCESS &&
        strncmp(frequency, "gpu:", 4) == 0)
        spank_warn_frequency(frequency + 4, task == 0);
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

/* A step whose tasks were never started still has a governor. */
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

/* Runs before the job's first step on a node, with slurmd's environment: only variables that begin
 * with SPANK_ come from the user. */
int slurm_spank_job_prolog(spank_t spank, int ac, char **av)
{
    uint32_t job;
    int result;

    take_settings(ac, av);
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        access(site.runtime_dir, F_OK) < 0)
        return 0;
    result = lull_allocation_keep(site.runtime_dir, job, getenv("SLURM_JOB_GPUS"));
    if (result < 0)
        slurm_error("lull: job %u: its GPUs cannot be capped at %s, so it runs unmanaged: %s", job,
                    site.runtime_dir, strerror(-result));
    return 0;
}

/* Ends the job's leases, and waits until its GPUs are as they were, before others get them. lulld
 * keeps a file for each job that it knows. Slurm calls no other hook in this process. */
int slurm_spank_job_epilog(spank_t spank, int ac, char **av)
{
    struct lull_helper helper = {-1, -1};
    char path[LULL_SITE_NAME + 32], job_text[16], text[WORDS_BYTES] = "";
    size_t size = 0;
    uint32_t job;

    take_settings(ac, av);
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return 0;
    lull_allocation_forget(site.runtime_dir, job);
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
    spank_relay(text, slurm_info);
    lull_helper_forget(&helper);
    return 0;
}
