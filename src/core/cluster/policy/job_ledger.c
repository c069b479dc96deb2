/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/job_ledger.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void lull_job_ledger_fini(struct lull_job_ledger *book)
{
    for (size_t i = 0; i < book->room; i++)
        free(book->pages[i].shares);
    free(book->pages);
}

static int reach(struct lull_job_ledger *book, uint32_t job)
{
    size_t room = book->room > 0 ? book->room : 256;
    struct lull_job_record *pages;

    if (job < book->room)
        return 0;
    while (room <= job)
        room *= 2;
    pages = realloc(book->pages, room * sizeof(*pages));
    if (pages == NULL)
        return -ENOMEM;
    memset(&pages[book->room], 0, (room - book->room) * sizeof(*pages));
    for (size_t i = book->room; i < room; i++) {
        pages[i].left_ratio = 1.0;
        pages[i].room_ns = -1;
    }
    book->pages = pages;
    book->room = room;
    return 0;
}

static void leave(struct lull_job_record *page, enum lull_cluster_stage stage)
{
    page->stage = stage;
    page->stamp++;
    free(page->shares);
    page->shares = NULL;
    page->share_count = 0;
}

int lull_job_ledger_arrive(struct lull_job_ledger *book, uint32_t job)
{
    const int rc = reach(book, job);

    if (rc < 0)
        return rc;
    leave(&book->pages[job], LULL_CLUSTER_QUEUED);
    return 0;
}

void lull_job_ledger_start(struct lull_job_ledger *book, uint32_t job, uint32_t point,
                           const struct lull_cluster_share *shares, size_t share_count,
                           int64_t now_ns)
{
    struct lull_job_record *const page = &book->pages[job];

    assert(job < book->room && page->stage != LULL_CLUSTER_RUNS);
    leave(page, LULL_CLUSTER_RUNS);
    page->point = point;
    page->since_ns = now_ns;
    page->pace = 1.0;
    page->shares = malloc(share_count * sizeof(*shares));
    if (page->shares == NULL)
        return;
    memcpy(page->shares, shares, share_count * sizeof(*shares));
    page->share_count = share_count;
}

static void settle(struct lull_job_record *page, const struct lull_cluster_job *job, int64_t now_ns)
{
    const int64_t stretch_ns = now_ns - page->since_ns;
    const int64_t again_ns = stretch_ns < page->restart_ns ? stretch_ns : page->restart_ns;

    assert(stretch_ns >= 0 && page->restart_ns >= 0);
    page->left_ratio -= fmin((double)(stretch_ns - again_ns) * page->pace /
                                 (double)job->points[page->point].time_ns,
                             page->left_ratio);
    assert(page->left_ratio >= 0.0 && page->left_ratio <= 1.0);
    page->restart_ns -= again_ns;
    page->since_ns = now_ns;
}

void lull_job_ledger_settle(struct lull_job_ledger *book, uint32_t job, int64_t now_ns)
{
    settle(&book->pages[job], &book->jobs->all[job], now_ns);
}

void lull_job_ledger_reclock(struct lull_job_ledger *book, uint32_t job, uint32_t point,
                             int64_t now_ns)
{
    lull_job_ledger_settle(book, job, now_ns);
    book->pages[job].point = point;
}

void lull_job_ledger_pace(struct lull_job_ledger *book, uint32_t job, double pace, int64_t now_ns)
{
    assert(pace > 0.0 && pace <= 1.0);
    lull_job_ledger_settle(book, job, now_ns);
    book->pages[job].pace = pace;
}

void lull_job_ledger_begin(struct lull_job_ledger *book, uint32_t job, uint32_t point,
                           int64_t now_ns)
{
    const struct lull_cluster_point *points = book->jobs->all[job].points;
    struct lull_job_record *const page = &book->pages[job];

    if (point == page->point)
        return;
    /* Not on the GPUs that were meant for it. */
    if (points[point].gpus != points[page->point].gpus ||
        points[point].type != points[page->point].type) {
        free(page->shares);
        page->shares = NULL;
        page->share_count = 0;
    }
    lull_job_ledger_reclock(book, job, point, now_ns);
}

void lull_job_ledger_pause(struct lull_job_ledger *book, uint32_t job, int64_t restart_ns,
                           int64_t now_ns)
{
    lull_job_ledger_settle(book, job, now_ns);
    if (restart_ns > book->pages[job].restart_ns)
        book->pages[job].restart_ns = restart_ns;
    leave(&book->pages[job], LULL_CLUSTER_PAUSED);
}

void lull_job_ledger_end(struct lull_job_ledger *book, uint32_t job)
{
    leave(&book->pages[job], LULL_CLUSTER_ABSENT);
}

static int64_t need_ns(const struct lull_job_record *page, int64_t time_ns)
{
    const double pace = page->stage == LULL_CLUSTER_RUNS ? page->pace : 1.0;
    const double left_ns = ceil((double)time_ns * page->left_ratio / pace);

    return page->restart_ns +
           (page->left_ratio >= 1.0 && pace >= 1.0 ? time_ns : (int64_t)fmax(left_ns, 1.0));
}

int64_t lull_job_ledger_need_ns(const struct lull_job_ledger *book, uint32_t job, uint32_t point)
{
    return need_ns(&book->pages[job], book->jobs->all[job].points[point].time_ns);
}

int64_t lull_job_ledger_left_ns(const struct lull_job_ledger *book, uint32_t job, uint32_t point,
                                int64_t now_ns)
{
    struct lull_job_record page = book->pages[job];

    if (page.stage == LULL_CLUSTER_RUNS)
        settle(&page, &book->jobs->all[job], now_ns);
    return need_ns(&page, book->jobs->all[job].points[point].time_ns);
}

int64_t lull_job_ledger_end_ns(const struct lull_job_ledger *book, uint32_t job)
{
    return book->pages[job].since_ns + lull_job_ledger_need_ns(book, job, book->pages[job].point);
}

void lull_running_set_add(struct lull_job_ledger *book, struct lull_running_set *running,
                          uint32_t job)
{
    if (running->count == running->room) {
        const uint32_t room = running->room > 0 ? 2 * running->room : 16;
        uint32_t *jobs = realloc(running->jobs, room * sizeof(*jobs));

        book->pages[job].position = UINT32_MAX;
        if (jobs == NULL)
            return;
        running->jobs = jobs;
        running->room = room;
    }
    book->pages[job].position = running->count;
    running->jobs[running->count++] = job;
}

void lull_running_set_remove(struct lull_job_ledger *book, struct lull_running_set *running,
                             uint32_t job)
{
    const uint32_t at = book->pages[job].position;

    if (at == UINT32_MAX)
        return;
    assert(at < running->count && running->jobs[at] == job);
    running->jobs[at] = running->jobs[--running->count];
    book->pages[running->jobs[at]].position = at;
}
