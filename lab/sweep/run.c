/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/json_string.h"
#include "base/progress.h"
#include "lab/sweep/cuda_workload.h"
#include "lab/sweep/output.h"
#include "lab/sweep/sidecar.h"

/* The kinds of suites; the first available one is used. */
static const struct lull_workload_kind *const suites[] = {&lull_emulated_workload,
                                                          &lull_cuda_workload};

/* The length of one run of a kernel, in seconds. */
static const double slice_s = 0.25;

/* Repeats of a point whose times or powers differ by more are repeated (docs/research/dataset.md).
 */
static const double disagreement_ratio = 0.03;

struct sweep_session {
    const struct lull_sweep_requests *requests;
    struct lull_stop_signals *stop;
    struct lull_sweep_time time;
    struct lull_sweep_rig *rig;
    struct lull_sweep_load *load;
    struct lull_sweep_points points;
    struct lull_sweep_bench bench;
    struct lull_sweep_order *order;
    struct lull_sweep_output output;
    json_t *sidecar;
    struct lull_sweep_row row; /* with what all rows have in common */
    double begin_s;            /* of the sweep's time, at which its first row would have started */
    double offset_s;           /* time of its earlier runs */
    uint32_t started;          /* the kernel; UINT32_MAX: none */
    double base_time_ms;       /* of that kernel, as measured last; NAN */
    double visit_s;            /* mean time of visits */
    uint64_t visits;
    struct lull_progress watch;
    struct lull_sweep_outcome *outcome;
};

static bool sweep_run_is_stopped(void *context)
{
    return lull_is_stopped(((struct sweep_session *)context)->stop);
}

static void sweep_run_keep_alive(void *context)
{
    struct sweep_session *const session = context;

    lull_sweep_rig_poll(session->rig, NULL);
    if (sweep_run_is_stopped(session) && session->load != NULL)
        lull_sweep_load_cancel(session->load);
}

/* ---- kernels and points -------------------------------------------------------------------- */

static void count_row(struct sweep_session *session, const struct lull_sweep_row *row)
{
    struct lull_sweep_outcome *const outcome = session->outcome;

    outcome->rows++;
    outcome->marked += row->result.marks != 0;
    for (uint32_t i = 0; i < LULL_SWEEP_MARKS; i++)
        outcome->marks[i] += row->result.marks >> i & 1;
}

static void sweep_run_name_kernel(const struct sweep_session *session, uint32_t kernel,
                                  struct lull_sweep_row *row)
{
    const struct lull_workload_kernel names = lull_sweep_load_kernel(session->load, kernel);

    lull_sweep_name(names.kernel, row->kernel);
    lull_sweep_name(names.arg, row->arg);
}

/* Finds the visit that a row of an earlier run was. */
static bool find_visit(const struct sweep_session *session, const struct lull_sweep_row *row,
                       struct lull_sweep_visit *visit)
{
    const uint32_t kernels = lull_sweep_load_count(session->load);

    *visit = (struct lull_sweep_visit){kernels, session->points.count, row->repeat};
    for (uint32_t k = 0; k < kernels; k++) {
        struct lull_sweep_row named;

        sweep_run_name_kernel(session, k, &named);
        if (strcmp(named.kernel, row->kernel) == 0 && strcmp(named.arg, row->arg) == 0)
            visit->kernel = k;
    }
    for (uint32_t p = 0; p < session->points.count; p++) {
        const struct lull_sweep_setting *const setting = &session->points.settings[p];
        const double limit_w = 1e-3 * setting->limit_mw;

        if (setting->sm_mhz == row->sm_set_mhz &&
            (isnan(row->limit_set_w) || fabs(limit_w - row->limit_set_w) < 0.5))
            visit->point = p;
    }
    return visit->kernel < kernels && visit->point < session->points.count;
}

static struct lull_sweep_found found_of(const struct lull_sweep_result *result)
{
    return (struct lull_sweep_found){result->time_ms, result->power_w, result->marks == 0};
}

