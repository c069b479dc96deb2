/*
 * lull job hold: GPUs of a job at the clock that a cluster's scheduler has chosen for it. It holds
 * leases as root, so that the job's user can neither raise nor lower the clocks. The GPUs are
 * released when it ends, for any reason. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/administer.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/shared/stop_signals.h"
#include "governor/control/actuator.h"

enum { MAX_GPUS = 64, NAME_BYTES = 96 };

/* Interval of lease checks, validity of a request, and timeout of the first requests, after which
 * the job starts. */
static const int64_t look_ns = 200 * LULL_NS_PER_MS;
static const int64_t request_ns = 4 * LULL_NS_PER_S;
static const int64_t first_ns = LULL_NS_PER_S;

struct hold_arguments {
    const char *runtime_dir;
    const char *gpus;
    uint32_t sm_mhz;
    uint32_t launcher_fd; /* 0: none */
};

struct holder {
    const struct hold_arguments *arguments;
    struct lull_actuator *actuator; /* NULL: there is no daemon now */
    char names[MAX_GPUS][NAME_BYTES];
    uint32_t count;
    uint32_t slots[MAX_GPUS];
    uint32_t held; /* of slots */
};

/* Requests the names of the GPUs from lulld. */
static int job_hold_name_gpus(struct holder *holder, struct lull_error *err)
{
    struct lull_message_welcome welcome;
    struct lull_client *client;
    char *const gpus = strdup(holder->arguments->gpus);
    char *rest = NULL;
    int rc = gpus != NULL ? 0 : lull_error_set(err, -ENOMEM, "out of memory");

    if (rc == 0)
        rc = lull_client_open(holder->arguments->runtime_dir, &client, &welcome, err);
    if (rc < 0) {
        free(gpus);
        return rc;
    }
    for (const char *gpu = strtok_r(gpus, ",", &rest);
         gpu != NULL && rc == 0 && holder->count < MAX_GPUS; gpu = strtok_r(NULL, ",", &rest)) {
        rc = lull_cli_name_gpu(client, gpu, holder->names[holder->count], NAME_BYTES, err);
        holder->count += rc == 0 ? 1 : 0;
    }
    lull_client_close(client);
    free(gpus);
    return rc;
}

/* Leases what can be leased. A GPU that another step of the job holds already is left to it. */
static int lease_all(struct holder *holder, struct lull_error *err)
{
    const struct lull_band band = {.min_mhz = holder->arguments->sm_mhz, .max_mhz = UINT32_MAX};
    int rc = lull_actuator_open_daemon(holder->arguments->runtime_dir, &holder->actuator, err);

    if (rc < 0)
        return rc;
    holder->held = 0;
    for (uint32_t i = 0; i < holder->count; i++) {
        rc = lull_actuator_lease(holder->actuator, holder->names[i], &band,
                                 &holder->slots[holder->held], err);
        if (rc < 0)
            lull_log(LULL_LOG_WARNING, "job hold", "%s", err->text);
        else
            holder->held++;
    }
    if (holder->held > 0)
        return 0;
    lull_actuator_close(holder->actuator);
    holder->actuator = NULL;
    return rc;
}

static void job_hold_request_leases(struct holder *holder, uint64_t *sequences_out)
{
    const int64_t now_ns = lull_now_ns();

    for (uint32_t i = 0; i < holder->held; i++) {
        const uint64_t sequence =
            lull_actuator_set(holder->actuator, holder->slots[i], holder->arguments->sm_mhz,
                              now_ns + request_ns, now_ns + request_ns);

        if (sequences_out != NULL)
            sequences_out[i] = sequence;
    }
}

/* Sets the clocks and waits for the driver, with a timeout. */
static void set_first(struct holder *holder)
{
    const int64_t until_ns = lull_now_ns() + first_ns;
    struct lull_switch_result result;
    uint64_t sequences[MAX_GPUS];

    job_hold_request_leases(holder, sequences);
    for (uint32_t i = 0; i < holder->held; i++)
        do {
            lull_actuator_result(holder->actuator, holder->slots[i], &result);
            if (result.sequence < sequences[i])
                lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        } while (result.sequence < sequences[i] && lull_now_ns() < until_ns);
}

/* Waits until the next look is due; false: the launcher is gone. */
static bool job_hold_is_wanted(const struct hold_arguments *arguments)
{
    struct pollfd launcher = {.fd = arguments->launcher_fd != 0 ? (int)arguments->launcher_fd : -1,
                              .events = POLLRDHUP};

    return poll(&launcher, 1, (int)(look_ns / LULL_NS_PER_MS)) <= 0;
}

/* Keeps the leases until they are no longer wanted. After a restart of lulld it requests them
 * again. */
static void job_hold_wait(struct holder *holder)
{
    struct lull_stop_signals stop;
    struct lull_error err = {0};

    lull_stop_signals_begin(&stop);
    while (job_hold_is_wanted(holder->arguments) && !lull_is_stopped(&stop)) {
        if (holder->actuator == NULL && lease_all(holder, &err) < 0)
            continue;
        if (lull_actuator_poll(holder->actuator, &err) < 0) {
            lull_actuator_close(holder->actuator);
            holder->actuator = NULL;
            continue;
        }
        job_hold_request_leases(holder, NULL);
    }
}

static int job_hold_run(void *options, const struct lull_operands *operands)
{
    struct holder holder = {.arguments = options};
    struct lull_error err = {0};
    int rc = job_hold_name_gpus(&holder, &err);

    (void)operands;
    if (rc == 0)
        rc = lease_all(&holder, &err);
    if (rc < 0)
        return lull_cli_fail("job hold", &err);
    set_first(&holder);
    if (holder.arguments->launcher_fd != 0)
        send((int)holder.arguments->launcher_fd, "held", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
    job_hold_wait(&holder);
    lull_actuator_close(holder.actuator);
    return LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_VALUE("gpus", "LIST", TEXT, struct hold_arguments, gpus,
               "The GPUs: indices of lull gpus, UUIDs or PCI addresses, with commas.",
               .is_required = true),
    LULL_VALUE("sm-clock", "MHZ", WHOLE, struct hold_arguments, sm_mhz,
               "The clock; the site's floor and cap hold (lulld-policy(5)).", .is_required = true,
               .least = 1, .most = 100000),
    LULL_VALUE("launcher-fd", "FD", WHOLE, struct hold_arguments, launcher_fd,
               "Report on this socket when the clocks are set, and exit when its other end closes.",
               .least = 3, .most = 1048576, .otherwise = "it runs until a signal ends it"),
    LULL_CLI_RUNTIME_DIR_ROW(struct hold_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_job_hold_command = {
    .name = "job hold",
    .summary = "hold a job's GPUs at the clock that its cluster has chosen",
    .arguments = "JOB",
    .about = "Holds the GPUs at a clock, as root, until it is stopped: for the plugin of a batch "
             "system (lull-slurm(7)). The site's floors and caps hold, and the GPUs are restored "
             "however the command ends.",
    .tables = {{rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "say which job"},
    .size = sizeof(struct hold_arguments),
    .run = job_hold_run,
};
