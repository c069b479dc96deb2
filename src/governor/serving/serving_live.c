/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/serving_live.h"

#include <math.h>
#include <stdio.h>

#define PUT_TEXT(TO, TEXT) snprintf((TO), sizeof(TO), "%s", (TEXT))

/* Returns why a figure of the metrics is not known, if it is not. */
static enum lull_live_unknown reason_of(const struct lull_serving_summary *summary,
                                        enum lull_live_unknown otherwise)
{
    if (!summary->has_metrics)
        return LULL_LIVE_NO_METRICS;
    return summary->has_totals ? otherwise : LULL_LIVE_TOO_EARLY;
}

static void show_objective(const struct lull_serving_summary *summary,
                           struct lull_live_serving *live)
{
    const bool is_known = summary->has_objective;
    const double ttft_ms = summary->objective.ttft_s * 1e3;
    const double tpot_ms = summary->objective.tpot_s * 1e3;

    live->ttft_bound_ms =
        lull_live_figure(is_known && isfinite(ttft_ms) ? ttft_ms : (double)NAN, LULL_LIVE_NO_BOUND);
    live->tpot_bound_ms =
        lull_live_figure(is_known && isfinite(tpot_ms) ? tpot_ms : (double)NAN, LULL_LIVE_NO_BOUND);
    live->share_ratio =
        lull_live_figure(is_known ? summary->objective.share : (double)NAN, LULL_LIVE_NO_BOUND);
}

static void show_control(const struct lull_serving_summary *summary, struct lull_live_serving *live)
{
    const bool is_judging = summary->has_objective && summary->has_metrics;
    const enum lull_live_unknown reason =
        summary->has_objective ? reason_of(summary, LULL_LIVE_TOO_EARLY) : LULL_LIVE_NO_BOUND;

    live->requests = lull_live_figure(is_judging ? summary->control.requests : (double)NAN, reason);
    live->missed_ratio = lull_live_figure(summary->control.missed_ratio, reason);
    live->missed_bound_ratio = lull_live_figure(summary->control.missed_bound_ratio, reason);
    live->saved_ratio = lull_live_figure(summary->control.saved_ratio, reason);
}

/* Figures of the last minute. */
static void show_minute(const struct lull_serving_summary *summary, struct lull_live_serving *live)
{
    const struct lull_serving_totals *const minute = &summary->minute;
    const enum lull_live_unknown reason = reason_of(summary, LULL_LIVE_NO_REQUEST);
    const double seconds = summary->has_minute ? (double)minute->time_ns * 1e-9 : (double)NAN;
    const double tokens =
        summary->has_minute && minute->output_tokens > 0.0 ? minute->output_tokens : (double)NAN;
    const double finished =
        summary->has_minute && minute->finished > 0.0 ? minute->finished : (double)NAN;

    live->ttft_p50_ms = lull_live_figure(lull_serving_quantile_s(&minute->ttft, 0.5) * 1e3, reason);
    live->ttft_p99_ms =
        lull_live_figure(lull_serving_quantile_s(&minute->ttft, 0.99) * 1e3, reason);
    live->tpot_p50_ms = lull_live_figure(lull_serving_quantile_s(&minute->tpot, 0.5) * 1e3, reason);
    live->tpot_p99_ms =
        lull_live_figure(lull_serving_quantile_s(&minute->tpot, 0.99) * 1e3, reason);
    live->tokens_per_s =
        lull_live_figure(minute->output_tokens / seconds, reason_of(summary, LULL_LIVE_NO_METRIC));
    live->j_per_output_token = lull_live_figure(minute->energy_j / tokens, reason);
    live->j_per_request = lull_live_figure(minute->energy_j / finished, reason);
}

void lull_serving_live_show(const struct lull_serving *serving, int64_t now_ns,
                            struct lull_live_serving *live_out)
{
    struct lull_serving_summary summary;
    double parked_s;

    lull_serving_summary(serving, now_ns, &summary);
    *live_out = (struct lull_live_serving){.mode = summary.mode,
                                           .parked_since_ns = summary.parked_since_ns};
    PUT_TEXT(live_out->engine, summary.engine != NULL ? summary.engine : "");
    PUT_TEXT(live_out->metrics, summary.metrics != NULL ? summary.metrics : "");
    PUT_TEXT(live_out->reason, summary.reason);
    show_objective(&summary, live_out);
    show_control(&summary, live_out);
    show_minute(&summary, live_out);
    live_out->running = lull_live_figure(summary.running, reason_of(&summary, LULL_LIVE_NO_METRIC));
    live_out->waiting = lull_live_figure(summary.waiting, reason_of(&summary, LULL_LIVE_NO_METRIC));
    live_out->clock_mhz = lull_live_figure(summary.clock_mhz, LULL_LIVE_NOT_LEASED);
    parked_s = summary.parked_s;
    if (summary.parked_since_ns != 0)
        parked_s -= (double)(now_ns - summary.parked_since_ns) * 1e-9;
    live_out->parked_s = fmax(parked_s, 0.0);
}
