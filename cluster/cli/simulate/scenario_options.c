/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/scenario_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cluster/core/model/cluster.h"
#include "cluster/core/model/job.h"
#include "cluster/core/power/power_cap.h"

/* ---- values ------------------------------------------------------------------------------- */

/* index: at most the number of policies. */
static const char *scenario_policy_name(uint32_t index)
{
    const struct lull_cluster_policy_ops *ops = lull_cluster_policy_all()[index];

    return ops != NULL ? ops->name : NULL;
}

static int scenario_parse_policy(const char *text, void *ops, struct lull_error *err)
{
    const struct lull_cluster_policy_ops *const found = lull_cluster_policy_find(text);

    (void)err;
    if (found == NULL)
        return -EINVAL;
    memcpy(ops, &found, sizeof(found));
    return 0;
}

/* word: MODEL or MODEL:NODES, which is cut at the colon. */
static int scenario_parse_type(char *word, struct lull_scenario_model_options *model)
{
    const uint32_t type = model->type_count;
    char *const colon = strchr(word, ':');

    if (type == LULL_SCENARIO_MAX_TYPES)
        return -E2BIG;
    if (colon != NULL)
        *colon = '\0';
    if (lull_job_type_find(word, (uint32_t)strlen(word), &model->types[type]) < 0)
        return -ENOENT;
    if (colon != NULL &&
        lull_text_parse_int(colon + 1, 1, LULL_CLUSTER_MAX_NODES, &model->type_nodes[type]) < 0)
        return -EINVAL;
    model->type_count++;
    return 0;
}

static int refuse_type(struct lull_error *err)
{
    char known[sizeof(err->text)] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < lull_device_curve_count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s, ",
                                 lull_device_curves[i].name);
    return lull_error_set(err, -EINVAL,
                          "unknown model; known models: %sP100-PCIE-16GB and K80-12GB", known);
}

/* One type may go without a number of nodes, several need one each. */
static int scenario_parse_gpu(const char *text, void *options, struct lull_error *err)
{
    struct lull_scenario_model_options *const model =
        &((struct lull_scenario_options *)options)->model;
    char copy[256];
    char *rest = copy;

    model->type_count = 0;
    memset(model->type_nodes, 0, sizeof(model->type_nodes));
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return -EINVAL;
    for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
        const int rc = scenario_parse_type(word, model);

        if (rc < 0)
            return rc == -ENOENT ? refuse_type(err) : -EINVAL;
    }
    for (uint32_t i = 0; model->type_count > 1 && i < model->type_count; i++)
        if (model->type_nodes[i] == 0)
            return -EINVAL;
    return 0;
}

static int parse_elastic(const char *text, void *factor, struct lull_error *err)
{
    int64_t value;

    (void)err;
    if (lull_text_parse_int(text, 1, LULL_SCENARIO_MAX_ELASTIC, &value) < 0 ||
        (value & (value - 1)) != 0)
        return -EINVAL;
    memcpy(factor, &value, sizeof(value));
    return 0;
}

static const char *class_name(uint32_t index)
{
    if (index < LULL_JOB_CLASSES)
        return lull_job_classes[index].name;
    return index == LULL_JOB_CLASSES ? "mixed" : NULL;
}

static const char *const networks[] = {
    [LULL_JOB_NVLINK] = "nvlink", [LULL_JOB_ETHERNET] = "ethernet", NULL};

/* ---- rows --------------------------------------------------------------------------------- */

/* More joules or watts are a mistake of the user. */
#define MAX_AMOUNT 1e15

/* Outputs of a run of one policy. Not available with several policies or settings. */
#define OF_ONE_RUN "knob|bound|explain|gantt|jobs-out|power-out"

#define FLAG(NAME, FIELD, HELP, ...)                                                               \
    LULL_FLAG(NAME, struct lull_scenario_options, FIELD, HELP, __VA_ARGS__)
#define VALUE(NAME, UNIT, TYPE, FIELD, HELP, ...)                                                  \
    LULL_VALUE(NAME, UNIT, TYPE, struct lull_scenario_options, FIELD, HELP, __VA_ARGS__)
#define FILE_ROW(NAME, FIELD, HELP, ...)                                                           \
    VALUE(NAME, "FILE", TEXT, FIELD, HELP, .hint = LULL_OPTION_FILE, __VA_ARGS__)
#define GIVEN(FIELD) LULL_GIVEN(struct lull_scenario_options, FIELD)

