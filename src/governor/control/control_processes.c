/*
 * Determines which of the job's processes runs on which GPU from reports of the probes and the
 * driver (core/section/placement.h), and takes the leases for it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/control_state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pci.h"
#include "base/process.h"

/* Intervals at which the driver's lists of processes are read: often_ns while a process that came,
 * or began to communicate, less than soon_ns ago waits for its GPU, else rarely_ns. */
static const int64_t soon_ns = 10 * LULL_NS_PER_S;
static const int64_t often_ns = 100 * LULL_NS_PER_MS;
static const int64_t rarely_ns = 2 * LULL_NS_PER_S;

/* ---- leases ------------------------------------------------------------------------------ */

static int lease_through(const struct lull_control *control, const struct lull_governed_gpu *gpu,
                         struct lull_actuator *actuator, uint32_t *slot_out, struct lull_error *err)
{
    struct lull_band band = {
        .min_mhz = gpu->info->sm_clocks_mhz[gpu->info->sm_clock_count - 1],
        .max_mhz = gpu->info->sm_clocks_mhz[0],
    };

    if (control->wants_limits) {
        band.min_limit_mw = gpu->info->power_limit_min_mw;
        band.max_limit_mw = gpu->info->power_limit_max_mw;
    }
    return lull_actuator_lease(actuator, gpu->info->uuid, &band, slot_out, err);
}

/* From now on the GPU is driven through that slot, which has had no request yet. */
static void control_process_begin_lease(struct lull_control *control, struct lull_governed_gpu *gpu,
                                        uint32_t slot)
{
    memset(gpu->requests, 0, sizeof(gpu->requests));
    gpu->posted = 0;
    gpu->taken = 0;
    gpu->calls = 0;
    gpu->point = 0;
    gpu->cap_mhz = 0;
    gpu->actuator_slot = slot;
    gpu->state.leased = true;
    gpu->armed = true;
    lull_control_idle_begin(control, gpu);
    lull_control_profile_begin(control, gpu);
}

/* Returns why a GPU cannot be leased at all; 0: it can. */
static int check_leasable(const struct lull_governed_gpu *gpu, struct lull_error *err)
{
    if (gpu->info->status < 0 && gpu->info->uuid[0] == '\0')
        return lull_error_set(err, LULL_E_NO_DEVICE, "the GPU was %s; see the kernel's log (dmesg)",
                              gpu->info->name);
    if (gpu->info->sm_clock_count > 0)
        return 0;
    if (gpu->info->status < 0)
        return lull_error_set(err, gpu->info->status,
                              "its driver did not list its clocks when the run began (busy or "
                              "lost); see the kernel's log (dmesg), and start the job again");
    return lull_error_set(err, LULL_E_UNSUPPORTED,
                          "its driver does not list its clocks, so that they cannot be set (not "
                          "supported), as on Jetson boards and vGPUs; run the job without Lull");
}

int lull_control_lease(struct lull_control *control, uint32_t index, struct lull_error *err)
{
    struct lull_governed_gpu *const gpu = &control->gpus[index];
    uint32_t slot;
    int result = check_leasable(gpu, err);

    gpu->wants_lease = gpu->info->sm_clock_count > 0;
    if (result < 0)
        return result;
    if (control->actuator == NULL)
        return lull_error_set(err, -ENOTCONN, "no clock can be set at present");
    result = lease_through(control, gpu, control->actuator, &slot, err);
    gpu->wants_lease = result == 0 || result == -EPIPE || result == -ETIMEDOUT;
    if (result < 0)
        return result;
    pthread_mutex_lock(&control->lock);
    control_process_begin_lease(control, gpu, slot);
    pthread_mutex_unlock(&control->lock);
    return 0;
}

/* Leases a GPU for its first rank. If the daemon dies at this moment, this is not a refusal: the
 * lease is taken when a daemon runs again. */
