/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/report.h"

#include <stdio.h>

static double plan_report_seconds(int64_t time_ns)
{
    return (double)time_ns * 1e-9;
}

static double plan_report_gap_ratio(const struct lull_plan_point *point)
{
    const double gap = point->bound_j > 0.0 ? point->energy_j / point->bound_j - 1.0 : 0.0;

    if (gap < 0.0 && gap > -1e-12)
        return 0.0; /* the last digit of a sum is off by rounding */
    return gap;
}

static double plan_report_saving_ratio(const struct lull_plan_point *point,
                                       const struct lull_plan_point *high)
{
    return high->energy_j > 0.0 ? 1.0 - point->energy_j / high->energy_j : 0.0;
}

static double slowdown_ratio(const struct lull_plan_point *point,
                             const struct lull_plan_point *high)
{
    return (double)point->time_ns / (double)high->time_ns - 1.0;
}

static uint32_t plan_report_clock_of(const struct lull_plan_task *task,
                                     const struct lull_plan_single *single, uint32_t op)
{
    return lull_pipeline_point_of(&task->problem, single->option, op)->sm_mhz;
}

/* ---- for programs: printed piece by piece, for plans may have a hundred thousand operations ---
 */

static void plan_report_write_point(const struct lull_plan_point *point)
{
    printf("{\"time_s\": %.9f, \"energy_j\": %.9f, \"bound_j\": %.9f, \"gap_ratio\": %.9g}",
           plan_report_seconds(point->time_ns), point->energy_j, point->bound_j,
           plan_report_gap_ratio(point));
}

static void plan_report_write_operation(const struct lull_plan_task *task,
                                        const struct lull_plan_single *single, uint32_t op)
{
    const struct lull_pipeline_class *const operations = lull_pipeline_class_of(&task->problem, op);

    printf("{\"operation\": \"%s\", \"stage\": %u, \"microbatch\": %u, \"sm_mhz\": %u}",
           lull_pipeline_kind_name(operations->kind), operations->stage,
           task->graph.ops[op].microbatch, plan_report_clock_of(task, single, op));
}

static void plan_report_write(const struct lull_plan_task *task,
                              const struct lull_plan_single *single)
{
    const struct lull_pipeline_graph *const graph = &task->graph;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        printf("%s\n  [", device > 0 ? "," : "");
        for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
            printf("%s", i > graph->first_on[device] ? ",\n   " : "");
            plan_report_write_operation(task, single, graph->on_device[i]);
        }
        printf("]");
    }
}

int lull_plan_print_json(const struct lull_plan_task *task, const struct lull_plan_options *options,
                         const struct lull_plan_result *result)
{
    const struct lull_plan_point high = lull_plan_all_max(task, options);
    const struct lull_plan_single *const single = result->single;

    printf("{\"frontier\": [");
    for (size_t i = 0; i < result->point_count; i++) {
        printf("%s\n  ", i > 0 ? "," : "");
        plan_report_write_point(&result->points[i]);
    }
    printf("],\n \"all_max\": {\"time_s\": %.9f, \"energy_j\": %.9f}",
           plan_report_seconds(high.time_ns), high.energy_j);
    if (single != NULL) {
        printf(",\n \"saving_ratio\": %.9g, \"slowdown_ratio\": %.9g, \"period_s\": %.9f,\n"
               " \"plan\": [",
               plan_report_saving_ratio(&single->point, &high),
               slowdown_ratio(&single->point, &high), plan_report_seconds(single->period_ns));
        plan_report_write(task, single);
        printf("]");
        if (options->orders != NULL)
            lull_plan_orders_print_json(options->orders);
        if (options->waiting.count > 0)
            lull_plan_waiting_print_json(&task->problem, &options->waiting, &single->waits,
                                         single->point.energy_j);
    }
    printf("}\n");
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}

/* ---- for people -------------------------------------------------------------------------- */

static void plan_report_print_row(const char *name, const struct lull_plan_point *point,
                                  const struct lull_plan_point *high)
{
    printf("%-20s %11.6f %8.2f %% %14.3f %8.2f %%", name,
           plan_report_seconds(lull_plan_shown_ns(point->time_ns)),
           100.0 * slowdown_ratio(point, high), point->energy_j,
           100.0 * plan_report_saving_ratio(point, high));
    if (point->bound_j > 0.0)
        printf(" %14.3f %8.3f %%", point->bound_j, 100.0 * plan_report_gap_ratio(point));
    putchar('\n');
}

static void print_heading(const struct lull_plan_task *task, const struct lull_plan_point *high)
{
    printf("%s\n\n%-20s %11s %10s %14s %10s %14s %10s\n", task->title, "", "time s", "slower",
           "energy J", "saves", "bound J", "gap");
    printf("%-20s %11.6f %10s %14.3f\n", "all at the highest",
           plan_report_seconds(lull_plan_shown_ns(high->time_ns)), "", high->energy_j);
}