const struct lull_option lull_scenario_rows[] = {
    LULL_GROUP("The policy and how its run is judged"),
    VALUE("policy", "NAME", OWN, policy.ops, "The policy, one of those below.",
          .parse = scenario_parse_policy, .word_at = scenario_policy_name),
    VALUE("knob", "VALUE", NUMBER, policy.knob,
          "The number by which the policy trades time for energy, if it has one.",
          GIVEN(policy.has_knob), .least = -INFINITY, .expected = "a number",
          .otherwise = "the parameter of the policy"),
    VALUE("policies", "NAME,NAME...|all", TEXT, policy.compare,
          "Run several policies instead, and print them side by side.",
          .excludes = "policy|sweep|" OF_ONE_RUN,
          .more = "With --json it is an array compared of summaries, each with its policy."),
    VALUE("sweep", "[FROM:TO:]COUNT", TEXT, policy.sweep,
          "Run the policy with COUNT values of its knob, and print them side by side.",
          .needs = "policy", .excludes = OF_ONE_RUN,
          .more = "Without FROM and TO, values range from a hundredth to a hundred times the "
                  "default (1 if that is 0), within the parameter's limits: in equal steps, or "
                  "over more than a decade by equal factors. With --json, output is as for "
                  "--policies, each with its setting."),
    VALUE(
        "bound", "S", NUMBER, policy.bound_slot_s,
        "Report a lower bound for any schedule as good as this one, computed in slots of this many "
        "seconds.",
        GIVEN(policy.is_bounded), .is_bare_allowed = true, .is_open = true,
        .otherwise = "a 288th of the run", .more = "See Bounds below."),
    VALUE("certificate-slots", "N", WHOLE, policy.certificate.slots,
          "How many slots of time the certificate of pd-rats is searched for in.", .least = 1,
          .most = LULL_CERTIFICATE_MAX, .otherwise = "2048, or 1024 with --preemptible",
          .more = "Whatever is found is proven; more slots and steps prove more."),
    VALUE("certificate-steps", "N", WHOLE, policy.certificate.steps,
          "Number of steps of that search.", .least = 1, .most = LULL_CERTIFICATE_MAX,
          .otherwise = "60"),

    LULL_GROUP("The jobs, the cluster and its GPUs"),
    FILE_ROW("pools", model.pools,
             "Virtual clusters with queues and nodes of their own, a table vc,nodes; jobs of "
             "others are rejected.",
             .excludes = "nodes"),
    VALUE("nodes", "N", WHOLE, model.nodes, "Without --pools: the nodes of the one cluster.",
          .least = 1, .most = LULL_CLUSTER_MAX_NODES),
    VALUE("gpus-per-node", "N", WHOLE, model.gpus_per_node, "GPUs of a node.", .least = 1,
          .most = LULL_CLUSTER_MAX_NODE_GPUS, .default_value = "8"),
    VALUE("run-w", "W", NUMBER, model.run_w, "Power of a GPU with a job.", .default_value = "350",
          .excludes = "gpu-types"),
    VALUE("idle-w", "W", NUMBER, model.idle_w, "Power of a GPU without a job in a node that is on.",
          .otherwise = "60, or from --gpu-types and --points"),
    FLAG("preemptible", model.is_preemptible,
         "Jobs may be preempted; they resume after 7 to 60 s, depending on their number of GPUs.",
         .more = "Used by srtf, srsf, hdf, powerflow and pd-rats, for jobs whose preemption cost "
                 "is not in the table: 7 s with one GPU, 30 s with up to 8, 60 s beyond that."),
    VALUE("value", "FACTOR", NUMBER, model.value_ratio,
          "A job that ends in time is worth FACTOR times the energy that it takes at full clocks, "
          "where the table has no value_j for it.",
          .most = 1e6, .is_open = true,
          .more = "pd-rats rejects jobs that are worth less than they cost. Other "
                  "policies run every job; its value is counted as well."),
    LULL_OWN("gpu-types", "MODEL[:NODES],...", scenario_parse_gpu,
             "The GPU types, whose curves give the power of jobs. Durations in the table are for "
             "the first type.",
             .expected = "one MODEL, or up to 4 of them, each with :NODES",
             .more =
                 "Models are those of lull emulate, P100-PCIE-16GB and K80-12GB; NODES replaces "
                 "--nodes or --pools. Jobs that name a workload (a Chakra execution trace, as JSON "
                 "or messages, or a SimAI text; plain or gzip) get modes of its task graph, "
                 "scheduled at every clock, on the first type and as many GPUs as they request; "
                 "they compute with the kernels of their class (default: compute)."),
    FILE_ROW("points", model.points,
             "Operating points of jobs by their job_type, and of the single type of GPU: the table "
             "of lull-schedule(1).",
             .excludes = "gpu-types|run-w",
             .more = "The jobs' durations are those at full clocks, regardless of time_s in the "
                     "table. A job of another type runs at full clocks, where a GPU draws full_w."),
    FLAG("clocks", model.has_clocks, "Jobs may run at each clock that is worth it.",
         .needs = "gpu-types",
         .more = "A job has at most 16 operating points, none of which another beats in time and "
                 "energy. Queues take the fastest one."),
    FLAG("pipelines", model.has_pipelines,
         "Compute jobs of 16 GPUs and more are pipelines, which may run by the plans of lull plan "
         "(A100, H100).",
         .needs = "clocks", .more = "Their number of GPUs is a multiple of 8."),
    VALUE("elastic", "FACTOR", OWN, model.elastic,
          "Jobs may get up to FACTOR times fewer or more GPUs than they request.",
          .parse = parse_elastic, .expected = "2, 4, 8 or 16", .default_value = "1",
          .needs = "gpu-types"),
    VALUE("class", "NAME", WORD, model.job_class,
          "What jobs compute: compute, vision, memory or host; or mixed: known from the model or "
          "type of job that the table names, else drawn.",
          .word_at = class_name, .default_value = "mixed", .needs = "gpu-types"),
    LULL_SEED_ROW(struct lull_scenario_options, model.seed, "Seed of drawn classes."),
    VALUE("network", NULL, WORD, model.network,
          "The network between the GPUs of a job. It determines how much of the time communication "
          "is exposed.",
          .words = networks, .default_value = "nvlink", .needs = "gpu-types"),
    FILE_ROW("rates", model.rates,
             "How fast kinds of jobs are on types and numbers of GPUs, a CSV as Gavel's; needed "
             "for more than one type of GPU.",
             .needs = "gpu-types",
             .more = "Columns: gpu,consolidated,job_type,num_gpus,iters_per_s. A job runs on the "
                     "types that have a rate for it."),
    FILE_ROW("fitted", model.models,
             "What `lull model fit` has written: jobs whose model the table names as one of its "
             "kernels run over clocks as that was measured, whatever their class.",
             .needs = "gpu-types",
             .more = "A kernel is named as APP/ARG/KERNEL, or an unambiguous prefix of that. What "
                     "such a job communicates is in what was measured, so it gains nothing and "
                     "loses nothing by --network."),

    LULL_GROUP("Power, and nodes that are turned off"),
    FLAG("power-down", power.turns_nodes_off,
         "Turn a node off when it has idled for as much energy as turning it on takes, and on "
         "again for jobs that wait."),
    VALUE("turn-on-j", "J", NUMBER, power.turn_on_j, "Energy of turning a node on.",
          .most = MAX_AMOUNT, .default_value = "100000"),
    VALUE("turn-on-s", "S", TIME, power.turn_on_ns, "How long turning a node on takes.",
          .most = (double)LULL_CLUSTER_MAX_TURN_ON_NS / 1e9, .default_value = "180"),
    VALUE("off-w", "W", NUMBER, power.off_w, "Power of a node that is off.", .most = 1e9,
          .default_value = "0"),
    VALUE("power-cap", "W", NUMBER, power.cap_w,
          "The cluster never draws more, with all jobs at their peaks.", .most = MAX_AMOUNT,
          .is_open = true,
          .more =
              "GPUs without a job and nodes that turn on count too. Jobs start in another mode, "
              "on another node, or wait; while others wait, at the clock with which most gets "
              "done under the cap. Those that would exceed the cap alone are rejected, and "
              "none is preempted."),
    VALUE("node-cap", "W", NUMBER, power.node_cap_w, "No node ever draws more.", .most = MAX_AMOUNT,
          .is_open = true),
    VALUE("peak-ratio", "R", NUMBER, power.peak_ratio, "Peak power of a job over its mean.",
          .least = 1.0, .most = 1000.0, .otherwise = "1.05", .needs = "power-cap|node-cap"),
    FILE_ROW("price", power.price, "Price of energy, a table time_s,price_per_kwh.",
             .more = "A row holds until the next one."),
    FILE_ROW("carbon", power.carbon, "Carbon intensity of energy, a table time_s,g_per_kwh."),

    LULL_GROUP("Nodes that fail"),
    FILE_ROW("failures", failures.table, "When nodes are down, a table node,from_s,to_s.",
             .excludes = "mtbf-h",
             .more = "Nodes count from 0 over all pools. A job on a failed node waits again, "
                     "without what it had done."),
    VALUE("mtbf-h", "H", TIME, failures.mtbf_ns,
          "Nodes fail at random, each after this many hours on average.",
          .most = (double)LULL_CLUSTER_MAX_NS / 3.6e12, .is_open = true,
          .more = "Failures continue until the longest job could have run after the last arrival."),
    VALUE("repair-minutes", "MIN", TIME, failures.repair_ns,
          "How long a node is down after a random failure.",
          .most = (double)LULL_CLUSTER_MAX_NS / 6e10, .is_open = true, .default_value = "60",
          .needs = "mtbf-h"),
    VALUE("failure-seed", "N", WHOLE, failures.seed, "Seed of random failures.",
          .default_value = "1", .needs = "mtbf-h"),
    VALUE("checkpoint-minutes", "MIN", TIME, failures.checkpoint_ns,
          "Jobs save their progress each time they have run this long, and resume from there after "
          "a failure.",
          .most = (double)LULL_CLUSTER_MAX_NS / 6e10, .otherwise = "they start again",
          .more = "Saving takes no time."),

    LULL_GROUP("What jobs share, with --gpu-types"),
    FLAG("contention", network.contention.shares_links,
         "Jobs on several nodes share the links of these: their communication takes longer beside "
         "others.",
         .more = "By how much of the time the others communicate; policies see the ends that this "
                 "makes."),
    VALUE("rack-nodes", "N", WHOLE, network.rack_nodes,
          "Nodes of a rack, in the order of pools and nodes.", .least = 1,
          .most = LULL_CLUSTER_MAX_NODES, .needs = "rack-uplink",
          .more = "Policies keep gangs within a rack where they can."),
    VALUE("rack-uplink", "R", NUMBER, network.contention.uplink_links,
          "What can leave or enter a rack at once, in links of a node; implies --contention.",
          GIVEN(network.contention.shares_links), .most = 1e9, .is_open = true,
          .needs = "rack-nodes"),
    VALUE(
        "contention-penalty", "R", NUMBER, network.contention.penalty_ratio,
        "What each further transfer on a link costs beyond its part, over the time alone; implies "
        "--contention.",
        GIVEN(network.contention.shares_links), .most = 1000.0, .default_value = "0",
        .more = "AdaDUAL's is 0.27."),
    VALUE("storage-mb-s", "MB/S", NUMBER, network.contention.storage_mb_s,
          "Total rate at which jobs can read training data.", .most = MAX_AMOUNT, .is_open = true,
          .more = "All GPUs get equal shares, up to their demand."),

    LULL_GROUP("Output"),
    FILE_ROW("jobs-out", output.jobs_out,
             "Write the start, placement and reason of each job (CSV).",
             .more = "Columns: job_id,vc,gpus,fate,submit_s,start_s,end_s,placement,shared_s,"
                     "reason. placement is node:GPUs, nodes counted in their pool; shared_s how "
                     "much longer the job ran for sharing links and the storage."),
    FILE_ROW("power-out", output.power_out,
             "Write the cluster's power over time, in Batsim's format (CSV).",
             .more = "For the columns, see GANTT below."),
    FILE_ROW("gantt", output.gantt,
             "Draw the jobs on the GPUs, the power and the waiting jobs over time (SVG)."),
    VALUE("explain", "JOB", TEXT, output.explain,
          "Explain why this job (its id, else its number) waited, and its placement and clock."),
    LULL_JSON_ROW(struct lull_scenario_options, output.is_json),
    {0},
};

