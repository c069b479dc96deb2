/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/certificate.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

int lull_certificate_init(struct lull_certificate *certificate,
                          const struct lull_pipeline_graph *graph)
{
    *certificate = (struct lull_certificate){.unit_w = 1.0};
    certificate->op_flow = calloc(graph->op_count, sizeof(*certificate->op_flow));
    certificate->edge_flow = calloc(graph->edge_count + 1, sizeof(*certificate->edge_flow));
    if (certificate->op_flow != NULL && certificate->edge_flow != NULL)
        return 0;
    lull_certificate_fini(certificate);
    return -ENOMEM;
}

void lull_certificate_fini(struct lull_certificate *certificate)
{
    if (certificate == NULL)
        return;
    free(certificate->op_flow);
    free(certificate->edge_flow);
    *certificate = (struct lull_certificate){.unit_w = 1.0};
}

/* Adds a flow. Returns false if it is negative or the sum leaves int64_t. */
static bool add_flow(int64_t *sum, int64_t flow)
{
    if (flow < 0 || *sum > INT64_MAX - flow)
        return false;
    *sum += flow;
    return true;
}

/* The sum of the flows over an operation's edges on one side; -1 if one of them is impossible. */
static int64_t over_edges(const struct lull_certificate *certificate, const uint32_t *edges,
                          uint32_t first, uint32_t last)
{
    int64_t sum = 0;

    for (uint32_t i = first; i < last; i++) {
        if (!add_flow(&sum, certificate->edge_flow[edges[i]]))
            return -1;
    }
    return sum;
}

static int certificate_refuse(const struct lull_pipeline_graph *graph, size_t op, const char *why,
                              struct lull_error *err)
{
    return lull_error_set(
        err, -EINVAL, "certificate: operation %zu (device %" PRIu32 ", microbatch %" PRIu32 ") %s",
        op, graph->ops[op].device, graph->ops[op].microbatch, why);
}

/* Sums are checked for overflow, because a flow from a file may hold any numbers. */
int lull_certificate_check(const struct lull_certificate *certificate,
                           const struct lull_pipeline_graph *graph, struct lull_error *err)
{
    int64_t from_source = 0;
    int64_t to_sink = 0;

    if (!(certificate->unit_w > 0.0) || isinf(certificate->unit_w))
        return lull_error_set(err, -EINVAL,
                              "certificate: its unit of flow is %g W, which is not above 0",
                              certificate->unit_w);
    for (size_t op = 0; op < graph->op_count; op++) {
        const int64_t through = certificate->op_flow[op];
        const bool is_first = graph->first_in[op] == graph->first_in[op + 1];
        const bool is_last = graph->first_out[op] == graph->first_out[op + 1];

        if (through < 0)
            return certificate_refuse(graph, op, "has a negative flow", err);
        if (!is_first && over_edges(certificate, graph->in_edges, graph->first_in[op],
                                    graph->first_in[op + 1]) != through)
            return certificate_refuse(graph, op, "does not get what flows through it", err);
        if (!is_last && over_edges(certificate, graph->out_edges, graph->first_out[op],
                                   graph->first_out[op + 1]) != through)
            return certificate_refuse(graph, op, "does not pass on what flows through it", err);
        if ((is_first && !add_flow(&from_source, through)) ||
            (is_last && !add_flow(&to_sink, through)))
            return certificate_refuse(graph, op, "makes the flow overflow", err);
    }
    if (from_source != certificate->value || to_sink != certificate->value)
        return lull_error_set(err, -EINVAL,
                              "certificate: its value is %" PRId64 ", but %" PRId64
                              " flows from the source and %" PRId64 " to the sink",
                              certificate->value, from_source, to_sink);
    return 0;
}

/* A sum, and the sum of its terms' magnitudes, which bounds the rounding error. */
struct certificate_sum {
    double value;
    double magnitude;
};

static void certificate_add(struct certificate_sum *sum, double term)
{
    sum->value += term;
    sum->magnitude += fabs(term);
}

/* Adds the operating point of least cost if time costs price_w. */
static void add_cheapest(struct certificate_sum *sum, const struct lull_pipeline_class *operations,
                         double price_w)
{
    const struct lull_pipeline_point *point = operations->points;
    size_t best = 0;
    double min_nj = INFINITY;

    for (size_t i = 0; i < operations->point_count; i++) {
        const double cost_nj = (double)point[i].energy_nj + price_w * (double)point[i].time_ns;

        if (cost_nj < min_nj) {
            min_nj = cost_nj;
            best = i;
        }
    }
    assert(operations->point_count > 0);
    certificate_add(sum, (double)point[best].energy_nj);
    certificate_add(sum, price_w * (double)point[best].time_ns);
}

/* Adds up what the flow proves, nJ, and by how much roundings may have moved it. */
static double certificate_add_up(const struct lull_certificate *certificate,
                                 const struct lull_pipeline_problem *problem, int64_t time_ns,
                                 double *slip_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    struct certificate_sum sum = {0.0, 0.0};
    double terms = (double)graph->device_count + 2.0 * (double)graph->op_count +
                   (double)graph->edge_count + 4.0;

    for (size_t op = 0; op < graph->op_count; op++) {
        const double price_w = (double)certificate->op_flow[op] * certificate->unit_w -
                               problem->blocking_w[graph->ops[op].device];

        add_cheapest(&sum, &problem->profile->classes[graph->ops[op].class_index], price_w);
    }
    for (size_t i = 0; i < graph->edge_count; i++)
        certificate_add(&sum, (double)certificate->edge_flow[i] * certificate->unit_w *
                                  (double)graph->edges[i].latency_ns);
    certificate_add(&sum, -(double)certificate->value * certificate->unit_w * (double)time_ns);
    for (uint32_t device = 0; device < graph->device_count; device++)
        certificate_add(&sum, problem->blocking_w[device] * (double)time_ns);
    /* Every term is off by a few roundings, every addition by one of what has been added. */
    *slip_out = DBL_EPSILON * terms * sum.magnitude;
    return sum.value;
}

double lull_certificate_bound(const struct lull_certificate *certificate,
                              const struct lull_pipeline_problem *problem, int64_t time_ns)
{
    double slip_nj;
    const double sum_nj = certificate_add_up(certificate, problem, time_ns, &slip_nj);

    return (sum_nj - slip_nj) * 1e-9;
}
