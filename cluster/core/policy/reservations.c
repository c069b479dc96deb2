/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/reservations.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "cluster/core/model/timeline_search.h"

/* Near prices to try, in units of the mean price that waiting jobs would pay for a GPU-second.
 * These and the numbers below were tuned with cluster/bench/bench_pd_rats.c, on other seeds than
 * its tests draw. */
static const double near_ratios[] = {0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.25, 1.6};

enum {
    NEAR_COUNT = sizeof(near_ratios) / sizeof(near_ratios[0]),
    MAX_ORDERS = 100, /* more hardly help */
    MIN_TRIED = 8,    /* jobs that are placed at any number of steps */
};

/* Standard deviation of random orders from the best one, of the logarithm of a key. */
static const double stray = 0.3;

/* Penalty for leaving out a job that has to run. It exceeds any gain or price. */
static const double left_out_j = 1e15;

/* Searches that continue side by side while one job is placed: for each number of GPUs and type. */
enum { MAX_SEARCHES = 8 };

/* The part of a plan for an operating point that does not depend on when it begins. */
struct reserved_option {
    bool is_possible;
    double now_j;       /* its gain if it could start now */
    double faded_ratio; /* of the near price over its time, if that did not end */
};

struct reserved_entry {
    bool has_to_run;                       /* ahead of all that need not */
    double key;                            /* the highest first */
    const struct reserved_option *options; /* [point] */
    struct lull_reservation reservation;
};

/* Looks for room for the operating points of one job. */
struct reserved_room {
    struct lull_timeline_search searches[MAX_SEARCHES];
    uint32_t count;
    int64_t start_ns;  /* the start found last, mostly that of the next point too, */
    double near_ratio; /* and the share of the near price at that time */
};

struct lull_reserver {
    uint32_t type_count;
    struct lull_timeline *reserved;          /* [type], while jobs are placed */
    struct lull_timeline_earliest *earliest; /* [type], on free and reserved GPUs */
    struct reserved_option *options;         /* of all jobs that are tried */
    size_t option_room;
    struct reserved_entry *entries; /* the next three point into them */
    struct reserved_entry *first;   /* all jobs, in the order of what they would pay */
    struct reserved_entry *tried;   /* the plan being made; it and the best one take turns */
    struct reserved_entry *best;    /* the best plan so far */
    size_t room;                    /* of each of the three */
    double near_j;                  /* the near price of the plan being made */
};

int lull_reserver_create(uint32_t type_count, struct lull_reserver **reserver_out)
{
    struct lull_reserver *reserver = calloc(1, sizeof(*reserver));

    if (reserver == NULL)
        return -ENOMEM;
    reserver->type_count = type_count;
    reserver->reserved = calloc(type_count, sizeof(*reserver->reserved));
    reserver->earliest = calloc(type_count, sizeof(*reserver->earliest));
    if (reserver->reserved == NULL || reserver->earliest == NULL) {
        free(reserver->reserved);
        free(reserver->earliest);
        free(reserver);
        return -ENOMEM;
    }
    *reserver_out = reserver;
    return 0;
}

void lull_reserver_destroy(struct lull_reserver *reserver)
{
    if (reserver == NULL)
        return;
    for (uint32_t i = 0; i < reserver->type_count; i++) {
        lull_timeline_fini(&reserver->reserved[i]);
        lull_timeline_earliest_fini(&reserver->earliest[i]);
    }
    free(reserver->reserved);
    free(reserver->earliest);
    free(reserver->options);
    free(reserver->entries);
    free(reserver);
}

