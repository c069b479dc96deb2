/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lull_probe_client lull_client = {.generation = 1};
_Thread_local struct lull_client_thread lull_client_this_thread
    __attribute__((tls_model("initial-exec")));

static const char *const world_rank_names[] = {
    "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID", NULL};
static const char *const world_size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE",
                                               "SLURM_NTASKS", NULL};
static const char *const local_rank_names[] = {
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",  "SLURM_LOCALID",   NULL};

/* Returns the number of the first of these variables that holds one, from 0 up; -1: none does. */
static int32_t number_from_environment(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *text = getenv(*names);
        char *end;
        long value;

        if (text == NULL || text[0] < '0' || text[0] > '9')
            continue;
        errno = 0;
        value = strtol(text, &end, 10);
        if (*end == '\0' && errno == 0 && value <= INT32_MAX)
            return (int32_t)value;
    }
    return -1;
}

void lull_client_info(struct lull_process_info *info_out)
{
    const char *program = program_invocation_short_name;

    *info_out = (struct lull_process_info){
        .pid = getpid(),
        .world_rank = number_from_environment(world_rank_names),
        .world_size = number_from_environment(world_size_names),
        .local_rank = number_from_environment(local_rank_names),
    };
    memcpy(info_out->program, program, strnlen(program, sizeof(info_out->program) - 1));
}

/*
 * Only the thread that called fork() lives in the child, so no other thread uses the mapping. It is
 * left in place: unmapping it would turn a mistake into a crash of the job.
 */
static void forget_in_child(void)
{
    uint32_t state = atomic_load(&lull_client.state);

    if (state == LULL_CLIENT_NEW || state == LULL_CLIENT_OFF)
        return;
    lull_client.generation++;
    lull_client.job = NULL;
    atomic_store(&lull_client.state, LULL_CLIENT_NEW);
}

static uint32_t probe_client_join(void)
{
    const char *path = secure_getenv(LULL_JOB_ENV);
    static int watches_fork;
    struct lull_process_info info;
    struct lull_event_segment *job;
    uint32_t slot;

    if (path == NULL || path[0] == '\0')
        return LULL_CLIENT_OFF;
    if (!watches_fork && pthread_atfork(NULL, NULL, forget_in_child) != 0)
        return LULL_CLIENT_OFF;
    watches_fork = 1;
    lull_client_info(&info);
    if (lull_event_segment_join(path, &info, &job, &slot, NULL) < 0)
        return LULL_CLIENT_OFF;
    lull_client.job = job;
    lull_client.slot = slot;
    if (lull_client.on_join != NULL)
        lull_client.on_join(job, slot);
    return LULL_CLIENT_ON;
}

int lull_client_join(void)
{
    const int saved_errno = errno;
    uint32_t state = LULL_CLIENT_NEW;

    if (atomic_compare_exchange_strong(&lull_client.state, &state, LULL_CLIENT_JOINING)) {
        state = probe_client_join();
        atomic_store_explicit(&lull_client.state, state, memory_order_release);
    }
    errno = saved_errno;
    return state == LULL_CLIENT_ON;
}

void lull_client_renew_thread(void)
{
    lull_client_this_thread = (struct lull_client_thread){
        .generation = lull_client.generation,
        .number = lull_event_segment_thread(lull_client.job, lull_client.slot),
    };
}
