/* Messages of the serving governor, each given once until its cause has ended.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "governor/serving/serving_state.h"

/* First readings may take this long. */
static const int64_t patience_ns = 2 * LULL_NS_PER_S;

/* ---- causes ------------------------------------------------------------------------------ */

static bool has_no_park(const struct lull_serving *serving)
{
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served &&
            serving->gpus[i].park_mhz == lull_control_info(serving->control, i)->sm_clocks_mhz[0])
            return true;
    return false;
}

static bool has_unreadable(const struct lull_serving *serving, int64_t now_ns)
{
    if (serving->controller != NULL || now_ns - serving->begin_ns < patience_ns)
        return false;
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served && serving->gpus[i].full_ns != 0 &&
            !serving->gpus[i].is_lost && !serving->gpus[i].watch.has_utilization)
            return true;
    return false;
}

static bool is_unplaced(const struct lull_serving *serving, int64_t now_ns)
{
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served)
            return false;
    return serving->is_blind_list && now_ns - serving->begin_ns >= patience_ns;
}

/* Returns whether a bound is not one of a histogram's buckets. */
static bool is_inexact(const struct lull_serving_histogram *histogram, double bound_s)
{
    const int within = lull_serving_bucket_within(histogram, bound_s);

    return histogram->count > 0 && isfinite(bound_s) &&
           (within < 0 || histogram->bound_s[within] < bound_s * 0.9999);
}

static bool is_true(const struct lull_serving *serving, enum lull_serving_message message,
                    int64_t now_ns)
{
    switch (message) {
    case LULL_SERVING_NO_PARK:
        return has_no_park(serving);
    case LULL_SERVING_NO_SIGNAL:
        return serving->options->has_objective && serving->metrics == NULL &&
               !lull_serving_is_by_steps(serving->options);
    case LULL_SERVING_NO_STEPS:
        return lull_serving_lacks_steps(serving, now_ns);
    case LULL_SERVING_CAPPED:
        return serving->is_capped;
    case LULL_SERVING_FAILED_GPU:
        return lull_serving_find_failed(serving, NULL, 0) >= 0;
    case LULL_SERVING_UNREADABLE:
        return has_unreadable(serving, now_ns);
    case LULL_SERVING_UNPLACED:
        return is_unplaced(serving, now_ns);
    case LULL_SERVING_INEXACT_TTFT:
        return serving->controller != NULL &&
               is_inexact(&serving->figures.last.ttft, serving->options->objective.ttft_s);
    case LULL_SERVING_INEXACT_TPOT:
        return serving->controller != NULL &&
               is_inexact(&serving->figures.last.tpot, serving->options->objective.tpot_s);
    default:
        return false;
    }
}

/* ---- sentences --------------------------------------------------------------------------- */

static void write_failed(const struct lull_serving *serving, struct lull_error *note_out)
{
    char text[LULL_SERVING_FAILURE_BYTES] = "";
    const int gpu = lull_serving_find_failed(serving, text, sizeof(text));

    lull_error_set(note_out, -EIO,
                   "GPU %u: %s. The GPUs run at the highest clock; Lull retries every 10 s",
                   lull_control_gpu(serving->control, (uint32_t)gpu)->device, text);
}

static void write_inexact(const char *name, const struct lull_serving_histogram *histogram,
                          double bound_s, struct lull_error *note_out)
{
    const int within = lull_serving_bucket_within(histogram, bound_s);
    const double above_ms = histogram->bound_s[within + 1] * 1e3;

    if (within < 0)
        lull_error_set(note_out, -ERANGE,
                       "the %s bound of %g ms is below the first bucket of the server's histogram, "
                       "%g ms: every request counts as missed; give a bound of at least that",
                       name, bound_s * 1e3, above_ms);
    else if (isinf(above_ms))
        lull_error_set(note_out, -ERANGE,
                       "the %s bound of %g ms is above the last bucket of the server's histogram: "
                       "requests above %g ms count as missed",
                       name, bound_s * 1e3, histogram->bound_s[within] * 1e3);
    else
        lull_error_set(note_out, -ERANGE,
                       "the %s bound of %g ms lies between two buckets of the server's histogram, "
                       "%g and %g ms: requests above %g ms count as missed",
                       name, bound_s * 1e3, histogram->bound_s[within] * 1e3, above_ms,
                       histogram->bound_s[within] * 1e3);
}

static void write_message(const struct lull_serving *serving, enum lull_serving_message message,
                          struct lull_error *note_out)
{
    switch (message) {
    case LULL_SERVING_NO_PARK:
        lull_error_set(note_out, -ERANGE,
                       "no GPU is parked: at any lower clock the first work after an idle time "
                       "could pay more than --wake-ms %g; give a larger one",
                       lull_ms_from_ns(serving->options->wake_ns));
        break;
    case LULL_SERVING_NO_SIGNAL:
        lull_error_set(note_out, -ENODATA,
                       "%s cannot be observed without the server's metrics: idle GPUs are parked "
                       "and nothing else is lowered; give --metrics URL%s",
                       serving->options->has_probes ? "TTFT" : "the objective",
                       serving->options->has_probes
                           ? ", or tpot alone, which is judged by the server's steps"
                           : "");
        break;
    case LULL_SERVING_NO_STEPS:
        lull_error_set(note_out, -ENODATA,
                       "no step of the server is seen, so the GPUs run at the highest clock while "
                       "they work; call lull.step() after each step, or give --metrics URL");
        break;
    case LULL_SERVING_CAPPED:
        lull_error_set(note_out, -EAGAIN,
                       "a GPU is capped by an administrator or a budget. No clock is lowered "
                       "further until the cap ends");
        break;
    case LULL_SERVING_FAILED_GPU:
        write_failed(serving, note_out);
        break;
    case LULL_SERVING_UNREADABLE:
        lull_error_set(
            note_out, -ENODATA,
            "a GPU's driver does not report utilization, so it is not known when nothing "
            "runs, and the GPU is not parked; give %s",
            serving->options->metrics == NULL ? "--slo and --metrics" : "--slo");
        break;
    case LULL_SERVING_UNPLACED:
        lull_error_set(note_out, -ENODATA,
                       "no clock is lowered: the driver does not show on which GPUs the command "
                       "runs. Use lull attach --gpus outside the container");
        break;
    case LULL_SERVING_INEXACT_TTFT:
        write_inexact("TTFT", &serving->figures.last.ttft, serving->options->objective.ttft_s,
                      note_out);
        break;
    case LULL_SERVING_INEXACT_TPOT:
        write_inexact("TPOT", &serving->figures.last.tpot, serving->options->objective.tpot_s,
                      note_out);
        break;
    default:
        break;
    }
}

void lull_serving_note(struct lull_serving *serving, int64_t now_ns, struct lull_error *note_out)
{
    char text[LULL_METRICS_SENTENCE_BYTES];

    if (serving->metrics != NULL && lull_metrics_take_message(serving->metrics, text))
        lull_error_set(note_out, -EAGAIN, "%s", text);
    lull_control_lock(serving->control);
    for (enum lull_serving_message i = 0; i < LULL_SERVING_MESSAGES; i++) {
        const bool was_said = serving->is_said[i];

        serving->is_said[i] = is_true(serving, i, now_ns) && (was_said || note_out->code == 0);
        if (serving->is_said[i] && !was_said)
            write_message(serving, i, note_out);
    }
    lull_control_unlock(serving->control);
}