/* Entries need not be kept: each plan fills them again. */
static int reserver_make_room(struct lull_reserver *reserver, size_t count)
{
    const size_t room = count * 2;
    struct reserved_entry *entries;

    if (count <= reserver->room)
        return 0;
    entries = realloc(reserver->entries, 3 * room * sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    reserver->entries = reserver->first = entries;
    reserver->tried = &entries[room];
    reserver->best = &entries[2 * room];
    reserver->room = room;
    return 0;
}

/* ---- prices and keys ---------------------------------------------------------------------- */

/* Returns the price of an operating point of which near_s seconds count at the near price. */
static double price_j(const struct lull_reservation_room *room,
                      const struct lull_cluster_point *point, double near_s, double near_j)
{
    return point->gpus *
           (near_j * near_s + room->far_j[point->type] * ((double)point->time_ns * 1e-9 - near_s));
}

static bool reserver_is_possible(const struct lull_reservation_room *room,
                                 const struct lull_cluster_job *job, uint32_t point)
{
    const uint32_t type = job->points[point].type;

    return job->points[point].gpus <= room->gpus[type] &&
           lull_cluster_has_memory(job, &room->types[type]);
}

static bool has_to_run(const struct lull_cluster_job *job)
{
    return job->value_j <= 0.0;
}

/* Gain per GPU-second if it could start now; of jobs that have to run, weight per GPU-second. */
static double density_of(const struct lull_reservation_room *room,
                         const struct lull_cluster_job *job)
{
    double best = 0.0;

    for (uint32_t i = 0; i < job->point_count; i++) {
        const double gpu_s = job->points[i].gpus * (double)job->points[i].time_ns * 1e-9;
        const double worth = has_to_run(job)
                                 ? job->weight
                                 : lull_cluster_gain_j(job, i, room->now_ns, room->second_j);

        if (reserver_is_possible(room, job, i))
            best = fmax(best, worth / gpu_s);
    }
    return best;
}

static int reserver_compare(const void *left, const void *right)
{
    const struct reserved_entry *a = left;
    const struct reserved_entry *b = right;

    if (a->has_to_run != b->has_to_run)
        return a->has_to_run ? -1 : 1;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return (a->reservation.job > b->reservation.job) - (a->reservation.job < b->reservation.job);
}

/* ---- one plan ----------------------------------------------------------------------------- */

/* The first time with room for an operating point; INT64_MAX: there is none. Searches continue
 * where points of a job have the same GPUs and, as they mostly do, ever longer times. Negative:
 * -ENOMEM.
 */
static int64_t first_fit(const struct lull_reserver *reserver,
                         const struct lull_reservation_room *room,
                         const struct lull_cluster_point *point, struct reserved_room *found)
{
    const struct lull_timeline *const rising = &room->free[point->type];
    struct lull_timeline_search *search;
    uint32_t i = 0;

    while (i < found->count &&
           (found->searches[i].rising != rising || found->searches[i].gpus != point->gpus ||
            found->searches[i].time_ns > point->time_ns))
        i++;
    search = &found->searches[i < MAX_SEARCHES ? i : 0];
    if (i < found->count) {
        lull_timeline_search_longer(search, point->time_ns);
        return search->start_ns;
    }
    if (lull_timeline_search_begin(search, &reserver->earliest[point->type], rising,
                                   &reserver->reserved[point->type], point->gpus,
                                   point->time_ns) < 0)
        return -ENOMEM;
    found->count = lull_max_u32(found->count, (i < MAX_SEARCHES ? i : 0) + 1);
    return search->start_ns;
}

/* The share of the near price at start_ns. */
static double near_ratio(const struct lull_reservation_room *room, int64_t start_ns,
                         struct reserved_room *found)
{
    if (start_ns != found->start_ns) {
        found->start_ns = start_ns;
        found->near_ratio = exp(-(double)(start_ns - room->now_ns) / room->fade_ns);
    }
    return found->near_ratio;
}

/* The schedule of highest gain less price that fits; what it adds to the plan's score. -ENOMEM. */
static int reserver_choose(const struct lull_reserver *reserver,
                           const struct lull_reservation_room *room, struct reserved_entry *entry,
                           double *score_j_out)
{
    struct lull_reservation *const reservation = &entry->reservation;
    const struct lull_cluster_job *job = &room->jobs[reservation->job];
    const bool is_free = !entry->has_to_run;
    double best_j = is_free ? 0.0 : -INFINITY;
    struct reserved_room found;

    found.count = 0;
    found.start_ns = room->now_ns;
    found.near_ratio = 1.0;
    *score_j_out = is_free ? 0.0 : -left_out_j;
    reservation->point = LULL_RESERVATION_NONE;
    reservation->price_j = 0.0;
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];
        const struct reserved_option *const option = &entry->options[i];
        double gain_j = option->now_j;
        int64_t start_ns;
        double near_s;
        double paid_j;

        if (gain_j <= best_j || !option->is_possible)
            continue;
        start_ns = first_fit(reserver, room, point, &found);
        if (start_ns < 0)
            return (int)start_ns;
        if (start_ns == INT64_MAX || (is_free && start_ns > job->deadline_ns - point->time_ns))
            continue;
        if (start_ns > room->now_ns)
            gain_j = lull_cluster_gain_j(job, i, start_ns, room->second_j);
        if (gain_j <= best_j)
            continue;
        near_s = room->fade_ns * 1e-9 * near_ratio(room, start_ns, &found) * option->faded_ratio;
        paid_j = price_j(room, point, near_s, reserver->near_j);
        if (gain_j - paid_j <= best_j)
            continue;
        best_j = gain_j - paid_j;
        *score_j_out = gain_j - price_j(room, point, near_s, 0.0);
        *reservation = (struct lull_reservation){reservation->job, i, start_ns, paid_j};
    }
    return 0;
}

