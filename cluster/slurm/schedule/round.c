/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/round.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json_string.h"
#include "base/log.h"
#include "cluster/slurm/schedule/report.h"
#include "cluster/slurm/schedule/slurm_release.h"

/* Limit of placements of a job that does not begin although there is room for it. */
enum { MAX_TRIES = 4 };

static const char in_vain[] =
    "Slurm has not started it on nodes with free GPUs: cores or memory may be missing there";

/* ---- documents ----------------------------------------------------------------------------- */

struct round_report {
    json_t *decisions;
    json_t *handed_over;
    json_t *held_again;
    json_t *shifted; /* kept for cheaper power */
    uint32_t waiting;
};

/* Adds a value to a list and takes it. */
static int round_add(json_t *list, json_t *value)
{
    return value != NULL && json_array_append_new(list, value) == 0 ? 0 : -ENOMEM;
}

static json_t *round_finish(const struct lull_round *round, const struct lull_queue *queue,
                            struct round_report *reported)
{
    return json_pack("{s:o, s:o, s:I, s:b, s:i, s:o, s:o, s:o, s:o}", "policy",
                     lull_json_string(round->rules.policy->name), "partition",
                     lull_json_string(lull_slurm_partition(round->slurm)), "now_s",
                     (json_int_t)queue->now_s, "is_dry", round->journal == NULL, "waiting",
                     (int)reported->waiting, "decisions", reported->decisions, "handed_over",
                     reported->handed_over, "held_again", reported->held_again, "shifted",
                     reported->shifted);
}

/* ---- acting -------------------------------------------------------------------------------- */

/* Logs a request for a job that Slurm has rejected. Returns 0; -EAGAIN ends the round, because
 * slurmctld does not answer. */
static int round_pass_error(int rc, const struct lull_error *err)
{
    if (rc == -EAGAIN || rc == -ENOMEM)
        return rc;
    if (rc < 0)
        lull_log(LULL_LOG_WARNING, "schedule", "%s", err->text);
    return 0;
}

/* Returns whether a released job is not to be waited for any longer: it has had its time, or a node
 * of its is away. */
static bool is_in_vain(const struct lull_round *round, const struct lull_queue *queue,
                       const struct lull_queue_job *job)
{
    if (job->stage != LULL_QUEUE_RELEASED || job->begin_s == 0)
        return false;
    for (uint32_t i = 0; i < job->share_count; i++)
        if (!queue->nodes[job->shares[i].node].is_usable)
            return true;
    return queue->now_s - job->begin_s >= round->patience_s;
}

