/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_string.h"

/* Limit of named jobs that go first. */
enum { MAX_NAMED = 8 };

/* ---- documents ----------------------------------------------------------------------------- */

/* Sets a field and takes the value; false: out of memory. */
static bool schedule_report_set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

static json_t *schedule_report_number_or_null(bool is_known, double value)
{
    return is_known ? json_real(value) : json_null();
}

static json_t *in_time(const struct lull_queue_job *job, const struct lull_cluster_point *point,
                       double start_s)
{
    if (job->deadline_s == 0)
        return json_null();
    return json_boolean(start_s + (double)point->time_ns * 1e-9 <= (double)job->deadline_s);
}

/* A point, as it would be from start_s on. */
static json_t *point_document(const struct lull_queue *queue, const struct lull_schedule *schedule,
                              uint32_t job, const struct lull_cluster_point *point, double start_s)
{
    json_t *const object = json_object();
    const bool is_full = point->sm_mhz == 0;

    if (object == NULL ||
        !schedule_report_set(object, "gpu",
                             lull_json_string(lull_schedule_type(schedule, point->type))) ||
        !schedule_report_set(object, "sm_mhz",
                             is_full ? json_null() : json_integer(point->sm_mhz)) ||
        !schedule_report_set(object, "time_s", json_real((double)point->time_ns * 1e-9)) ||
        !schedule_report_set(object, "energy_j",
                             schedule_report_number_or_null(
                                 lull_schedule_knows_energy(schedule, job), point->energy_j)) ||
        !schedule_report_set(object, "in_time", in_time(&queue->jobs[job], point, start_s))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *points_document(const struct lull_queue *queue, const struct lull_schedule *schedule,
                               uint32_t job, double start_s)
{
    json_t *const list = json_array();
    uint32_t count;
    const struct lull_cluster_point *const points = lull_schedule_points(schedule, job, &count);

    for (uint32_t i = 0; list != NULL && i < count; i++)
        if (json_array_append_new(list, point_document(queue, schedule, job, &points[i], start_s)) <
            0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *nodes_document(const struct lull_queue *queue,
                              const struct lull_schedule_decision *decision)
{
    json_t *const list = json_array();

    for (size_t i = 0; list != NULL && i < decision->share_count; i++) {
        const struct lull_cluster_share *const share = &decision->shares[i];

        if (json_array_append_new(list, json_pack("{s:o, s:i}", "node",
                                                  lull_json_string(queue->nodes[share->node].name),
                                                  "gpus", (int)share->gpus)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Returns which figures are unknown, and why; NULL: all are known. */
static const char *why_null(const struct lull_queue *queue, const struct lull_schedule *schedule,
                            uint32_t job)
{
    if (!lull_schedule_knows_energy(schedule, job))
        return "no operating points are known for a job of this name (--points), so it runs at "
               "full clocks, and its time limit counts as its length";
    if (!lull_schedule_knows_time(schedule, job))
        return "how long a job of this name takes is not known (time_s in --points), so its time "
               "limit counts as its length";
    return queue->jobs[job].takes_clocks ? NULL
                                         : "no clock can be set for it: it was not submitted with "
                                           "--lull-schedule, or this user is not a Slurm operator";
}

static json_t *free_document(const struct lull_schedule *schedule)
{
    json_t *const object = json_object();

    for (uint32_t type = 0; object != NULL && type < lull_schedule_type_count(schedule); type++)
        if (!schedule_report_set(object, lull_schedule_type(schedule, type),
                                 json_integer((json_int_t)lull_schedule_free(schedule, type)))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

json_t *lull_report_decision(const struct lull_queue *queue, const struct lull_schedule *schedule,
                             const struct lull_schedule_decision *decision, const char *policy)
{
    const double now_s = lull_schedule_now_s(schedule);
    json_t *const object = json_object();
    bool is_whole =
        object != NULL &&
        schedule_report_set(object, "job", json_integer(queue->jobs[decision->job].id)) &&
        schedule_report_set(object, "name", lull_json_string(queue->jobs[decision->job].name)) &&
        schedule_report_set(object, "submit_s",
                            json_integer(queue->jobs[decision->job].submit_s)) &&
        schedule_report_set(object, "time_s", json_real(now_s)) &&
        schedule_report_set(object, "policy", lull_json_string(policy)) &&
        schedule_report_set(object, "reason", lull_json_string_or_null(decision->reason)) &&
        schedule_report_set(object, "is_rejected", json_boolean(decision->is_rejected));

    if (is_whole && !decision->is_rejected)
        is_whole = schedule_report_set(object, "nodes", nodes_document(queue, decision)) &&
                   schedule_report_set(object, "chosen", json_integer(decision->point_number)) &&
                   schedule_report_set(object, "points",
                                       points_document(queue, schedule, decision->job, now_s)) &&
                   schedule_report_set(
                       object, "why_null",
                       lull_json_string_or_null(why_null(queue, schedule, decision->job))) &&
                   schedule_report_set(object, "free_afterwards", free_document(schedule));
    if (is_whole)
        return object;
    json_decref(object);
    return NULL;
}

json_t *lull_report_shift(const struct lull_power_shift *shift)
{
    return json_pack("{s:f, s:f, s:f}", "begin_s", (double)shift->begin_ns * 1e-9, "now_per_kwh",
                     shift->now_per_kwh, "begin_per_kwh", shift->begin_per_kwh);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Observations up to a job's start. */
struct lookahead {
    json_t *ahead; /* jobs that go first, the first few of them */
    uint32_t ahead_count;
    json_t *start; /* NULL: there is none */
};

/* Plays the policy from now on until the job begins. */
static int schedule_report_look_ahead(const struct lull_queue *queue,
                                      struct lull_schedule *schedule, uint32_t job,
                                      const char *policy, struct lookahead *seen,
                                      struct lull_error *err)
{
    struct lull_schedule_decision decision;
    int rc;

    do {
        while ((rc = lull_schedule_next(schedule, &decision, err)) > 0) {
            if (decision.job == job) {
                seen->start = lull_report_decision(queue, schedule, &decision, policy);
                return 0;
            }
            if (!decision.is_rejected && seen->ahead_count++ < MAX_NAMED)
                json_array_append_new(seen->ahead, json_integer(queue->jobs[decision.job].id));
        }
        if (rc < 0)
            return rc;
    } while (lull_schedule_advance(schedule));
    return 0;
}

json_t *lull_report_waiting(const struct lull_queue *queue, struct lull_schedule *schedule,
                            uint32_t job, const char *policy, struct lull_error *err)
{
    const struct lull_queue_job *const asked = &queue->jobs[job];
    const char *const obstacle = lull_schedule_obstacle(schedule, job);
    const struct lull_power_shift *const shift = lull_schedule_shift(schedule, job);
    struct lookahead seen = {.ahead = json_array()};
    json_t *const object = json_object();
    json_t *const free_now = free_document(schedule);

    if (obstacle == NULL && shift == NULL && object != NULL && seen.ahead != NULL &&
        schedule_report_look_ahead(queue, schedule, job, policy, &seen, err) < 0) {
        json_decref(object);
        json_decref(seen.ahead);
        json_decref(free_now);
        return NULL;
    }
    if (object != NULL && schedule_report_set(object, "job", json_integer(asked->id)) &&
        schedule_report_set(object, "state", lull_json_string("waits")) &&
        schedule_report_set(object, "policy", lull_json_string(policy)) &&
        schedule_report_set(object, "now_s", json_real((double)queue->now_s)) &&
        schedule_report_set(object, "gpus", json_integer(asked->gpus)) &&
        schedule_report_set(object, "free", free_now) &&
        schedule_report_set(object, "obstacle", lull_json_string_or_null(obstacle)) &&
        schedule_report_set(object, "shift",
                            shift != NULL ? lull_report_shift(shift) : json_null()) &&
        schedule_report_set(object, "ahead", seen.ahead) &&
        schedule_report_set(object, "ahead_count", json_integer(seen.ahead_count)) &&
        schedule_report_set(object, "expected", seen.start != NULL ? seen.start : json_null()))
        return object;
    json_decref(object);
    return NULL;
}

/* ---- text ---------------------------------------------------------------------------------- */

static const char *schedule_report_text_of(const json_t *object, const char *name)
{
    const char *const text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

static double schedule_report_number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void schedule_report_print_time(double time_s, FILE *out)
{
    const time_t time = (time_t)time_s;
    char text[32] = "?";
    struct tm tm;

    if (localtime_r(&time, &tm) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    fputs(text, out);
}

static void schedule_report_print_clock(const json_t *point, FILE *out)
{
    const json_t *const mhz = json_object_get(point, "sm_mhz");

    if (json_is_integer(mhz))
        fprintf(out, "%lld MHz", (long long)json_integer_value(mhz));
    else
        fputs("full clocks", out);
}

static void schedule_report_print_point(const json_t *point, bool is_chosen, FILE *out)
{
    const json_t *const energy = json_object_get(point, "energy_j");
    const json_t *const in_time = json_object_get(point, "in_time");

    fprintf(out, "  %c %-12s ", is_chosen ? '*' : ' ', schedule_report_text_of(point, "gpu"));
    schedule_report_print_clock(point, out);
    fprintf(out, "\t%10.1f s", schedule_report_number_of(point, "time_s"));
    if (json_is_number(energy))
        fprintf(out, " %14.0f J", json_number_value(energy));
    if (json_is_boolean(in_time))
        fputs(json_is_true(in_time) ? "  in time" : "  too late", out);
    fputc('\n', out);
}

static void schedule_report_print_place(const json_t *decision, FILE *out)
{
    const json_t *const points = json_object_get(decision, "points");
    const json_t *const nodes = json_object_get(decision, "nodes");
    const size_t chosen = (size_t)json_integer_value(json_object_get(decision, "chosen"));

    fputs(" at ", out);
    schedule_report_print_clock(json_array_get(points, chosen), out);
    fputs(" on", out);
    for (size_t i = 0; i < json_array_size(nodes); i++)
        fprintf(out, "%s %s:%lld", i > 0 ? "," : "",
                schedule_report_text_of(json_array_get(nodes, i), "node"),
                (long long)json_integer_value(json_object_get(json_array_get(nodes, i), "gpus")));
}

static void print_comparison(const json_t *decision, FILE *out)
{
    const json_t *const points = json_object_get(decision, "points");
    const size_t chosen = (size_t)json_integer_value(json_object_get(decision, "chosen"));

    if (schedule_report_text_of(decision, "reason")[0] != '\0')
        fprintf(out, "  %s\n", schedule_report_text_of(decision, "reason"));
    fputs("  what it could run in, * is what it got:\n", out);
    for (size_t i = 0; i < json_array_size(points); i++)
        schedule_report_print_point(json_array_get(points, i), i == chosen, out);
    if (schedule_report_text_of(decision, "why_null")[0] != '\0')
        fprintf(out, "  %s\n", schedule_report_text_of(decision, "why_null"));
}

void lull_report_print_decision(const json_t *decision, bool is_dry, FILE *out)
{
    fprintf(out, "job %lld ", (long long)json_integer_value(json_object_get(decision, "job")));
    if (json_is_true(json_object_get(decision, "is_rejected"))) {
        fprintf(out, "cannot run under policy %s: %s\n",
                schedule_report_text_of(decision, "policy"),
                schedule_report_text_of(decision, "reason"));
        return;
    }
    fputs(is_dry ? "would be released " : "was released ", out);
    schedule_report_print_time(schedule_report_number_of(decision, "time_s"), out);
    fprintf(out, " by policy %s", schedule_report_text_of(decision, "policy"));
    schedule_report_print_place(decision, out);
    fputc('\n', out);
    print_comparison(decision, out);
}

static void print_shift(const json_t *shift, FILE *out)
{
    fputs("until ", out);
    schedule_report_print_time(schedule_report_number_of(shift, "begin_s"), out);
    fprintf(out, ", when a kWh is at %.4g where it is at %.4g now, and its deadline lets it\n",
            schedule_report_number_of(shift, "begin_per_kwh"),
            schedule_report_number_of(shift, "now_per_kwh"));
}

void lull_report_print_shifted(const json_t *shifted, FILE *out)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(shifted, i, entry)
    {
        fprintf(out, "job %lld waits ",
                (long long)json_integer_value(json_object_get(entry, "job")));
        print_shift(entry, out);
    }
}

static void print_ahead(const json_t *waiting, FILE *out)
{
    const json_t *const ahead = json_object_get(waiting, "ahead");
    const long long count = (long long)json_integer_value(json_object_get(waiting, "ahead_count"));

    if (count == 0)
        return;
    fprintf(out, "  %lld %s before it:", count, count == 1 ? "job goes" : "jobs go");
    for (size_t i = 0; i < json_array_size(ahead); i++)
        fprintf(out, "%s %lld", i > 0 ? "," : "",
                (long long)json_integer_value(json_array_get(ahead, i)));
    fputs((size_t)count > json_array_size(ahead) ? ", ...\n" : "\n", out);
}

void lull_report_print_waiting(const json_t *waiting, FILE *out)
{
    const json_t *const expected = json_object_get(waiting, "expected");
    const json_t *const free_now = json_object_get(waiting, "free");
    const json_t *const shift = json_object_get(waiting, "shift");
    const char *type;
    json_t *count;

    fprintf(out, "job %lld waits under policy %s\n",
            (long long)json_integer_value(json_object_get(waiting, "job")),
            schedule_report_text_of(waiting, "policy"));
    if (schedule_report_text_of(waiting, "obstacle")[0] != '\0') {
        fprintf(out, "  %s\n", schedule_report_text_of(waiting, "obstacle"));
        return;
    }
    if (json_is_object(shift)) {
        fputs("  it waits ", out);
        print_shift(shift, out);
        return;
    }
    fprintf(out, "  it needs %lld GPUs; free now:",
            (long long)json_integer_value(json_object_get(waiting, "gpus")));
    json_object_foreach((json_t *)free_now, type, count)
        fprintf(out, " %lld %s", (long long)json_integer_value(count), type);
    fputc('\n', out);
    print_ahead(waiting, out);
    if (!json_is_object(expected)) {
        fputs("  start time unknown: the policy never starts it\n", out);
        return;
    }
    fputs("  it will begin ", out);
    schedule_report_print_time(schedule_report_number_of(expected, "time_s"), out);
    schedule_report_print_place(expected, out);
    fputs(", if jobs take as long as is expected\n", out);
    print_comparison(expected, out);
}
