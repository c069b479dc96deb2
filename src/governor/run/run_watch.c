/*
 * This thread's loop (libuv) while the child runs. It handles the child's end, signals, sampling,
 * heartbeats and progress.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/run/run_pass.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "governor/run/run_progress.h"

enum {
    TICK_MS = 50,
    SAMPLE_TICKS = 2,
    PEER_TICKS = 1,
    LIVE_TICKS = 4,
    PROGRESS_TICKS = 10,
    ENERGY_TICKS = 20,
    SCALAR_TICKS = 20,
    HANG_TICKS = 10,
    WITNESS_TICKS = 4
};
/* Interval of the logged readings of a server's GPUs: 12 days of them are kept. */
enum { SERVING_LOG_MS = 1000 };
/* Timeout for the readings at the begin and at the end of a job. Together with closing the actuator
 * it must fit into the 2 s after which `lull run` ends. 64 GPUs with five readings each take less
 * if a reading takes a millisecond. */
enum { EDGE_MS = 400 };

static void run_watch_close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void run_watch_end(struct lull_run_pass *pass)
{
    pass->ended = true;
    uv_walk(&pass->loop, run_watch_close_handle, NULL);
}

static bool has_attached_ended(const struct lull_run_pass *pass)
{
    const int64_t duration_ns = pass->run->options->duration_ns;
    const int64_t now_ns = lull_now_ns();

    return (duration_ns > 0 && now_ns - pass->begin_ns >= duration_ns) ||
           lull_serving_has_ended(pass->serving, now_ns);
}

static void run_watch_check_end(struct lull_run_pass *pass)
{
    if (pass->ended)
        return;
    if (pass->run->options->is_attached ? has_attached_ended(pass)
                                        : lull_child_reap(&pass->child, false, &pass->status))
        run_watch_end(pass);
}

static void on_child(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    run_watch_check_end(handle->data);
}

static void run_watch_on_signal(uv_poll_t *handle, int status, int events)
{
    struct lull_run_pass *pass = handle->data;

    (void)status;
    (void)events;
    if (!pass->run->options->is_attached)
        lull_job_signals_pass_on(&pass->run->signals, &pass->child);
    else if (lull_job_signals_ask_for_end(&pass->run->signals) && !pass->ended)
        run_watch_end(pass);
}

/* Returns the fields to read of a GPU. Without a rank, only its energy is needed. As soon as it has
 * a rank, energy is read, so that it is known from the first iteration on. */
static uint32_t wanted_of(struct lull_run_pass *pass, uint32_t gpu, bool energy)
{
    const bool is_bound = lull_control_gpu(pass->control, gpu)->process >= 0;
    uint32_t wanted = LULL_READING_POWER;

    energy = energy || (is_bound && !pass->has_energy[gpu]);
    if (!is_bound && !energy)
        wanted = 0;
    if (is_bound)
        wanted |= LULL_READING_SM_CLOCK | LULL_READING_REASONS | LULL_READING_XIDS;
    if (energy)
        wanted |= LULL_READING_ENERGY | LULL_READING_TEMPERATURE | LULL_READING_POWER_LIMIT;
    if (lull_control_wants_profiles(pass->control, gpu, energy))
        wanted |= LULL_READING_PROFILES;
    if (lull_control_wants_utilization(pass->control, gpu, lull_now_ns()))
        wanted |= LULL_READING_UTILIZATION;
    if (pass->limits != NULL)
        wanted |= lull_limits_wanted(pass->limits, pass->control, gpu, lull_now_ns());
    if (pass->serving != NULL)
        wanted |= lull_serving_wanted(pass->serving, gpu, lull_now_ns());
    return wanted;
}