static void control_process_lease(struct lull_control *control, struct lull_governed_gpu *gpu)
{
    struct lull_error err = {0};
    const int result = lull_control_lease(control, (uint32_t)(gpu - control->gpus), &err);

    if (result == 0 || gpu->wants_lease)
        return;
    gpu->state.refusal = err;
    if (control->actuator != NULL && gpu->info->sm_clock_count > 0)
        lull_log(LULL_LOG_WARNING, "run", "GPU %u is not managed: %s", gpu->state.device, err.text);
}

int lull_control_arm(struct lull_control *control, struct lull_actuator *actuator,
                     struct lull_error *err)
{
    uint32_t slots[LULL_CONTROLLER_MAX_GPUS] = {0};

    assert(control->actuator == NULL);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        int result = 0;

        if (control->gpus[i].wants_lease)
            result = lease_through(control, &control->gpus[i], actuator, &slots[i], err);
        if (result < 0)
            return result;
    }
    pthread_mutex_lock(&control->lock);
    control->actuator = actuator;
    for (uint32_t i = 0; i < control->gpu_count; i++)
        if (control->gpus[i].wants_lease)
            control_process_begin_lease(control, &control->gpus[i], slots[i]);
    pthread_mutex_unlock(&control->lock);
    return 0;
}

/* ---- evidence ---------------------------------------------------------------------------- */

/* Finds a GPU by its PCI address; -ENODEV: the driver library lists no such GPU. */
static int control_process_find_device(const struct lull_devices *devices, uint64_t pci)
{
    for (uint32_t i = 0; i < lull_devices_count(devices); i++) {
        uint64_t present;

        if (lull_pci_parse(lull_device_info(devices, i)->pci_bus_id, &present) && present == pci)
            return (int)i;
    }
    return -ENODEV;
}

static void take_reports(const struct lull_control *control, uint32_t slot,
                         struct lull_placement_evidence *evidence)
{
    struct lull_process_gpu gpus[LULL_JOB_MAX_GPUS];
    const uint32_t count = lull_event_segment_gpus(control->job, slot, gpus);

    for (uint32_t i = 0; i < count; i++) {
        const int device = control_process_find_device(control->devices, gpus[i].pci);

        if (device < 0)
            evidence->is_elsewhere = true;
        else if (gpus[i].is_communicating)
            evidence->communicating |= UINT64_C(1) << device;
        else
            evidence->contexts |= UINT64_C(1) << device;
    }
}

/* A process in a PID namespace of its own, such as a container's, has another number there. */
static bool is_listed(const struct lull_device_processes *list, pid_t pid, uint64_t space)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (space == list->pid_space ? list->pids[i] == pid
                                     : lull_process_is_within(list->pids[i], space, pid))
            return true;
    return false;
}

/* The driver's numbers of processes mean something only in the namespace that they are of. */
static bool control_process_is_blind(const struct lull_governed_gpu *gpu)
{
    return gpu->has_list &&
           (!gpu->list.is_known || gpu->list.pid_space != lull_process_pid_space());
}

static void take_lists(const struct lull_control *control, uint32_t slot, pid_t pid,
                       struct lull_placement_evidence *evidence)
{
    const uint64_t space = lull_event_segment_pid_space(control->job, slot);

    for (uint32_t i = 0; i < control->gpu_count; i++) {
        const struct lull_governed_gpu *const gpu = &control->gpus[i];
        const uint64_t bit = UINT64_C(1) << gpu->state.device;

        if (!gpu->has_list)
            continue;
        if (control_process_is_blind(gpu) || space == 0)
            evidence->blind |= bit;
        else if (is_listed(&gpu->list, pid, space))
            evidence->listed |= bit;
    }
}

/* Finds the job's GPU on which a process runs; *index_out is written for LULL_PLACEMENT_ON. */
static enum lull_placement control_process_place(const struct lull_control *control, uint32_t slot,
                                                 pid_t pid, uint32_t *index_out)
{
    struct lull_placement_evidence evidence = {0};
    enum lull_placement placement;
    uint32_t device = 0;

    if (control->is_certain)
        evidence.visible = UINT64_C(1) << control->gpus[0].state.device;
    take_reports(control, slot, &evidence);
    take_lists(control, slot, pid, &evidence);
    placement = lull_placement_decide(&evidence, &device);
    if (placement != LULL_PLACEMENT_ON)
        return placement;
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        if (control->gpus[i].state.device != device)
            continue;
        *index_out = i;
        return LULL_PLACEMENT_ON;
    }
    return LULL_PLACEMENT_ELSEWHERE;
}

