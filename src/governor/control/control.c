/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/minmax.h"
#include "base/clock.h"
#include "base/log.h"
#include "governor/control/calibration_file.h"
#include "governor/energy/energy_meter.h"

/* The loop polls at least this often for results that no event announces. */
static const int64_t idle_wait_ns = 20 * LULL_NS_PER_MS;

/* GPUs of the same name have the same switching costs: the first of them represents all. */
static void describe_gpus(struct lull_control *control)
{
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        const struct lull_device_info *info = control->gpus[i].info;
        uint32_t first = 0;

        if (info->sm_clock_count > 0)
            lull_controller_set_lowest(control->controller, i,
                                       (double)info->sm_clocks_mhz[info->sm_clock_count - 1] /
                                           info->sm_clocks_mhz[0]);
        while (strcmp(control->gpus[first].info->name, control->gpus[i].info->name) != 0)
            first++;
        lull_controller_set_model(control->controller, i, first);
    }
}

/* A run starts from what `lull calibrate` has measured on GPUs of these models. */
static void recall_calibrations(struct lull_control *control)
{
    struct lull_calibration_record record;

    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct lull_switch_cost known = {0};

        if (lull_calibration_find(control->gpus[i].info->name,
                                  lull_devices_driver_version(control->devices), &record) < 0)
            continue;
        lull_calibration_apply(&record, &known);
        lull_controller_set_switch_cost(control->controller, i, &known);
    }
}

int lull_control_create(const struct lull_control_setup *setup, struct lull_control **control_out,
                        struct lull_error *err)
{
    struct lull_control *control = calloc(1, sizeof(*control));
    uint32_t points[LULL_CONTROLLER_MAX_GPUS];

    if (control == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the control loop");
    control->job = setup->job;
    control->devices = setup->devices;
    control->actuator = setup->actuator;
    control->decider = &lull_section_decider;
    control->deciding = control;
    control->observe_only = setup->config->observe_only;
    control->tolerance_ratio = setup->config->tolerance_ratio;
    control->exposure = setup->exposure;
    control->learns_gaps = setup->learns_gaps;
    control->gpu_count = lull_min_u32(setup->gpu_count, LULL_CONTROLLER_MAX_GPUS);
    if (setup->hang_after_ns > 0)
        control->hang = lull_hang_create(setup->hang_after_ns);
    pthread_mutex_init(&control->lock, NULL);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct lull_governed_gpu *gpu = &control->gpus[i];
        const struct lull_device_info *info = lull_device_info(setup->devices, setup->gpus[i]);
        const struct lull_energy_source source = lull_energy_source_of_gpu(info);

        gpu->info = info;
        lull_run_log_init(&gpu->log, &source);
        gpu->state.device = setup->gpus[i];
        gpu->state.process = -1;
        points[i] = gpu->info->sm_clock_count > 0 ? gpu->info->sm_clock_count : 1;
    }
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        control->processes[i] =
            (struct lull_control_process){.gpu = -1, .seen_on = LULL_ACCOUNTING_UNSEEN};
    control->controller = lull_controller_create(setup->config, control->gpu_count, points);
    if (control->controller == NULL) {
        lull_control_destroy(control);
        return lull_error_set(err, -ENOMEM, "no memory for the controller");
    }
    describe_gpus(control);
    recall_calibrations(control);
    *control_out = control;
    return 0;
}

void lull_control_destroy(struct lull_control *control)
{
    if (control == NULL)
        return;
    lull_control_stop(control);
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        free(control->processes[i].held);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        lull_control_forget_device(&control->gpus[i]);
        lull_run_log_fini(&control->gpus[i].log);
    }
    lull_controller_destroy(control->controller);
    lull_hang_destroy(control->hang);
    free(control->steps);
    pthread_mutex_destroy(&control->lock);
    free(control);
}

/* ---- commands ---------------------------------------------------------------------------- */

static void note_lowered(struct lull_governed_gpu *gpu, uint32_t mhz, int64_t now_ns)
{
    if (gpu->lowered.begin_ns != 0) {
        gpu->lowered.end_ns = now_ns;
        gpu->lowered_ns += now_ns - gpu->lowered.begin_ns;
        lull_run_log_add_lowered(&gpu->log, &gpu->lowered);
    }
    gpu->lowered = (struct lull_span){.begin_ns = mhz == 0 ? 0 : now_ns, .index = mhz};
}