/* Places all jobs of the plan being made in its order. -ENOMEM. */
static int reserver_place(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                          size_t count, double *score_j_out)
{
    double score_j = 0.0;

    for (uint32_t i = 0; i < room->type_count; i++) {
        if (lull_timeline_reset(&reserver->reserved[i], room->now_ns, 0) < 0)
            return -ENOMEM;
        lull_timeline_earliest_reset(&reserver->earliest[i]);
    }
    for (size_t i = 0; i < count; i++) {
        struct lull_reservation *const reservation = &reserver->tried[i].reservation;
        const struct lull_cluster_point *point;
        double its_score_j;

        if (reserver_choose(reserver, room, &reserver->tried[i], &its_score_j) < 0)
            return -ENOMEM;
        score_j += its_score_j;
        if (reservation->point == LULL_RESERVATION_NONE)
            continue;
        point = &room->jobs[reservation->job].points[reservation->point];
        if (lull_timeline_take(&reserver->reserved[point->type], reservation->start_ns,
                               reservation->start_ns + point->time_ns, point->gpus) < 0)
            return -ENOMEM;
    }
    *score_j_out = score_j;
    return 0;
}

/* Makes the plan being made the best one; the former best one is overwritten next. */
static void reserver_keep_best(struct lull_reserver *reserver)
{
    struct reserved_entry *const better = reserver->tried;

    reserver->tried = reserver->best;
    reserver->best = better;
}

/* ---- the search --------------------------------------------------------------------------- */

/* The mean price that the jobs would pay for a GPU-second. For jobs
 * that have to run: the cost for all of them of waiting for one. */
static double typical_j(const struct lull_reservation_room *room,
                        const struct lull_reservation *plan, size_t count)
{
    double gain_j = 0.0;
    double weight = 0.0;
    size_t free = 0;
    double gpus = 0.0;

    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_job *job = &room->jobs[plan[i].job];

        if (has_to_run(job)) {
            weight += job->weight;
            continue;
        }
        gain_j += density_of(room, job);
        free++;
    }
    for (uint32_t i = 0; i < room->type_count; i++)
        gpus += (double)room->gpus[i];
    return free > 0 ? gain_j / (double)free : room->second_j * weight / gpus;
}

/* Tries near prices; keeps the best plan and the best near
 * price. With a single job no price changes the score. */
static int search_prices(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                         size_t count, double typical, double *best_j_out)
{
    double best_near_j = 0.0;

    *best_j_out = -INFINITY;
    for (size_t i = 0; i < (count > 1 ? NEAR_COUNT : 1); i++) {
        double score_j;

        memcpy(reserver->tried, reserver->first, count * sizeof(*reserver->tried));
        reserver->near_j = near_ratios[i] * typical;
        if (reserver_place(reserver, room, count, &score_j) < 0)
            return -ENOMEM;
        if (score_j > *best_j_out) {
            *best_j_out = score_j;
            best_near_j = reserver->near_j;
            reserver_keep_best(reserver);
        }
    }
    reserver->near_j = best_near_j;
    return 0;
}

