/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/section/gap_map.h"
#include "governor/calibration_file.h"

enum { BATCH = 256, REQUESTS_KEPT = 8 };

/* A clock that has not followed for so long does not follow. */
static const int64_t obedience_ns = 60 * LULL_NS_PER_MS;
/* The loop looks around at least this often, for results that no event announces. */
static const int64_t idle_wait_ns = 20 * LULL_NS_PER_MS;
/* NVML's bits for heat and power supply (not the normal power cap). */
static const uint64_t throttle_reasons = 0x8 | 0x20 | 0x40 | 0x80;

/* A request that has been posted. The writer may still be busy with one when the next is posted. */
struct request {
    uint64_t sequence;
    uint32_t point;
    uint32_t was_point; /* asked for before */
    int64_t posted_ns;
    int64_t answers_ns;
};

struct gpu {
    struct lull_control_gpu state;
    uint32_t actuator_slot;
    atomic_bool armed; /* leased, and the actuator alive */
    const struct lull_device_info *info;
    struct request requests[REQUESTS_KEPT]; /* by sequence */
    uint64_t taken;                         /* sequence of the last outcome taken */
    uint32_t point;                         /* asked for last */
    struct lull_switch_result seen; /* of a call that has returned, settling; sequence 0 none */
    struct lull_clock_expectation expected; /* since_ns 0: nothing is */
    struct lull_journey journey;
    struct lull_span lowered; /* stretch under way; begin_ns 0 none */
    bool left;                /* its rank has ended: another may take it over */
    int64_t section_begin_ns;
    uint32_t depth; /* of nested calls of the rank */
    /* Of a rank that communicates on the GPU: */
    struct lull_gap_map *gaps;     /* from what its kernels do; NULL otherwise */
    struct lull_track *enqueueing; /* what its host does, alike in every pass */
};

struct lull_control {
    struct lull_job *job;
    struct lull_devices *devices;
    struct lull_actuator *actuator;
    struct lull_controller *controller;
    struct lull_pilot *pilot; /* NULL: the controller decides */
    int64_t iteration_end_ns; /* of the pilot's last one; 0 none */
    pthread_mutex_t lock; /* controller and journeys */
    pthread_t thread;
    bool running;
    bool observe_only;
    bool exposure; /* compute kernels may be recorded */
    atomic_bool stopping;
    uint32_t bound; /* processes looked at so far */
    int32_t gpu_of_process[LULL_JOB_MAX_PROCESSES];
    uint32_t gpu_count;
    struct gpu gpus[LULL_CONTROLLER_MAX_GPUS];
};

/* What `lull calibrate` has measured on GPUs of these models is where this run starts from. */
static void recall_calibrations(struct lull_control *control)
{
    struct lull_calibration_record record;

    for (uint32_t i = 0; i < control->gpu_count; i++)
        if (lull_calibration_find(control->gpus[i].info->name,
                                  lull_devices_driver_version(control->devices), &record) == 0)
            lull_calibration_teach(&record,
                                   lull_controller_known_cost(control->controller, i));
}

int lull_control_create(struct lull_job *job, struct lull_devices *devices,
                        struct lull_actuator *actuator, const struct lull_controller_config *config,
                        bool exposure, const uint32_t *gpus, uint32_t gpu_count,
                        struct lull_control **control_out, struct lull_error *err)
{
    struct lull_control *control = calloc(1, sizeof(*control));
    uint32_t points[LULL_CONTROLLER_MAX_GPUS];

    if (control == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the control loop");
    control->job = job;
    control->devices = devices;
    control->actuator = actuator;
    control->observe_only = config->observe_only;
    control->exposure = exposure;
    control->gpu_count =
        gpu_count < LULL_CONTROLLER_MAX_GPUS ? gpu_count : LULL_CONTROLLER_MAX_GPUS;
    pthread_mutex_init(&control->lock, NULL);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct gpu *gpu = &control->gpus[i];

        gpu->info = lull_device_info(devices, gpus[i]);
        gpu->state.device = gpus[i];
        gpu->state.process = -1;
        points[i] = gpu->info->sm_clock_count > 0 ? gpu->info->sm_clock_count : 1;
    }
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        control->gpu_of_process[i] = -1;
    control->controller = lull_controller_create(config, control->gpu_count, points);
    if (control->controller == NULL) {
        lull_control_destroy(control);
        return lull_error_set(err, -ENOMEM, "no memory for the controller");
    }
    recall_calibrations(control);
    *control_out = control;
    return 0;
}

