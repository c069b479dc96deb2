/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/bound.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "cluster/core/bound/dual_bound.h"
#include "cluster/core/bound/dual_search.h"
#include "cluster/core/power/baseline_power.h"
#include "cluster/core/bound/slot_relaxation.h"
#include "base/child.h"
#include "cluster/trace/slot_file.h"

/* How many slots a run has where no length is given. */
enum { DEFAULT_SLOTS = 288 };

/* CLP and CBC must never share a program with what GPL libraries are linked to, so that lull-bound
 * runs as a process. */
static const char program[] = "lull-bound";

/* The jobs that a bound is of, and how their time and power become slots. */
struct bounding {
    const struct lull_cluster *cluster;
    const struct lull_cluster_conditions *conditions;
    struct lull_cluster_job *all;
    struct lull_cluster_jobs done;
    double *rest_w; /* [type] */
    struct lull_slotting slotting;
};

/* ---- the jobs ----------------------------------------------------------------------------- */

/* Takes the jobs that were done, since the bound is of schedules that run them; a job that was late
 * has no deadline there. Returns the last end. */
static int64_t take_done(struct bounding *bounding, const struct lull_cluster_jobs *jobs,
                         const struct lull_cluster_run *run)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    int64_t last_end_ns = 0;
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        struct lull_cluster_job *job = &bounding->all[count];

        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        *job = jobs->all[i];
        job->value_j = 0.0;
        job->is_preemptible = lull_cluster_may_pause(job, bounding->conditions);
        if (outcomes[i].end_ns > job->deadline_ns)
            job->deadline_ns = LULL_CLUSTER_NEVER;
        if (outcomes[i].end_ns > last_end_ns)
            last_end_ns = outcomes[i].end_ns;
        count++;
    }
    bounding->done = (struct lull_cluster_jobs){bounding->all, count};
    return last_end_ns;
}

static int64_t choose_slot_ns(double slot_s, int64_t last_end_ns)
{
    int64_t slot_ns = last_end_ns / DEFAULT_SLOTS;

    if (slot_s > 0.0)
        slot_ns = (int64_t)fmin(slot_s * 1e9, (double)LULL_CLUSTER_MAX_NS);
    return slot_ns > 0 ? slot_ns : 1;
}

/* What the caps leave for jobs above what all GPUs draw at rest. The caps of nodes count as their
 * sum, because slots do not know where jobs run. */
static int64_t choose_cap_w(const struct bounding *bounding)
{
    const struct lull_power_cap *cap = &bounding->conditions->cap;
    double most_w = INFINITY;

    if (cap->cluster_w > 0.0)
        most_w = cap->cluster_w;
    if (cap->node_w > 0.0)
        most_w = fmin(most_w, cap->node_w * bounding->cluster->node_count);
    most_w -= lull_baseline_power_total_w(bounding->cluster, bounding->rest_w);
    if (most_w > (double)LULL_SLOTS_MOST_CAP_W)
        return LULL_SLOTS_UNCAPPED;
    return (int64_t)ceil(fmax(most_w, 0.0));
}

static int cluster_bound_prepare(struct bounding *bounding, const struct lull_cluster_jobs *jobs,
                                 const struct lull_cluster_run *run, double slot_s,
                                 struct lull_error *err)
{
    int64_t last_end_ns;

    bounding->all = calloc(jobs->count + 1, sizeof(*bounding->all));
    bounding->rest_w = calloc(bounding->cluster->type_count, sizeof(*bounding->rest_w));
    if (bounding->all == NULL || bounding->rest_w == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    last_end_ns = take_done(bounding, jobs, run);
    lull_baseline_power_of_types(bounding->cluster, &bounding->done,
                                 bounding->conditions->turns_nodes_off, bounding->rest_w);
    bounding->slotting = (struct lull_slotting){
        .slot_ns = choose_slot_ns(slot_s, last_end_ns),
        .horizon_ns = last_end_ns,
        .cap_w = choose_cap_w(bounding),
        .peak_ratio = bounding->conditions->cap.peak_ratio,
        .rest_w = bounding->rest_w,
        .may_reclock = true,
    };
    return 0;
}

/* ---- lull-bound --------------------------------------------------------------------------- */

static int write_problem(const struct lull_slot_problem *problem, double slot_s, FILE *out,
                         struct lull_error *err)
{
    lull_slot_file_write(problem, slot_s, out);
    if (fflush(out) != 0 || ferror(out))
        return lull_error_set(err, -EIO, "the problem for %s could not be written: disk full?",
                              program);
    rewind(out);
    return 0;
}

static int take_result(json_t *document, double *bound_j_out, struct lull_error *err)
{
    const json_t *bound = json_object_get(document, "bound_j");

    if (!json_is_number(bound))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s printed no bound_j: are it and this program of the same version?",
                              program);
    *bound_j_out = json_number_value(bound);
    return 0;
}

