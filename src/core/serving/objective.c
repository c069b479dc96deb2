/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/objective.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

/* Moves *text past a word, if it begins with it. */
static bool objective_skip(const char **text, const char *word)
{
    const size_t length = strlen(word);

    if (strncmp(*text, word, length) != 0)
        return false;
    *text += length;
    return true;
}

static int objective_refuse(const char *part, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL,
                          "invalid latency objective at '%.40s'. Write bounds in ms or s and the "
                          "share of requests as a percentile, for example "
                          "ttft=500ms,tpot=50ms@p99",
                          part);
}

/* Reads "500ms" or "0.5s" and moves *text past it. */
static int objective_take_time(const char **text, double *seconds_out)
{
    double value;
    const char *rest;

    if (lull_text_parse_prefix(*text, &value, &rest) < 0)
        return -EINVAL;
    if (objective_skip(&rest, "ms"))
        value /= 1e3;
    else if (!objective_skip(&rest, "s"))
        return -EINVAL;
    if (!(value > 0.0))
        return -EINVAL;
    *seconds_out = value;
    *text = rest;
    return 0;
}

/* Reads "ttft=500ms" or "tpot=50ms" and moves *text past it. */
static int objective_take_bound(const char **text, struct lull_objective *objective)
{
    const char *rest = *text;
    double *bound;

    if (objective_skip(&rest, "ttft="))
        bound = &objective->ttft_s;
    else if (objective_skip(&rest, "tpot="))
        bound = &objective->tpot_s;
    else
        return -EINVAL;
    if (isfinite(*bound) || objective_take_time(&rest, bound) < 0)
        return -EINVAL;
    *text = rest;
    return 0;
}

/* Reads "99.9" up to the end. */
static int objective_parse_share(const char *text, double *share_out)
{
    double percentile;

    if (lull_text_parse_number(text, &percentile) < 0 || !(percentile > 50.0 && percentile < 100.0))
        return -EINVAL;
    *share_out = percentile / 100.0;
    return *share_out < 1.0 ? 0 : -EINVAL;
}

int lull_objective_parse(const char *text, struct lull_objective *objective_out,
                         struct lull_error *err)
{
    struct lull_objective objective = {
        .ttft_s = INFINITY, .tpot_s = INFINITY, .share = LULL_OBJECTIVE_SHARE};
    const char *at = text;

    do {
        if (objective_take_bound(&at, &objective) < 0)
            return objective_refuse(at, err);
    } while (objective_skip(&at, ","));
    if (objective_skip(&at, "@p")) {
        if (objective_parse_share(at, &objective.share) < 0)
            return objective_refuse(at, err);
        at += strlen(at);
    }
    if (*at != '\0')
        return objective_refuse(at, err);
    *objective_out = objective;
    return 0;
}