/* Takes in the rows of earlier runs. */
static int sweep_run_replay(struct sweep_session *session, struct lull_error *err)
{
    struct lull_sweep_table table;
    int result = lull_sweep_table_read(session->output.path, &table, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < table.count && result == 0; i++) {
        const struct lull_sweep_row *const row = &table.rows[i];
        const struct lull_sweep_found found = found_of(&row->result);
        struct lull_sweep_visit visit;

        if (!find_visit(session, row, &visit) ||
            !lull_sweep_order_found(session->order, &visit, &found)) {
            result = lull_error_set(err, -EINVAL,
                                    "%s: row %zu is not of this sweep; choose another file",
                                    session->output.path, i + 1);
            break;
        }
        count_row(session, row);
        session->row.order = row->order + 1;
        session->offset_s = row->begin_s + fmax(row->result.window_s, 0.0);
    }
    lull_sweep_order_interrupt(session->order);
    lull_sweep_table_fini(&table);
    return result;
}

/* Takes the sidecar of earlier runs instead of the new one. A sweep that was killed before it
 * wrote its own has no rows. */
static int sweep_run_resume(struct sweep_session *session, struct lull_error *err)
{
    json_t *before;
    int result = lull_sweep_sidecar_read(session->output.sidecar_path, &before, err);

    if (result == -ENOENT && !lull_sweep_output_has_rows(&session->output))
        return 0;
    if (result == -ENOENT)
        return lull_error_set(
            err, -ENOENT,
            "%s: missing, so the sweep cannot be resumed; start again with another file",
            session->output.sidecar_path);
    if (result < 0)
        return result;
    result = lull_sweep_sidecar_compare(before, session->sidecar, session->output.path, err);
    json_decref(session->sidecar);
    session->sidecar = before;
    json_object_set_new(before, "left_out", json_array()); /* is found out again */
    return result == 0 ? sweep_run_replay(session, err) : result;
}

/* ---- the sidecar --------------------------------------------------------------------------- */

static json_t *marks_json(const struct lull_sweep_outcome *outcome)
{
    json_t *const marks = json_object();

    for (uint32_t i = 0; i < LULL_SWEEP_MARKS; i++)
        json_object_set_new(marks, lull_sweep_mark_name(i), json_integer(outcome->marks[i]));
    return marks;
}

static int sweep_run_write_sidecar(struct sweep_session *session, const char *state,
                                   struct lull_error *err)
{
    json_t *const sidecar = session->sidecar;

    json_object_set_new(sidecar, "state", lull_json_string(state));
    json_object_set_new(sidecar, "rows", json_integer((json_int_t)session->outcome->rows));
    json_object_set_new(sidecar, "marked_rows", json_integer((json_int_t)session->outcome->marked));
    json_object_set_new(sidecar, "marks", marks_json(session->outcome));
    return lull_sweep_sidecar_write(session->output.sidecar_path, sidecar, err);
}

static void note_left_out(struct sweep_session *session, uint32_t kernel,
                          const struct lull_error *reason)
{
    json_t *const list = json_object_get(session->sidecar, "left_out");
    struct lull_sweep_row named;

    sweep_run_name_kernel(session, kernel, &named);
    json_array_append_new(
        list, json_pack("{s:o, s:o, s:o}", "kernel", lull_json_string(named.kernel), "arg",
                        lull_json_string(named.arg), "reason", lull_json_string(reason->text)));
    fprintf(stderr, "lull sweep: left out: %s %s: %s\n", named.kernel, named.arg, reason->text);
    session->outcome->left_out++;
}

/* ---- beginning ----------------------------------------------------------------------------- */

static int refuse_busy(struct sweep_session *session, struct lull_error *err)
{
    pid_t process;

    if (!lull_sweep_rig_is_busy(session->rig, &process))
        return 0;
    if (process != 0)
        return lull_error_set(err, -EBUSY,
                              "GPU %u: process %ld computes on it; a sweep needs it alone",
                              session->requests->gpu, (long)process);
    return lull_error_set(err, -EBUSY, "GPU %u: it is busy; a sweep needs it alone",
                          session->requests->gpu);
}

