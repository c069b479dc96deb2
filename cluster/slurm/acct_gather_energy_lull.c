/*
 * Slurm's energy accounting: the joules of a step's GPUs, from their own counters, in the fields
 * that sstat, sacct and scontrol show. In slurmd it counts all GPUs of the node, in slurmstepd
 * those of its step, as reported by spank_lull. A helper (`lull meter`) reads the counters, so that
 * a hanging driver affects only the figures.
 *
 * The names of functions and variables are Slurm's. A figure that is not known is NO_VAL64, never
 * 0. Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdint.h>
/* Slurm's headers need it first. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cluster/slurm/helper.h"
#include "cluster/slurm/step_gpus.h"

const char plugin_name[] = "energy of GPUs, by Lull";
const char plugin_type[] = "acct_gather_energy/lull";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

int init(void);
int fini(void);
int acct_gather_energy_p_update_node_energy(void);
int acct_gather_energy_p_get_data(enum acct_energy_type data_type, void *data);
int acct_gather_energy_p_set_data(enum acct_energy_type data_type, void *data);
void acct_gather_energy_p_conf_options(void **full_options, int *full_options_cnt);
void acct_gather_energy_p_conf_set(int context_id_in, void *tbl);
void acct_gather_energy_p_conf_values(void *data);

/* Timeout of a reading. Default: counters answer within some milliseconds. */
enum { ANSWER_MS = 100, GPUS_BYTES = 1024 };

static const int64_t ns_per_ms = 1000000;
/* Minimum time between two starts of a helper by slurmd, if the first helper has ended. */
static const int64_t again_ns = 10000000000;
/* A node that draws 10 kW for thirty years. */
#define MAX_JOULES 1e13

static struct {
    pthread_mutex_t lock; /* guards what follows */
    struct lull_helper helper;
    bool is_started;
    bool is_known;
    double joules; /* since the helper was started */
    double watts;  /* on average since the reading before; below 0: not known */
    int64_t begin_ns, read_ns;
    time_t read_time;
} meter = {.lock = PTHREAD_MUTEX_INITIALIZER, .helper = {-1, -1}, .watts = -1.0};

/* ---- the helper ---------------------------------------------------------------------------- */

static bool is_in_slurmd(void)
{
    return strcmp(program_invocation_short_name, "slurmd") == 0;
}