/* Tries orders that differ from the best one at random, and keeps each that is better. */
static int search_orders(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                         struct lull_random *random, size_t orders, size_t count, double best_j)
{
    for (size_t i = 0; i < orders; i++) {
        double score_j;

        for (size_t j = 0; j < count; j++) {
            reserver->tried[j] = reserver->best[j];
            reserver->tried[j].key *= exp(lull_random_normal(random, 0.0, stray));
        }
        qsort(reserver->tried, count, sizeof(*reserver->tried), reserver_compare);
        if (reserver_place(reserver, room, count, &score_j) < 0)
            return -ENOMEM;
        if (score_j > best_j) {
            best_j = score_j;
            reserver_keep_best(reserver);
        }
    }
    return 0;
}

/* The number of reserved steps examined to place the first `count` jobs once. */
static double pass_steps(const struct lull_reserver *reserver,
                         const struct lull_reservation_room *room, size_t count)
{
    double points = 0.0;

    for (size_t i = 0; i < count; i++)
        points += room->jobs[reserver->first[i].reservation.job].point_count;
    return points * (double)(count + 1);
}

/* Sorts the jobs by the price that they would pay for a GPU-second. */
static void reserver_sort(const struct lull_reserver *reserver,
                          const struct lull_reservation_room *room,
                          const struct lull_reservation *plan, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_job *job = &room->jobs[plan[i].job];

        reserver->first[i] =
            (struct reserved_entry){has_to_run(job),
                                    density_of(room, job),
                                    NULL,
                                    {.job = plan[i].job, .point = LULL_RESERVATION_NONE}};
    }
    qsort(reserver->first, count, sizeof(*reserver->first), reserver_compare);
}

/* Fills the options of the first `count` jobs. -ENOMEM. */
static int fill_options(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                        size_t count)
{
    struct reserved_option *next;
    size_t points = 0;

    for (size_t i = 0; i < count; i++)
        points += room->jobs[reserver->first[i].reservation.job].point_count;
    if (points > reserver->option_room) {
        next = realloc(reserver->options, 2 * points * sizeof(*next));
        if (next == NULL)
            return -ENOMEM;
        reserver->options = next;
        reserver->option_room = 2 * points;
    }
    next = reserver->options;
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_job *const job = &room->jobs[reserver->first[i].reservation.job];

        reserver->first[i].options = next;
        for (uint32_t point = 0; point < job->point_count; point++)
            *next++ = (struct reserved_option){
                reserver_is_possible(room, job, point),
                lull_cluster_gain_j(job, point, room->now_ns, room->second_j),
                -expm1(-(double)job->points[point].time_ns / room->fade_ns),
            };
    }
    return 0;
}

int lull_reserver_plan(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                       struct lull_random *random, double max_steps, struct lull_reservation *plan,
                       size_t count)
{
    size_t tried = count;
    double best_j;
    double orders;

    if (reserver_make_room(reserver, count) < 0)
        return -ENOMEM;
    reserver_sort(reserver, room, plan, count);
    while (tried > MIN_TRIED && NEAR_COUNT * pass_steps(reserver, room, tried) > max_steps)
        tried -= tried / 4;
    if (fill_options(reserver, room, tried) < 0)
        return -ENOMEM;
    if (search_prices(reserver, room, tried, typical_j(room, plan, count), &best_j) < 0)
        return -ENOMEM;
    orders = max_steps / fmax(pass_steps(reserver, room, tried), 1.0) - NEAR_COUNT;
    orders = fmin(fmin(orders, MAX_ORDERS), (double)tried * ((double)tried - 1.0));
    if (search_orders(reserver, room, random, orders > 0.0 ? (size_t)orders : 0, tried, best_j) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        plan[i] = i < tried ? reserver->best[i].reservation : reserver->first[i].reservation;
    return 0;
}