static int cluster_bound_start(FILE *problem, int out_fd, struct lull_child *child,
                               struct lull_error *err)
{
    const struct lull_child_setup setup = {.stdout_fd = out_fd, .stderr_fd = -1};
    char path[PATH_MAX];
    char name[32];
    char limit_s[] = "60";
    char *const argv[] = {path, name, "--json", "--time-limit", limit_s, NULL};
    struct lull_error why = {0};
    int rc;

    /* The program is in the same folder as this one, in a build or installed; else it is
     * searched for in PATH. */
    if (lull_file_find_own("cluster/solver/lull-bound", "../../bin/lull-bound", path, sizeof(path),
                           NULL) < 0)
        snprintf(path, sizeof(path), "%s", program);
    snprintf(name, sizeof(name), "/dev/fd/%d", fileno(problem));
    rc = lull_child_start_as(argv, NULL, &setup, child, &why);
    if (rc == -ENOENT)
        return lull_error_set(err, rc,
                              "--bound needs %s, which is neither next to this program nor on the "
                              "path; install CLP and CBC to build it",
                              program);
    return rc < 0 ? lull_error_set(err, rc, "%s", why.text) : 0;
}

/* Starts the program and reads its document, which is null where it printed none. Its result is
 * read to the end before it is waited for, so that a full pipe cannot stop it. */
static int cluster_bound_run_program(FILE *problem, struct lull_child *child, json_t **document_out,
                                     struct lull_error *err)
{
    FILE *reported;
    int ends[2];
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "no pipe for %s: %s", program, strerror(errno));
    rc = cluster_bound_start(problem, ends[1], child, err);
    close(ends[1]);
    reported = fdopen(ends[0], "r");
    if (reported == NULL) {
        close(ends[0]);
        return rc;
    }
    if (rc == 0)
        *document_out = json_loadf(reported, 0, NULL);
    fclose(reported);
    return rc;
}

static int cluster_bound_find(FILE *problem, double *bound_j_out, struct lull_error *err)
{
    struct lull_child child;
    json_t *document = NULL;
    int status = 0;
    int rc = cluster_bound_run_program(problem, &child, &document, err);

    if (rc < 0)
        return rc;
    lull_child_reap(&child, true, &status);
    if (status != 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s failed with status %d; see its output above",
                            program, status);
    else
        rc = take_result(document, bound_j_out, err);
    json_decref(document);
    return rc;
}

/* The proven bound of a checked problem, J. slot_s > 0 is reported to the program. */
static int bound_run_program(const struct lull_slot_problem *problem, double slot_s,
                             double *bound_j_out, struct lull_error *err)
{
    FILE *file = tmpfile();
    int rc;

    if (file == NULL)
        return lull_error_set(err, -errno, "no temporary file: %s", strerror(errno));
    rc = write_problem(problem, slot_s, file, err);
    if (rc == 0)
        rc = cluster_bound_find(file, bound_j_out, err);
    fclose(file);
    return rc;
}

/* ---- one bound ---------------------------------------------------------------------------- */

/* The energy of the jobs if none blocks another: each runs in its cheapest operating point. */
static int bound_alone(const struct lull_slot_problem *problem, double *bound_j_out)
{
    double *none = calloc((size_t)problem->type_count * problem->slots, sizeof(*none));
    const struct lull_dual_prices prices = {none, NULL};
    int rc = -ENOMEM;

    if (none != NULL)
        rc = lull_dual_bound(problem, &prices, bound_j_out, NULL);
    free(none);
    return rc;
}

/* Bounds the energy of the jobs, in total or only above the idle power of their GPUs. If the run
 * needed no more than its jobs do alone, lull-bound cannot improve the bound. */
