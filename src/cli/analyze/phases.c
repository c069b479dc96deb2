/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/phases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "governor/report/report_fields.h"

static const char no_difference[] =
    "prefill and decode cannot be distinguished: the trace has no step annotations (vLLM's "
    "execute_context_..., SGLang's step[...]) and no attention kernel that only one of them runs; "
    "record the trace with the server's own profiler";
static const char no_server[] = "no step annotations and no attention kernels of an inference "
                                "server";

bool lull_analyze_has_phases(const struct lull_analyzed_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].phases.source != LULL_PHASES_UNKNOWN)
            return true;
    return false;
}

/* ---- the verdict ------------------------------------------------------------------------- */

/* A phase of all ranks. */
struct phase_total {
    double full_j;
    double best_j;
    double best_mhz;       /* the lowest */
    double slowdown_ratio; /* of the slowest */
};

static struct phase_total sum_phase(const struct lull_analyzed_rank *ranks, size_t count,
                                    enum lull_trace_phase phase)
{
    struct phase_total total = {.best_mhz = INFINITY};

    for (size_t i = 0; i < count; i++) {
        const struct lull_phase_prediction *const predicted = &ranks[i].predicted_phases[phase];

        if (!predicted->is_known)
            continue;
        total.full_j += predicted->full.energy_j;
        total.best_j += predicted->best.energy_j;
        total.best_mhz = fmin(total.best_mhz, predicted->best.mhz);
        total.slowdown_ratio = fmax(total.slowdown_ratio, predicted->best.slowdown_ratio);
    }
    return total;
}

