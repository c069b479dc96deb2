/* Reports what the whole run and the program's windows drew. SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "base/printable.h"
#include "governor/energy/energy_meter.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"

/* The counter and the polled power of a board should agree over a long time. A greater difference
 * is reported. */
static const double suspicious_ratio = 0.03;

static const char *const node_names[LULL_RAPL_KINDS] = {
    [LULL_RAPL_CPU] = "cpu", [LULL_RAPL_DRAM] = "dram"};

/* ---- report.json ------------------------------------------------------------------------- */

static void set_energy(json_t *object, const struct lull_energy_sum *sum, bool is_known)
{
    lull_field_known(object, "energy_j", sum->joules, is_known);
    lull_field_known(object, "uncertainty_j", lull_energy_sum_uncertainty_j(sum), is_known);
}

static json_t *energy_json(const struct lull_accounting_total *total)
{
    json_t *object;

    if (!total->is_known)
        return json_null();
    object = json_object();
    set_energy(object, &total->sum, true);
    return object;
}

/* Says why the energy of a GPU is not known. */
static void describe_unknown(const struct lull_accounting_gpu *gpu, char *text, size_t size)
{
    const double factor = gpu->has_check ? 1.0 + gpu->check_ratio : 0.0;

    if (gpu->doubt == LULL_ENERGY_BLIND)
        snprintf(text, size, "neither its counter nor its power was read for %.1f s of the run",
                 gpu->blind_s);
    else if (gpu->doubt == LULL_ENERGY_LEAPING)
        snprintf(text, size,
                 "its energy counter rose %" PRIu32 " times by more than the GPU can draw",
                 gpu->resets);
    else if (gpu->doubt == LULL_ENERGY_CONTRADICTED)
        snprintf(text, size,
                 "its power readings add up to %.2f times its energy counter, and it is unknown "
                 "which is correct",
                 factor);
    else if (gpu->doubt != LULL_ENERGY_CREDIBLE)
        snprintf(text, size, "its sensors report %.3g W on average, which the GPU cannot draw",
                 gpu->mean_w);
    else if (gpu->unread_s > 0.0)
        snprintf(text, size, "it could not be read in the last %.0f s of the run", gpu->unread_s);
    else if (gpu->refused > 0)
        snprintf(text, size,
                 "its counter could not be read, and its power readings were outside what the "
                 "GPU can draw");
    else
        snprintf(text, size, "neither its counter nor its power could be read");
}

static json_t *run_gpu_json(const struct lull_accounting_gpu *gpu)
{
    json_t *object = json_object();
    char reason[160];

    lull_field_integer(object, "index", gpu->device);
    lull_field_text(object, "source", gpu->is_counted ? "counter" : "power");
    lull_field_integer(object, "counter_resets", gpu->resets);
    lull_field_integer(object, "counter_glitches", gpu->glitches);
    lull_field_integer(object, "power_refused", gpu->refused);
    lull_field_number(object, "estimated_seconds", gpu->estimated_s);
    lull_field_known(object, "power_check_ratio", gpu->check_ratio, gpu->has_check);
    set_energy(object, &gpu->total.sum, gpu->total.is_known);
    describe_unknown(gpu, reason, sizeof(reason));
    lull_field_text(object, "reason", gpu->total.is_known ? NULL : reason);
    return object;
}

static json_t *run_json(const struct lull_accounting *accounting)
{
    struct lull_accounting_total total;
    json_t *gpus;
    json_t *object;

    if (accounting == NULL)
        return json_null();
    gpus = json_array();
    object = json_object();
    lull_field_number(object, "seconds", lull_accounting_seconds(accounting));
    lull_accounting_gpus(accounting, &total);
    set_energy(object, &total.sum, total.is_known);
    for (uint32_t i = 0; i < lull_accounting_gpu_count(accounting); i++) {
        struct lull_accounting_gpu gpu;

        lull_accounting_gpu(accounting, i, &gpu);
        json_array_append_new(gpus, run_gpu_json(&gpu));
    }
    lull_field_json(object, "gpus", gpus);
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        lull_accounting_node(accounting, kind, &total);
        lull_field_json(object, node_names[kind], energy_json(&total));
    }
    return object;
}

/* Returns whether a GPU that windows of a name count for has sensors that contradict each other. */
static bool is_row_doubtful(const struct lull_accounting *accounting,
                            const struct lull_accounting_row *row)
{
    struct lull_accounting_gpu gpu;

    for (uint32_t i = 0; i < lull_accounting_gpu_count(accounting); i++) {
        lull_accounting_gpu(accounting, i, &gpu);
        if (row->gpus[i].count > 0 && gpu.doubt != LULL_ENERGY_CREDIBLE)
            return true;
    }
    return false;
}

