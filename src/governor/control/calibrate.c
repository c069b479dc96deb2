/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/calibrate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "governor/control/actuator.h"
#include "base/child.h"

enum { TARGETS = 4 };

static const int64_t look_ns = 200 * LULL_NS_PER_US;
static const int64_t answer_ns = 10 * LULL_NS_PER_S; /* timeout of a driver's answer */
/* A lowered clock outlives this process by this much at most. */
static const int64_t validity_ns = 5 * LULL_NS_PER_S;
/* The command may take this long to make the GPUs busy, and this long to end after SIGTERM. */
static const int64_t patience_ns = 60 * LULL_NS_PER_S;
/* The GPUs of one command become busy at most this long after each other. */
static const int64_t company_ns = 5 * LULL_NS_PER_S;
static const int64_t grace_ns = 5 * LULL_NS_PER_S;

struct session {
    struct lull_devices *devices;
    const struct lull_calibrate_options *options;
    struct lull_calibration_record *records;
    struct lull_calibrate_outcome *outcomes;
    bool is_idle[LULL_DEVICE_MAX_GPUS]; /* as was seen last */
    bool is_over;                       /* no further measurement is possible */
    struct lull_actuator *actuator;
    struct lull_child load;
    bool has_load;
    uint32_t slots[LULL_DEVICE_MAX_GPUS];
    uint64_t sequences[LULL_DEVICE_MAX_GPUS]; /* of the requests under way */
    uint32_t done;
    uint32_t total;
};

/* ---- the command that keeps the GPUs busy ------------------------------------------------ */

/* The command's standard output goes to standard error, because standard output has the result. */
static int start_load(struct session *session, struct lull_error *err)
{
    const struct lull_child_setup setup = {.stdout_fd = STDERR_FILENO, .stderr_fd = -1};
    const int result =
        lull_child_start_as(session->options->command, NULL, &setup, &session->load, err);

    session->has_load = result == 0;
    return result;
}

static void stop_load(struct session *session)
{
    const int64_t until_ns = lull_now_ns() + grace_ns;
    int status;

    if (!session->has_load)
        return;
    lull_child_signal(&session->load, SIGTERM);
    while (!lull_child_reap(&session->load, false, &status)) {
        if (lull_now_ns() > until_ns) {
            lull_child_signal(&session->load, SIGKILL);
            lull_child_reap(&session->load, true, &status);
            return;
        }
        lull_sleep_until_ns(lull_now_ns() + 5 * LULL_NS_PER_MS);
    }
}

/* ---- busy and idle GPUs ------------------------------------------------------------------ */

/* A GPU counts as busy unless the driver reports that it is idle. */
static bool calibration_is_busy(struct session *session, uint32_t gpu)
{
    struct lull_device_reading reading;

    lull_device_read(session->devices, gpu, LULL_READING_REASONS | LULL_READING_UTILIZATION,
                     &reading);
    if ((reading.valid & LULL_READING_UTILIZATION) && reading.utilization_percent > 0)
        return true;
    return (reading.valid & LULL_READING_REASONS) ? (reading.reasons & LULL_CLOCK_REASON_IDLE) == 0
                                                  : (reading.valid & LULL_READING_UTILIZATION) == 0;
}

/* ---- skipped GPUs ------------------------------------------------------------------------ */

static bool calibration_is_in(const struct session *session, uint32_t index)
{
    return session->outcomes[index].reason.code == 0;
}

static uint32_t count_in(const struct session *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->options->gpu_count; i++)
        count += calibration_is_in(session, i);
    return count;
}

static void calibration_exclude(struct session *session, uint32_t index,
                                const struct lull_error *reason)
{
    session->outcomes[index].reason = *reason;
    session->total -= session->options->rounds - session->outcomes[index].rounds;
}

/* If every GPU is left out, the first reason is reported for all. */
static int check_any(const struct session *session, struct lull_error *err)
{
    const struct lull_error *const first = &session->outcomes[0].reason;

    if (count_in(session) > 0)
        return 0;
    return lull_error_set(err, first->code, "%s", first->text);
}

/* Finds the idle GPUs, and returns how many there are. */
static uint32_t find_idle(struct session *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->options->gpu_count; i++) {
        session->is_idle[i] = calibration_is_in(session, i) &&
                              !calibration_is_busy(session, session->options->gpus[i]);
        count += session->is_idle[i];
    }
    return count;
}

