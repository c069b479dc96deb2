/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/serving.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "base/process.h"
#include "core/switching/switch_cost.h"
#include "governor/serving/metrics_names.h"
#include "governor/serving/serving_state.h"

/* Intervals between readings: of metrics and of all fields of a GPU; and of the fields that show
 * work on a parked GPU. The latter is most of the delay of the first work that Lull adds to the
 * sensors' own (0.1 s); each reading takes a call of the driver of about 1 ms. */
static const int64_t period_ns = 100 * LULL_NS_PER_MS;
static const int64_t fast_period_ns = 20 * LULL_NS_PER_MS;

/* Longest time from the first work to the tick that acts on it: a refresh of the energy counter
 * (0.1 s), an interval of readings, two ticks, and 10 ms for calls of the driver. */
static const double detection_s = 0.15;

/* Loading a large model takes minutes, in which its server does not answer. Default: a wrong
 * address is reported after this time. */
static const int64_t start_ns = 300 * LULL_NS_PER_S;

static const int64_t list_period_ns = 2 * LULL_NS_PER_S;

void lull_serving_options_default(struct lull_serving_options *options)
{
    *options = (struct lull_serving_options){.start_ns = start_ns,
                                             .wake_ns = 50 * LULL_NS_PER_MS,
                                             .park_after_ns = 500 * LULL_NS_PER_MS};
}

/* ---- life -------------------------------------------------------------------------------- */

/* The latencies that the objective does not bound: a pool may lack them. */
static uint32_t find_unused(const struct lull_serving_options *options)
{
    uint32_t unused = 0;

    if (!options->has_objective)
        return 0;
    if (!isfinite(options->objective.ttft_s))
        unused |= UINT32_C(1) << LULL_METRICS_TTFT;
    if (!isfinite(options->objective.tpot_s))
        unused |= UINT32_C(1) << LULL_METRICS_TPOT | UINT32_C(1) << LULL_METRICS_ITL;
    return unused;
}

static int begin_steps(struct lull_serving *serving, struct lull_error *err)
{
    lull_cadence_init(&serving->cadence, serving->options->objective.tpot_s);
    if (lull_control_watch_steps(serving->control) < 0)
        return lull_error_set(err, -ENOMEM, "no memory for the server's steps");
    return 0;
}

int lull_serving_create(const struct lull_serving_options *options, struct lull_control *control,
                        struct lull_serving **serving_out, struct lull_error *err)
{
    struct lull_serving *const serving = calloc(1, sizeof(*serving));
    const struct lull_metrics_config metrics = {.address = options->metrics,
                                                .names_path = options->metric_names,
                                                .period_ns = period_ns,
                                                .unused = find_unused(options),
                                                .start_ns = options->start_ns,
                                                .only_parks = !options->has_objective};
    int result = 0;

    if (serving == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to manage a server");
    serving->options = options;
    serving->control = control;
    serving->gpu_count = lull_control_gpu_count(control);
    serving->begin_ns = lull_now_ns();
    serving->tick_ns = serving->begin_ns;
    serving->energy_j = (double)NAN;
    if (options->metrics != NULL)
        result = lull_metrics_open(&metrics, &serving->metrics, err);
    else if (lull_serving_is_by_steps(options))
        result = begin_steps(serving, err);
    if (result < 0) {
        lull_serving_destroy(serving);
        return result;
    }
    *serving_out = serving;
    return 0;
}

void lull_serving_destroy(struct lull_serving *serving)
{
    if (serving == NULL)
        return;
    lull_metrics_close(serving->metrics);
    lull_serving_controller_destroy(serving->controller);
    free(serving);
}

/* ---- the GPUs of the server -------------------------------------------------------------- */

double lull_serving_latency_s(const struct lull_serving *serving)
{
    double latency_ms = 0.0;
    double calls_ms = 0.0;

    lull_control_lock(serving->control);
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const struct lull_switch_cost *const cost =
            lull_controller_look_gpu(lull_control_controller(serving->control), i).switch_cost;

        if (!serving->gpus[i].is_served)
            continue;
        latency_ms = fmax(latency_ms, lull_switch_cost_total_ms(cost, LULL_DIRECTION_UP, 0.99));
        /* The driver serves the calls for the GPUs of a node one after the other. */
        if (calls_ms > 0.0)
            latency_ms += calls_ms;
        calls_ms = lull_switch_cost_call_ms(cost, LULL_DIRECTION_UP, 0.5);
    }
    lull_control_unlock(serving->control);
    return latency_ms * 1e-3;
}

