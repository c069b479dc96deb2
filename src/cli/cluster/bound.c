/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/bound.h"

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
#include "core/cluster/dual_bound.h"
#include "core/cluster/slotted.h"
#include "governor/launch.h"
#include "trace/slot_file.h"

enum { USUAL_SLOTS = 288 };

static const char program[] = "lull-bound";

/* ---- the problem -------------------------------------------------------------------------- */

size_t lull_cluster_take_done(const struct lull_cluster_jobs *jobs,
                              const struct lull_cluster_run *run, struct lull_cluster_job *all_out,
                              int64_t *last_end_ns_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    size_t count = 0;

    *last_end_ns_out = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        struct lull_cluster_job *job = &all_out[count];

        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        *job = jobs->all[i];
        if (outcomes[i].end_ns > job->deadline_ns)
            job->deadline_ns = LULL_CLUSTER_NEVER;
        if (outcomes[i].end_ns > *last_end_ns_out)
            *last_end_ns_out = outcomes[i].end_ns;
        count++;
    }
    return count;
}

/* What the jobs need if nothing stands in the way of any: each its cheapest mode. */
static int bound_alone(const struct lull_slot_problem *problem, double *bound_j_out)
{
    double *none = calloc((size_t)problem->type_count * problem->slots, sizeof(*none));
    const struct lull_dual_prices prices = {none, NULL};
    const int result =
        none != NULL ? lull_dual_bound(problem, &prices, bound_j_out, NULL) : -ENOMEM;

    free(none);
    return result;
}

static int write_problem(const struct lull_slot_problem *problem, int64_t slot_ns, FILE *out,
                         struct lull_error *err)
{
    lull_slot_file_write(problem, (double)slot_ns * 1e-9, out);
    if (fflush(out) != 0 || ferror(out))
        return lull_error_set(err, -EIO, "the problem for %s could not be written: disk full?",
                              program);
    rewind(out);
    return 0;
}

/* ---- the process -------------------------------------------------------------------------- */

static int take_result(json_t *document, double *bound_j_out, struct lull_error *err)
{
    const json_t *bound = json_object_get(document, "bound_j");

    if (!json_is_number(bound))
        return lull_error_set(err, LULL_E_FORMAT, "%s gave no bound", program);
    *bound_j_out = json_number_value(bound);
    return 0;
}

/* Beside this program, in a build or installed; else where the path says. */
static void find_program(char *path, size_t size)
{
    if (lull_file_find_own("bound/lull-bound", "../../bin/lull-bound", path, size, NULL) < 0)
        snprintf(path, size, "%s", program);
}

static int start(FILE *problem, int out_fd, struct lull_child *child, struct lull_error *err)
{
    const struct lull_child_setup setup = {.stdout_fd = out_fd, .stderr_fd = -1};
    char path[PATH_MAX];
    char name[32];
    char *const argv[] = {path, name, "--json", NULL};
    struct lull_error why = {0};
    int result;

    find_program(path, sizeof(path));
    snprintf(name, sizeof(name), "/dev/fd/%d", fileno(problem));
    result = lull_child_start_as(argv, NULL, &setup, child, &why);
    if (result == -ENOENT)
        return lull_error_set(err, result,
                              "--bound needs %s, which is neither beside this program nor on the "
                              "path; it is built where CLP and CBC are installed",
                              program);
    return result < 0 ? lull_error_set(err, result, "%s", why.text) : 0;
}

static int run_program(FILE *problem, double *bound_j_out, struct lull_error *err)
{
    struct lull_child child;
    json_t *document;
    FILE *told;
    int ends[2];
    int status = 0;
    int result;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "no pipe for %s: %s", program, strerror(errno));
    result = start(problem, ends[1], &child, err);
    close(ends[1]);
    told = fdopen(ends[0], "r");
    if (told == NULL)
        close(ends[0]);
    document = result == 0 && told != NULL ? json_loadf(told, 0, NULL) : NULL;
    if (told != NULL)
        fclose(told);
    if (result == 0)
        lull_child_reap(&child, true, &status);
    if (result == 0 && status != 0)
        result = lull_error_set(err, LULL_E_FORMAT, "%s failed (status %d)", program, status);
    if (result == 0)
        result = take_result(document, bound_j_out, err);
    json_decref(document);
    return result;
}

/* Where the run itself needed no more than its jobs do alone, nothing is left to be found out. */
static int bound_problem(const struct lull_slot_problem *problem, int64_t slot_ns, double run_j,
                         double *bound_j_out, struct lull_error *err)
{
    FILE *file;
    int result = bound_alone(problem, bound_j_out);

    if (result < 0)
        return lull_error_set(err, result, "no memory for a bound of %u slots", problem->slots);
    if (*bound_j_out >= run_j * (1.0 - 1e-12))
        return 0;
    file = tmpfile();
    if (file == NULL)
        return lull_error_set(err, -errno, "no temporary file: %s", strerror(errno));
    result = write_problem(problem, slot_ns, file, err);
    if (result == 0)
        result = run_program(file, bound_j_out, err);
    fclose(file);
    return result;
}

static int64_t choose_slot_ns(double slot_s, int64_t last_end_ns)
{
    const int64_t slot_ns = slot_s > 0.0 ? (int64_t)fmin(slot_s * 1e9, (double)LULL_CLUSTER_MOST_NS)
                                         : last_end_ns / USUAL_SLOTS;

    return slot_ns > 0 ? slot_ns : 1;
}

int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run, double slot_s, double *bound_j_out,
                       struct lull_error *err)
{
    struct lull_cluster_job *all = calloc(jobs->count + 1, sizeof(*all));
    struct lull_slotting slotting = {.cap_w = LULL_SLOTS_UNCAPPED};
    struct lull_cluster_jobs done = {.all = all};
    struct lull_slotted slotted;
    double run_j, idle_j;
    int result = 0;

    if (all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    done.count = lull_cluster_take_done(jobs, run, all, &slotting.horizon_ns);
    slotting.slot_ns = choose_slot_ns(slot_s, slotting.horizon_ns);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    *bound_j_out = 0.0;
    if (done.count > 0) {
        result = lull_slotted_create(cluster, &done, &slotting, &slotted, err);
        if (result == 0) {
            result = bound_problem(&slotted.problem, slotting.slot_ns, run_j, bound_j_out, err);
            lull_slotted_fini(&slotted);
        }
    }
    free(all);
    return result;
}