static int calibration_check_end(struct session *session, struct lull_error *err)
{
    int status;

    if (session->options->is_stopped != NULL &&
        session->options->is_stopped(session->options->context))
        return lull_error_set(err, -EINTR, "interrupted; the clocks are as they were");
    if (session->has_load && lull_child_reap(&session->load, false, &status)) {
        session->has_load = false;
        return lull_error_set(err, -EAGAIN,
                              "%s has ended (status %d) before all was measured; give a command "
                              "that runs longer, or fewer --rounds",
                              session->options->command[0], status);
    }
    return session->actuator == NULL ? 0 : lull_actuator_poll(session->actuator, err);
}

/* Checks the conditions that end the measurement, and renews the leases. */
static int calibration_poll(struct session *session, struct lull_error *err)
{
    const int result = calibration_check_end(session, err);

    session->is_over = session->is_over || result < 0;
    return result;
}

static void leave_out_idle(struct session *session)
{
    struct lull_error reason;

    for (uint32_t i = 0; i < session->options->gpu_count; i++) {
        const uint32_t gpu = session->options->gpus[i];

        if (!session->is_idle[i])
            continue;
        lull_error_set(&reason, -EAGAIN,
                       "GPU %u is idle and does not show when its clock has settled; keep it busy: "
                       "lull calibrate -- COMMAND",
                       gpu);
        calibration_exclude(session, i, &reason);
    }
}

/* Waits until the command has made its GPUs busy, and leaves the others out. */
static int wait_until_busy(struct session *session, struct lull_error *err)
{
    const int64_t end_ns = lull_now_ns() + (session->has_load ? patience_ns : 0);
    int64_t until_ns = end_ns;
    uint32_t before = count_in(session);
    uint32_t idle;

    while ((idle = find_idle(session)) > 0) {
        const int64_t now_ns = lull_now_ns();
        int result = calibration_poll(session, err);

        if (result < 0)
            return result;
        if (idle < before)
            until_ns = lull_earlier_ns(end_ns, now_ns + company_ns);
        before = idle;
        if (now_ns >= until_ns)
            break;
        lull_sleep_until_ns(now_ns + 20 * LULL_NS_PER_MS);
    }
    leave_out_idle(session);
    return check_any(session, err);
}

/* The clock of an idle GPU does not show when it has settled, so such a measurement is void. A job
 * may pause for a moment. */
static int check_still_busy(struct session *session, uint32_t index, struct lull_error *err)
{
    const int64_t until_ns = lull_now_ns() + LULL_NS_PER_S;
    const uint32_t gpu = session->options->gpus[index];

    while (!calibration_is_busy(session, gpu)) {
        const int result = calibration_poll(session, err);

        if (result < 0)
            return result;
        if (lull_now_ns() >= until_ns)
            return lull_error_set(err, -EAGAIN,
                                  "GPU %u became idle while it was measured (%u of %u rounds are "
                                  "usable); keep it busy longer: lull calibrate -- COMMAND",
                                  gpu, session->outcomes[index].rounds, session->options->rounds);
        lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
    }
    return 0;
}

/* ---- switching --------------------------------------------------------------------------- */

/* Requests a clock of one GPU; sm_mhz 0 is the reference point. */
static void calibration_post(struct session *session, uint32_t index, uint32_t sm_mhz)
{
    const int64_t now_ns = lull_now_ns();

    session->sequences[index] = lull_actuator_set(session->actuator, session->slots[index], sm_mhz,
                                                  now_ns + validity_ns, now_ns + validity_ns);
}

static bool is_final(const struct lull_switch_result *result, uint64_t sequence)
{
    return result->sequence == sequence &&
           (result->status != 0 || result->settle_ns != LULL_SETTLE_UNKNOWN);
}

/* Waits for the result of the posted request, until the clock has settled or the writer has given
 * up. */
static int calibration_await(struct session *session, uint32_t index,
                             struct lull_switch_result *result_out, struct lull_error *err)
{
    const uint32_t gpu = session->options->gpus[index];
    const int64_t until_ns = lull_now_ns() + answer_ns;

