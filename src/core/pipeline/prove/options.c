/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "core/pipeline/prove/state.h"

static int make_room(struct choices *choices, size_t count, size_t most)
{
    choices->profile.classes = calloc(count, sizeof(*choices->profile.classes));
    choices->graph.ops = calloc(count, sizeof(*choices->graph.ops));
    choices->first = calloc(count + 1, sizeof(*choices->first));
    choices->full_count = calloc(count, sizeof(*choices->full_count));
    choices->options = calloc(most, sizeof(*choices->options));
    choices->name = calloc(most, sizeof(*choices->name));
    choices->full = calloc(most, sizeof(*choices->full));
    choices->full_name = calloc(most, sizeof(*choices->full_name));
    choices->gone = calloc(most, sizeof(*choices->gone));
    choices->trail = calloc(most, sizeof(*choices->trail));
    choices->op_of = calloc(most, sizeof(*choices->op_of));
    return choices->profile.classes == NULL || choices->graph.ops == NULL ||
                   choices->first == NULL || choices->full_count == NULL ||
                   choices->options == NULL || choices->name == NULL || choices->full == NULL ||
                   choices->full_name == NULL || choices->gone == NULL || choices->trail == NULL ||
                   choices->op_of == NULL
               ? -ENOMEM
               : 0;
}

/* The options of an operation that are worth having, in the order of the class. */
static void list_full(struct choices *choices, uint32_t op)
{
    const struct lull_pipeline_class *asked = lull_pipeline_class_of(choices->asked, op);
    uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];
    const size_t count = lull_pipeline_pareto(
        asked, choices->asked->blocking_w[choices->asked->graph->ops[op].device], false, chosen);
    const uint32_t first = choices->first[op];

    for (size_t i = 0; i < count; i++) {
        choices->full[first + i] = asked->options[chosen[i]];
        choices->full_name[first + i] = chosen[i];
        choices->op_of[first + i] = op;
    }
    choices->full_count[op] = (uint32_t)count;
    choices->profile.classes[op] = *asked;
    choices->profile.classes[op].options = choices->options + first;
    choices->graph.ops[op].class_index = op;
    lull_choices_pack(choices, op);
}

int lull_choices_init(struct choices *choices, const struct lull_pipeline_problem *problem)
{
    const size_t count = problem->graph->op_count;
    struct lull_pipeline_op *ops;
    size_t most = 0;

    *choices = (struct choices){.asked = problem, .graph = *problem->graph};
    choices->graph.ops = NULL;
    for (size_t op = 0; op < count; op++)
        most += lull_pipeline_class_of(choices->asked, op)->option_count;
    if (make_room(choices, count, most) < 0)
        return -ENOMEM;
    ops = choices->graph.ops;
    choices->profile.class_count = count;
    for (uint32_t op = 0; op < count; op++) {
        ops[op] = problem->graph->ops[op];
        choices->first[op + 1] =
            choices->first[op] + (uint32_t)lull_pipeline_class_of(choices->asked, op)->option_count;
        list_full(choices, op);
    }
    choices->left =
        (struct lull_pipeline_problem){&choices->profile, &choices->graph, problem->blocking_w};
    return 0;
}

void lull_choices_fini(struct choices *choices)
{
    free(choices->profile.classes);
    free(choices->graph.ops);
    free(choices->first);
    free(choices->full_count);
    free(choices->options);
    free(choices->name);
    free(choices->full);
    free(choices->full_name);
    free(choices->gone);
    free(choices->trail);
    free(choices->op_of);
}

void lull_choices_drop(struct choices *choices, uint32_t full)
{
    choices->gone[full] = true;
    choices->trail[choices->trail_count++] = full;
}

void lull_choices_pack(struct choices *choices, uint32_t op)
{
    const uint32_t first = choices->first[op];
    uint32_t count = 0;

    for (uint32_t i = first; i < first + choices->full_count[op]; i++)
        if (!choices->gone[i]) {
            choices->options[first + count] = choices->full[i];
            choices->name[first + count++] = choices->full_name[i];
        }
    choices->profile.classes[op].option_count = count;
}