void lull_analyze_write_server(const struct lull_analyzed_rank *ranks, size_t count, char *text,
                               size_t size)
{
    size_t length = 0;

    for (int i = LULL_TRACE_PHASES; i-- > 0 && length < size;) {
        const enum lull_trace_phase phase = (enum lull_trace_phase)i;
        const struct phase_total total = sum_phase(ranks, count, phase);

        if (phase == LULL_TRACE_MIXED || !(total.full_j > 0.0))
            continue;
        length +=
            (size_t)snprintf(text + length, size - length,
                             "%s%s would use %.0f %% less energy at %.0f MHz (%.1f %% slower)",
                             length > 0 ? ", " : "a server: ", lull_phase_name(phase),
                             100.0 * (1.0 - total.best_j / total.full_j), total.best_mhz,
                             100.0 * total.slowdown_ratio);
    }
    if (length == 0)
        length = (size_t)snprintf(text, size, "a server, of whose phases no power is known");
    if (length < size)
        snprintf(text + length, size - length,
                 "; run: lull attach --slo ttft=500ms,tpot=50ms --metrics URL");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *point_json(const struct lull_phase_prediction *predicted,
                          const struct lull_phase_point *point)
{
    json_t *object;

    if (!predicted->is_known)
        return json_null();
    object = json_object();
    lull_field_number(object, "sm_mhz", point->mhz);
    lull_field_number(object, "slowdown_ratio", point->slowdown_ratio);
    lull_field_number(object, "power_w", point->power_w);
    lull_field_number(object, "energy_j", point->energy_j);
    lull_field_number(object, "j_per_token", point->j_per_token);
    lull_field_number(object, "saving_ratio", 1.0 - point->energy_j / predicted->full.energy_j);
    return object;
}

static double busy_ratio(const struct lull_exposure *exposure)
{
    return 1.0 - (double)exposure->idle_ns / (double)exposure->span_ns;
}

static void set_count(json_t *object, const char *key, double count)
{
    lull_field_json(object, key,
                    isfinite(count) && count < 0x1p53 ? json_integer((json_int_t)count)
                                                      : json_null());
}

static json_t *phase_json(const struct lull_analyzed_rank *rank, enum lull_trace_phase kind)
{
    const struct lull_phase *const phase = &rank->phases.phases[kind];
    const struct lull_phase_prediction *const predicted = &rank->predicted_phases[kind];
    const struct lull_exposure *const exposure = &phase->exposure;
    json_t *const object = json_object();
    char reason[160];

    snprintf(reason, sizeof(reason), "the model %s has no kernel that stands for %s",
             rank->prediction.model->name, lull_phase_name(kind));
    lull_field_text(object, "phase", lull_phase_name(kind));
    set_count(object, "steps", phase->steps > 0 ? (double)phase->steps : (double)NAN);
    lull_field_integer(object, "kernels", (json_int_t)phase->kernels);
    lull_field_number(object, "span_ms", lull_ms_from_ns(exposure->span_ns));
    lull_field_known(object, "busy_ratio", busy_ratio(exposure), exposure->span_ns > 0);
    lull_field_number(object, "compute_ms", lull_ms_from_ns(exposure->compute_ns));
    lull_field_number(object, "comm_ms", lull_ms_from_ns(exposure->communication_ns));
    lull_field_number(object, "exposed_ms", lull_ms_from_ns(exposure->exposed_ns));
    lull_field_number(object, "idle_ms", lull_ms_from_ns(exposure->idle_ns));
    lull_field_known(object, "requests_per_step", phase->requests / (double)phase->steps,
                     phase->steps > 0);
    set_count(object, "prompt_tokens", phase->prompt_tokens);
    set_count(object, "output_tokens", phase->output_tokens);
    lull_field_json(object, "full", point_json(predicted, &predicted->full));
    lull_field_json(object, "best", point_json(predicted, &predicted->best));
    lull_field_json(object, "tolerated", point_json(predicted, &predicted->tolerated));
    lull_field_text(object, "energy_reason", predicted->is_known ? NULL : reason);
    return object;
}

void lull_analyze_set_phases(json_t *object, const struct lull_analyzed_rank *rank)
{
    static const char *const sources[] = {
        [LULL_PHASES_UNKNOWN] = NULL,
        [LULL_PHASES_MARKS] = "annotations",
        [LULL_PHASES_KERNELS] = "kernels",
    };
    const struct lull_phases *const phases = &rank->phases;
    const bool is_known = phases->source != LULL_PHASES_UNKNOWN;
    const char *reason = phases->has_attention ? no_difference : no_server;
    json_t *array = json_null();

    if (is_known) {
        reason = NULL;
        array = json_array();
        for (int i = 0; i < LULL_TRACE_PHASES; i++)
            if (phases->phases[i].kernels > 0)
                json_array_append_new(array, phase_json(rank, (enum lull_trace_phase)i));
    }
    lull_field_json(object, "phases", array);
    lull_field_text(object, "phases_source", sources[phases->source]);
    lull_field_text(object, "phases_reason", reason);
    lull_field_known(object, "outside_phases_ms", lull_ms_from_ns(phases->outside_ns), is_known);
}

/* ---- for people -------------------------------------------------------------------------- */

struct phase_cell {
    char text[24];
};

/* Formats a number; "-": it is unknown. */
static struct phase_cell phase_cell(const char *format, double value)
{
    struct phase_cell cell = {"-"};

    if (isfinite(value))
        snprintf(cell.text, sizeof(cell.text), "%.*f%s", format[0] - '0', value, format + 1);
    return cell;
}

static double known_or_nan(double value, bool is_known)
{
    return is_known ? value : (double)NAN;
}

static double tokens_of(const struct lull_phase *phase, enum lull_trace_phase kind)
{
    if (kind == LULL_TRACE_PREFILL)
        return phase->prompt_tokens;
    return kind == LULL_TRACE_DECODE ? phase->output_tokens
                                     : phase->prompt_tokens + phase->output_tokens;
}

static void print_phase(const struct lull_analyzed_rank *rank, enum lull_trace_phase kind)
{
    const struct lull_phase *const phase = &rank->phases.phases[kind];
    const struct lull_phase_prediction *const predicted = &rank->predicted_phases[kind];
    const struct lull_exposure *const exposure = &phase->exposure;
    const bool is_known = predicted->is_known;
    char name[24];

    printf("%5s %-8s %7s %10.2f %8s %8s %9s %6s %8s %6s %8s %8s %8s\n",
           lull_analyzed_rank_name(rank, name, sizeof(name)), lull_phase_name(kind),
           phase_cell("0", known_or_nan((double)phase->steps, phase->steps > 0)).text,
           lull_ms_from_ns(exposure->span_ns), phase_cell("1 %", 100.0 * busy_ratio(exposure)).text,
           phase_cell("1 %", 100.0 * (double)exposure->exposed_ns / (double)exposure->span_ns).text,
           phase_cell("0", tokens_of(phase, kind)).text,
           phase_cell("0", known_or_nan(predicted->full.power_w, is_known)).text,
           phase_cell("4", known_or_nan(predicted->full.j_per_token, is_known)).text,
           phase_cell("0", known_or_nan(predicted->best.mhz, is_known)).text,
           phase_cell("1 %", known_or_nan(100.0 * predicted->best.slowdown_ratio, is_known)).text,
           phase_cell("4", known_or_nan(predicted->best.j_per_token, is_known)).text,
           phase_cell("1 %", known_or_nan(100.0 * (1.0 - predicted->best.energy_j /
                                                             predicted->full.energy_j),
                                          is_known))
               .text);
}

static void print_rank(const struct lull_analyzed_rank *rank)
{
    for (int i = 0; i < LULL_TRACE_PHASES; i++)
        if (rank->phases.phases[i].kernels > 0)
            print_phase(rank, (enum lull_trace_phase)i);
}

void lull_analyze_print_phases(const struct lull_analyzed_rank *ranks, size_t count)
{
    bool is_by_kernels = false;
    double outside_ms = 0.0;

    if (!lull_analyze_has_phases(ranks, count)) {
        if (ranks[0].phases.has_attention)
            printf("%s\n", no_difference);
        return;
    }
    printf("\n%5s %-8s %7s %10s %8s %8s %9s %6s %8s %6s %8s %8s %8s\n", "rank", "phase", "steps",
           "span ms", "busy", "exposed", "tokens", "W", "J/token", "MHz", "slower", "J/token",
           "saved");
    for (size_t i = 0; i < count; i++) {
        print_rank(&ranks[i]);
        is_by_kernels |= ranks[i].phases.source == LULL_PHASES_KERNELS;
        outside_ms += lull_ms_from_ns(ranks[i].phases.outside_ns);
    }
    printf("W and the first J/token are predicted at the highest clock, the rest at the clock of "
           "least energy. Between steps: %.2f ms.\n",
           outside_ms);
    if (is_by_kernels)
        printf("Steps are not marked, so their number and tokens are not known: attention kernels "
               "distinguish the phases,\nand steps with prompts and output tokens count as "
               "prefill.\n");
}