    for (;;) {
        int result;

        lull_actuator_result(session->actuator, session->slots[index], result_out);
        if (is_final(result_out, session->sequences[index]))
            break;
        result = calibration_poll(session, err);
        if (result < 0)
            return result;
        if (lull_now_ns() >= until_ns)
            return lull_error_set(err, -ETIMEDOUT,
                                  "GPU %u: the driver has not answered for 10 s; see its log", gpu);
        lull_sleep_until_ns(lull_now_ns() + look_ns);
    }
    if (result_out->status == 0)
        return 0;
    return lull_error_set(err, result_out->status,
                          "GPU %u: its SM clock could not be set (code %d); see lull gpus for what "
                          "it can do",
                          gpu, result_out->status);
}

/* A switch that had nothing to write took no time, and is left out. */
static void calibration_add(struct lull_calibration_switches *switches,
                            const struct lull_switch_result *result)
{
    if (result->call_ns == 0 || switches->count == LULL_CALIBRATION_SWITCHES)
        return;
    switches->call_ms[switches->count] = lull_ms_from_ns(result->call_ns);
    switches->settle_ms[switches->count] =
        result->settle_ns < 0 ? -1.0 : lull_ms_from_ns(result->settle_ns);
    switches->count++;
}

/* Switches a GPU down to a target and up again. */
static int measure_target(struct session *session, uint32_t index, uint32_t target_index,
                          struct lull_error *err)
{
    struct lull_calibration_target *target = &session->records[index].targets[target_index];
    struct lull_switch_result result;
    int code;

    calibration_post(session, index, target->sm_mhz);
    code = calibration_await(session, index, &result, err);
    if (code < 0)
        return code;
    calibration_add(&target->directions[LULL_DIRECTION_DOWN], &result);
    calibration_post(session, index, 0);
    code = calibration_await(session, index, &result, err);
    if (code < 0)
        return code;
    calibration_add(&target->directions[LULL_DIRECTION_UP], &result);
    return 0;
}

/* Switches a GPU to each target and back while it is busy. If it is idle, the round is
 * discarded. */
static int measure_round(struct session *session, uint32_t index, struct lull_error *err)
{
    struct lull_calibration_record *const record = &session->records[index];
    const struct lull_calibration_record before = *record;
    int result = 0;

    for (uint32_t i = 0; i < record->target_count && result == 0; i++)
        result = measure_target(session, index, i, err);
    if (result == 0)
        result = check_still_busy(session, index, err);
    if (result < 0)
        *record = before;
    else
        session->outcomes[index].rounds++;
    return result;
}

/* Posts one clock to every GPU; target_index -1: the reference point. */
static int switch_all(struct session *session, int target_index, int64_t *last_end_ns_out,
                      struct lull_error *err)
{
    const uint32_t count = session->options->gpu_count;
    int64_t last_ns = 0;

    for (uint32_t i = 0; i < count; i++)
        if (calibration_is_in(session, i))
            calibration_post(session, i,
                             target_index < 0 ? 0
                                              : session->records[i].targets[target_index].sm_mhz);
    for (uint32_t i = 0; i < count; i++) {
        struct lull_switch_result result;
        int code;

        if (!calibration_is_in(session, i))
            continue;
        code = calibration_await(session, i, &result, err);
        if (code < 0)
            return code;
        if (result.call_begin_ns + result.call_ns > last_ns)
            last_ns = result.call_begin_ns + result.call_ns;
    }
    *last_end_ns_out = last_ns;
    return 0;
}

static void add_together(struct session *session, double ms)
{
    for (uint32_t i = 0; i < session->options->gpu_count; i++) {
        struct lull_calibration_record *const record = &session->records[i];

        if (!calibration_is_in(session, i))
            continue;
        record->together_gpus = count_in(session);
        record->together_ms[record->together_count++] = ms;
    }
}

/* Lowers all GPUs that are measured at once: their calls queue in the driver, and the last of them
 * waits for all others. */
static int measure_together(struct session *session, struct lull_error *err)
{
    for (uint32_t round = 0; round < session->options->rounds; round++) {
        int64_t posted_ns;
        int64_t end_ns;
        int result;

        /* The writer lowers no GPU right after it has raised it. */
        lull_sleep_until_ns(lull_now_ns() + 50 * LULL_NS_PER_MS);
        posted_ns = lull_now_ns();
        result = switch_all(session, 0, &end_ns, err);
        if (result < 0)
            return result;
        add_together(session, lull_ms_from_ns(end_ns - posted_ns));
        result = switch_all(session, -1, &end_ns, err);
        if (result < 0)
            return result;
        if (session->options->progress != NULL)
            session->options->progress(session->options->context, ++session->done, session->total);
    }
    return 0;
}

