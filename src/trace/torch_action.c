/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/torch_action.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/pipeline/schedule/order.h"

static const char *const names[LULL_TORCH_TYPES] = {
    [LULL_TORCH_F] = "F",
    [LULL_TORCH_B] = "B",
    [LULL_TORCH_I] = "I",
    [LULL_TORCH_W] = "W",
    [LULL_TORCH_OVERLAP] = "OVERLAP_F_B",
    [LULL_TORCH_SEND_F] = "SEND_F",
    [LULL_TORCH_RECV_F] = "RECV_F",
    [LULL_TORCH_SEND_B] = "SEND_B",
    [LULL_TORCH_RECV_B] = "RECV_B",
    [LULL_TORCH_WAIT_SEND_F] = "WAIT_SEND_F",
    [LULL_TORCH_WAIT_SEND_B] = "WAIT_SEND_B",
    [LULL_TORCH_UNSHARD] = "UNSHARD",
    [LULL_TORCH_RESHARD] = "RESHARD",
    [LULL_TORCH_REDUCE_GRAD] = "REDUCE_GRAD",
    [LULL_TORCH_WAIT_REDUCE_GRAD] = "WAIT_REDUCE_GRAD",
};

const char *lull_torch_type_name(enum lull_torch_type type)
{
    return names[type];
}

/* Digits at *at, which is moved behind them. */
static int parse_number(const char **at, uint32_t limit, uint32_t *number_out)
{
    const char *c = *at;
    uint32_t number = 0;

    if (*c < '0' || *c > '9')
        return -EINVAL;
    for (; *c >= '0' && *c <= '9'; c++)
        number = number < limit ? 10 * number + (uint32_t)(*c - '0') : limit;
    *at = c;
    if (number >= limit)
        return -ERANGE;
    *number_out = number;
    return 0;
}

/* Of the words that text begins with: one that is followed by digits or nothing. */
static int parse_type(const char **at, enum lull_torch_type *type_out)
{
    const size_t length = strcspn(*at, "0123456789");

    for (int i = 0; i < LULL_TORCH_TYPES; i++) {
        if (strlen(names[i]) == length && strncmp(*at, names[i], length) == 0) {
            *type_out = (enum lull_torch_type)i;
            *at += length;
            return 0;
        }
    }
    return -EINVAL;
}

static bool is_of_stage(enum lull_torch_type type)
{
    return type >= LULL_TORCH_UNSHARD;
}

static int parse_single(const char *at, struct lull_torch_action *action_out)
{
    struct lull_torch_action action = {0};
    int rc = parse_number(&at, LULL_PIPELINE_MAX_STAGES, &action.stage);

    if (rc == 0)
        rc = parse_type(&at, &action.type);
    if (rc == 0 && action.type == LULL_TORCH_OVERLAP)
        rc = -EINVAL;
    if (rc == 0 && (*at != '\0' || !is_of_stage(action.type)))
        rc = parse_number(&at, LULL_PIPELINE_MAX_MICROBATCHES, &action.microbatch);
    if (rc == 0 && *at != '\0')
        rc = -EINVAL;
    if (rc == 0)
        *action_out = action;
    return rc;
}

/* "0F5;7B2" in either order; end: of the second. */
static int parse_overlap(char *text, char *end, struct lull_torch_action *action_out)
{
    char *const middle = strchr(text, ';');
    struct lull_torch_action first, second;
    int rc;

    if (middle == NULL || middle > end)
        return -EINVAL;
    *middle = '\0';
    *end = '\0';
    rc = parse_single(text, &first);
    if (rc == 0)
        rc = parse_single(middle + 1, &second);
    *middle = ';';
    *end = ')';
    if (rc < 0)
        return rc;
    if (first.type == LULL_TORCH_B) {
        const struct lull_torch_action swapped = first;

        first = second;
        second = swapped;
    }
    if (first.type != LULL_TORCH_F || second.type != LULL_TORCH_B)
        return -EINVAL;
    *action_out = (struct lull_torch_action){LULL_TORCH_OVERLAP, first.stage, first.microbatch,
                                             second.stage, second.microbatch};
    return 0;
}

int lull_torch_action_parse(char *text, struct lull_torch_action *action_out)
{
    char *end;

    if (text[0] != '(')
        return parse_single(text, action_out);
    end = strchr(text, ')');
    if (end == NULL || strcmp(end + 1, names[LULL_TORCH_OVERLAP]) != 0)
        return -EINVAL;
    return parse_overlap(text + 1, end, action_out);
}