/* Begins to read the GPUs, unless the sampler is still busy with them. */
static void sampler_request(struct lull_run_pass *pass, bool energy)
{
    struct lull_sampler_round round = {0};

    for (uint32_t i = 0; i < pass->run->gpu_count; i++)
        round.wanted[i] = wanted_of(pass, i, energy);
    round.lists = lull_control_wants_lists(pass->control, lull_now_ns()) ||
                  (pass->serving != NULL && lull_serving_wants_lists(pass->serving, lull_now_ns()));
    if (!lull_sampler_ask(pass->run->sampler, &round))
        return;
    for (uint32_t i = 0; i < pass->run->gpu_count; i++)
        pass->has_energy[i] = (round.wanted[i] & LULL_READING_SM_CLOCK) != 0 &&
                              (pass->has_energy[i] || (round.wanted[i] & LULL_READING_ENERGY) != 0);
}

static void take_list(struct lull_run_pass *pass, uint32_t gpu,
                      const struct lull_device_processes *list)
{
    lull_control_take_list(pass->control, gpu, list);
    if (pass->serving != NULL)
        lull_serving_take_list(pass->serving, gpu, list, pass->child.pid, lull_now_ns());
}

static void take_lists(struct lull_run_pass *pass)
{
    struct lull_device_processes list;
    uint32_t gpu;

    while (pass->run->sampler != NULL && lull_sampler_take_list(pass->run->sampler, &gpu, &list))
        take_list(pass, gpu, &list);
}

/* Takes the lists of processes on each GPU, and binds new processes to their GPUs. */
static void bind_processes(struct lull_run_pass *pass)
{
    take_lists(pass);
    lull_control_bind(pass->control);
}

/* Returns whether a reading goes into the run log. Servers run for weeks, so theirs are thinned
 * out. */
static bool is_logged(struct lull_run_pass *pass, uint32_t gpu, int64_t time_ns)
{
    if (pass->serving == NULL)
        return true;
    if (time_ns - pass->logged_ns[gpu] < SERVING_LOG_MS * LULL_NS_PER_MS)
        return false;
    pass->logged_ns[gpu] = time_ns;
    return true;
}

static void run_watch_take_samples(struct lull_run_pass *pass)
{
    struct lull_sample sample;
    uint32_t gpu;
    uint32_t wanted;

    if (pass->accounting != NULL)
        lull_accounting_enter(pass->accounting);
    while (lull_sampler_take(pass->run->sampler, &gpu, &wanted, &sample)) {
        if ((wanted & LULL_READING_SM_CLOCK) != 0 && is_logged(pass, gpu, sample.time_ns))
            lull_control_sample(pass->control, gpu, &sample);
        lull_run_live_take(&pass->live, gpu, wanted, &sample.reading);
        if (pass->limits != NULL)
            lull_limits_take(pass->limits, gpu, wanted, &sample);
        if (pass->serving != NULL)
            lull_serving_take(pass->serving, gpu, wanted, &sample);
        if (pass->accounting != NULL)
            lull_accounting_take(pass->accounting, gpu, &sample);
    }
}

static void run_watch_check_hang(struct lull_run_pass *pass)
{
    struct lull_managed_run *run = pass->run;
    struct lull_error err = {0};
    uint32_t gpu;
    char text[160];

    if (!lull_sampler_is_stuck(run->sampler, lull_now_ns(), &gpu))
        return;
    snprintf(text, sizeof(text),
             "GPU %u: the driver does not return from a reading; the job continues, and its GPUs' "
             "power is unknown until the driver returns",
             run->gpus[gpu]);
    lull_run_note(run, text);
    if (pass->limits == NULL)
        return;
    lull_limits_go_blind(pass->limits, pass->control, &err);
    if (err.code != 0)
        lull_run_note(run, err.text);
}

void lull_run_pass_sample(struct lull_run_pass *pass)
{
    const int64_t until_ns = lull_now_ns() + EDGE_MS * LULL_NS_PER_MS;
    struct lull_managed_run *run = pass->run;
    uint32_t gpu;

    if (pass->control == NULL || run->sampler == NULL ||
        lull_sampler_is_stuck(run->sampler, lull_now_ns(), &gpu))
        return;
    if (lull_sampler_wait(run->sampler, until_ns)) {
        run_watch_take_samples(pass);
        sampler_request(pass, true);
        lull_sampler_wait(run->sampler, until_ns);
    }
    run_watch_take_samples(pass);
}

