/* Reads schedules as people write them. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "core/pipeline/schedule/order.h"
#include "core/pipeline/schedule/schedule.h"

struct family {
    const char *name;
    uint32_t chunks;
    uint32_t numbers; /* largest number of them after the colon */
    const char *usage;
};

static const struct family families[LULL_PIPELINE_FAMILIES] = {
    [LULL_PIPELINE_GPIPE] = {"gpipe", 1, 0, "gpipe"},
    [LULL_PIPELINE_1F1B] = {"1f1b", 1, 0, "1f1b"},
    [LULL_PIPELINE_1F1B_RECOMPUTE] = {"1f1b-recompute", 1, 0, "1f1b-recompute"},
    [LULL_PIPELINE_INTERLEAVED] = {"interleaved", 2, 2, "interleaved:CHUNKS[,GROUP]"},
    [LULL_PIPELINE_ENVPIPE] = {"envpipe", 1, LULL_PIPELINE_MAX_LIMITS,
                               "envpipe[:LIMIT[,LIMIT...]]"},
    [LULL_PIPELINE_ZB_H1] = {"zb-h1", 1, 0, "zb-h1"},
    [LULL_PIPELINE_ZBV] = {"zbv", 2, 0, "zbv"},
    [LULL_PIPELINE_DUALPIPEV] = {"dualpipev", 2, 0, "dualpipev"},
};

const char *lull_pipeline_family_name(enum lull_pipeline_family family)
{
    return families[family].name;
}

static int find_family(const char *text, size_t length, enum lull_pipeline_family *family_out)
{
    for (int i = 0; i < LULL_PIPELINE_FAMILIES; i++) {
        if (strlen(families[i].name) == length && strncmp(families[i].name, text, length) == 0) {
            *family_out = (enum lull_pipeline_family)i;
            return 0;
        }
    }
    return -EINVAL;
}

/* Reads numbers 0..LULL_PIPELINE_MAX_MICROBATCHES with commas between. Returns how many. */
static int schedule_parse_numbers(const char *text, uint32_t most, uint32_t *numbers_out)
{
    uint32_t count = 0;

    while (count < most && lull_text_take_digits(&text, LULL_PIPELINE_MAX_MICROBATCHES + 1,
                                                 &numbers_out[count]) == 0) {
        count++;
        if (*text == '\0')
            return (int)count;
        if (*text++ != ',')
            return -EINVAL;
    }
    return -EINVAL;
}

/* Takes what follows the colon. Returns false if the schedule cannot have such numbers. */
static bool schedule_parse_take_numbers(struct lull_pipeline_schedule *schedule, const char *text)
{
    const int count =
        schedule_parse_numbers(text, families[schedule->family].numbers, schedule->limit);

    if (count < 0)
        return false;
    if (schedule->family == LULL_PIPELINE_ENVPIPE) {
        schedule->limits = (uint32_t)count;
        return true;
    }
    schedule->chunks = schedule->limit[0];
    schedule->group = count == 2 ? schedule->limit[1] : 0;
    return schedule->chunks >= 2 && schedule->chunks <= LULL_PIPELINE_MAX_CHUNKS;
}

static int schedule_parse_unknown(const char *text, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL,
                          "no schedule '%.40s': there are gpipe, 1f1b, 1f1b-recompute, "
                          "interleaved:CHUNKS[,GROUP], envpipe[:LIMIT[,LIMIT...]], zb-h1, zbv, "
                          "dualpipev",
                          text);
}

int lull_pipeline_schedule_parse(const char *text, struct lull_pipeline_schedule *schedule_out,
                                 struct lull_error *err)
{
    const char *const colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    struct lull_pipeline_schedule schedule = {.group = 0};
    const struct family *family;
    bool is_good = true;

    if (find_family(text, length, &schedule.family) < 0)
        return schedule_parse_unknown(text, err);
    family = &families[schedule.family];
    schedule.chunks = family->chunks;
    if (colon != NULL)
        is_good = schedule_parse_take_numbers(&schedule, colon + 1);
    else
        is_good = schedule.family != LULL_PIPELINE_INTERLEAVED;
    if (!is_good)
        return lull_error_set(err, -EINVAL,
                              "schedule '%.40s': write %s; CHUNKS is 2 to %d, all "
                              "numbers are at most %d",
                              text, family->usage, LULL_PIPELINE_MAX_CHUNKS,
                              LULL_PIPELINE_MAX_MICROBATCHES);
    *schedule_out = schedule;
    return 0;
}
