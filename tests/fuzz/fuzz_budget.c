/*
 * The file of a power budget: refused with its line, or settings whose numbers are in their ranges
 * and whose names refer to existing sections. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "cluster/cli/budget/settings.h"
#include "fuzz.h"

static int find_user(const char *name, uint32_t *uid_out)
{
    *uid_out = 1000;
    return strcmp(name, "nobody-here") == 0 ? -ENOENT : 0;
}

static void check_cap(const struct lull_budget_cap *cap)
{
    require(cap->limit_w == 0.0 || (cap->limit_w >= 1.0 && cap->limit_w <= 1e12));
    require(cap->besides_w >= 0.0 && cap->besides_w <= 1e12);
}

static void check_job(const struct lull_budget_job *job)
{
    require(job->weight >= 0.01 && job->weight <= 100.0);
    require(job->min_ratio >= 0.0 && job->min_ratio <= 1.0);
    require(job->clock_bound >= 0.0 && job->clock_bound <= 1.0);
    require(job->place_count <= LULL_BUDGET_MAX_PLACES);
    for (uint32_t p = 0; p < job->place_count; p++)
        require(job->places[p].gpus != 0 &&
                memchr(job->places[p].node, '\0', LULL_BUDGET_NAME_BYTES) != NULL);
}

static void check(const struct lull_budget_settings *s)
{
    check_cap(&s->cap);
    require(s->hold_s >= 2.0 && s->hold_s <= 3600.0);
    require(s->openadr_poll_s >= 1.0 && s->openadr_poll_s <= 3600.0);
    require(s->webhook[0] == '\0' || s->webhook_token_file[0] != '\0');
    require(s->rack_count <= LULL_BUDGET_MAX_RACKS && s->job_count <= LULL_BUDGET_MAX_JOBS);
    require(s->node_count >= 1 && s->node_count <= LULL_BUDGET_MAX_NODES);
    for (uint32_t r = 0; r < s->rack_count; r++)
        check_cap(&s->racks[r].cap);
    for (uint32_t n = 0; n < s->node_count; n++) {
        check_cap(&s->nodes[n].cap);
        require(s->nodes[n].rack >= -1 && s->nodes[n].rack < (int32_t)s->rack_count);
    }
    for (uint32_t j = 0; j < s->job_count; j++) {
        check_job(&s->jobs[j]);
        require(s->jobs[j].has_user != (s->jobs[j].place_count > 0));
    }
    check_job(&s->others);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_budget_settings settings;
    struct lull_error err = {0};

    settings.node_count = 77;
    if (lull_budget_settings_read("budget", (const char *)data, size, find_user, &settings, &err) <
        0) {
        require(err.code == -EINVAL && strncmp(err.text, "budget:", 7) == 0);
        require(settings.node_count == 77);
        return 0;
    }
    check(&settings);
    return 0;
}
