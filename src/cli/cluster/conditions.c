/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/conditions.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text.h"
#include "trace/cluster_failures.h"

enum {
    KEY_POWER_DOWN = 600, /* those of other parsers of the command are below */
    KEY_TURN_ON_J,
    KEY_TURN_ON_S,
    KEY_OFF,
    KEY_FAILURES,
    KEY_MTBF,
    KEY_REPAIR,
    KEY_CHECKPOINT,
    KEY_FAILURE_SEED,
    KEY_CAP,
    KEY_NODE_CAP,
    KEY_PEAK,
    KEY_PRICE,
    KEY_CARBON,
    KEY_CONTENTION,
    KEY_RACK_NODES,
    KEY_UPLINK,
    KEY_PENALTY,
    KEY_STORAGE,
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Nodes that are turned off:", 0},
    {"power-down", KEY_POWER_DOWN, NULL, 0,
     "Turn idle nodes off when idling has taken as much as turning on does", 0},
    {"turn-on-j", KEY_TURN_ON_J, "J", 0, "Energy of turning a node on (100000)", 0},
    {"turn-on-s", KEY_TURN_ON_S, "S", 0, "How long that takes (180)", 0},
    {"off-w", KEY_OFF, "W", 0, "Of a node that is off (0)", 0},
    {NULL, 0, NULL, 0, "Nodes that fail:", 0},
    {"failures", KEY_FAILURES, "FILE", 0, "A table node,from_s,to_s", 0},
    {"mtbf-h", KEY_MTBF, "H", 0, "At random: hours between failures of a node, on average", 0},
    {"repair-minutes", KEY_REPAIR, "MIN", 0, "How long a node is down then (60)", 0},
    {"failure-seed", KEY_FAILURE_SEED, "N", 0, "Of random failures (1)", 0},
    {"checkpoint-minutes", KEY_CHECKPOINT, "MIN", 0,
     "Jobs keep what they had done so often while they ran (else they begin anew)", 0},
    {NULL, 0, NULL, 0, "Power:", 0},
    {"power-cap", KEY_CAP, "W", 0, "The cluster draws no more, jobs at their peaks", 0},
    {"node-cap", KEY_NODE_CAP, "W", 0, "No node draws more", 0},
    {"peak-ratio", KEY_PEAK, "R", 0, "Peak power of a job over its mean, for caps (1.05)", 0},
    {"price", KEY_PRICE, "FILE", 0, "What energy costs: a table time_s,price_per_kwh", 0},
    {"carbon", KEY_CARBON, "FILE", 0, "What it emits: a table time_s,g_per_kwh", 0},
    {NULL, 0, NULL, 0, "What jobs share, with --gpu:", 0},
    {"contention", KEY_CONTENTION, NULL, 0,
     "Jobs on several nodes share the links of these: their communication takes longer beside "
     "others",
     0},
    {"rack-nodes", KEY_RACK_NODES, "N", 0, "Nodes of a rack, with --rack-uplink", 0},
    {"rack-uplink", KEY_UPLINK, "R", 0,
     "What leaves or enters a rack at once, in links of a node; so with --contention", 0},
    {"contention-penalty", KEY_PENALTY, "R", 0,
     "What each further transfer on a link costs beyond its part, over the time alone (0)", 0},
    {"storage-mb-s", KEY_STORAGE, "MB/S", 0,
     "What all jobs together can read of their training data", 0},
    {0},
};

/* A number from 0 to most, times scale. */
static int parse_positive(const char *arg, double scale, double most, double *value_out)
{
    double value;

    if (lull_text_parse_number(arg, &value) < 0 || value < 0.0 || value * scale > most)
        return -EINVAL;
    *value_out = value * scale;
    return 0;
}

static int parse_time(const char *arg, double unit_ns, int64_t most_ns, int64_t *ns_out)
{
    double ns;
    const int result = parse_positive(arg, unit_ns, (double)most_ns, &ns);

    if (result == 0)
        *ns_out = (int64_t)ns;
    return result;
}