/* Makes the totals of the windows of a name on each GPU that they count for. */
static json_t *row_gpus_json(const struct lull_accounting *accounting,
                             const struct lull_accounting_row *row)
{
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < lull_accounting_gpu_count(accounting); i++) {
        struct lull_accounting_gpu gpu;
        json_t *object;

        if (row->gpus[i].count == 0)
            continue;
        object = json_object();
        lull_accounting_gpu(accounting, i, &gpu);
        lull_field_integer(object, "index", gpu.device);
        lull_field_integer(object, "count", (json_int_t)row->gpus[i].count);
        lull_field_integer(object, "estimates", (json_int_t)row->gpus[i].estimates);
        lull_field_number(object, "seconds", row->gpus[i].seconds);
        set_energy(object, &row->gpus[i], gpu.doubt == LULL_ENERGY_CREDIBLE);
        json_array_append_new(gpus, object);
    }
    return gpus;
}

static json_t *windows_json(const struct lull_accounting *accounting)
{
    json_t *rows = json_array();

    for (uint32_t i = 0; i < lull_accounting_row_count(accounting); i++) {
        const struct lull_accounting_row *row = lull_accounting_row(accounting, i);
        json_t *object = json_object();

        lull_field_text(object, "name", row->name);
        lull_field_integer(object, "count", (json_int_t)row->count);
        lull_field_integer(object, "unmeasured", (json_int_t)row->unmeasured);
        lull_field_integer(object, "estimates", (json_int_t)row->all.estimates);
        lull_field_number(object, "gpu_seconds", row->all.seconds);
        set_energy(object, &row->all, row->all.count > 0 && !is_row_doubtful(accounting, row));
        lull_field_json(object, "gpus", row_gpus_json(accounting, row));
        json_array_append_new(rows, object);
    }
    return rows;
}

json_t *lull_energy_report_json(const struct lull_energy_report *report)
{
    const struct lull_accounting *managed = report->managed;
    const bool has_reason = report->node_reason[0] != '\0';
    json_t *object;

    if (managed == NULL)
        return json_null();
    object = json_object();
    lull_field_number(object, "gain_uncertainty_ratio", LULL_ENERGY_GAIN_RATIO);
    lull_field_json(object, "run", run_json(managed));
    lull_field_json(object, "unmanaged_run", run_json(report->unmanaged));
    lull_field_json(object, "windows", windows_json(managed));
    lull_field_integer(object, "open_windows", (json_int_t)lull_accounting_open_windows(managed));
    lull_field_integer(object, "lost_windows", (json_int_t)lull_accounting_lost(managed));
    lull_field_text(object, "node_reason", has_reason ? report->node_reason : NULL);
    return object;
}

/* ---- the table --------------------------------------------------------------------------- */

/* Prints a line of energy. A count of 0 represents the run itself, which is not a window. */
static void print_energy(FILE *out, const char *name, uint64_t count, double seconds,
                         const struct lull_energy_sum *sum)
{
    fprintf(out, "  %-20s ", name);
    if (count > 0)
        fprintf(out, "%7" PRIu64, count);
    else
        fprintf(out, "%7s", "");
    fprintf(out, " %11.2f %13.1f +- %.1f\n", seconds, sum->joules,
            lull_energy_sum_uncertainty_j(sum));
}

static void print_total(FILE *out, const char *name, double seconds,
                        const struct lull_accounting_total *total)
{
    if (total->is_known)
        print_energy(out, name, 0, seconds, &total->sum);
}

/* Prints why the energy of a GPU is not known, or how reliable its readings were. */
static void print_doubts(const struct lull_accounting_gpu *gpu, const char *name, FILE *out)
{
    char reason[160];

    if (!gpu->total.is_known) {
        describe_unknown(gpu, reason, sizeof(reason));
        fprintf(out, "  %-20s not known: %s\n", name, reason);
    }
    if (gpu->refused > 0)
        fprintf(out, "    power readings dropped, outside what the GPU can draw: %" PRIu32 "\n",
                gpu->refused);
    if (!gpu->total.is_known)
        return;
    if (gpu->glitches > 0)
        fprintf(out, "    wrong readings of its energy counter dropped: %" PRIu32 "\n",
                gpu->glitches);
    if (gpu->estimated_s > 0.0)
        fprintf(out,
                "    its counter was reset, stood still or could not be read: for %.1f s its "
                "power was integrated\n",
                gpu->estimated_s);
    if (gpu->has_check && fabs(gpu->check_ratio) > suspicious_ratio)
        fprintf(out,
                "    its power readings add up to %+.1f %% against its energy counter: the power "
                "changes between readings, or the counter falls short\n",
                gpu->check_ratio * 100.0);
}