static void forget_device(struct gpu *gpu)
{
    lull_gap_map_destroy(gpu->gaps);
    lull_track_destroy(gpu->enqueueing);
    gpu->gaps = NULL;
    gpu->enqueueing = NULL;
}

void lull_control_destroy(struct lull_control *control)
{
    if (control == NULL)
        return;
    lull_control_stop(control);
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        forget_device(&control->gpus[i]);
        lull_journey_fini(&control->gpus[i].journey);
    }
    lull_controller_destroy(control->controller);
    pthread_mutex_destroy(&control->lock);
    free(control);
}

/* ---- events to calls --------------------------------------------------------------------- */

static void note_iteration(struct lull_control *control, struct gpu *gpu,
                           const struct lull_track *track, int64_t time_ns)
{
    if (lull_track_boundary_ns(track) != time_ns)
        return;
    lull_journey_add_boundary(&gpu->journey,
                              &(struct lull_boundary){
                                  .time_ns = time_ns,
                                  .first = lull_track_iteration(track) == 0,
                                  .phase = lull_controller_phase(control->controller),
                              });
}

static void note_section(struct gpu *gpu, const struct lull_call *call, uint32_t *depth)
{
    if (call->begin) {
        if ((*depth)++ == 0)
            gpu->section_begin_ns = call->time_ns;
        return;
    }
    if (*depth == 0 || --*depth > 0)
        return;
    lull_journey_add_section(
        &gpu->journey, &(struct lull_span){gpu->section_begin_ns, call->time_ns, call->operation});
}

/* What the name of a section says of it. */
enum meaning { WAITING, COMPUTING, UNKNOWN };

