/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/live_parts.h"

#include <math.h>
#include <string.h>

#include "cli/report/document.h"
#include "cli/report/html.h"

enum { WIDTH = 120, BAR = 16 }; /* of pictures, in their own units */

/* ---- the clock --------------------------------------------------------------------------- */

static double live_gpu_place(double mhz, double low_mhz, double high_mhz)
{
    return WIDTH * fmax(0.0, fmin(1.0, (mhz - low_mhz) / fmax(high_mhz - low_mhz, 1.0)));
}

/* Draws where the clock is between the lowest and the highest, the leased band and the lock. */
static void draw_clock(FILE *out, const json_t *gpu)
{
    const json_t *const daemon = lull_report_at(gpu, "daemon");
    const json_t *const lease = lull_report_at(daemon, "lease");
    const double low = lull_report_number(gpu, "sm_clock_min_mhz");
    const double high = lull_report_number(gpu, "sm_clock_max_mhz");
    const double now = lull_report_number(gpu, "sm_clock_mhz");
    const double lock = lull_report_number(daemon, "applied_sm_mhz");

    if (!isfinite(low) || !isfinite(high) || !isfinite(now))
        return;
    fprintf(out,
            "<svg class=\"bar\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
            "aria-label=\"%.0f of %.0f MHz\"><rect class=\"track\" y=\"4\" width=\"%d\" "
            "height=\"8\"/>",
            WIDTH, BAR, now, high, WIDTH);
    if (lease != NULL) {
        const double from = live_gpu_place(lull_report_number(lease, "band_min_mhz"), low, high);
        const double to = live_gpu_place(lull_report_number(lease, "band_max_mhz"), low, high);

        fprintf(out, "<rect class=\"lease\" x=\"%.1f\" y=\"1\" width=\"%.1f\" height=\"14\"/>",
                from, to - from);
    }
    fprintf(out, "<rect class=\"now\" y=\"4\" width=\"%.1f\" height=\"8\"/>",
            fmax(live_gpu_place(now, low, high), 1.0));
    if (isfinite(lock))
        fprintf(out, "<path class=\"lock\" d=\"M%.1f 0V%d\"/>", live_gpu_place(lock, low, high),
                BAR);
    fputs("</svg>", out);
}

static void write_clock(FILE *out, const json_t *gpu, size_t index)
{
    const double lock = lull_report_number(lull_report_at(gpu, "daemon"), "applied_sm_mhz");

    fprintf(out, "<td data-live=\"clock-%zu\">", index);
    draw_clock(out, gpu);
    lull_html_text(out, "<small class=\"whole\">",
                   lull_html_figure(lull_report_number(gpu, "sm_clock_mhz"), "MHz").text, "");
    if (isfinite(lock))
        fprintf(out, ", locked at %.0f", lock);
    fputs("</small></td>", out);
}

/* ---- power ------------------------------------------------------------------------------- */

static void live_gpu_write_power(FILE *out, const json_t *gpu, size_t index,
                                 const struct lull_serve_history *history)
{
    const double power_w = lull_report_number(gpu, "power_w");
    const double limit_w = lull_report_number(gpu, "power_limit_w");

    fprintf(out, "<td data-live=\"power-%zu\">", index);
    if (index < LULL_DEVICE_MAX_GPUS)
        lull_serve_draw_minute(out, history->power_w[index], history->next,
                               isfinite(limit_w) && limit_w > 0.0 ? limit_w : 1000.0);
    if (isfinite(power_w))
        fprintf(out, "<small>%.0f W", power_w);
    else
        lull_html_text(out, "<small>", lull_report_text(lull_report_at(gpu, "unknown"), "power_w"),
                       "");
    if (isfinite(power_w) && isfinite(limit_w))
        fprintf(out, " of %.0f", limit_w);
    fputs("</small></td>", out);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void live_gpu_write_state(FILE *out, const json_t *gpu, size_t index)
{
    const json_t *const daemon = lull_report_at(gpu, "daemon");
    const json_t *const lease = lull_report_at(daemon, "lease");
    const char *const state = lull_report_text(daemon, "state");
    const bool is_well =
        lull_report_is(gpu, "answers") && (state == NULL || strcmp(state, "UP") == 0);

    fprintf(out, "<td data-live=\"state-%zu\"><span class=\"%s\">", index,
            is_well ? "well" : "trouble");
    if (!lull_report_is(gpu, "answers"))
        lull_html_text(out, "", lull_report_text(lull_report_at(gpu, "unknown"), "power_w"), "");
    else
        lull_html_text(out, "", state != NULL ? state : "answers", "");
    fputs("</span>", out);
    if (lull_report_is(daemon, "mig"))
        fputs("<small>MIG is on: not leased</small>", out);
    if (lease != NULL)
        fprintf(out, "<small class=\"whole\">leased by process %.0f</small>",
                lull_report_number(lease, "pid"));
    if (lull_report_number(daemon, "xids") > 0.0)
        fprintf(out, "<small class=\"trouble\">%.0f errors (XIDs)</small>",
                lull_report_number(daemon, "xids"));
    fputs("</td>", out);
}

static void live_gpu_write(FILE *out, const json_t *document, const json_t *gpu, size_t index,
                           const struct lull_serve_history *history)
{
    fprintf(out, "<tr><th scope=\"row\">%.0f</th>", lull_report_number(gpu, "index"));
    write_clock(out, gpu, index);
    live_gpu_write_power(out, gpu, index, history);
    fprintf(out, "<td class=\"number\" data-live=\"heat-%zu\">", index);
    lull_html_text(out, "",
                   lull_html_figure(lull_report_number(gpu, "temperature_c"), "\302\260C").text,
                   "</td>");
    lull_serve_write_work(out, document, gpu, index);
    live_gpu_write_state(out, gpu, index);
    lull_html_text(out, "<td class=\"whole\">", lull_report_text(gpu, "name"), "");
    lull_html_text(out, "<small>", lull_report_text(gpu, "uuid"), "</small></td></tr>\n");
}

void lull_serve_write_gpus(FILE *out, const json_t *document,
                           const struct lull_serve_history *history)
{
    static const char *const heads[] = {
        "GPU", "clock", "power, last minute", "temperature", "activity", "state", "model", NULL};
    const json_t *const gpus = lull_report_at(document, "gpus");
    size_t index;
    json_t *gpu;

    fputs("<section><h2>GPUs</h2>\n", out);
    if (lull_report_count(gpus) == 0)
        lull_html_text(out, "<p class=\"none\">No GPU is seen: ",
                       lull_report_text(document, "driver_reason"), "</p></section>\n");
    if (lull_report_count(gpus) == 0)
        return;
    lull_html_begin_table(
        out, "The bar is the clock, shaded where it is leased, with a mark where it is locked",
        heads);
    json_array_foreach((json_t *)gpus, index, gpu)
        live_gpu_write(out, document, gpu, index, history);
    lull_html_end_table(out);
    fputs("</section>\n", out);
}