void lull_control_post(struct lull_control *control, struct lull_governed_gpu *gpu,
                       const struct lull_posted_request *request, int64_t deadline_ns,
                       int64_t valid_until_ns)
{
    const uint32_t mhz = request->point == 0 ? 0 : gpu->info->sm_clocks_mhz[request->point];
    struct lull_posted_request posted = *request;

    posted.was_point = gpu->point;
    posted.sequence =
        lull_actuator_set(control->actuator, gpu->actuator_slot, mhz, deadline_ns, valid_until_ns);
    gpu->requests[posted.sequence % LULL_CONTROL_REQUESTS_KEPT] = posted;
    gpu->posted = posted.sequence;
    gpu->point = posted.point;
    if (posted.is_of_idle && posted.point == posted.was_point)
        return; /* renewed */
    gpu->expected.since_ns = 0;
    gpu->log.switches++;
    note_lowered(gpu, mhz, posted.posted_ns);
}

static void control_execute(struct lull_control *control, const struct lull_command *command,
                            int64_t now_ns)
{
    struct lull_governed_gpu *gpu = &control->gpus[command->gpu];
    const struct lull_posted_request request = {
        .point = command->point, .posted_ns = now_ns, .answers_ns = command->answers_ns};

    if (!gpu->armed || lull_control_idle_overrules(gpu, command->point, now_ns))
        return;
    lull_control_judge_forecast(control, gpu, command);
    lull_control_post(control, gpu, &request, command->deadline_ns, command->valid_until_ns);
}

static void carry_out_due(struct lull_control *control)
{
    struct lull_command commands[LULL_CONTROLLER_MAX_GPUS];
    const int64_t now_ns = lull_now_ns();
    const uint32_t count =
        control->decider->poll(control->deciding, now_ns, commands, LULL_CONTROLLER_MAX_GPUS);

    lull_control_idle_poll(control, now_ns);
    for (uint32_t i = 0; i < count; i++)
        control_execute(control, &commands[i], now_ns);
    for (uint32_t i = 0; i < control->gpu_count; i++)
        lull_control_profile_follow(control, i);
    if (control->decider->record != NULL)
        control->decider->record(control->deciding);
}

/* ---- the thread -------------------------------------------------------------------------- */

static void *control_loop(void *argument)
{
    struct lull_control *control = argument;

    /* The default timer slack of 50 us would be most of the latency from a section's begin to its
     * request. */
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    while (!atomic_load(&control->stopping)) {
        int64_t wake_ns = lull_now_ns() + idle_wait_ns;

        pthread_mutex_lock(&control->lock);
        lull_control_drain(control);
        lull_control_release_slots(control, lull_now_ns());
        carry_out_due(control);
        lull_control_take_results(control);
        if (control->decider->wake_ns(control->deciding) < wake_ns)
            wake_ns = control->decider->wake_ns(control->deciding);
        pthread_mutex_unlock(&control->lock);
        lull_event_segment_wait(control->job, wake_ns);
    }
    pthread_mutex_lock(&control->lock);
    lull_control_drain(control);
    for (uint32_t i = 0; i < control->gpu_count; i++)
        control->decider->take_exit(control->deciding, i);
    carry_out_due(control);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

int lull_control_start(struct lull_control *control, struct lull_error *err)
{
    int result = pthread_create(&control->thread, NULL, control_loop, control);

    if (result != 0)
        return lull_error_set(err, -result, "cannot start the control thread: %s",
                              strerror(result));
    control->running = true;
    return 0;
}

void lull_control_stop(struct lull_control *control)
{
    if (!control->running)
        return;
    atomic_store(&control->stopping, true);
    lull_event_segment_wake(control->job);
    pthread_join(control->thread, NULL);
    control->running = false;
}

/* ---- for the main thread ----------------------------------------------------------------- */

void lull_control_disarm(struct lull_control *control)
{
    const int64_t now_ns = lull_now_ns();

    pthread_mutex_lock(&control->lock);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct lull_governed_gpu *gpu = &control->gpus[i];

        if (!gpu->armed)
            continue;
        gpu->armed = false;
        gpu->profiles = (struct lull_requested_profiles){.was_wanted = gpu->profiles.was_wanted};
        lull_control_idle_end(gpu);
        gpu->seen.sequence = 0;
        gpu->expected.since_ns = 0;
        note_lowered(gpu, 0, now_ns);
    }
    control->actuator = NULL;
    pthread_mutex_unlock(&control->lock);
}