static enum meaning meaning_of_name(const struct lull_control *control, const struct gpu *gpu,
                                    uint32_t name)
{
    static const char *const waiting[] = {"communication", "bubble", "idle"};
    static const char *const computing[] = {"forward", "backward"};
    char text[LULL_JOB_NAME_BYTES];

    lull_job_name(control->job, (uint32_t)gpu->state.process, name, text);
    for (unsigned i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (strcmp(text, waiting[i]) == 0)
            return WAITING;
    for (unsigned i = 0; i < sizeof(computing) / sizeof(computing[0]); i++)
        if (strcmp(text, computing[i]) == 0)
            return COMPUTING;
    return UNKNOWN;
}

/* A call of this GPU's rank, or a gap between its kernels. */
static void take_call(struct lull_control *control, uint32_t index, const struct lull_call *call)
{
    struct gpu *gpu = &control->gpus[index];

    lull_controller_take_call(control->controller, index, call);
    if (!call->is_late)
        note_section(gpu, call, &gpu->depth);
    if (call->begin && gpu->enqueueing == NULL)
        note_iteration(control, gpu, lull_controller_track(control->controller, index),
                       call->time_ns);
}

/* ---- communication on the GPU ------------------------------------------------------------ */

/* What the probes are to tell from now on: only as much as is needed. */
static void ask(struct lull_control *control, const struct gpu *gpu)
{
    uint32_t wanted = 0;

    if (!control->observe_only)
        wanted |= LULL_ASK_TIMES;
    if (!control->observe_only && lull_gap_map_wants_compute(gpu->gaps))
        wanted |= LULL_ASK_COMPUTE;
    if (lull_job_asked(control->job, (uint32_t)gpu->state.process) != wanted)
        lull_job_ask(control->job, (uint32_t)gpu->state.process, wanted);
}

static bool become_device(struct lull_control *control, struct gpu *gpu)
{
    if (gpu->gaps != NULL)
        return true;
    gpu->gaps = lull_gap_map_create(!control->exposure);
    gpu->enqueueing = lull_track_create(false);
    if (gpu->gaps != NULL && gpu->enqueueing != NULL)
        return true;
    forget_device(gpu);
    return false;
}

/* The host's side: iterations are counted here, whatever is known of the GPU's. */
static void take_enqueue(struct lull_control *control, struct gpu *gpu, uint32_t index,
                         struct lull_call *call)
{
    for (int edge = 0; edge < 2; edge++) {
        call->begin = edge == 0;
        lull_track_take(gpu->enqueueing, call);
        if (control->observe_only)
            take_call(control, index, call);
    }
    note_iteration(control, gpu, gpu->enqueueing, call->time_ns);
}

static void emit_gaps(struct lull_control *control, uint32_t index, int64_t now_ns)
{
    struct gpu *gpu = &control->gpus[index];
    struct lull_call call;

    if (gpu->gaps != NULL && lull_gap_map_fold(gpu->gaps) > 0)
        lull_controller_take_fold(control->controller, index, lull_gap_map_fold(gpu->gaps));
    while (gpu->gaps != NULL && lull_gap_map_poll(gpu->gaps, now_ns, &call))
        take_call(control, index, &call);
}

static void take_device_event(struct lull_control *control, uint32_t index,
                              const struct lull_event *event, struct lull_call *call)
{
    struct gpu *gpu = &control->gpus[index];

    if (!become_device(control, gpu))
        return;
    lull_communicators_take(&gpu->state.communicators, control->job,
                            (uint32_t)gpu->state.process, event);
    emit_gaps(control, index, event->time_ns); /* before this edge announces them anew */
    switch ((enum lull_event_kind)event->kind) {
    case LULL_EVENT_ENQUEUE:
        take_enqueue(control, gpu, index, call);
        break;
    case LULL_EVENT_KERNEL_BEGIN:
    case LULL_EVENT_KERNEL_END:
        call->begin = event->kind == LULL_EVENT_KERNEL_BEGIN;
        lull_gap_map_take_communication(gpu->gaps, call);
        break;
    case LULL_EVENT_COMPUTE:
        lull_gap_map_take_compute(gpu->gaps, event->time_ns,
                                  event->time_ns + (int64_t)event->bytes);
        break;
    case LULL_EVENT_COMPLETE:
        if (event->peer < -1)
            lull_gap_map_take_blindness(gpu->gaps);
        else
            lull_gap_map_take_complete(gpu->gaps, event->time_ns);
        break;
    default:
        break;
    }
    emit_gaps(control, index, event->time_ns);
    ask(control, gpu);
}

/* ---- a pipeline's plan ------------------------------------------------------------------- */

static void take_piloted_section(struct lull_control *control, uint32_t index,
                                 const struct lull_event *event)
{
    char name[LULL_JOB_NAME_BYTES];
    bool is_backward;

    lull_job_name(control->job, (uint32_t)control->gpus[index].state.process, event->name, name);
    is_backward = strcmp(name, "backward") == 0;
    if (is_backward || strcmp(name, "forward") == 0)
        lull_pilot_take_section(control->pilot, index, is_backward, event->kind == LULL_EVENT_END,
                                event->time_ns);
}

static void take_piloted_event(struct lull_control *control, uint32_t index,
                               const struct lull_event *event)
{
    struct lull_control_gpu *state = &control->gpus[index].state;
    const uint32_t slot = (uint32_t)state->process;
    const uint32_t wanted = lull_pilot_wants_times(control->pilot, index) ? LULL_ASK_TIMES : 0;

    if (event->kind >= LULL_EVENT_ENQUEUE) {
        lull_communicators_take(&state->communicators, control->job, slot, event);
        lull_pilot_take_event(control->pilot, index, event);
    } else if (event->operation == LULL_OPERATION_USER && /* of whatever thread */
               (event->kind == LULL_EVENT_BEGIN || event->kind == LULL_EVENT_END)) {
        take_piloted_section(control, index, event);
    }
    if (lull_job_asked(control->job, slot) != wanted)
        lull_job_ask(control->job, slot, wanted);
}

static enum lull_controller_phase phase_of(const struct lull_conductor_iteration *iteration,
                                           bool has_settled)
{
    if (has_settled)
        return LULL_PHASE_SETTLED;
    return iteration->plan < 0 ? LULL_PHASE_LEARNING : LULL_PHASE_DESCENDING;
}

/* The iterations of all GPUs are those of the first one. */
static void note_piloted_iterations(struct lull_control *control)
{
    struct lull_conductor_iteration iteration;

    while (lull_pilot_next_iteration(control->pilot, &iteration)) {
        const bool is_new = iteration.begin_ns != control->iteration_end_ns;
        struct lull_boundary boundary = {
            .time_ns = iteration.begin_ns,
            .first = true,
            .phase = phase_of(&iteration, lull_pilot_has_settled(control->pilot)),
        };

        for (uint32_t i = 0; i < control->gpu_count; i++) {
            struct lull_journey *journey = &control->gpus[i].journey;

            if (control->gpus[i].state.process < 0)
                continue;
            boundary.time_ns = iteration.begin_ns;
            boundary.first = true;
            if (is_new)
                lull_journey_add_boundary(journey, &boundary);
            boundary.time_ns = iteration.end_ns;
            boundary.first = false;
            lull_journey_add_boundary(journey, &boundary);
        }
        control->iteration_end_ns = iteration.end_ns;
        lull_pilot_record(control->pilot, &iteration);
    }
}

static void take_event(struct lull_control *control, uint32_t index, const struct lull_event *event)
{
    struct gpu *gpu = &control->gpus[index];
    struct lull_call call = {
        .time_ns = event->time_ns,
        .bytes = event->bytes,
        .communicator = event->communicator,
        .ranks = event->ranks,
        .peer = event->peer,
        .name = event->name,
        .order = event->thread,
        .operation = event->operation,
        .begin = event->kind == LULL_EVENT_BEGIN,
        .is_late = event->operation == LULL_OPERATION_POLL,
    };

    if (event->kind == LULL_EVENT_ENTER)
        gpu->state.entered_ns = event->time_ns;
    if (event->kind == LULL_EVENT_EXIT) {
        gpu->state.left_ns = event->time_ns;
        gpu->left = true;
        lull_controller_take_exit(control->controller, index);
        if (control->pilot != NULL)
            lull_pilot_take_exit(control->pilot, index);
        return;
    }
    if (control->pilot != NULL) {
        take_piloted_event(control, index, event);
        return;
    }
    if (event->kind >= LULL_EVENT_ENQUEUE) {
        take_device_event(control, index, event, &call);
        return;
    }
    /* Other threads' sections run beside the one that computes: they expose nothing. Nor do the
     * host's own where communication and computation run on the GPU. */
    if (event->thread != 0 || gpu->gaps != NULL ||
        (event->kind != LULL_EVENT_BEGIN && event->kind != LULL_EVENT_END))
        return;
    if (event->operation == LULL_OPERATION_USER) {
        enum meaning meaning = meaning_of_name(control, gpu, event->name);

        /* Computation is never lowered, and what it calls inside is seen as if it were not there.
         */
        if (meaning == COMPUTING)
            return;
        call.is_cautious = meaning == UNKNOWN;
    }
    take_call(control, index, &call);
}

static void drain(struct lull_control *control)
{
    struct lull_event events[BATCH];
    uint32_t processes = lull_job_process_count(control->job);

    for (uint32_t slot = 0; slot < processes; slot++) {
        int32_t gpu = control->gpu_of_process[slot];
        uint32_t count;

        /* Events of a process that is not bound yet wait in its ring. */
        if (slot >= control->bound)
            return;
        while ((count = lull_job_read(control->job, slot, events, BATCH)) > 0)
            for (uint32_t i = 0; gpu >= 0 && i < count; i++)
                take_event(control, (uint32_t)gpu, &events[i]);
        if (gpu >= 0)
            control->gpus[gpu].state.lost_events = lull_job_lost(control->job, slot);
    }
}

/* ---- commands and results ---------------------------------------------------------------- */

static void note_lowered(struct gpu *gpu, uint32_t mhz, int64_t now_ns)
{
    if (gpu->lowered.begin_ns != 0) {
        gpu->lowered.end_ns = now_ns;
        lull_journey_add_lowered(&gpu->journey, &gpu->lowered);
    }
    gpu->lowered = (struct lull_span){.begin_ns = mhz == 0 ? 0 : now_ns, .index = mhz};
}

static void carry_out(struct lull_control *control, const struct lull_command *command,
                      int64_t now_ns)
{
    struct gpu *gpu = &control->gpus[command->gpu];
    uint32_t mhz = command->point == 0 ? 0 : gpu->info->sm_clocks_mhz[command->point];
    struct request request = {.point = command->point,
                              .was_point = gpu->point,
                              .posted_ns = now_ns,
                              .answers_ns = command->answers_ns};

    if (!atomic_load(&gpu->armed))
        return;
    request.sequence = lull_actuator_set(control->actuator, gpu->actuator_slot, mhz,
                                         command->deadline_ns, command->valid_until_ns);
    gpu->requests[request.sequence % REQUESTS_KEPT] = request;
    gpu->point = command->point;
    gpu->expected.since_ns = 0;
    gpu->journey.switches++;
    note_lowered(gpu, mhz, now_ns);
}

static void tell_switch(struct lull_control *control, uint32_t index,
                        const struct request *request, double call_ms, double settle_ms,
                        bool failed)
{
    if (control->pilot != NULL)
        lull_pilot_take_switch(control->pilot, index, request->was_point, request->point, call_ms,
                               settle_ms, failed);
    else
        lull_controller_take_switch(control->controller, index, request->point, call_ms, settle_ms,
                                    failed);
}

/* What came of a request: settled, refused, or overtaken by the next one. */
static void take_outcome(struct lull_control *control, uint32_t index,
                         const struct lull_switch_result *result)
{
    struct gpu *gpu = &control->gpus[index];
    const struct request *request = &gpu->requests[result->sequence % REQUESTS_KEPT];
    const int64_t end_ns = result->call_begin_ns + result->call_ns;
    /* Stale: made, and undone because it had come too late. */
    const bool is_made =
        (result->status == 0 || result->status == LULL_E_STALE) && result->call_ns > 0;
    bool is_useless;

    gpu->taken = result->sequence;
    gpu->seen.sequence = 0;
    if (result->status != 0)
        gpu->journey.refused++;
    lull_driver_watch_take_result(&gpu->state.driver, result);
    is_useless = lull_driver_watch_is_fruitless(&gpu->state.driver) ||
                 result->status == -EPERM || result->status == LULL_E_UNSUPPORTED ||
                 result->status == LULL_E_NO_DEVICE;
    /* Nothing had to be written: nothing was learnt about what writing costs. */
    if (request->sequence == result->sequence && (is_made || is_useless))
        tell_switch(control, index, request, lull_ms_from_ns(end_ns - request->posted_ns),
                    result->settle_ns == LULL_SETTLE_UNKNOWN ? 0.0
                                                             : lull_ms_from_ns(result->settle_ns),
                    is_useless);
    if (result->status == 0 && result->settle_ns >= 0)
        gpu->expected = (struct lull_clock_expectation){
            .set_mhz = result->sm_mhz, .since_ns = end_ns + result->settle_ns};
    if (is_made && request->answers_ns != 0)
        lull_journey_add_reaction(&gpu->journey, result->call_begin_ns - request->answers_ns);
}

/* The next call has ended the reading back of the one before: it obeyed, or it never would. */
static void take_overtaken(struct lull_control *control, uint32_t index,
                           const struct lull_switch_result *next)
{
    struct lull_switch_result overtaken = control->gpus[index].seen;

    if (next->call_begin_ns - (overtaken.call_begin_ns + overtaken.call_ns) > obedience_ns)
        overtaken.settle_ns = LULL_SETTLE_NOT_OBEYED;
    take_outcome(control, index, &overtaken);
}

static void take_results(struct lull_control *control)
{
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct gpu *gpu = &control->gpus[i];
        struct lull_switch_result result;

        if (!atomic_load(&gpu->armed))
            continue;
        lull_actuator_result(control->actuator, gpu->actuator_slot, &result);
        if (result.sequence == 0 || result.sequence == gpu->taken)
            continue;
        if (gpu->seen.sequence != 0 && gpu->seen.sequence != result.sequence)
            take_overtaken(control, i, &result);
        if (result.status != 0 || result.settle_ns != LULL_SETTLE_UNKNOWN)
            take_outcome(control, i, &result);
        else
            gpu->seen = result;
    }
}