/* ---- binding ----------------------------------------------------------------------------- */

/* True if the GPU is free for another rank: never used, or its rank has ended. */
static bool control_process_is_free(struct lull_control *control, struct lull_governed_gpu *gpu)
{
    return gpu->state.process < 0 || gpu->left ||
           lull_event_segment_has_ended(control->job, (uint32_t)gpu->state.process);
}

static void control_process_share(struct lull_control *control, uint32_t slot, uint32_t index)
{
    control->gpus[index].state.shared = true;
    control->gpus[index].state.ranks++;
    pthread_mutex_lock(&control->lock);
    control->decider->take_exit(control->deciding, index);
    control->processes[slot].seen_on = (int32_t)index;
    control->processes[slot].is_waiting = false;
    pthread_mutex_unlock(&control->lock);
}

static void bind_process(struct lull_control *control, uint32_t slot, uint32_t index,
                         const struct lull_process_info *info)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    bool is_usable;

    if (!control_process_is_free(control, gpu)) {
        control_process_share(control, slot, index);
        return;
    }
    if (!gpu->armed)
        control_process_lease(control, gpu);
    pthread_mutex_lock(&control->lock);
    is_usable =
        control->decider->take_start(control->deciding, index, info, gpu->state.process >= 0);
    gpu->state.communicators.count = 0;
    gpu->state.process = (int32_t)slot;
    gpu->state.ranks = 1;
    gpu->left = false;
    lull_section_meter_leave(&gpu->meter, lull_now_ns());
    control->processes[slot].gpu = is_usable ? (int32_t)index : -1;
    control->processes[slot].seen_on = (int32_t)index;
    control->processes[slot].is_waiting = false;
    pthread_mutex_unlock(&control->lock);
}

/* The process uses a GPU that does not belong to the job. */
static void leave_job(struct lull_control *control, uint32_t slot)
{
    pthread_mutex_lock(&control->lock);
    control->processes[slot].seen_on = LULL_ACCOUNTING_NOWHERE;
    pthread_mutex_unlock(&control->lock);
}

/* The process was on one GPU, but also uses others. Its results then apply to none of them. */
static void control_process_unbind(struct lull_control *control, uint32_t slot)
{
    uint32_t index;

    pthread_mutex_lock(&control->lock);
    index = (uint32_t)control->processes[slot].gpu;
    control->decider->take_exit(control->deciding, index);
    control->processes[slot].gpu = -1;
    control->processes[slot].seen_on = LULL_ACCOUNTING_UNSEEN;
    lull_error_set(&control->gpus[index].state.refusal, LULL_E_UNSUPPORTED,
                   "its process uses more than one GPU: start one process per GPU, for example "
                   "with torchrun --nproc-per-node");
    pthread_mutex_unlock(&control->lock);
    lull_log(LULL_LOG_WARNING, "run", "GPU %u is not managed any more: %s",
             control->gpus[index].state.device, control->gpus[index].state.refusal.text);
}

static struct lull_control_process copy_process(struct lull_control *control, uint32_t slot)
{
    struct lull_control_process process;

    pthread_mutex_lock(&control->lock);
    process = control->processes[slot];
    pthread_mutex_unlock(&control->lock);
    return process;
}

