/* Results of the serving governor, for the report and live views. SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "governor/serving/serving_state.h"

_Static_assert((int)LULL_LIVE_MODE_BLIND + (int)LULL_SERVING_IDLE == LULL_LIVE_MODE_IDLE,
               "modes of the live state have the controller's order");
_Static_assert(sizeof(((struct lull_serving_gpu_summary *)0)->signs) ==
                   sizeof(((struct lull_serving_gpu *)0)->signs),
               "the summary has all signs");

/* The modes of a server that is judged by its steps, in the controller's order. */
static const char *describe_steps(enum lull_serving_mode mode)
{
    static const char *const texts[] = {
        [LULL_SERVING_BLIND] = "No step has ended lately.",
        [LULL_SERVING_LEARNING] = "The server's speed is being learned.",
        [LULL_SERVING_TESTING] = "Steps longer than the bound are being counted.",
        [LULL_SERVING_PROVEN] =
            "Lower clocks have added fewer steps longer than the bound than permitted (95 %).",
        [LULL_SERVING_RAISED] = "A step is longer than the bound, or no lower clock keeps it.",
        [LULL_SERVING_IDLE] = "No step: parked.",
    };

    return texts[mode];
}

static const char *describe_mode(const struct lull_serving *serving)
{
    if (serving->is_held && serving->is_capped)
        return "a cap holds the GPUs, so no clock is lowered further";
    if (serving->is_held)
        return "no clock can be lowered at present";
    if (serving->controller != NULL && serving->has_steps)
        return describe_steps(serving->state.mode);
    if (serving->controller != NULL)
        return serving->state.reason;
    if (lull_serving_is_by_steps(serving->options) && serving->mode != LULL_LIVE_MODE_IDLE)
        return "no step of the server was seen, so only idle GPUs are parked";
    if (serving->options->has_objective && serving->mode != LULL_LIVE_MODE_IDLE)
        return "no page of the server's metrics has come, so only idle GPUs are parked";
    if (serving->mode == LULL_LIVE_MODE_IDLE)
        return "nothing runs on the GPUs, so they are parked";
    return "the GPUs work, or have worked lately";
}

/* The clock requested of all served GPUs; NAN: they differ. */
static double find_clock_mhz(const struct lull_serving *serving)
{
    double mhz = (double)NAN;

    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const uint32_t asked_mhz = serving->gpus[i].asked_mhz;
        const double own_mhz =
            asked_mhz != 0 ? asked_mhz : lull_control_info(serving->control, i)->sm_clocks_mhz[0];

        if (!serving->gpus[i].is_served)
            continue;
        if (!isnan(mhz) && mhz != own_mhz)
            return (double)NAN;
        mhz = own_mhz;
    }
    return mhz;
}

static void sum_parks(const struct lull_serving *serving, int64_t now_ns,
                      struct lull_serving_summary *summary)
{
    bool is_any_working = false;

    summary->park_saved_j = 0.0;
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const struct lull_serving_gpu *const gpu = &serving->gpus[i];
        const double saved_j = lull_park_saved_j(&gpu->park, now_ns);

        if (!gpu->is_served)
            continue;
        summary->gpu_count++;
        summary->parks += gpu->park.count;
        summary->parked_s += lull_park_seconds(&gpu->park, now_ns);
        if (gpu->park.count > 0)
            summary->park_saved_j += saved_j;
        is_any_working = is_any_working || !gpu->park.is_parked;
        summary->parked_since_ns = lull_later_ns(summary->parked_since_ns, gpu->park.since_ns);
    }
    if (is_any_working)
        summary->parked_since_ns = 0;
    if (summary->gpu_count > 0)
        summary->parked_s /= summary->gpu_count;
}

void lull_serving_summary(const struct lull_serving *serving, int64_t now_ns,
                          struct lull_serving_summary *summary_out)
{
    *summary_out = (struct lull_serving_summary){
        .has_objective = serving->options->has_objective,
        .has_metrics = serving->metrics != NULL,
        .is_by_steps = serving->has_steps,
        .objective = serving->options->objective,
        .metrics = serving->options->metrics,
        .mode = serving->mode,
        .reason = describe_mode(serving),
        .control = serving->state,
        .totals = serving->figures.now,
        .has_totals = serving->figures.has_reading,
        .running = serving->figures.has_reading ? serving->figures.last.running : (double)NAN,
        .waiting = serving->figures.has_reading ? serving->figures.last.waiting : (double)NAN,
        .clock_mhz = find_clock_mhz(serving),
    };
    if (serving->controller == NULL)
        summary_out->control = (struct lull_serving_state){
            .missed_ratio = (double)NAN,
            .missed_bound_ratio = (double)NAN,
            .predicted_ttft_s = (double)NAN,
            .predicted_tpot_s = (double)NAN,
            .saved_ratio = (double)NAN,
        };
    if (serving->metrics != NULL) {
        struct lull_metrics_state metrics;

        lull_metrics_state(serving->metrics, &metrics);
        summary_out->engine = metrics.engine;
    }
    summary_out->has_minute = lull_serving_figures_minute(&serving->figures, &summary_out->minute);
    memcpy(summary_out->modes_s, serving->modes_s, sizeof(summary_out->modes_s));
    sum_parks(serving, now_ns, summary_out);
}

struct lull_serving_gpu_summary lull_serving_gpu_summary(const struct lull_serving *serving,
                                                         uint32_t index, int64_t now_ns)
{
    const struct lull_serving_gpu *const gpu = &serving->gpus[index];
    struct lull_serving_gpu_summary summary = {
        .is_served = gpu->is_served,
        .park_mhz = gpu->park_mhz,
        .parks = gpu->park.count,
        .parked_s = lull_park_seconds(&gpu->park, now_ns),
        .saved_j = lull_park_saved_j(&gpu->park, now_ns),
    };

    if (gpu->is_served)
        summary.first_work_s = lull_park_wake_s(
            gpu->park_mhz, lull_control_info(serving->control, index)->sm_clocks_mhz[0],
            serving->blind_s);

    memcpy(summary.signs, gpu->signs, sizeof(summary.signs));
    return summary;
}

const char *lull_serving_gpu_text(const struct lull_serving *serving, uint32_t gpu)
{
    if (!serving->gpus[gpu].is_served)
        return "not of the server";
    if (serving->is_held)
        return "at the highest clock: no clock can be lowered at present";
    if (serving->gpus[gpu].park.is_parked)
        return "parked: nothing runs";
    return serving->controller != NULL ? "clock by load" : "working";
}
