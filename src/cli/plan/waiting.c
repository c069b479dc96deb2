/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/waiting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/plan/stages.h"

static const double most_w = 1e6;
static const double max_ms = 10000.0;
static const double max_mhz = 10000.0;

/* ---- as the user names them -------------------------------------------------------------- */

/* The models whose power at the lowest clock was measured while a job waited on them. */
static const char *const measured[] = {"A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5", "H200-SXM"};

/* Finds a model such as "H100-SXM5" or "8xH100-SXM5". Returns null if no such model was measured.
 */
static const struct lull_device_curve *plan_waiting_find_model(const char *text, double *count_out)
{
    const struct lull_device_curve *const model = lull_plan_stages_model(text, count_out);

    for (size_t i = 0; model != NULL && i < sizeof(measured) / sizeof(measured[0]); i++)
        if (strcmp(model->name, measured[i]) == 0)
            return model;
    return NULL;
}

/* Reads numbers with colons between. Returns how many there are, or -EINVAL. */
static int plan_waiting_parse_numbers(const char *text, size_t length, double *numbers_out)
{
    enum { MAX = 3 };
    int count = 0;

    for (const char *at = text; at <= text + length && count < MAX; count++) {
        char number[24];
        const size_t size = strcspn(at, ":,");

        if (size == 0 || size >= sizeof(number) || strspn(at, "0123456789.") < size)
            return -EINVAL;
        memcpy(number, at, size);
        number[size] = '\0';
        if (lull_text_parse_number(number, &numbers_out[count]) < 0)
            return -EINVAL;
        at += size + 1;
        if (at > text + length)
            return count + 1;
    }
    return -EINVAL;
}

static int parse_point(const char *text, size_t length, double down_ms, double up_ms,
                       struct lull_pipeline_waiting_point *point_out)
{
    double numbers[3] = {0.0, 0.0, up_ms};

    if (plan_waiting_parse_numbers(text, length, numbers) < 2 || !(numbers[0] >= 1.0) ||
        numbers[0] > max_mhz || (double)(uint32_t)numbers[0] < numbers[0] || numbers[1] > most_w ||
        numbers[2] > max_ms)
        return -EINVAL;
    *point_out = (struct lull_pipeline_waiting_point){.sm_mhz = (uint32_t)numbers[0],
                                                      .power_w = numbers[1],
                                                      .down_ns = lull_ns_from_ms(down_ms),
                                                      .up_ns = lull_ns_from_ms(numbers[2])};
    return 0;
}

static int plan_waiting_refuse(const char *text, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL,
                          "--waiting-w %.60s: expected up to %d pairs of MHz and W "
                          "(210:60,1050:64, or 1050:64:3 for 3 ms until it is awake), or a GPU "
                          "whose power was measured (A100-SXM4-40GB, H100-SXM5, H200-SXM; "
                          "8xH100-SXM5 for eight of them)",
                          text, LULL_PLAN_MAX_WAITING);
}

int lull_plan_waiting_parse(const char *text, double down_ms, double up_ms,
                            struct lull_plan_waiting_points *points_out, struct lull_error *err)
{
    struct lull_plan_waiting_points points = {0};
    double count;
    const struct lull_device_curve *const model = plan_waiting_find_model(text, &count);

    if (model != NULL) {
        points.points[points.count++] = (struct lull_pipeline_waiting_point){
            .sm_mhz = (uint32_t)model->sm_min_mhz,
            .power_w = count * model->waiting_w.points[0].value,
            .down_ns = lull_ns_from_ms(down_ms),
            .up_ns = lull_ns_from_ms(up_ms)};
        *points_out = points;
        return 0;
    }
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");

        if (points.count == LULL_PLAN_MAX_WAITING ||
            parse_point(at, length, down_ms, up_ms, &points.points[points.count]) < 0)
            return plan_waiting_refuse(text, err);
        points.count++;
        at += length;
        if (*at == '\0')
            break;
    }
    *points_out = points;
    return 0;
}

/* ---- chosen ------------------------------------------------------------------------------ */

/* Counts every gap, of any length, so that the report can say how few of them are worth a clock. */
static size_t count_gaps(const struct lull_pipeline_graph *graph, const int64_t *begin_ns,
                         const int64_t *end_ns, int64_t period_ns)
{
    size_t count = 0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        int64_t free_ns = 0;

        for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
            count += begin_ns[graph->on_device[k]] > free_ns;
            free_ns = end_ns[graph->on_device[k]];
        }
        count += period_ns > free_ns;
    }
    return count;
}