/* Determines the GPU of a process, and whether it has changed. */
static void control_process_locate(struct lull_control *control, uint32_t slot)
{
    const struct lull_control_process process = copy_process(control, slot);
    struct lull_process_info info;
    enum lull_placement placement;
    uint32_t index = 0;

    if ((!process.is_waiting && process.gpu < 0) ||
        lull_event_segment_process(control->job, slot, &info) < 0)
        return;
    placement = control_process_place(control, slot, info.pid, &index);
    if (!process.is_waiting) {
        if (placement != LULL_PLACEMENT_UNSEEN &&
            (placement != LULL_PLACEMENT_ON || index != (uint32_t)process.gpu))
            control_process_unbind(control, slot);
        return;
    }
    control->processes[slot].placement = placement;
    if (placement == LULL_PLACEMENT_ON)
        bind_process(control, slot, index, &info);
    else if (placement == LULL_PLACEMENT_ELSEWHERE)
        leave_job(control, slot);
}

static void begin_waiting(struct lull_control *control, uint32_t slot)
{
    pthread_mutex_lock(&control->lock);
    control->processes[slot].gpu = -1;
    control->processes[slot].seen_on = LULL_ACCOUNTING_UNSEEN;
    control->processes[slot].placement = LULL_PLACEMENT_UNSEEN;
    control->processes[slot].is_waiting = control->gpu_count > 0;
    control->processes[slot].waiting_ns = lull_now_ns();
    control->processes[slot].section = (struct lull_control_section){0};
    control->processes[slot].lost_events = lull_event_segment_lost(control->job, slot);
    if (control->hang != NULL)
        lull_hang_join(control->hang, slot);
    pthread_mutex_unlock(&control->lock);
}

/* Binds a released slot that now belongs to another process. */
static void bind_again(struct lull_control *control, uint32_t slot)
{
    struct lull_process_info info;

    if (!control->is_released[slot] || !lull_event_segment_is_held(control->job, slot) ||
        lull_event_segment_process(control->job, slot, &info) < 0)
        return;
    begin_waiting(control, slot);
    pthread_mutex_lock(&control->lock);
    control->is_released[slot] = false;
    pthread_mutex_unlock(&control->lock);
}

/* Only processes that have joined the segment are bound: an MPI launcher does not join it. */
static void take_new(struct lull_control *control)
{
    const uint32_t processes = lull_event_segment_process_count(control->job);
    struct lull_process_info info;

    while (control->bound < processes &&
           lull_event_segment_process(control->job, control->bound, &info) == 0) {
        begin_waiting(control, control->bound);
        pthread_mutex_lock(&control->lock);
        control->bound++;
        pthread_mutex_unlock(&control->lock);
    }
}

void lull_control_bind(struct lull_control *control)
{
    for (uint32_t slot = 0; slot < control->bound; slot++)
        bind_again(control, slot);
    take_new(control);
    for (uint32_t slot = 0; slot < control->bound; slot++)
        control_process_locate(control, slot);
}

/* ---- calls of the main thread ------------------------------------------------------------ */

void lull_control_trust_environment(struct lull_control *control)
{
    assert(control->gpu_count == 1);
    control->is_certain = true;
}

bool lull_control_wants_lists(struct lull_control *control, int64_t now_ns)
{
    bool is_awaited = false;

    for (uint32_t slot = 0; slot < control->bound; slot++) {
        const struct lull_control_process process = copy_process(control, slot);

        is_awaited = is_awaited || (process.is_waiting && now_ns - process.waiting_ns < soon_ns);
    }
    if (is_awaited)
        return now_ns - control->listed_ns >= often_ns;
    return control->bound > 0 && now_ns - control->listed_ns >= rarely_ns;
}

void lull_control_take_list(struct lull_control *control, uint32_t index,
                            const struct lull_device_processes *list)
{
    control->gpus[index].list = *list;
    control->gpus[index].has_list = true;
    control->listed_ns = lull_now_ns();
}

bool lull_control_is_blind(const struct lull_control *control)
{
    for (uint32_t i = 0; i < control->gpu_count; i++)
        if (control_process_is_blind(&control->gpus[i]))
            return true;
    return false;
}

uint32_t lull_control_count_placed(struct lull_control *control, enum lull_placement placement)
{
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < control->bound; slot++)
        count += copy_process(control, slot).is_waiting &&
                 control->processes[slot].placement == placement;
    return count;
}
