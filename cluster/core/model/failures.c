/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/failures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "cluster/core/model/job.h"
#include "core/stats/random.h"

static int failures_by_time(const void *a, const void *b)
{
    const struct lull_cluster_failure *left = a;
    const struct lull_cluster_failure *right = b;

    if (left->from_ns != right->from_ns)
        return left->from_ns < right->from_ns ? -1 : 1;
    return (left->node > right->node) - (left->node < right->node);
}

static int failures_check(const struct lull_cluster_failure *failures, size_t count,
                          uint32_t node_count, int64_t *up_ns, struct lull_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_failure *failure = &failures[i];

        if (failure->node >= node_count)
            return lull_error_set(err, -EINVAL, "node %u fails, but the cluster has %u",
                                  failure->node, node_count);
        if (failure->from_ns < 0 || failure->to_ns <= failure->from_ns ||
            failure->to_ns > 2 * LULL_CLUSTER_MAX_NS)
            return lull_error_set(
                err, -EINVAL,
                "node %u: a failure must begin at 0 s or later and end after it began",
                failure->node);
        if (failure->from_ns < up_ns[failure->node])
            return lull_error_set(err, -EINVAL, "node %u fails at %.9g s while it is down",
                                  failure->node, (double)failure->from_ns * 1e-9);
        up_ns[failure->node] = failure->to_ns;
    }
    return 0;
}

int lull_cluster_failures_order(struct lull_cluster_failure *failures, size_t count,
                                uint32_t node_count, struct lull_error *err)
{
    int64_t *up_ns = calloc(node_count > 0 ? node_count : 1, sizeof(*up_ns));
    int rc;

    if (up_ns == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    if (count > 0)
        qsort(failures, count, sizeof(*failures), failures_by_time);
    rc = failures_check(failures, count, node_count, up_ns, err);
    free(up_ns);
    return rc;
}

/* ---- at random ---------------------------------------------------------------------------- */

struct list {
    struct lull_cluster_failure *all;
    size_t count, room;
};

static int failures_append(struct list *list, struct lull_cluster_failure failure,
                           struct lull_error *err)
{
    if (list->count == LULL_CLUSTER_MAX_FAILURES)
        return lull_error_set(
            err, -EINVAL,
            "more than %d failures would be drawn: give a longer mean time between failures",
            LULL_CLUSTER_MAX_FAILURES);
    if (lull_array_reserve(&list->all, &list->room, list->count, sizeof(failure)) < 0)
        return lull_error_set(err, -ENOMEM, "out of memory");
    list->all[list->count++] = failure;
    return 0;
}

/* Adds the failures of one node, in order. */
static int draw_node(const struct lull_failure_model *model, uint32_t node,
                     struct lull_random *random, struct list *list, struct lull_error *err)
{
    int64_t now_ns = 0;

    for (;;) {
        const double works_ns = -log(1.0 - lull_random_uniform(random)) * (double)model->mtbf_ns;
        int rc;

        if (works_ns >= (double)(model->until_ns - now_ns))
            return 0;
        now_ns += (int64_t)works_ns;
        rc = failures_append(
            list, (struct lull_cluster_failure){node, now_ns, now_ns + model->repair_ns}, err);
        if (rc < 0)
            return rc;
        now_ns += model->repair_ns;
    }
}

int lull_cluster_failures_draw(const struct lull_failure_model *model,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err)
{
    struct list list = {0};
    struct lull_random seeds;
    int rc;

    lull_random_init(&seeds, model->seed);
    for (uint32_t node = 0; node < model->node_count; node++) {
        struct lull_random random;

        lull_random_init(&random, lull_random_next(&seeds));
        rc = draw_node(model, node, &random, &list, err);
        if (rc < 0)
            goto fail;
    }
    rc = lull_cluster_failures_order(list.all, list.count, model->node_count, err);
    if (rc < 0)
        goto fail;
    *failures_out = list.all;
    *count_out = list.count;
    return 0;
fail:
    free(list.all);
    return rc;
}