/* Returns whether a variable of slurmd would change which GPUs the helper counts for a step. */
static bool names_gpus(const char *variable)
{
    static const char *const names[] = {
        "CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=", "ROCR_VISIBLE_DEVICES=",
        "HIP_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Starts the helper for these GPUs of the node; NULL: for all of them. Slurm numbers GPUs by their
 * addresses. Without CUDA_DEVICE_ORDER, a number may mean any GPU of a node of several models, and
 * the helper would count those of other jobs. */
static void start_meter(const char *gpus)
{
    const char *const program = getenv("LULL_PROGRAM");
    char visible[GPUS_BYTES + 32];
    char mask[GPUS_BYTES + 32];
    char order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
    char *variables[128];
    size_t count = 0;

    for (char **from = environ; *from != NULL && count < 124; from++)
        if (gpus == NULL || !names_gpus(*from))
            variables[count++] = *from;
    if (gpus != NULL) {
        snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%s", gpus);
        snprintf(mask, sizeof(mask), "ZE_AFFINITY_MASK=%s", gpus);
        variables[count++] = visible;
        variables[count++] = mask;
        variables[count++] = order;
    }
    variables[count] = NULL;
    meter.is_started = true;
    meter.begin_ns = meter.read_ns = lull_helper_now_ns();
    if (lull_helper_start(
            &(struct lull_helper_start){
                .argv =
                    (char *[]){(char *)(program != NULL ? program : LULL_PROGRAM), "meter", NULL},
                .environment = variables,
                .socket = LULL_HELPER_STANDARD_SOCKET},
            &meter.helper) < 0)
        meter.helper = (struct lull_helper){-1, -1};
}

/* Stops counting. Energy from now on is not counted, so the total is unknown. */
static void gather_energy_lose_meter(void)
{
    lull_helper_forget(&meter.helper);
    meter.is_known = false;
    meter.joules = 0.0;
    meter.watts = -1.0;
}

/* The next reading discards late answers to earlier requests. */
static bool gather_energy_take_answer(int64_t until_ns, double *joules_out)
{
    struct pollfd poll_fd = {.fd = meter.helper.socket, .events = POLLIN};
    bool is_answered = false;
    char text[64];

    for (;;) {
        const int64_t left_ms = is_answered ? 0 : (until_ns - lull_helper_now_ns()) / ns_per_ms;
        const int ready = poll(&poll_fd, 1, left_ms > 0 ? (int)left_ms : 0);
        ssize_t got;
        char *end;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return is_answered;
        got = recv(meter.helper.socket, text, sizeof(text) - 1, MSG_DONTWAIT);
        if (got <= 0) {
            gather_energy_lose_meter();
            return false;
        }
        text[got] = '\0';
        *joules_out = strtod(text, &end);
        is_answered = end != text && *joules_out >= 0.0 && *joules_out < MAX_JOULES;
    }
}

static void read_meter(void)
{
    const int64_t begin_ns = lull_helper_now_ns();
    double joules = 0.0;

    if (meter.helper.socket < 0 ||
        send(meter.helper.socket, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
        !gather_energy_take_answer(begin_ns + ANSWER_MS * ns_per_ms, &joules))
        return;
    if (joules < meter.joules)
        return; /* no counter runs backwards */
    if (begin_ns > meter.read_ns && meter.is_known)
        meter.watts = (joules - meter.joules) / ((double)(begin_ns - meter.read_ns) * 1e-9);
    meter.joules = joules;
    meter.is_known = true;
    meter.read_ns = begin_ns;
    meter.read_time = time(NULL);
}

/* A step without GPUs draws nothing with them, and that is known. */
static void gather_energy_update(void)
{
    const char *const gpus = is_in_slurmd() ? NULL : getenv(LULL_STEP_GPUS);

    if (gpus == NULL && !is_in_slurmd())
        return;
    if (gpus != NULL && gpus[0] == '\0') {
        meter.is_known = true;
        meter.watts = 0.0;
        meter.read_time = time(NULL);
        return;
    }
    /* A step of which a part was not counted stays unknown; a node starts again. */
    if (!meter.is_started || (gpus == NULL && meter.helper.socket < 0 &&
                              lull_helper_now_ns() - meter.begin_ns > again_ns))
        start_meter(gpus);
    read_meter();
}

/* ---- calls from Slurm ---------------------------------------------------------------------- */

static void gather_energy_fill(acct_gather_energy_t *energy)
{
    const double seconds = (double)(meter.read_ns - meter.begin_ns) * 1e-9;

    memset(energy, 0, sizeof(*energy));
    energy->poll_time = meter.read_time;
    if (!meter.is_known) {
        energy->consumed_energy = NO_VAL64;
        energy->current_watts = NO_VAL;
        return;
    }
    energy->consumed_energy = (uint64_t)(meter.joules + 0.5);
    energy->previous_consumed_energy = energy->consumed_energy;
    energy->current_watts = meter.watts >= 0.0 ? (uint32_t)(meter.watts + 0.5) : NO_VAL;
    if (seconds > 0.0)
        energy->ave_watts = (uint32_t)(meter.joules / seconds + 0.5);
}

int acct_gather_energy_p_update_node_energy(void)
{
    pthread_mutex_lock(&meter.lock);
    gather_energy_update();
    pthread_mutex_unlock(&meter.lock);
    return SLURM_SUCCESS;
}

int acct_gather_energy_p_get_data(enum acct_energy_type data_type, void *data)
{
    int result = SLURM_SUCCESS;

    pthread_mutex_lock(&meter.lock);
    switch (data_type) {
    case ENERGY_DATA_JOULES_TASK:
    case ENERGY_DATA_NODE_ENERGY_UP:
        gather_energy_update();
        gather_energy_fill(data);
        break;
    case ENERGY_DATA_STRUCT:
    case ENERGY_DATA_NODE_ENERGY:
        gather_energy_fill(data);
        break;
    case ENERGY_DATA_LAST_POLL:
        *(time_t *)data = meter.read_time;
        break;
    case ENERGY_DATA_SENSOR_CNT:
        *(uint16_t *)data = 1;
        break;
    default:
        result = SLURM_ERROR;
    }
    pthread_mutex_unlock(&meter.lock);
    return result;
}

int acct_gather_energy_p_set_data(enum acct_energy_type data_type, void *data)
{
    (void)data_type;
    (void)data;
    return SLURM_SUCCESS;
}

void acct_gather_energy_p_conf_options(void **full_options, int *full_options_cnt)
{
    (void)full_options;
    (void)full_options_cnt;
}

void acct_gather_energy_p_conf_set(int context_id_in, void *tbl)
{
    (void)context_id_in;
    (void)tbl;
}

void acct_gather_energy_p_conf_values(void *data)
{
    (void)data;
}

int init(void)
{
    return SLURM_SUCCESS;
}

int fini(void)
{
    pthread_mutex_lock(&meter.lock);
    lull_helper_forget(&meter.helper);
    pthread_mutex_unlock(&meter.lock);
    return SLURM_SUCCESS;
}