static void print_run(const struct lull_accounting *accounting, const char *name, FILE *out)
{
    const double seconds = lull_accounting_seconds(accounting);
    struct lull_accounting_total total;

    lull_accounting_gpus(accounting, &total);
    print_total(out, name, seconds, &total);
    for (uint32_t i = 0; i < lull_accounting_gpu_count(accounting); i++) {
        struct lull_accounting_gpu gpu;
        char text[32];

        lull_accounting_gpu(accounting, i, &gpu);
        snprintf(text, sizeof(text), "  GPU %" PRIu32, gpu.device);
        print_total(out, text, seconds, &gpu.total);
        print_doubts(&gpu, text, out);
    }
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        lull_accounting_node(accounting, kind, &total);
        print_total(out, node_names[kind], seconds, &total);
    }
}

static void energy_report_print_row(const struct lull_accounting *accounting,
                                    const struct lull_accounting_row *row, FILE *out)
{
    const struct lull_printable name = lull_printable(row->name);

    if (row->all.count > 0 && is_row_doubtful(accounting, row))
        fprintf(out, "  %-20s %7" PRIu64 " windows, energy not known: see the GPUs above\n",
                name.text, row->count);
    else if (row->all.count > 0)
        print_energy(out, name.text, row->count, row->all.seconds, &row->all);
    if (row->unmeasured > 0)
        fprintf(out, "  %-20s %7" PRIu64 " of %" PRIu64 " windows could not be measured\n",
                name.text, row->unmeasured, row->count);
    if (row->all.estimates > 0)
        fprintf(out,
                "    %" PRIu64 " of its %" PRIu64 " figures are estimates: too short for the "
                "sensors, or without a counter\n",
                row->all.estimates, row->all.count);
    for (uint32_t i = 0; i < lull_accounting_gpu_count(accounting); i++) {
        struct lull_accounting_gpu gpu;
        char text[32];

        if (row->gpus[i].count == 0)
            continue;
        lull_accounting_gpu(accounting, i, &gpu);
        snprintf(text, sizeof(text), "  GPU %" PRIu32, gpu.device);
        if (gpu.doubt == LULL_ENERGY_CREDIBLE)
            print_energy(out, text, row->gpus[i].count, row->gpus[i].seconds, &row->gpus[i]);
    }
}

void lull_energy_report_print(const struct lull_energy_report *report, FILE *out)
{
    if (report->managed == NULL)
        return;
    fprintf(out, "\n  %-20s %7s %11s %13s    %s\n", "energy", "windows", "GPU s", "J", "95 %");
    if (report->unmanaged != NULL)
        print_run(report->unmanaged, "unmanaged run", out);
    print_run(report->managed, report->unmanaged != NULL ? "managed run" : "whole run", out);
    for (uint32_t i = 0; i < lull_accounting_row_count(report->managed); i++)
        energy_report_print_row(report->managed, lull_accounting_row(report->managed, i), out);
    if (report->node_reason[0] != '\0')
        fprintf(out, "  excludes CPU and DRAM energy: %s\n", report->node_reason);
    fprintf(out,
            "  each GPU's sensor may be off by another %.0f %%, equally in all of its figures; "
            "this does not affect savings\n",
            LULL_ENERGY_GAIN_RATIO * 100.0);
}

const char *lull_energy_report_doubt(const struct lull_report *report)
{
    const struct lull_energy_report *const energy = &report->energy;

    if ((energy->managed == NULL || !lull_accounting_is_doubtful(energy->managed)) &&
        (energy->unmanaged == NULL || !lull_accounting_is_doubtful(energy->unmanaged)))
        return NULL;
    return "the energy of a GPU is unknown: its sensors contradict each other or its possible "
           "range; see the energy of each GPU";
}

double lull_energy_report_whole_saved_j(const struct lull_energy_report *report,
                                        double *unmanaged_j_out)
{
    struct lull_accounting_total managed;
    struct lull_accounting_total unmanaged;

    *unmanaged_j_out = NAN;
    if (report->managed == NULL || report->unmanaged == NULL)
        return NAN;
    lull_accounting_gpus(report->managed, &managed);
    lull_accounting_gpus(report->unmanaged, &unmanaged);
    if (!managed.is_known || !unmanaged.is_known || !(unmanaged.sum.joules > 0.0))
        return NAN;
    *unmanaged_j_out = unmanaged.sum.joules;
    return unmanaged.sum.joules - managed.sum.joules;
}