/* Renews the leases. Power limits that were lost with them are requested again. */
static void run_watch_heartbeat(struct lull_run_pass *pass)
{
    struct lull_error text = {0};
    const enum lull_run_leases_change change =
        lull_run_leases_tick(&pass->run->leases, pass->control, lull_now_ns(), &text);

    if (change == LULL_RUN_LEASES_KEPT)
        return;
    lull_run_note(pass->run, text.text);
    if (change == LULL_RUN_LEASES_BACK && pass->limits != NULL)
        lull_limits_resume(pass->limits, pass->control);
    if (change == LULL_RUN_LEASES_BACK && pass->smoothing != NULL)
        lull_power_smoothing_resume(pass->smoothing, pass->control);
    if (change == LULL_RUN_LEASES_BACK && pass->serving != NULL)
        lull_serving_resume(pass->serving);
}

/* Pauses or continues, as requested by a live view. */
static void run_watch_apply_pause(struct lull_run_pass *pass)
{
    struct lull_run_leases *const leases = &pass->run->leases;
    enum lull_live_asked asked;

    if (!lull_run_live_take_request(&pass->live, &asked) || pass->observe_only)
        return;
    if (asked == LULL_LIVE_PAUSE) {
        pass->was_paused = true;
        if (lull_run_leases_pause(leases, pass->control) < 0)
            pass->run->is_driver_stuck = true;
        lull_run_note(pass->run,
                      "paused by lull top, or by the job to set power limits itself: it continues "
                      "with its GPUs at the reference, not leased, until it is resumed");
    } else {
        lull_run_leases_resume(leases, lull_now_ns());
    }
    lull_run_live_show(pass, lull_now_ns());
}

static bool is_profiling(const struct lull_run_pass *pass)
{
    bool is_done = true;

    if (pass->online != NULL && pass->runner != NULL && !pass->observe_only)
        lull_online_iterations(pass->online, &is_done);
    return !is_done;
}

static void run_watch_profile(struct lull_run_pass *pass)
{
    struct lull_error err = {0};

    lull_online_tick(pass->online, pass->control, pass->runner, &err);
    if (err.code != 0)
        lull_run_note(pass->run, err.text);
}

static void limit_power(struct lull_run_pass *pass)
{
    struct lull_error err = {0};

    lull_limits_tick(pass->limits, pass->control, &err);
    if (err.code != 0)
        lull_run_note(pass->run, err.text);
}

static void bound_swings(struct lull_run_pass *pass)
{
    struct lull_error err = {0};

    lull_power_smoothing_tick(pass->smoothing, pass->control, &err);
    if (err.code != 0)
        lull_run_note(pass->run, err.text);
}

/* A search for a power limit reads more often than all others. */
static bool is_sample_due(const struct lull_run_pass *pass)
{
    const int64_t now_ns = lull_now_ns();
    bool is_due = pass->ticks % SAMPLE_TICKS == 0 ||
                  lull_control_wants_lists(pass->control, now_ns) ||
                  lull_control_is_parked(pass->control);

    for (uint32_t i = 0; pass->limits != NULL && i < pass->run->gpu_count; i++)
        is_due = is_due || lull_limits_wanted(pass->limits, pass->control, i, now_ns) != 0;
    return is_due;
}

static void tick_samples(struct lull_run_pass *pass)
{
    run_watch_take_samples(pass);
    if (is_sample_due(pass))
        sampler_request(pass, pass->runner != NULL || pass->ticks % ENERGY_TICKS == 0);
    run_watch_check_hang(pass);
}

/* Examines the command's processes while none has joined, at growing intervals: after 0.2 s, 0.4
 * s... */
static void run_watch_find_ranks(struct lull_run_pass *pass)
{
    const bool is_due = pass->ticks >= WITNESS_TICKS && (pass->ticks & (pass->ticks - 1)) == 0;

    if (is_due && pass->child.pid > 0 && lull_event_segment_process_count(pass->job) == 0)
        lull_run_witness_look(&pass->witness, pass->child.pid);
}

