/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_STAGE = 7 };

static void must(bool condition)
{
    if (!condition)
        abort();
}

void pipeline_case_fini(struct pipeline_case *it)
{
    lull_pipeline_profile_fini(&it->profile);
    lull_pipeline_graph_fini(&it->graph);
    free(it->blocking_w);
}

static void init(struct pipeline_case *it)
{
    lull_pipeline_profile_init(&it->profile);
    lull_pipeline_graph_init(&it->graph);
    it->blocking_w = NULL;
}

/* The graph is complete: finishes it and makes the problem. */
static void finish(struct pipeline_case *it)
{
    must(lull_pipeline_graph_finish(&it->graph, &it->profile, NULL) == 0);
    it->blocking_w = calloc(it->graph.device_count, sizeof(*it->blocking_w));
    must(it->blocking_w != NULL);
    it->problem = (struct lull_pipeline_problem){&it->profile, &it->graph, it->blocking_w};
}

bool pipeline_case_profile(struct lull_pipeline_profile *profile, const char *path, uint32_t stages)
{
    FILE *file = fopen(path, "r");
    char instruction[16];
    char line[256];
    double time_s;
    double energy_j;
    uint32_t stage;
    uint32_t mhz;

    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        struct lull_pipeline_point point;
        enum lull_pipeline_kind kind;

        if (sscanf(line, "%u,%15[a-z],%u,%lf,%lf", &stage, instruction, &mhz, &time_s, &energy_j) !=
            5)
            continue;
        point = (struct lull_pipeline_point){llround(time_s * 1e9), llround(energy_j * 1e9), mhz};
        must(lull_pipeline_kind_parse(instruction, &kind) == 0);
        for (uint32_t i = 0; i < stages; i++) {
            const uint32_t row = i == stages - 1 ? LAST_STAGE : i < LAST_STAGE ? i : LAST_STAGE - 1;

            if (row == stage)
                must(lull_pipeline_profile_add(profile, 0, i, kind, 0, &point, NULL) == 0);
        }
    }
    fclose(file);
    return profile->class_count == 2 * (size_t)stages;
}

static void add_op(struct pipeline_case *it, uint32_t stage, bool backward, uint32_t microbatch,
                   uint32_t *number)
{
    const int class_index = lull_pipeline_profile_find(
        &it->profile, 0, stage, backward ? LULL_PIPELINE_BACKWARD : LULL_PIPELINE_FORWARD, 0);
    const struct lull_pipeline_op op = {
        .device = stage, .class_index = (uint32_t)class_index, .microbatch = microbatch};
    const int64_t index = lull_pipeline_graph_add(&it->graph, &op);

    must(class_index >= 0 && index >= 0);
    *number = (uint32_t)index;
}

/* min(S - s, M) forwards, then backward and forward in turn (reference, section 1). */
static void add_stage(struct pipeline_case *it, uint32_t stages, uint32_t stage,
                      uint32_t microbatches, uint32_t *forward, uint32_t *backward)
{
    uint32_t next = 0;

    while (next < stages - stage && next < microbatches) {
        add_op(it, stage, false, next, &forward[next]);
        next++;
    }
    for (uint32_t i = 0; i < microbatches; i++) {
        add_op(it, stage, true, i, &backward[i]);
        if (next < microbatches) {
            add_op(it, stage, false, next, &forward[next]);
            next++;
        }
    }
}

static void connect(struct pipeline_case *it, uint32_t from, uint32_t to)
{
    must(lull_pipeline_graph_connect(&it->graph, from, to, 0) == 0);
}

bool pipeline_case_1f1b(struct pipeline_case *it, const char *profile_path, uint32_t stages,
                        uint32_t microbatches, double blocking_w)
{
    const size_t count = (size_t)stages * microbatches;
    uint32_t *forward;
    uint32_t *backward;

    init(it);
    if (!pipeline_case_profile(&it->profile, profile_path, stages)) {
        pipeline_case_fini(it);
        return false;
    }
    forward = calloc(count, sizeof(*forward));
    backward = calloc(count, sizeof(*backward));
    must(forward != NULL && backward != NULL);
    for (uint32_t stage = 0; stage < stages; stage++)
        add_stage(it, stages, stage, microbatches, &forward[(size_t)stage * microbatches],
                  &backward[(size_t)stage * microbatches]);
    for (size_t i = 0; i + microbatches < count; i++) {
        connect(it, forward[i], forward[i + microbatches]);
        connect(it, backward[i + microbatches], backward[i]);
    }
    free(forward);
    free(backward);
    finish(it);
    for (uint32_t device = 0; device < stages; device++)
        it->blocking_w[device] = blocking_w;
    return true;
}

static uint32_t below(struct lull_random *random, uint32_t bound)
{
    return (uint32_t)lull_random_below(random, bound);
}

static void draw_class(struct pipeline_case *it, struct lull_random *random, uint32_t stage,
                       const struct pipeline_case_random *size)
{
    const bool fixed = below(random, 6) == 0;
    const uint32_t points = fixed ? 1 : 1 + below(random, size->points);
    const double fast_ms = 1.0 + 50.0 * lull_random_uniform(random);
    const double noise = below(random, 3) == 0 ? 0.2 : 0.0;

    for (uint32_t i = 0; i < points; i++) {
        const double slower = 1.0 + (double)i * 0.07 + noise * lull_random_uniform(random);
        /* Repeated times; energy as of a clock, a static part and one that falls with its cube. */
        const double time_ms = below(random, 5) == 0 ? ceil(fast_ms * slower) : fast_ms * slower;
        const double energy_j = fast_ms * (0.1 * slower + 0.3 / (slower * slower)) *
                                (1.0 + 0.2 * noise * lull_random_uniform(random));
        const struct lull_pipeline_point point = {llround(time_ms * 1e6), llround(energy_j * 1e9),
                                                  fixed ? 0 : 2000 - 15 * i};

        must(lull_pipeline_profile_add(&it->profile, 0, stage,
                                       fixed ? LULL_PIPELINE_FIXED : LULL_PIPELINE_FORWARD, 0,
                                       &point, NULL) == 0);
    }
}

void pipeline_case_draw(struct pipeline_case *it, struct lull_random *random,
                        const struct pipeline_case_random *size)
{
    const uint32_t ops = 1 + below(random, size->ops);
    const uint32_t classes = 1 + below(random, 5);
    const uint32_t devices = 1 + below(random, size->devices);
    const uint32_t edges = ops > 1 ? below(random, 2 * ops) : 0;

    init(it);
    for (uint32_t stage = 0; stage < classes; stage++)
        draw_class(it, random, stage, size);
    for (uint32_t i = 0; i < ops; i++) {
        const struct lull_pipeline_op op = {.device = below(random, devices),
                                            .class_index = below(random, classes),
                                            .microbatch = i};

        must(lull_pipeline_graph_add(&it->graph, &op) >= 0);
    }
    for (uint32_t i = 0; i < edges; i++) {
        const uint32_t to = 1 + below(random, ops - 1);
        const int64_t latency_ns = below(random, 2) == 0 ? 0 : below(random, 30000000);

        must(lull_pipeline_graph_connect(&it->graph, below(random, to), to, latency_ns) == 0);
    }
    finish(it);
    for (uint32_t device = 0; device < it->graph.device_count; device++)
        it->blocking_w[device] = below(random, 4) == 0 ? 0.0 : 120.0 * lull_random_uniform(random);
}