/* With another GPU the calls of all take longer, so each may get another clock. */
static void choose_park_clocks(struct lull_serving *serving)
{
    const double wake_s = (double)serving->options->wake_ns * 1e-9;

    serving->blind_s = detection_s + lull_serving_latency_s(serving);
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const struct lull_device_info *const info = lull_control_info(serving->control, i);

        if (serving->gpus[i].is_served)
            serving->gpus[i].park_mhz = lull_park_clock(info->sm_clocks_mhz, info->sm_clock_count,
                                                        serving->blind_s, wake_s);
    }
}

void lull_serving_adopt(struct lull_serving *serving, uint32_t gpu)
{
    serving->gpus[gpu].is_served = true;
    choose_park_clocks(serving);
    /* Its clocks, power and number of GPUs are another server's. */
    lull_serving_controller_destroy(serving->controller);
    serving->controller = NULL;
}

int lull_serving_lease_all(struct lull_serving *serving, struct lull_error *err)
{
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        struct lull_error reason = {0};
        const int result = lull_control_lease(serving->control, i, &reason);

        if (result < 0)
            return lull_error_set(err, result, "GPU %u: %.200s",
                                  lull_control_gpu(serving->control, i)->device, reason.text);
        lull_serving_adopt(serving, i);
    }
    return 0;
}

static bool has_descendant(const struct lull_device_processes *list, pid_t server)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (lull_process_descends_from(list->pids[i], server))
            return true;
    return false;
}

/* Notes since when the GPUs have no process. */
static void note_presence(struct lull_serving *serving, int64_t now_ns)
{
    bool has_any = false;

    for (uint32_t i = 0; i < serving->gpu_count; i++)
        has_any = has_any || serving->gpus[i].has_processes;
    serving->had_processes = serving->had_processes || has_any;
    if (has_any)
        serving->absent_ns = 0;
    else if (serving->absent_ns == 0)
        serving->absent_ns = now_ns;
}

void lull_serving_take_list(struct lull_serving *serving, uint32_t gpu,
                            const struct lull_device_processes *list, pid_t server, int64_t now_ns)
{
    struct lull_serving_gpu *const served = &serving->gpus[gpu];
    struct lull_error err = {0};

    serving->listed_ns = now_ns;
    /* An unknown list is no evidence that the server has ended. */
    served->has_processes = !list->is_known || list->count > 0;
    note_presence(serving, now_ns);
    serving->is_blind_list = !list->is_known || list->pid_space != lull_process_pid_space();
    if (server <= 0 || served->is_served || serving->is_blind_list || !has_descendant(list, server))
        return;
    /* A process that loads a probe has leased it already. */
    if (lull_control_gpu(serving->control, gpu)->leased ||
        lull_control_lease(serving->control, gpu, &err) == 0)
        lull_serving_adopt(serving, gpu);
}

bool lull_serving_wants_lists(const struct lull_serving *serving, int64_t now_ns)
{
    return serving->listed_ns == 0 || now_ns - serving->listed_ns >= list_period_ns;
}

bool lull_serving_has_ended(const struct lull_serving *serving, int64_t now_ns)
{
    const int64_t end_ns = LULL_SERVING_END_S * LULL_NS_PER_S;

    return serving->had_processes && serving->absent_ns != 0 &&
           now_ns - serving->absent_ns >= end_ns && now_ns - serving->metrics_ns >= end_ns;
}