static void on_tick(uv_timer_t *timer)
{
    struct lull_run_pass *pass = timer->data;

    if (pass->control != NULL) {
        bind_processes(pass);
        run_watch_find_ranks(pass);
        if (pass->peers != NULL && pass->ticks % PEER_TICKS == 0)
            lull_peers_tick(pass->peers, pass->control, pass->run->devices, lull_now_ns());
        if (pass->run->sampler != NULL)
            tick_samples(pass);
        if (pass->ticks % SAMPLE_TICKS == 0 && is_profiling(pass))
            run_watch_profile(pass);
        if (pass->response != NULL && !is_profiling(pass))
            lull_straggler_response_tick(pass->response, pass->control, pass->runner);
        if (pass->limits != NULL && !pass->run->leases.is_lost)
            limit_power(pass);
        if (pass->smoothing != NULL && !pass->run->leases.is_lost)
            bound_swings(pass);
        if (pass->accounting != NULL && pass->ticks % ENERGY_TICKS == 0)
            lull_accounting_read_node(pass->accounting);
        if (!pass->observe_only && pass->ticks % ENERGY_TICKS == 0)
            lull_run_progress_measure_profile(pass, lull_now_ns());
        run_watch_apply_pause(pass);
        if (pass->ticks % HANG_TICKS == 0)
            lull_run_hangs_tick(pass, lull_now_ns());
        if (pass->ticks % SCALAR_TICKS == 0)
            lull_run_pass_report_scalars(pass);
        if (!pass->observe_only)
            run_watch_heartbeat(pass);
        if (pass->ticks % LIVE_TICKS == 0)
            lull_run_live_show(pass, lull_now_ns());
        if (pass->ticks % PROGRESS_TICKS == 0)
            lull_run_progress_show(pass, lull_now_ns());
    }
    pass->ticks++;
    run_watch_check_end(pass);
}

/* A server's load changes within milliseconds, and readings wait for no tick. */
static void on_serving_tick(uv_timer_t *timer)
{
    struct lull_run_pass *const pass = timer->data;
    const int64_t now_ns = lull_now_ns();
    struct lull_error note;
    bool is_due;

    if (pass->run->sampler != NULL) {
        take_lists(pass);
        run_watch_take_samples(pass);
        is_due = lull_serving_wants_lists(pass->serving, now_ns);
        for (uint32_t i = 0; i < pass->run->gpu_count; i++)
            is_due = is_due || lull_serving_wanted(pass->serving, i, now_ns) != 0;
        if (is_due)
            sampler_request(pass, false);
    }
    lull_serving_tick(pass->serving, pass->accounting, now_ns, &note);
    if (note.code != 0)
        lull_run_note(pass->run, note.text);
}

void lull_run_pass_watch(struct lull_run_pass *pass)
{
    pass->begin_ns = lull_now_ns();
    uv_loop_init(&pass->loop);
    uv_timer_init(&pass->loop, &pass->timer);
    pass->timer.data = pass;
    uv_timer_start(&pass->timer, on_tick, 0, TICK_MS);
    if (pass->serving != NULL) {
        uv_timer_init(&pass->loop, &pass->serving_timer);
        pass->serving_timer.data = pass;
        uv_timer_start(&pass->serving_timer, on_serving_tick, 0, LULL_SERVING_TICK_MS);
    }
    if (pass->run->signals.fd >= 0) {
        uv_poll_init(&pass->loop, &pass->signals, pass->run->signals.fd);
        pass->signals.data = pass;
        uv_poll_start(&pass->signals, UV_READABLE, run_watch_on_signal);
    }
    if (!pass->run->options->is_attached && pass->child.pidfd >= 0) {
        uv_poll_init(&pass->loop, &pass->child_poll, pass->child.pidfd);
        pass->child_poll.data = pass;
        uv_poll_start(&pass->child_poll, UV_READABLE, on_child);
    }
    uv_run(&pass->loop, UV_RUN_DEFAULT);
    uv_loop_close(&pass->loop);
}