static int open_load(struct sweep_session *session, struct lull_error *err)
{
    const struct lull_sweep_requests *const requests = session->requests;
    const struct lull_workload_place place = {
        .gpu = requests->gpu,
        .uuid = lull_sweep_rig_info(session->rig)->uuid,
        .file = requests->suite_file,
        .slice_s = slice_s,
        .command = requests->command,
    };
    const struct lull_sweep_meanwhile meanwhile = {sweep_run_keep_alive, session};
    int result = LULL_E_UNSUPPORTED;

    if (requests->command != NULL)
        return lull_sweep_load_open(&lull_command_workload, &place, &session->time, &meanwhile,
                                    &session->load, err);
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]) && result == LULL_E_UNSUPPORTED; i++)
        result = lull_sweep_load_open(suites[i], &place, &session->time, &meanwhile, &session->load,
                                      err);
    return result;
}

static int make_order(struct sweep_session *session, struct lull_error *err)
{
    const struct lull_sweep_points *const points = &session->points;
    const struct lull_sweep_grid grid = {
        .kernels = lull_sweep_load_count(session->load),
        .points = points->count,
        .line_points = points->line,
        .base = points->line - 1,
        .repeats = session->requests->repeats,
        .is_coarse = points->is_adaptive,
        .coarse = LULL_SWEEP_COARSE,
        .disagreement_ratio = disagreement_ratio,
        .seed = session->requests->seed,
    };

    if (grid.kernels > LULL_SWEEP_KERNELS)
        return lull_error_set(err, LULL_E_FORMAT, "the suite has more than %d kernels",
                              LULL_SWEEP_KERNELS);
    session->order = lull_sweep_order_create(&grid, points->sm_mhz);
    return session->order != NULL ? 0
                                  : lull_error_set(err, -ENOMEM, "not enough memory for the order");
}

/* Starts a kernel unless it is already started. 1: this GPU cannot run it. */
static int sweep_run_start_kernel(struct sweep_session *session, uint32_t kernel,
                                  struct lull_error *err)
{
    struct lull_error reason = {0};
    int result;

    if (session->started == kernel)
        return 0;
    session->started = UINT32_MAX;
    session->base_time_ms = NAN;
    result = lull_sweep_load_start(session->load, kernel, &reason);
    if (result == LULL_E_UNSUPPORTED) {
        note_left_out(session, kernel, &reason);
        lull_sweep_order_drop(session->order, kernel);
        return 1;
    }
    if (result < 0)
        return lull_error_set(err, result, "%s", reason.text);
    session->started = kernel;
    return 0;
}

/* Warms the GPU up with the kernel that comes first. */
static int sweep_run_warm_up(struct sweep_session *session, struct lull_error *err)
{
    struct lull_sweep_visit visit;
    double took_s = 0.0;
    int result = 1;

    if (session->requests->protocol.warm_max_s <= 0.0)
        return 0;
    while (result == 1) {
        if (!lull_sweep_order_next(session->order, &visit))
            return 0;
        result = sweep_run_start_kernel(session, visit.kernel, err);
    }
    if (result < 0)
        return result;
    if (lull_progress_is_due(&session->watch) && !session->requests->is_quiet)
        lull_progress_draw("lull: warming up");
    result = lull_sweep_bench_warm_up(
        &session->bench, &session->points.settings[session->points.line - 1], &took_s, err);
    if (json_is_null(json_object_get(session->sidecar, "warmed_up_s")))
        json_object_set_new(session->sidecar, "warmed_up_s", lull_sweep_number(took_s));
    return result;
}