static void carry_out_plan(struct lull_control *control)
{
    struct lull_conductor_command commands[LULL_CONDUCTOR_MAX_GPUS];
    const int64_t now_ns = lull_now_ns();
    const uint32_t count =
        lull_pilot_poll(control->pilot, now_ns, commands, LULL_CONDUCTOR_MAX_GPUS);

    for (uint32_t i = 0; i < count; i++)
        carry_out(control,
                  &(struct lull_command){.gpu = commands[i].gpu,
                                         .point = commands[i].point,
                                         .deadline_ns = commands[i].deadline_ns,
                                         .valid_until_ns = commands[i].valid_until_ns},
                  now_ns);
    note_piloted_iterations(control);
}

static void carry_out_due(struct lull_control *control)
{
    struct lull_command commands[LULL_CONTROLLER_MAX_GPUS];
    int64_t now_ns = lull_now_ns();
    uint32_t count =
        lull_controller_poll(control->controller, now_ns, commands, LULL_CONTROLLER_MAX_GPUS);

    for (uint32_t i = 0; i < count; i++)
        carry_out(control, &commands[i], now_ns);
}

static void emit_due_gaps(struct lull_control *control, int64_t *wake_ns)
{
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        const struct gpu *gpu = &control->gpus[i];

        emit_gaps(control, i, lull_now_ns());
        if (gpu->gaps != NULL && lull_gap_map_wake_ns(gpu->gaps) < *wake_ns)
            *wake_ns = lull_gap_map_wake_ns(gpu->gaps);
    }
}