_Static_assert(LULL_SCENARIO_MAX_TYPES == 4 && LULL_SCENARIO_MAX_ELASTIC == 16,
               "what --gpu-types and --elastic expect names these numbers");

/* ---- valid combinations ------------------------------------------------------------------- */

void lull_scenario_options_prepare(void *given)
{
    struct lull_scenario_options *const options = given;

    options->model.idle_w = -1.0; /* it is not given */
    options->power.peak_ratio = LULL_POWER_CAP_PEAK_RATIO;
}

int lull_scenario_options_check(struct lull_scenario_options *options, struct lull_error *err)
{
    struct lull_scenario_model_options *const model = &options->model;
    const bool has_gpu = model->type_count > 0;

    if (options->policy.ops == NULL && options->policy.compare == NULL)
        return lull_error_set(err, -EINVAL, "give either --policy NAME or --policies NAME,NAME...");
    if (model->type_count > 1 && model->rates == NULL)
        return lull_error_set(err, -EINVAL, "more than one type of GPU needs --rates");
    if ((model->pools != NULL) + (model->nodes != 0) + (model->type_nodes[0] != 0) != 1)
        return lull_error_set(err, -EINVAL,
                              "give either --pools or --nodes, or --gpu-types with nodes");
    if (lull_contention_is_on(&options->network.contention) && !has_gpu)
        return lull_error_set(err, -EINVAL,
                              "what jobs send and read is only known with --gpu-types");
    if (model->idle_w < 0.0 && !has_gpu && model->points == NULL)
        model->idle_w = 60.0;
    return 0;
}