uint32_t lull_control_gpu_count(const struct lull_control *control)
{
    return control->gpu_count;
}

void lull_control_lock(struct lull_control *control)
{
    pthread_mutex_lock(&control->lock);
}

void lull_control_unlock(struct lull_control *control)
{
    pthread_mutex_unlock(&control->lock);
}

const struct lull_controller *lull_control_controller(const struct lull_control *control)
{
    return control->controller;
}

uint32_t lull_control_holds(const struct lull_control *control)
{
    return control->holds;
}

const struct lull_control_gpu *lull_control_gpu(const struct lull_control *control, uint32_t gpu)
{
    return &control->gpus[gpu].state;
}

const struct lull_run_log *lull_control_log(const struct lull_control *control, uint32_t gpu)
{
    return &control->gpus[gpu].log;
}

const struct lull_device_info *lull_control_info(const struct lull_control *control, uint32_t gpu)
{
    return control->gpus[gpu].info;
}

struct lull_controller *lull_control_controlled(struct lull_control *control)
{
    return control->controller;
}

void lull_control_set_decider(struct lull_control *control, const struct lull_decider *decider,
                              void *state)
{
    control->decider = decider;
    control->deciding = state;
}

void lull_control_set_accounting(struct lull_control *control, struct lull_accounting *accounting)
{
    control->accounting = accounting;
}

const struct lull_decider *lull_control_decider(const struct lull_control *control)
{
    return control->decider;
}

void lull_control_log_boundary(struct lull_control *control, uint32_t index,
                               const struct lull_boundary *boundary)
{
    lull_run_log_add_boundary(&control->gpus[index].log, boundary);
}

/* ---- power limits ------------------------------------------------------------------------ */

void lull_control_want_limits(struct lull_control *control)
{
    control->wants_limits = true;
}

bool lull_control_wants_limits(const struct lull_control *control)
{
    return control->wants_limits;
}

uint64_t lull_control_set_limit(struct lull_control *control, uint32_t index, uint32_t limit_mw)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    if (!gpu->armed)
        return 0;
    return lull_actuator_set_limit(control->actuator, gpu->actuator_slot, limit_mw);
}

uint64_t lull_control_set_smoothing(struct lull_control *control, uint32_t index,
                                    const struct lull_smoothing *smoothing)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    if (!gpu->armed)
        return 0;
    return lull_actuator_set_smoothing(control->actuator, gpu->actuator_slot, smoothing);
}

void lull_control_limit_result(const struct lull_control *control, uint32_t index,
                               struct lull_limit_result *result_out)
{
    const struct lull_governed_gpu *gpu = &control->gpus[index];

    *result_out = (struct lull_limit_result){0};
    if (gpu->armed)
        lull_actuator_limit_result(control->actuator, gpu->actuator_slot, result_out);
}

uint64_t lull_control_set_clock(struct lull_control *control, uint32_t index, uint32_t sm_mhz,
                                int64_t valid_until_ns)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    uint64_t sequence;

    if (!gpu->armed)
        return 0;
    sequence = lull_actuator_set(control->actuator, gpu->actuator_slot, sm_mhz, valid_until_ns,
                                 valid_until_ns);
    pthread_mutex_lock(&control->lock);
    /* A renewal of the same clock continues the stretch. */
    if (sm_mhz != (gpu->lowered.begin_ns != 0 ? gpu->lowered.index : 0)) {
        note_lowered(gpu, sm_mhz, lull_now_ns());
        gpu->log.switches++;
    }
    pthread_mutex_unlock(&control->lock);
    return sequence;
}

void lull_control_clock_result(const struct lull_control *control, uint32_t index,
                               struct lull_switch_result *result_out)
{
    const struct lull_governed_gpu *gpu = &control->gpus[index];

    *result_out = (struct lull_switch_result){0};
    if (gpu->armed)
        lull_actuator_result(control->actuator, gpu->actuator_slot, result_out);
}

void lull_control_set_phase(struct lull_control *control, enum lull_controller_phase phase)
{
    pthread_mutex_lock(&control->lock);
    control->has_phase = true;
    control->phase = phase;
    pthread_mutex_unlock(&control->lock);
}

bool lull_control_has_settled(const struct lull_control *control)
{
    if (control->has_phase)
        return control->phase == LULL_PHASE_SETTLED;
    return control->decider->has_settled(control->deciding);
}

struct lull_event_segment *lull_control_job(const struct lull_control *control)
{
    return control->job;
}