/* The slowest plan, and so the cheapest, that takes no longer than max_ns. */
static size_t plan_report_find_point(const struct lull_plan_result *result, int64_t max_ns)
{
    size_t found = 0;

    for (size_t i = 0; i < result->point_count; i++)
        if (result->points[i].time_ns <= max_ns)
            found = i;
    return found;
}

/* A frontier has hundreds of plans; the text shows those nearest to round slowdowns, and the two
 * ends. */
static void plan_report_print_frontier(const struct lull_plan_result *result,
                                       const struct lull_plan_point *high)
{
    static const double slower[] = {0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5};
    const size_t last = result->point_count - 1;
    size_t shown = result->point_count; /* no point has been printed */

    for (size_t i = 0; i <= sizeof(slower) / sizeof(slower[0]); i++) {
        size_t point = last;
        const char *name = "";

        if (i < sizeof(slower) / sizeof(slower[0]))
            point = plan_report_find_point(result,
                                           (int64_t)((double)high->time_ns * (1.0 + slower[i])));
        if (point == shown)
            continue;
        if (point == 0)
            name = "the fastest shown";
        else if (point == last)
            name = "the cheapest";
        plan_report_print_row(name, &result->points[point], high);
        shown = point;
    }
    printf("\n%zu plans in all: --json lists them; --slowdown or --deadline-ms chooses one.\n",
           result->point_count);
}

struct clocks {
    uint32_t low_mhz;
    uint32_t high_mhz;
    double sum_mhz;
    uint32_t count;
};

static void plan_report_add_clock(struct clocks *clocks, uint32_t mhz)
{
    if (clocks->count == 0 || mhz < clocks->low_mhz)
        clocks->low_mhz = mhz;
    if (mhz > clocks->high_mhz)
        clocks->high_mhz = mhz;
    clocks->sum_mhz += mhz;
    clocks->count++;
}

static void plan_report_print_clocks(const struct clocks *clocks)
{
    if (clocks->count == 0)
        printf(" %24s", "-");
    else
        printf("     %4u .. %4.0f .. %4u", clocks->low_mhz, clocks->sum_mhz / clocks->count,
               clocks->high_mhz);
}

/* A change counts where the clock differs from that of the operation before; operations without a
 * clock do not count. */
static void print_device(const struct lull_plan_task *task, const struct lull_plan_single *single,
                         uint32_t device)
{
    const struct lull_pipeline_graph *const graph = &task->graph;
    struct clocks forward = {0};
    struct clocks backward = {0};
    uint32_t changes = 0;
    uint32_t before_mhz = 0;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const uint32_t op = graph->on_device[i];
        const uint32_t mhz = plan_report_clock_of(task, single, op);

        if (mhz == 0)
            continue;
        plan_report_add_clock(
            lull_pipeline_class_of(&task->problem, op)->kind == LULL_PIPELINE_FORWARD ? &forward
                                                                                      : &backward,
            mhz);
        changes += before_mhz != 0 && mhz != before_mhz;
        before_mhz = mhz;
    }
    printf("%5u", device);
    plan_report_print_clocks(&forward);
    plan_report_print_clocks(&backward);
    printf(" %8u\n", changes);
}

static void print_devices(const struct lull_plan_task *task, const struct lull_plan_single *single)
{
    enum { MAX_ROWS = 64 };
    const uint32_t count = task->graph.device_count;

    printf("\nClocks in MHz, lowest .. mean .. highest:\n%5s %24s %24s %8s\n", "stage", "forward",
           "backward", "changes");
    for (uint32_t device = 0; device < count && device < MAX_ROWS; device++)
        print_device(task, single, device);
    if (count > MAX_ROWS)
        printf("... and %u more\n", count - MAX_ROWS);
}

void lull_plan_print_text(const struct lull_plan_task *task,
                          const struct lull_plan_options *options,
                          const struct lull_plan_result *result)
{
    const struct lull_plan_point high = lull_plan_all_max(task, options);

    if (options->orders != NULL)
        lull_plan_orders_print(options->orders);
    print_heading(task, &high);
    if (result->single == NULL) {
        plan_report_print_frontier(result, &high);
        return;
    }
    plan_report_print_row("plan", &result->single->point, &high);
    print_devices(task, result->single);
    if (options->waiting.count > 0)
        lull_plan_waiting_print(&options->waiting, &result->single->waits,
                                result->single->point.energy_j);
    printf("\n--svg FILE draws it, --output FILE keeps it, with the proof of its bound.\n");
}