int lull_plan_waiting_choose(const struct lull_pipeline_problem *problem,
                             const struct lull_plan_waiting_points *points,
                             const struct lull_pipeline_switching *switching,
                             const uint32_t *option, int64_t period_ns,
                             struct lull_plan_waits *waits_out)
{
    const size_t ops = problem->graph->op_count;
    int64_t *const begin_ns = calloc(ops, sizeof(*begin_ns));
    int64_t *const end_ns = calloc(ops, sizeof(*end_ns));
    struct lull_plan_waits waits = {
        .waits = calloc(ops + problem->graph->device_count, sizeof(*waits.waits))};
    int64_t makespan_ns = -ENOMEM;

    if (begin_ns != NULL && end_ns != NULL && waits.waits != NULL)
        makespan_ns =
            lull_pipeline_switching_timeline(problem, switching, option, begin_ns, end_ns);
    if (makespan_ns >= 0) {
        const struct lull_pipeline_timeline timeline = {option, begin_ns, end_ns, period_ns,
                                                        switching->dwell_ns};

        waits.count = lull_pipeline_waiting(problem, points->points, points->count, &timeline,
                                            waits.waits, &waits.saved_j);
        waits.gap_count = count_gaps(problem->graph, begin_ns, end_ns, period_ns);
        *waits_out = waits;
    } else {
        free(waits.waits);
    }
    free(begin_ns);
    free(end_ns);
    return makespan_ns < 0 ? (int)makespan_ns : 0;
}

/* ---- printed ----------------------------------------------------------------------------- */

void lull_plan_waiting_print(const struct lull_plan_waiting_points *points,
                             const struct lull_plan_waits *waits, double energy_j)
{
    printf("\nOf %zu gaps %zu have a clock for waiting:\n", waits->gap_count, waits->count);
    for (size_t i = 0; i < points->count; i++) {
        size_t count = 0;
        double low_s = 0.0;
        double saved_j = 0.0;

        for (size_t k = 0; k < waits->count; k++)
            if (waits->waits[k].point == i) {
                count++;
                low_s += (double)(waits->waits[k].wake_ns - waits->waits[k].begin_ns) * 1e-9;
                saved_j += waits->waits[k].saved_j;
            }
        printf("%5u MHz: %zu, %.3f s, saving %.3f J\n", points->points[i].sm_mhz, count, low_s,
               saved_j);
    }
    printf("With them the iteration needs %.3f J, %.2f %% less than the plan.\n",
           energy_j - waits->saved_j, 100.0 * waits->saved_j / energy_j);
}

static void print_gap(const struct lull_pipeline_problem *problem,
                      const struct lull_plan_waiting_points *points,
                      const struct lull_pipeline_wait *wait)
{
    const struct lull_pipeline_graph *const graph = problem->graph;

    printf("{\"device\": %u, \"sm_mhz\": %u, \"begin_s\": %.9f, \"wake_s\": %.9f, "
           "\"end_s\": %.9f, \"saved_j\": %.9f, ",
           wait->device, points->points[wait->point].sm_mhz, (double)wait->begin_ns * 1e-9,
           (double)wait->wake_ns * 1e-9, (double)wait->end_ns * 1e-9, wait->saved_j);
    if (wait->before_op == UINT32_MAX) {
        printf("\"before\": null}");
        return;
    }
    printf("\"before\": {\"operation\": \"%s\", \"microbatch\": %u}}",
           lull_pipeline_kind_name(
               problem->profile->classes[graph->ops[wait->before_op].class_index].kind),
           graph->ops[wait->before_op].microbatch);
}

void lull_plan_waiting_print_json(const struct lull_pipeline_problem *problem,
                                  const struct lull_plan_waiting_points *points,
                                  const struct lull_plan_waits *waits, double energy_j)
{
    printf(",\n \"waiting\": {\"saved_j\": %.9f, \"energy_j\": %.9f, \"gaps\": [", waits->saved_j,
           energy_j - waits->saved_j);
    for (size_t i = 0; i < waits->count; i++) {
        printf("%s\n  ", i > 0 ? "," : "");
        print_gap(problem, points, &waits->waits[i]);
    }
    printf("]}");
}