/* ---- readings ---------------------------------------------------------------------------- */

uint32_t lull_serving_wanted(const struct lull_serving *serving, uint32_t gpu, int64_t now_ns)
{
    const struct lull_serving_gpu *const served = &serving->gpus[gpu];

    if (!served->is_served)
        return 0;
    if (now_ns - served->full_ns >= period_ns - fast_period_ns / 2)
        return LULL_IDLE_WATCH_FIELDS | LULL_READING_SM_CLOCK;
    if (served->park.is_parked && now_ns - served->read_ns >= fast_period_ns - fast_period_ns / 4)
        return LULL_IDLE_WATCH_FAST;
    return 0;
}

void lull_serving_take(struct lull_serving *serving, uint32_t gpu, uint32_t wanted,
                       const struct lull_sample *sample)
{
    struct lull_serving_gpu *const served = &serving->gpus[gpu];
    const struct lull_device_reading *const reading = &sample->reading;
    enum lull_idle_sign sign;

    if (!served->is_served)
        return;
    served->read_ns = sample->time_ns;
    served->is_lost =
        (wanted & LULL_IDLE_WATCH_FAST) != 0 && (reading->valid & wanted & LULL_READING_ALL) == 0;
    sign = lull_idle_watch_take(&served->watch, sample->time_ns, wanted, reading);
    if (sign != LULL_IDLE_SIGN_NONE)
        served->sign = sign;
    if ((wanted & LULL_READING_UTILIZATION) != 0)
        served->full_ns = sample->time_ns;
    if ((wanted & reading->valid & LULL_READING_SM_CLOCK) != 0)
        served->read_mhz = reading->sm_mhz;
    if ((wanted & reading->valid & LULL_READING_POWER) != 0 && sign == LULL_IDLE_SIGN_NONE)
        lull_park_take_power(&served->park, sample->time_ns, reading->power_mw * 1e-3);
}

/* Takes the energy of the served GPUs. */
static void sum_energy(struct lull_serving *serving, const struct lull_accounting *accounting)
{
    double energy_j = accounting == NULL ? (double)NAN : 0.0;
    uint32_t served = 0;
    int64_t time_ns = 0;

    for (uint32_t i = 0; accounting != NULL && i < serving->gpu_count; i++) {
        struct lull_accounting_so_far so_far;

        if (!serving->gpus[i].is_served)
            continue;
        so_far = lull_accounting_so_far(accounting, i);
        if (!so_far.is_known)
            so_far.energy_j = (double)NAN;
        lull_joint_energy_take(&serving->joint_energy, served++, so_far.time_ns, so_far.energy_j);
        energy_j += so_far.energy_j;
    }
    serving->energy_j = energy_j;
    energy_j = lull_joint_energy_find(&serving->joint_energy, &time_ns);
    if (serving->controller == NULL || (!isnan(energy_j) && time_ns <= serving->energy_ns))
        return;
    serving->energy_ns = time_ns;
    lull_serving_controller_take_energy(serving->controller, time_ns, energy_j);
}

/* The controller judges the age of readings by the distance at which they come. */
static void follow_distance(struct lull_serving *serving)
{
    struct lull_metrics_state state;

    lull_metrics_state(serving->metrics, &state);
    lull_serving_controller_set_period(serving->controller, state.distance_ns);
}

static void take_metrics(struct lull_serving *serving)
{
    struct lull_serving_reading reading;

    while (serving->metrics != NULL && lull_metrics_take(serving->metrics, &reading)) {
        serving->metrics_ns = reading.time_ns;
        lull_serving_figures_take(&serving->figures, &reading, serving->energy_j);
        if (serving->controller != NULL) {
            follow_distance(serving);
            lull_serving_controller_take(serving->controller, &reading);
        }
        if (!(reading.running + reading.waiting > 0.0))
            continue;
        for (uint32_t i = 0; i < serving->gpu_count; i++)
            lull_idle_watch_note_work(&serving->gpus[i].watch, reading.time_ns);
    }
}