/* Holds jobs again that were released in vain. */
static int round_hold_again(struct lull_round *round, const struct lull_queue *queue,
                            struct round_report *reported, struct lull_error *err)
{
    for (uint32_t i = 0; i < queue->job_count; i++) {
        const struct lull_queue_job *const job = &queue->jobs[i];
        int rc = 0;

        if (!is_in_vain(round, queue, job))
            continue;
        if (round->journal != NULL)
            rc = round_pass_error(lull_slurm_hold(round->slurm, i, err), err);
        if (rc == 0)
            rc = round_add(reported->held_again, json_integer(job->id));
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Why Lull leaves a waiting job to Slurm's own scheduler; NULL: it does not. */
static const char *reason_to_leave(const struct lull_queue *queue,
                                   const struct lull_schedule *schedule, uint32_t job)
{
    const struct lull_queue_job *const asked = &queue->jobs[job];

    if (asked->stage != LULL_QUEUE_WAITS || (asked->obstacle == NULL && asked->delay != NULL))
        return NULL;
    if (lull_schedule_obstacle(schedule, job) != NULL)
        return lull_schedule_obstacle(schedule, job);
    return asked->tries >= MAX_TRIES ? in_vain : NULL;
}

static int round_hand_over(struct lull_round *round, const struct lull_queue *queue,
                           const struct lull_schedule *schedule, struct round_report *reported,
                           struct lull_error *err)
{
    for (uint32_t i = 0; i < queue->job_count; i++) {
        const char *const reason = reason_to_leave(queue, schedule, i);
        int rc = 0;

        if (reason == NULL)
            continue;
        if (round->journal != NULL)
            rc = round_pass_error(lull_slurm_hand_over(round->slurm, i, err), err);
        if (rc == 0)
            rc = round_add(reported->handed_over,
                           json_pack("{s:i, s:o}", "job", (int)queue->jobs[i].id, "why",
                                     lull_json_string(reason)));
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int round_execute(struct lull_round *round, const struct lull_queue *queue,
                         const struct lull_schedule *schedule,
                         const struct lull_schedule_decision *decision,
                         struct round_report *reported, struct lull_error *err)
{
    json_t *const document =
        lull_report_decision(queue, schedule, decision, round->rules.policy->name);
    int rc = document != NULL ? 0 : lull_error_set(err, -ENOMEM, "out of memory");

    if (rc == 0 && round->journal != NULL && !decision->is_rejected) {
        rc = lull_slurm_release(round->slurm, decision, err);
        if (rc < 0)
            goto drop;
        if (lull_schedule_journal_add(round->journal, document, err) < 0)
            lull_log(LULL_LOG_WARNING, "schedule", "%s", err->text);
        if (lull_past_add(round->past, document) < 0)
            lull_log(LULL_LOG_WARNING, "schedule", "not enough memory for what was decided");
        round->decisions++;
    }
    if (rc == 0)
        return round_add(reported->decisions, document);

drop:
    json_decref(document);
    return round_pass_error(rc, err);
}

static int round_act(struct lull_round *round, const struct lull_queue *queue,
                     struct lull_schedule *schedule, struct round_report *reported,
                     struct lull_error *err)
{
    struct lull_schedule_decision decision;
    int rc = round_hold_again(round, queue, reported, err);

    if (rc == 0)
        rc = round_hand_over(round, queue, schedule, reported, err);
    if (rc < 0)
        return rc;
    while ((rc = lull_schedule_next(schedule, &decision, err)) > 0) {
        if (queue->jobs[decision.job].tries >= MAX_TRIES)
            continue; /* it has been handed over */
        rc = round_execute(round, queue, schedule, &decision, reported, err);
        if (rc < 0)
            return rc;
        reported->waiting -= decision.is_rejected ? 0 : 1;
    }
    return rc;
}

/* Reports the jobs that wait for cheaper power, and records the earliest of their times. */
static int round_log_shifted(struct lull_round *round, const struct lull_queue *queue,
                             const struct lull_schedule *schedule, struct round_report *reported)
{
    round->due_s = 0;
    for (uint32_t i = 0; i < queue->job_count; i++) {
        const struct lull_power_shift *const shift = lull_schedule_shift(schedule, i);
        json_t *entry;

        if (shift == NULL)
            continue;
        entry = lull_report_shift(shift);
        if (entry == NULL ||
            json_object_set_new(entry, "job", json_integer(queue->jobs[i].id)) < 0 ||
            json_array_append(reported->shifted, entry) < 0) {
            json_decref(entry);
            return -ENOMEM;
        }
        json_decref(entry);
        if (round->due_s == 0 || shift->begin_ns / LULL_NS_PER_S < round->due_s)
            round->due_s = shift->begin_ns / LULL_NS_PER_S;
    }
    return 0;
}

/* Returns whether the passing of time may change a decision. */
static bool round_is_due(const struct lull_round *round, const struct lull_queue *queue)
{
    if (round->due_s != 0 && queue->now_s >= round->due_s)
        return true;
    for (uint32_t i = 0; i < queue->job_count; i++)
        if (queue->jobs[i].stage == LULL_QUEUE_RELEASED || queue->jobs[i].delay != NULL)
            return true;
    return false;
}

int lull_round_run(struct lull_round *round, json_t **reported_out, struct lull_error *err)
{
    struct round_report reported = {0};
    const struct lull_queue *queue;
    struct lull_schedule *schedule;
    bool has_changed;
    int rc = lull_slurm_read(round->slurm, &has_changed, &queue, err);

    *reported_out = NULL;
    if (rc < 0 || (!has_changed && !round->is_pressed && !round_is_due(round, queue)))
        return rc;
    rc = lull_schedule_create(queue, &round->rules, &schedule, err);
    if (rc < 0)
        return rc;
    round->looks++;
    round->is_pressed = false;
    reported = (struct round_report){json_array(), json_array(), json_array(), json_array(), 0};
    for (uint32_t i = 0; i < queue->job_count; i++)
        reported.waiting += queue->jobs[i].stage == LULL_QUEUE_WAITS ? 1 : 0;
    rc = round_log_shifted(round, queue, schedule, &reported);
    if (rc == 0)
        rc = round_act(round, queue, schedule, &reported, err);
    *reported_out = round_finish(round, queue, &reported);
    if (rc < 0) {
        round->is_pressed =
            true; /* a decision that was not executed is repeated in the next round */
        json_decref(*reported_out);
        *reported_out = NULL;
    }
    lull_schedule_destroy(schedule);
    return rc;
}
