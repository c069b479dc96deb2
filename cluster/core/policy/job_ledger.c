/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/job_ledger.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void lull_job_ledger_fini(struct lull_job_ledger *ledger)
{
    for (size_t i = 0; i < ledger->room; i++)
        free(ledger->records[i].shares);
    free(ledger->records);
}

static int ledger_reach(struct lull_job_ledger *ledger, uint32_t job)
{
    size_t room = ledger->room > 0 ? ledger->room : 256;
    struct lull_job_record *records;

    if (job < ledger->room)
        return 0;
    while (room <= job)
        room *= 2;
    records = realloc(ledger->records, room * sizeof(*records));
    if (records == NULL)
        return -ENOMEM;
    memset(&records[ledger->room], 0, (room - ledger->room) * sizeof(*records));
    for (size_t i = ledger->room; i < room; i++) {
        records[i].left_ratio = 1.0;
        records[i].room_ns = -1;
    }
    ledger->records = records;
    ledger->room = room;
    return 0;
}

static void ledger_leave(struct lull_job_record *record, enum lull_cluster_stage stage)
{
    record->stage = stage;
    record->stamp++;
    free(record->shares);
    record->shares = NULL;
    record->share_count = 0;
}

int lull_job_ledger_arrive(struct lull_job_ledger *ledger, uint32_t job)
{
    const int rc = ledger_reach(ledger, job);

    if (rc < 0)
        return rc;
    ledger_leave(&ledger->records[job], LULL_CLUSTER_QUEUED);
    return 0;
}

void lull_job_ledger_start(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                           const struct lull_cluster_share *shares, size_t share_count,
                           int64_t now_ns)
{
    struct lull_job_record *const record = &ledger->records[job];

    assert(job < ledger->room && record->stage != LULL_CLUSTER_RUNS);
    ledger_leave(record, LULL_CLUSTER_RUNS);
    record->point = point;
    record->since_ns = now_ns;
    record->pace = 1.0;
    record->shares = malloc(share_count * sizeof(*shares));
    if (record->shares == NULL)
        return;
    memcpy(record->shares, shares, share_count * sizeof(*shares));
    record->share_count = share_count;
}

static void ledger_settle(struct lull_job_record *record, const struct lull_cluster_job *job,
                          int64_t now_ns)
{
    const int64_t stretch_ns = now_ns - record->since_ns;
    const int64_t again_ns = stretch_ns < record->restart_ns ? stretch_ns : record->restart_ns;

    assert(stretch_ns >= 0 && record->restart_ns >= 0);
    record->left_ratio -= fmin((double)(stretch_ns - again_ns) * record->pace /
                                   (double)job->points[record->point].time_ns,
                               record->left_ratio);
    assert(record->left_ratio >= 0.0 && record->left_ratio <= 1.0);
    record->restart_ns -= again_ns;
    record->since_ns = now_ns;
}

void lull_job_ledger_settle(struct lull_job_ledger *ledger, uint32_t job, int64_t now_ns)
{
    ledger_settle(&ledger->records[job], &ledger->jobs->all[job], now_ns);
}

void lull_job_ledger_reclock(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                             int64_t now_ns)
{
    lull_job_ledger_settle(ledger, job, now_ns);
    ledger->records[job].point = point;
}

void lull_job_ledger_pace(struct lull_job_ledger *ledger, uint32_t job, double pace, int64_t now_ns)
{
    assert(pace > 0.0 && pace <= 1.0);
    lull_job_ledger_settle(ledger, job, now_ns);
    ledger->records[job].pace = pace;
}

void lull_job_ledger_begin(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                           int64_t now_ns)
{
    const struct lull_cluster_point *points = ledger->jobs->all[job].points;
    struct lull_job_record *const record = &ledger->records[job];

    if (point == record->point)
        return;
    /* Not on the GPUs that were meant for it. */
    if (points[point].gpus != points[record->point].gpus ||
        points[point].type != points[record->point].type) {
        free(record->shares);
        record->shares = NULL;
        record->share_count = 0;
    }
    lull_job_ledger_reclock(ledger, job, point, now_ns);
}

void lull_job_ledger_pause(struct lull_job_ledger *ledger, uint32_t job, int64_t restart_ns,
                           int64_t now_ns)
{
    lull_job_ledger_settle(ledger, job, now_ns);
    if (restart_ns > ledger->records[job].restart_ns)
        ledger->records[job].restart_ns = restart_ns;
    ledger_leave(&ledger->records[job], LULL_CLUSTER_PAUSED);
}

void lull_job_ledger_end(struct lull_job_ledger *ledger, uint32_t job)
{
    ledger_leave(&ledger->records[job], LULL_CLUSTER_ABSENT);
}

static int64_t need_ns(const struct lull_job_record *record, int64_t time_ns)
{
    const double pace = record->stage == LULL_CLUSTER_RUNS ? record->pace : 1.0;
    const double left_ns = ceil((double)time_ns * record->left_ratio / pace);

    return record->restart_ns +
           (record->left_ratio >= 1.0 && pace >= 1.0 ? time_ns : (int64_t)fmax(left_ns, 1.0));
}

int64_t lull_job_ledger_need_ns(const struct lull_job_ledger *ledger, uint32_t job, uint32_t point)
{
    return need_ns(&ledger->records[job], ledger->jobs->all[job].points[point].time_ns);
}

int64_t lull_job_ledger_left_ns(const struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                                int64_t now_ns)
{
    struct lull_job_record record = ledger->records[job];

    if (record.stage == LULL_CLUSTER_RUNS)
        ledger_settle(&record, &ledger->jobs->all[job], now_ns);
    return need_ns(&record, ledger->jobs->all[job].points[point].time_ns);
}

int64_t lull_job_ledger_end_ns(const struct lull_job_ledger *ledger, uint32_t job)
{
    return ledger->records[job].since_ns +
           lull_job_ledger_need_ns(ledger, job, ledger->records[job].point);
}

void lull_running_set_add(struct lull_job_ledger *ledger, struct lull_running_set *running,
                          uint32_t job)
{
    ledger->records[job].position = UINT32_MAX;
    if (lull_array_reserve(&running->jobs, &running->room, running->count, sizeof(job)) < 0)
        return;
    ledger->records[job].position = running->count;
    running->jobs[running->count++] = job;
}

void lull_running_set_remove(struct lull_job_ledger *ledger, struct lull_running_set *running,
                             uint32_t job)
{
    const uint32_t at = ledger->records[job].position;

    if (at == UINT32_MAX)
        return;
    assert(at < running->count && running->jobs[at] == job);
    running->jobs[at] = running->jobs[--running->count];
    ledger->records[running->jobs[at]].position = at;
}