/* ---- the controller ---------------------------------------------------------------------- */

/* Chooses clocks evenly between the highest and the lowest one, both included. Returns how many. */
static uint32_t choose_clocks(const struct lull_device_info *info,
                              double clocks_mhz[LULL_SERVING_CLOCKS])
{
    const uint32_t count = lull_min_u32(info->sm_clock_count, LULL_SERVING_CLOCKS);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t place = count > 1 ? i * (info->sm_clock_count - 1) / (count - 1) : 0;

        clocks_mhz[i] = info->sm_clocks_mhz[place];
    }
    return count;
}

/* Creates the controller for the GPUs that are served now. The first one stands for all. */
static void create_controller(struct lull_serving *serving)
{
    const double latency_s = lull_serving_latency_s(serving);
    struct lull_serving_config config = {
        .objective = serving->options->objective,
        .period_ns = period_ns,
        .latency_ns = (int64_t)(latency_s * 1e9),
        .park_after_ns = serving->options->park_after_ns,
        .wake_s = (double)serving->options->wake_ns * 1e-9,
        .seed = (uint64_t)lull_now_ns(),
    };
    const struct lull_device_info *info = NULL;
    const char *borrower;

    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        if (!serving->gpus[i].is_served)
            continue;
        if (info == NULL)
            info = lull_control_info(serving->control, i);
        config.gpu_count++;
    }
    if (info == NULL || info->sm_clock_count == 0)
        return;
    config.curve = lull_device_curve_of_product(info->name, &borrower);
    config.clock_count = choose_clocks(info, config.clocks_mhz);
    memcpy(serving->clocks_mhz, config.clocks_mhz, sizeof(serving->clocks_mhz));
    serving->controlled_mhz = config.clocks_mhz[0];
    serving->is_changing = true;
    serving->in_force = (struct lull_serving_in_force){0};
    serving->controller = lull_serving_controller_create(&config);
}

/* Returns whether the server has published metrics. Before, GPUs are parked by their own readings.
 */
static bool has_page(const struct lull_serving *serving)
{
    struct lull_metrics_state state;

    if (serving->metrics == NULL)
        return false;
    lull_metrics_state(serving->metrics, &state);
    return state.pages > 0;
}

static void take_steps(struct lull_serving *serving, int64_t now_ns)
{
    struct lull_serving_reading reading = {0};

    if (!lull_serving_is_by_steps(serving->options) ||
        !lull_serving_read_steps(serving, now_ns, &reading))
        return;
    if (serving->controller == NULL)
        create_controller(serving);
    if (serving->controller != NULL)
        lull_serving_controller_take(serving->controller, &reading);
}

/* ---- the tick ---------------------------------------------------------------------------- */

void lull_serving_resume(struct lull_serving *serving)
{
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        serving->gpus[i].asked_mhz = 0;
        serving->gpus[i].sequence = 0;
    }
}

void lull_serving_end(struct lull_serving *serving, int64_t now_ns)
{
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].park.is_parked)
            lull_park_end(&serving->gpus[i].park, now_ns);
}

void lull_serving_tick(struct lull_serving *serving, const struct lull_accounting *accounting,
                       int64_t now_ns, struct lull_error *note_out)
{
    note_out->code = 0;
    serving->modes_s[serving->mode] += (double)(now_ns - serving->tick_ns) * 1e-9;
    serving->tick_ns = now_ns;
    if (serving->controller == NULL && serving->options->has_objective && has_page(serving))
        create_controller(serving);
    sum_energy(serving, accounting);
    take_metrics(serving);
    take_steps(serving, now_ns);
    lull_serving_set_clocks(serving, now_ns);
    lull_serving_note(serving, now_ns, note_out);
}