static int bound_jobs(const struct bounding *bounding, bool is_above_rest, double run_j,
                      double *bound_j_out, struct lull_error *err)
{
    struct lull_slotting slotting = bounding->slotting;
    struct lull_slot_relaxation slotted;
    int rc;

    slotting.is_above_rest = is_above_rest;
    rc = lull_slot_relaxation_create(bounding->cluster, &bounding->done, &slotting, &slotted, err);
    if (rc < 0)
        return rc;
    rc = bound_alone(&slotted.problem, bound_j_out);
    if (rc < 0)
        lull_error_set(err, rc, "no memory for a bound of %u slots", slotted.problem.slots);
    else if (*bound_j_out < run_j * (1.0 - 1e-12))
        rc = bound_run_program(&slotted.problem, (double)slotting.slot_ns * 1e-9, bound_j_out, err);
    lull_slot_relaxation_fini(&slotted);
    return rc;
}

/* Bounds the energy of all GPUs, also those without a job; total_j is the energy of the run.
 * Leaves *bound_j_out unchanged where idle GPUs draw nothing. */
static int bound_all(const struct bounding *bounding, double total_j, double *bound_j_out,
                     struct lull_error *err)
{
    const struct lull_cluster_conditions *conditions = bounding->conditions;
    int64_t end_ns;
    double rest_j;
    int rc = lull_baseline_power_min_end(bounding->cluster, &bounding->done, &end_ns);

    if (rc < 0)
        return lull_error_set(err, rc, "no memory for %zu jobs", bounding->done.count);
    rest_j = lull_baseline_power_energy_j(bounding->cluster, bounding->rest_w, conditions->failures,
                                          conditions->failure_count, end_ns);
    if (rest_j <= 0.0)
        return 0;
    rc = bound_jobs(bounding, true, total_j - rest_j, bound_j_out, err);
    *bound_j_out += rest_j;
    return rc;
}

/* No run needs less than a lower bound. If one does, the bound is wrong and is not reported. */
static int check_sound(double bound_j, double needed_j, struct lull_error *err)
{
    if (lull_dual_is_sound(bound_j, needed_j, needed_j))
        return 0;
    return lull_error_set(err, -EPROTO,
                          "internal error: the lower bound is %.9g J, but this run needs %.9g J; "
                          "please report this with the job table and the command line",
                          bound_j, needed_j);
}

int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run,
                       const struct lull_cluster_conditions *conditions, double slot_s,
                       struct lull_cluster_bound *bound_out, struct lull_error *err)
{
    struct bounding bounding = {.cluster = cluster, .conditions = conditions};
    struct lull_cluster_bound bound = {0};
    double run_j, all_j, idle_j;
    int rc = cluster_bound_prepare(&bounding, jobs, run, slot_s, err);

    if (rc < 0)
        goto end;
    if (bounding.done.count > 0) {
        lull_cluster_run_energy(run, &run_j, &idle_j);
        all_j = run_j + idle_j + lull_cluster_run_turn_on_j(run);
        rc = bound_jobs(&bounding, false, run_j, &bound.run_j, err);
        if (rc == 0)
            rc = bound_all(&bounding, all_j, &bound.all_j, err);
        if (rc == 0)
            rc = check_sound(bound.run_j, run_j, err);
        bound.all_j = fmax(bound.all_j, bound.run_j);
        if (rc == 0)
            rc = check_sound(bound.all_j, all_j, err);
        if (rc < 0)
            goto end;
    }
    *bound_out = bound;
end:
    free(bounding.all);
    free(bounding.rest_w);
    return rc;
}

/* ---- what it excludes --------------------------------------------------------------------- */

size_t lull_cluster_bound_notes(const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_conditions *conditions,
                                const char **notes_out)
{
    size_t count = 0;
    size_t preemptible = 0;

    for (size_t i = 0; i < jobs->count; i++)
        preemptible += lull_cluster_may_pause(&jobs->all[i], conditions);
    if (preemptible > 0)
        notes_out[count++] = "jobs that may run in pieces count with their least energy, and as if "
                             "they took no GPUs";
    if (conditions->cap.node_w > 0.0)
        notes_out[count++] = "caps of nodes count only as their sum, because the bound does not "
                             "know where jobs run";
    if (conditions->turns_nodes_off)
        notes_out[count++] = "GPUs without a job count as off, and turning on nodes as free, "
                             "because the bound does not know which nodes are on";
    if (conditions->failure_count > 0)
        notes_out[count++] = "work that failures undo counts as free";
    return count;
}