/* ---- the measurement --------------------------------------------------------------------- */

/* Spreads the targets evenly over the list of clocks, because a descent steps through that list. */
static void calibration_describe(struct session *session, uint32_t index)
{
    const struct lull_device_info *info =
        lull_device_info(session->devices, session->options->gpus[index]);
    struct lull_calibration_record *record = &session->records[index];
    const uint32_t last = info->sm_clock_count - 1;
    uint32_t before = 0;

    *record = (struct lull_calibration_record){
        .measured_s = (int64_t)time(NULL),
        .reference_mhz = info->sm_clocks_mhz[0],
    };
    snprintf(record->gpu_name, sizeof(record->gpu_name), "%s", info->name);
    snprintf(record->driver_version, sizeof(record->driver_version), "%s",
             lull_devices_driver_version(session->devices));
    for (uint32_t i = 1; i <= TARGETS; i++) {
        const uint32_t place = last * i / TARGETS;

        if (place != before)
            record->targets[record->target_count++].sm_mhz = info->sm_clocks_mhz[place];
        before = place;
    }
}

static int calibration_lease(struct session *session, uint32_t index, struct lull_error *err)
{
    const uint32_t gpu = session->options->gpus[index];
    const struct lull_device_info *info = lull_device_info(session->devices, gpu);
    struct lull_band band;

    if (info->sm_clock_count < 2)
        return lull_error_set(err, LULL_E_UNSUPPORTED, "GPU %u: it has no SM clocks to choose from",
                              gpu);
    band =
        (struct lull_band){info->sm_clocks_mhz[info->sm_clock_count - 1], info->sm_clocks_mhz[0]};
    return lull_actuator_lease(session->actuator, info->uuid, &band, &session->slots[index], err);
}

static int calibration_prepare(struct session *session, struct lull_error *err)
{
    const struct lull_calibrate_options *options = session->options;
    int result;

    if (options->no_daemon)
        result = lull_actuator_open_local(session->devices, options->runtime_dir,
                                          &session->actuator, err);
    else
        result = lull_actuator_open_daemon(options->runtime_dir, &session->actuator, err);
    if (result < 0) {
        session->actuator = NULL;
        return result;
    }
    for (uint32_t i = 0; i < options->gpu_count; i++) {
        struct lull_error reason = {0};

        if (calibration_lease(session, i, &reason) < 0)
            calibration_exclude(session, i, &reason);
        else
            calibration_describe(session, i);
    }
    result = check_any(session, err);
    if (result == 0 && options->command != NULL)
        result = start_load(session, err);
    if (result < 0)
        return result;
    return wait_until_busy(session, err);
}

/* Measures in rounds over all GPUs, so that a stopped measurement has results for every GPU. */
static int calibration_measure(struct session *session, struct lull_error *err)
{
    const struct lull_calibrate_options *options = session->options;

    for (uint32_t round = 0; round < options->rounds; round++)
        for (uint32_t i = 0; i < options->gpu_count; i++) {
            struct lull_error reason = {0};
            int result;

            if (!calibration_is_in(session, i))
                continue;
            result = measure_round(session, i, &reason);
            if (session->is_over)
                return lull_error_set(err, reason.code, "%s", reason.text);
            if (result < 0)
                calibration_exclude(session, i, &reason);
            else if (options->progress != NULL)
                options->progress(options->context, ++session->done, session->total);
        }
    if (count_in(session) < 2)
        return check_any(session, err);
    session->total += options->rounds;
    return measure_together(session, err);
}

int lull_calibrate(struct lull_devices *devices, const struct lull_calibrate_options *options,
                   struct lull_calibration_record *records_out,
                   struct lull_calibrate_outcome *outcomes_out, struct lull_error *err)
{
    struct session session = {
        .devices = devices,
        .options = options,
        .records = records_out,
        .outcomes = outcomes_out,
        .total = options->rounds * options->gpu_count,
    };
    int result;

    memset(outcomes_out, 0, options->gpu_count * sizeof(outcomes_out[0]));
    result = calibration_prepare(&session, err);
    if (result < 0)
        goto close;
    result = calibration_measure(&session, err);
close:
    lull_actuator_close(session.actuator);
    stop_load(&session);
    return result;
}