static void *loop(void *argument)
{
    struct lull_control *control = argument;

    /* The default slack of 50 us would be most of the latency that we promise. */
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    while (!atomic_load(&control->stopping)) {
        int64_t wake_ns = lull_now_ns() + idle_wait_ns;

        pthread_mutex_lock(&control->lock);
        drain(control);
        emit_due_gaps(control, &wake_ns);
        carry_out_due(control);
        if (control->pilot != NULL)
            carry_out_plan(control);
        take_results(control);
        if (control->pilot != NULL && lull_pilot_wake_ns(control->pilot) < wake_ns)
            wake_ns = lull_pilot_wake_ns(control->pilot);
        if (lull_controller_wake_ns(control->controller) < wake_ns)
            wake_ns = lull_controller_wake_ns(control->controller);
        pthread_mutex_unlock(&control->lock);
        lull_job_wait(control->job, wake_ns);
    }
    pthread_mutex_lock(&control->lock);
    drain(control);
    for (uint32_t i = 0; i < control->gpu_count; i++)
        lull_controller_take_exit(control->controller, i);
    for (uint32_t i = 0; control->pilot != NULL && i < control->gpu_count; i++)
        lull_pilot_take_exit(control->pilot, i);
    carry_out_due(control);
    if (control->pilot != NULL)
        carry_out_plan(control);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

int lull_control_start(struct lull_control *control, struct lull_error *err)
{
    int result = pthread_create(&control->thread, NULL, loop, control);

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
    lull_job_wake(control->job);
    pthread_join(control->thread, NULL);
    control->running = false;
}

/* ---- processes to GPUs ------------------------------------------------------------------- */

static void lease(struct lull_control *control, struct gpu *gpu)
{
    struct lull_band band = {
        .min_mhz = gpu->info->sm_clocks_mhz[gpu->info->sm_clock_count - 1],
        .max_mhz = gpu->info->sm_clocks_mhz[0],
    };
    struct lull_error *err = &gpu->state.refusal;

    if (control->actuator == NULL || gpu->info->sm_clock_count == 0)
        return;
    if (lull_actuator_lease(control->actuator, gpu->info->uuid, &band, &gpu->actuator_slot, err) <
        0) {
        lull_log(LULL_LOG_WARNING, "run", "GPU %u is left alone: %s", gpu->state.device, err->text);
        return;
    }
    gpu->state.leased = true;
    atomic_store(&gpu->armed, true);
}

/* True if the GPU is free for another rank: never used, or its rank has ended. */
static bool is_free(struct lull_control *control, struct gpu *gpu)
{
    struct lull_process_info info;

    if (gpu->state.process < 0 || gpu->left)
        return true;
    return lull_job_process(control->job, (uint32_t)gpu->state.process, &info) == 0 &&
           kill(info.pid, 0) < 0 && errno == ESRCH;
}

static void share(struct lull_control *control, uint32_t index)
{
    control->gpus[index].state.shared = true;
    pthread_mutex_lock(&control->lock);
    lull_controller_take_exit(control->controller, index);
    pthread_mutex_unlock(&control->lock);
}

static void bind_process(struct lull_control *control, uint32_t slot,
                         const struct lull_process_info *info)
{
    uint32_t rank = info->local_rank >= 0 ? (uint32_t)info->local_rank : slot;
    uint32_t index = rank % control->gpu_count;
    struct gpu *gpu = &control->gpus[index];
    struct lull_error err = {0};
    bool usable = true;

    if (!is_free(control, gpu)) {
        share(control, index);
        return;
    }
    if (!gpu->state.leased)
        lease(control, gpu);
    pthread_mutex_lock(&control->lock);
    if (gpu->state.process >= 0) {
        lull_controller_take_exit(control->controller, index);
        usable = lull_controller_take_start(control->controller, index);
    }
    forget_device(gpu);
    gpu->state.communicators.count = 0;
    gpu->state.process = (int32_t)slot;
    gpu->left = false;
    gpu->depth = 0;
    control->gpu_of_process[slot] = usable ? (int32_t)index : -1;
    if (control->pilot != NULL && lull_pilot_bind(control->pilot, index, info, &err) < 0)
        lull_log(LULL_LOG_WARNING, "run", "%s", err.text);
    pthread_mutex_unlock(&control->lock);
}

/* A process without a rank only counts if it takes part at all, as an MPI launcher does not. */
void lull_control_bind(struct lull_control *control)
{
    uint32_t processes = lull_job_process_count(control->job);

    while (control->bound < processes) {
        struct lull_process_info info;

        if (lull_job_process(control->job, control->bound, &info) < 0)
            return;
        if (control->gpu_count > 0)
            bind_process(control, control->bound, &info);
        pthread_mutex_lock(&control->lock);
        control->bound++;
        pthread_mutex_unlock(&control->lock);
    }
}

/* ---- for the main thread ----------------------------------------------------------------- */

static void watch_clock(struct gpu *gpu, const struct lull_sample *sample)
{
    const uint32_t needed = LULL_READING_SM_CLOCK | LULL_READING_REASONS;

    gpu->expected.highest_mhz = gpu->info->sm_clock_count > 0 ? gpu->info->sm_clocks_mhz[0] : 0;
    gpu->expected.is_limited = sample->reading.reasons != 0;
    if ((sample->reading.valid & needed) == needed && gpu->expected.since_ns != 0)
        lull_driver_watch_take_clock(&gpu->state.driver, sample->time_ns, sample->reading.sm_mhz,
                                     &gpu->expected);
}

void lull_control_sample(struct lull_control *control, uint32_t index,
                         const struct lull_sample *sample)
{
    pthread_mutex_lock(&control->lock);
    watch_clock(&control->gpus[index], sample);
    lull_journey_add_sample(&control->gpus[index].journey, sample);
    if (sample->reading.valid & LULL_READING_POWER)
        lull_controller_take_power(control->controller, index, sample->reading.power_mw * 1e-3);
    if ((sample->reading.valid & LULL_READING_REASONS) &&
        (sample->reading.reasons & throttle_reasons))
        lull_controller_take_throttle(control->controller, index);
    pthread_mutex_unlock(&control->lock);
}

void lull_control_disarm(struct lull_control *control)
{
    for (uint32_t i = 0; i < control->gpu_count; i++)
        atomic_store(&control->gpus[i].armed, false);
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

const struct lull_control_gpu *lull_control_gpu(const struct lull_control *control, uint32_t gpu)
{
    return &control->gpus[gpu].state;
}

const struct lull_journey *lull_control_journey(const struct lull_control *control, uint32_t gpu)
{
    return &control->gpus[gpu].journey;
}

struct lull_controller *lull_control_controlled(struct lull_control *control)
{
    return control->controller;
}

void lull_control_set_pilot(struct lull_control *control, struct lull_pilot *pilot)
{
    control->pilot = pilot;
    for (uint32_t i = 0; i < control->gpu_count; i++)
        *lull_pilot_known_cost(pilot, i) = *lull_controller_known_cost(control->controller, i);
}

const struct lull_pilot *lull_control_pilot(const struct lull_control *control)
{
    return control->pilot;
}

bool lull_control_has_settled(const struct lull_control *control)
{
    return control->pilot != NULL ? lull_pilot_has_settled(control->pilot)
                                  : lull_controller_has_settled(control->controller);
}

struct lull_job *lull_control_job(const struct lull_control *control)
{
    return control->job;
}