static int parse_cap(const char *arg, double *w_out)
{
    return parse_positive(arg, 1.0, 1e15, w_out) < 0 || *w_out == 0.0 ? -EINVAL : 0;
}

static int parse_node(int key, const char *arg, struct lull_conditions_options *wish)
{
    switch (key) {
    case KEY_TURN_ON_J:
        return parse_positive(arg, 1.0, 1e15, &wish->turn_on_j);
    case KEY_TURN_ON_S:
        return parse_time(arg, 1e9, LULL_CLUSTER_MOST_TURN_ON_NS, &wish->turn_on_ns);
    case KEY_OFF:
        return parse_positive(arg, 1.0, 1e9, &wish->off_w);
    case KEY_MTBF:
        return parse_time(arg, 3.6e12, LULL_CLUSTER_MOST_NS, &wish->mtbf_ns) < 0 ||
                       wish->mtbf_ns == 0
                   ? -EINVAL
                   : 0;
    case KEY_REPAIR:
        return parse_time(arg, 6e10, LULL_CLUSTER_MOST_NS, &wish->repair_ns) < 0 ||
                       wish->repair_ns == 0
                   ? -EINVAL
                   : 0;
    case KEY_CHECKPOINT:
        return parse_time(arg, 6e10, LULL_CLUSTER_MOST_NS, &wish->checkpoint_ns);
    case KEY_FAILURE_SEED:
        return lull_text_parse_int(arg, 0, INT64_MAX, &wish->seed);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int parse_sharing(int key, const char *arg, struct lull_conditions_options *wish)
{
    struct lull_contention_rules *const rules = &wish->contention;

    switch (key) {
    case KEY_CONTENTION:
        rules->shares_links = true;
        return 0;
    case KEY_RACK_NODES:
        return lull_text_parse_int(arg, 1, LULL_CLUSTER_MOST_NODES, &wish->rack_nodes);
    case KEY_UPLINK:
        rules->shares_links = true;
        return parse_positive(arg, 1.0, 1e9, &rules->uplink_links) < 0 || rules->uplink_links == 0.0
                   ? -EINVAL
                   : 0;
    case KEY_PENALTY:
        rules->shares_links = true;
        return parse_positive(arg, 1.0, 1e3, &rules->penalty_ratio);
    case KEY_STORAGE:
        return parse_positive(arg, 1.0, 1e15, &rules->storage_mb_s) < 0 ||
                       rules->storage_mb_s == 0.0
                   ? -EINVAL
                   : 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int parse_power(int key, char *arg, struct lull_conditions_options *wish)
{
    switch (key) {
    case KEY_CAP:
        return parse_cap(arg, &wish->cap_w);
    case KEY_NODE_CAP:
        return parse_cap(arg, &wish->node_cap_w);
    case KEY_PEAK:
        return parse_positive(arg, 1.0, 1e3, &wish->peak_ratio) < 0 || wish->peak_ratio < 1.0
                   ? -EINVAL
                   : 0;
    case KEY_POWER_DOWN:
        wish->turns_nodes_off = true;
        return 0;
    case KEY_FAILURES:
        wish->failures = arg;
        return 0;
    case KEY_PRICE:
        wish->price = arg;
        return 0;
    case KEY_CARBON:
        wish->carbon = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_conditions_options *const wish = state->input;
    int result;

    if (key == ARGP_KEY_INIT) {
        *wish = (struct lull_conditions_options){.turn_on_j = 1e5,
                                                 .turn_on_ns = INT64_C(180000000000),
                                                 .repair_ns = INT64_C(3600000000000),
                                                 .seed = 1,
                                                 .peak_ratio = LULL_POWER_CAP_PEAK_RATIO};
        return 0;
    }
    if (key == ARGP_KEY_END && wish->failures != NULL && wish->mtbf_ns > 0)
        argp_error(state, "give either --failures or --mtbf-h");
    if (key == ARGP_KEY_END && (wish->rack_nodes > 0) != (wish->contention.uplink_links > 0.0))
        argp_error(state, "give --rack-nodes and --rack-uplink, or neither");
    result = parse_node(key, arg, wish);
    if (result == ARGP_ERR_UNKNOWN)
        result = parse_power(key, arg, wish);
    if (result == ARGP_ERR_UNKNOWN)
        result = parse_sharing(key, arg, wish);
    if (result != 0 && result != ARGP_ERR_UNKNOWN)
        argp_error(state, "%s: not a usable value", arg);
    return result;
}

const struct argp lull_conditions_argp = {.options = options, .parser = parse_option};

/* ---- into a run --------------------------------------------------------------------------- */

void lull_conditions_apply_types(const struct lull_conditions_options *wish,
                                 struct lull_cluster_type *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        types[i].turn_on_j = wish->turn_on_j;
        types[i].turn_on_ns = wish->turn_on_ns;
        types[i].off_w = wish->off_w;
    }
}

void lull_conditions_apply_racks(const struct lull_conditions_options *wish,
                                 struct lull_cluster_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; wish->rack_nodes > 0 && i < count; i++)
        nodes[i].rack = i / (uint32_t)wish->rack_nodes;
}

/* The longest job, in its slowest mode, after the last arrival. */
static int64_t last_failure_ns(const struct lull_cluster_jobs *jobs)
{
    int64_t most_ns = 0;

    for (size_t i = 0; i < jobs->count; i++)
        for (uint32_t mode = 0; mode < jobs->all[i].mode_count; mode++)
            if (jobs->all[i].modes[mode].time_ns > most_ns)
                most_ns = jobs->all[i].modes[mode].time_ns;
    return jobs->count > 0 ? jobs->all[jobs->count - 1].arrival_ns + most_ns : 0;
}

int lull_conditions_make(const struct lull_conditions_options *wish,
                         const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         struct lull_conditions *conditions_out, struct lull_error *err)
{
    struct lull_cluster_conditions *const all = &conditions_out->all;
    int rc = 0;

    *conditions_out = (struct lull_conditions){0};
    *all = (struct lull_cluster_conditions){
        .turns_nodes_off = wish->turns_nodes_off,
        .cap = {.cluster_w = wish->cap_w,
                .node_w = wish->node_cap_w,
                .peak_ratio = wish->peak_ratio},
        .contention = wish->contention,
    };
    if (wish->failures != NULL)
        rc = lull_cluster_failures_read(wish->failures, cluster->node_count,
                                        &conditions_out->failures, &all->failure_count, err);
    else if (wish->mtbf_ns > 0)
        rc = lull_cluster_failures_draw(cluster->node_count, wish->mtbf_ns, wish->repair_ns,
                                        last_failure_ns(jobs), (uint64_t)wish->seed,
                                        &conditions_out->failures, &all->failure_count, err);
    if (rc == 0 && wish->price != NULL)
        rc = lull_tariff_read(wish->price, LULL_TARIFF_PRICE, &conditions_out->price, err);
    if (rc == 0 && wish->carbon != NULL)
        rc = lull_tariff_read(wish->carbon, LULL_TARIFF_CARBON, &conditions_out->carbon, err);
    all->failures = conditions_out->failures;
    all->price = wish->price != NULL ? &conditions_out->price.tariff : NULL;
    all->carbon = wish->carbon != NULL ? &conditions_out->carbon.tariff : NULL;
    return rc;
}

void lull_conditions_fini(struct lull_conditions *conditions)
{
    free(conditions->failures);
    lull_tariff_fini(&conditions->price);
    lull_tariff_fini(&conditions->carbon);
}

/* ---- what came of them -------------------------------------------------------------------- */

static double lost_s(const struct lull_cluster_run *run, size_t job_count, uint64_t *failures_out)
{
    double sum_s = 0.0;

    *failures_out = 0;
    for (size_t i = 0; i < job_count; i++) {
        sum_s += (double)lull_cluster_run_outcomes(run)[i].lost_ns * 1e-9;
        *failures_out += lull_cluster_run_outcomes(run)[i].failures;
    }
    return sum_s;
}

static double shared_s(const struct lull_cluster_run *run, size_t job_count, size_t *jobs_out)
{
    double sum_s = 0.0;

    *jobs_out = 0;
    for (size_t i = 0; i < job_count; i++) {
        sum_s += (double)lull_cluster_run_outcomes(run)[i].shared_ns * 1e-9;
        *jobs_out += lull_cluster_run_outcomes(run)[i].shared_ns > 0;
    }
    return sum_s;
}

void lull_conditions_print(const struct lull_conditions_options *wish,
                           const struct lull_cluster_run *run, size_t job_count, FILE *out)
{
    const struct lull_cluster_node_counts nodes = lull_cluster_run_nodes(run);
    const struct lull_power_meter *meter = lull_cluster_run_meter(run);
    uint64_t failures;
    const double lost = lost_s(run, job_count, &failures);
    size_t sharing;
    const double longer_s = shared_s(run, job_count, &sharing);

    if (wish->turns_nodes_off)
        fprintf(out, "nodes               turned off %llu times, on %llu times\n",
                (unsigned long long)nodes.turn_offs, (unsigned long long)nodes.turn_ons);
    if (wish->failures != NULL || wish->mtbf_ns > 0)
        fprintf(out,
                "failures            of nodes %llu; jobs hit %llu times, %.1f h of work lost\n",
                (unsigned long long)nodes.failures, (unsigned long long)failures, lost / 3600.0);
    if (lull_contention_is_on(&wish->contention))
        fprintf(out, "sharing             made %zu jobs run %.1f h longer\n", sharing,
                longer_s / 3600.0);
    if (wish->price != NULL)
        fprintf(out, "price               %.2f\n", lull_power_meter_price(meter));
    if (wish->carbon != NULL)
        fprintf(out, "carbon              %.3f t\n", lull_power_meter_carbon(meter) * 1e-6);
}

static json_t *real_or_null(double value, bool is_asked)
{
    return is_asked ? json_real(value) : json_null();
}

int lull_conditions_json(const struct lull_conditions_options *wish,
                         const struct lull_cluster_run *run, size_t job_count, json_t *into)
{
    const struct lull_cluster_node_counts nodes = lull_cluster_run_nodes(run);
    const struct lull_power_meter *meter = lull_cluster_run_meter(run);
    uint64_t failures;
    const double lost = lost_s(run, job_count, &failures);
    const bool is_shared = lull_contention_is_on(&wish->contention);
    size_t sharing;
    const double longer_s = shared_s(run, job_count, &sharing);
    json_t *fields = json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "turn_ons",
        (json_int_t)nodes.turn_ons, "turn_offs", (json_int_t)nodes.turn_offs, "node_failures",
        (json_int_t)nodes.failures, "job_failures", (json_int_t)failures, "lost_s", lost, "price",
        real_or_null(lull_power_meter_price(meter), wish->price != NULL), "carbon_g",
        real_or_null(lull_power_meter_carbon(meter), wish->carbon != NULL), "power_cap_w",
        real_or_null(wish->cap_w, wish->cap_w > 0.0), "node_cap_w",
        real_or_null(wish->node_cap_w, wish->node_cap_w > 0.0), "shared_s",
        real_or_null(longer_s, is_shared), "sharing_jobs",
        is_shared ? json_integer((json_int_t)sharing) : json_null());
    const int result = fields == NULL || into == NULL ? -1 : json_object_update(into, fields);

    json_decref(fields);
    return result < 0 ? -ENOMEM : 0;
}