/* Measures the power of the GPU without a context, and learns how its counter is refreshed. */
static int measure_alone(struct sweep_session *session, struct lull_error *err)
{
    double idle_w = NAN;
    const int result = lull_sweep_bench_measure_idle(
        &session->bench, session->requests->protocol.idle_s, &idle_w, err);

    lull_sweep_bench_learn_refresh(&session->bench);
    json_object_set_new(session->sidecar, "idle_w", lull_sweep_number(idle_w));
    json_object_set_new(session->sidecar, "counter_refresh_ms",
                        lull_sweep_number(1e3 * session->bench.refresh_s));
    return result;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void sweep_run_show_visit(struct sweep_session *session,
                                 const struct lull_sweep_visit *visit)
{
    const uint64_t left = lull_sweep_order_left(session->order);
    struct lull_sweep_row named;

    if (session->requests->is_quiet || !lull_progress_is_due(&session->watch))
        return;
    sweep_run_name_kernel(session, visit->kernel, &named);
    lull_progress_draw("lull: %s rows, about %s left (%s): %s at %u MHz",
                       lull_amount_count(session->outcome->rows).text, lull_amount_count(left).text,
                       session->visits > 0 ? lull_amount_time((double)left * session->visit_s).text
                                           : "time unknown",
                       named.kernel, session->points.settings[visit->point].sm_mhz);
}

static int visit_point(struct sweep_session *session, const struct lull_sweep_visit *visit,
                       struct lull_error *err)
{
    const struct lull_sweep_setting *const setting = &session->points.settings[visit->point];
    const struct lull_device_info *const info = lull_sweep_rig_info(session->rig);
    const struct lull_sweep_target target = {
        .sm_mhz = setting->sm_mhz,
        .step_mhz = lull_sweep_step_mhz(info, setting->sm_mhz),
        .has_own_limit = setting->has_own_limit,
        .has_counter = (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) != 0,
        .base_sm_mhz = session->points.sm_mhz[session->points.line - 1],
        .base_time_ms = session->base_time_ms,
    };
    struct lull_sweep_row *const row = &session->row;
    const double now_s = lull_sweep_time_now(&session->time);
    struct lull_sweep_found found;
    int result;

    row->begin_s = session->offset_s + now_s - session->begin_s;
    result = lull_sweep_bench_visit(&session->bench, setting, &target, &row->result, err);
    if (result < 0)
        return result;
    sweep_run_name_kernel(session, visit->kernel, row);
    row->sm_set_mhz = setting->sm_mhz;
    row->mem_set_mhz = setting->mem_mhz;
    row->limit_set_w = setting->limit_mw > 0 ? 1e-3 * setting->limit_mw : NAN;
    row->repeat = visit->repeat;
    result = lull_sweep_output_append(&session->output, row, err);
    if (result < 0)
        return result;
    if (visit->point == session->points.line - 1)
        session->base_time_ms = row->result.time_ms;
    found = found_of(&row->result);
    lull_sweep_order_found(session->order, visit, &found);
    count_row(session, row);
    row->order++;
    session->visits++;
    session->visit_s +=
        (lull_sweep_time_now(&session->time) - now_s - session->visit_s) / (double)session->visits;
    return 0;
}

static int sweep_run_measure(struct sweep_session *session, struct lull_error *err)
{
    struct lull_sweep_visit visit;
    int result = 0;

    while (result >= 0 && lull_sweep_order_next(session->order, &visit)) {
        result = sweep_run_start_kernel(session, visit.kernel, err);
        if (result != 0)
            continue;
        sweep_run_show_visit(session, &visit);
        result = visit_point(session, &visit, err);
    }
    return result < 0 ? result : 0;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int prepare_gpu(struct sweep_session *session, struct lull_error *err)
{
    const struct lull_sweep_requests *const requests = session->requests;
    int result = lull_sweep_time_open(&session->time, err);

    if (result == 0)
        result = lull_sweep_rig_open(requests->gpu, &session->time, &session->rig, err);
    if (result == 0)
        result = refuse_busy(session, err);
    if (result == 0)
        result =
            lull_sweep_points_make(&requests->axes, lull_sweep_rig_info(session->rig),
                                   lull_sweep_rig_mem_mhz(session->rig),
                                   lull_sweep_rig_limit_mw(session->rig), &session->points, err);
    if (result == 0)
        result = lull_sweep_rig_lease(session->rig, requests->runtime_dir, requests->no_daemon,
                                      session->points.has_limits, err);
    return result;
}

/* The idle GPU is measured before the workload has a context on it. */
static int prepare_files(struct sweep_session *session, struct lull_error *err)
{
    const struct lull_sweep_requests *const requests = session->requests;
    json_t *const alone = json_object();
    int result;

    session->sidecar = alone;
    result = measure_alone(session, err);
    session->sidecar = NULL;
    if (result == 0)
        result = open_load(session, err);
    if (result == 0)
        result = make_order(session, err);
    session->bench.load = session->load;
    if (result == 0)
        session->sidecar = lull_sweep_sidecar_make(requests, session->rig, session->load,
                                                   &session->points, session->time.node != NULL);
    if (result == 0 && session->sidecar == NULL)
        result = lull_error_set(err, -ENOMEM, "not enough memory for the sidecar");
    if (result == 0) {
        json_object_update(session->sidecar, alone);
        result =
            lull_sweep_output_open(requests->path, requests->is_resuming, &session->output, err);
    }
    if (result == 0 && requests->is_resuming)
        result = sweep_run_resume(session, err);
    json_decref(alone);
    return result;
}

static void describe_rows(struct sweep_session *session)
{
    lull_sweep_name(lull_sweep_rig_info(session->rig)->name, session->row.gpu);
    lull_sweep_hash_unit(lull_sweep_rig_info(session->rig)->uuid, session->row.unit);
    lull_sweep_name(lull_sweep_load_kind(session->load)->name, session->row.suite);
}

static int sweep_run_all(struct sweep_session *session, struct lull_error *err)
{
    struct lull_error unwritten;
    int result = prepare_files(session, err);

    if (result < 0)
        return result;
    describe_rows(session);
    result = sweep_run_write_sidecar(session, "running", err);
    if (result == 0)
        result = sweep_run_warm_up(session, err);
    session->begin_s = lull_sweep_time_now(&session->time);
    if (result == 0)
        result = sweep_run_measure(session, err);
    lull_progress_end(&session->watch);
    if (sweep_run_write_sidecar(session, result == 0 ? "done" : "ended early", &unwritten) < 0 &&
        result == 0)
        result = lull_error_set(err, unwritten.code, "%s", unwritten.text);
    return result;
}

int lull_sweep(const struct lull_sweep_requests *requests, struct lull_stop_signals *stop,
               struct lull_sweep_outcome *outcome_out, struct lull_error *err)
{
    struct sweep_session session = {
        .requests = requests,
        .stop = stop,
        .output.fd = -1,
        .started = UINT32_MAX,
        .base_time_ms = NAN,
        .watch = lull_progress_begin(),
        .outcome = outcome_out,
    };
    int result;

    *outcome_out = (struct lull_sweep_outcome){.rows = 0};
    result = prepare_gpu(&session, err);
    if (result == 0) {
        session.bench = (struct lull_sweep_bench){
            .time = &session.time,
            .rig = session.rig,
            .protocol = &requests->protocol,
            .is_stopped = sweep_run_is_stopped,
            .context = &session,
        };
        result = sweep_run_all(&session, err);
    }
    if (session.load != NULL)
        lull_sweep_load_cancel(session.load);
    lull_sweep_load_close(session.load);
    lull_sweep_rig_close(session.rig);
    lull_sweep_order_destroy(session.order);
    lull_sweep_output_close(&session.output);
    lull_sweep_points_fini(&session.points);
    json_decref(session.sidecar);
    lull_sweep_time_close(&session.time);
    return result;
}
