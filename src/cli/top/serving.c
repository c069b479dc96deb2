/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/serving.h"

#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "base/printable.h"

struct serving_cell {
    char text[48];
};

/* A number with this many digits, or with all before its point; "-": it is unknown. */
static struct serving_cell serving_cell(const struct lull_live_figure *figure, int digits)
{
    struct serving_cell cell = {"-"};
    const double value = figure->value;

    if (isfinite(value) && value >= pow(10.0, digits) - 0.5)
        snprintf(cell.text, sizeof(cell.text), "%.0f", value);
    else if (isfinite(value))
        snprintf(cell.text, sizeof(cell.text), "%.*g", digits, value);
    return cell;
}

static void write_mode(const struct lull_live_serving *serving, int64_t now_ns, char *text,
                       size_t size)
{
    char reason[sizeof(serving->reason)];

    (void)now_ns;
    lull_printable_write(serving->reason, reason, sizeof(reason));
    snprintf(text, size, "%s%s%s", lull_live_mode_text(serving->mode),
             reason[0] != '\0' ? ": " : "", reason);
}

static void write_objective(const struct lull_live_serving *serving, int64_t now_ns, char *text,
                            size_t size)
{
    char objective[LULL_LIVE_WORD_BYTES];
    char bound[64] = "";

    (void)now_ns;
    lull_live_objective_text(serving, objective, sizeof(objective));
    if (objective[0] == '\0') {
        snprintf(text, size, "no latency objective: only idle GPUs are lowered");
        return;
    }
    if (isfinite(serving->missed_bound_ratio.value))
        snprintf(bound, sizeof(bound), " (by Lull at most %.2g %%)",
                 100.0 * serving->missed_bound_ratio.value);
    if (isfinite(serving->missed_ratio.value) && serving->requests.value >= 1.0)
        snprintf(text, size, "%s: %.2g %% of %s missed%s", objective,
                 100.0 * serving->missed_ratio.value,
                 lull_amount_count((uint64_t)fmin(serving->requests.value, 1e18)).text, bound);
    else
        snprintf(text, size, "%s: misses not known: %s", objective,
                 lull_live_unknown_text(serving->missed_ratio.unknown));
}

static void write_load(const struct lull_live_serving *serving, int64_t now_ns, char *text,
                       size_t size)
{
    (void)now_ns;
    if (serving->running.unknown == LULL_LIVE_NO_METRICS) {
        snprintf(text, size, "requests not known: %s",
                 lull_live_unknown_text(serving->running.unknown));
        return;
    }
    snprintf(
        text, size, "%s: %s running, %s waiting; TTFT %s/%s ms, TPOT %s/%s ms (p50/p99)",
        serving->engine[0] != '\0' ? lull_printable(serving->engine).text : "server",
        serving_cell(&serving->running, 1).text, serving_cell(&serving->waiting, 1).text,
        serving_cell(&serving->ttft_p50_ms, 3).text, serving_cell(&serving->ttft_p99_ms, 3).text,
        serving_cell(&serving->tpot_p50_ms, 3).text, serving_cell(&serving->tpot_p99_ms, 3).text);
}

static void write_energy(const struct lull_live_serving *serving, int64_t now_ns, char *text,
                         size_t size)
{
    const bool is_parked = serving->parked_since_ns != 0;
    const double parked_s =
        serving->parked_s +
        (is_parked ? fmax((double)(now_ns - serving->parked_since_ns) * 1e-9, 0.0) : 0.0);
    char saved[32] = "saving not known";
    char parked[64] = "";

    if (isfinite(serving->saved_ratio.value))
        snprintf(saved, sizeof(saved), "%.0f %% saved",
                 rint(100.0 * serving->saved_ratio.value) + 0.0); /* no "-0" */
    if (parked_s > 0.0)
        snprintf(parked, sizeof(parked), "; parked %s", lull_amount_time(parked_s).text);
    snprintf(text, size, "%s tokens/s, %s J/token, %s J/request; %s%s",
             serving_cell(&serving->tokens_per_s, 3).text,
             serving_cell(&serving->j_per_output_token, 3).text,
             serving_cell(&serving->j_per_request, 3).text, saved, parked);
}

void lull_top_serving_line(const struct lull_live_serving *serving, uint32_t line, int64_t now_ns,
                           char *text, size_t size)
{
    static void (*const writers[LULL_TOP_SERVING_LINES])(
        const struct lull_live_serving *serving, int64_t now_ns, char *text,
        size_t size) = {write_mode, write_objective, write_load, write_energy};

    writers[line](serving, now_ns, text, size);
}
