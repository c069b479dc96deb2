/*
 * The computation of a window: recorded from reports, or guessed where there are none.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "core/section/exposure.h"
#include "core/section/gaps/gap_map_state.h"

/* Gaps shorter than this are noise between kernels; a gap worth switching is several times as long.
 */
static const int64_t min_gap_ns = INT64_C(1000000);
/* If computation is guessed, a break in communication does not interrupt it if the break is no
 * longer than this and no larger a share of the whole: the limits of track.c. */
static const int64_t brief_ns = INT64_C(1000000);
static const double brief_ratio = 0.02;

enum { FIRST_RUNS = 256, MAX_RUNS = 1 << 16 };

/* ---- as reported ------------------------------------------------------------------------- */

static bool append_run(struct lull_gap_record *record, int64_t begin_ns, int64_t end_ns)
{
    if (record->run_count == record->run_capacity) {
        const uint32_t capacity = (uint32_t)lull_grow_room(record->run_capacity, FIRST_RUNS);
        struct lull_run *runs;

        if (capacity > MAX_RUNS)
            return false;
        runs = realloc(record->runs, capacity * sizeof(*record->runs));
        if (runs == NULL)
            return false;
        record->runs = runs;
        record->run_capacity = capacity;
    }
    assert(record->runs != NULL && record->run_count < record->run_capacity);
    record->runs[record->run_count++] = (struct lull_run){begin_ns, end_ns};
    return true;
}

bool lull_gap_map_add_run(struct lull_gap_map *map, int64_t begin_ns, int64_t end_ns)
{
    struct lull_gap_record *record = &map->record;
    struct lull_run *last = record->run_count == 0 ? NULL : &record->runs[record->run_count - 1];

    if (last == NULL || begin_ns >= last->end_ns + min_gap_ns)
        return append_run(record, begin_ns, end_ns);
    if (end_ns > last->end_ns)
        last->end_ns = end_ns;
    return true;
}

/* ---- without computation to go by -------------------------------------------------------- */

/* The break is one that the track would not separate either (track.c). */
static bool is_brief(const struct lull_interval *before, const struct lull_interval *after)
{
    const int64_t between_ns = after->begin_ns - before->end_ns;

    return between_ns <= brief_ns &&
           (double)between_ns <= brief_ratio * (double)(after->end_ns - before->begin_ns);
}

/* The union of all communication, in which brief breaks are closed; null: out of memory. */
static struct lull_interval *unite_kernels(const struct lull_gap_map *map, size_t *count_out)
{
    const size_t kernels = (size_t)map->period * LULL_GAP_MAP_PERIODS;
    struct lull_interval *united = calloc(kernels, sizeof(*united));
    size_t count;
    size_t kept = 0;

    if (united == NULL)
        return NULL;
    for (size_t i = 0; i < kernels; i++)
        united[i] =
            (struct lull_interval){map->record.edges_ns[2 * i], map->record.edges_ns[2 * i + 1]};
    count = lull_intervals_unite(united, kernels);
    for (size_t i = 1; i < count; i++) {
        if (is_brief(&united[kept], &united[i]))
            united[kept].end_ns = united[i].end_ns;
        else
            united[++kept] = united[i];
    }
    *count_out = count == 0 ? 0 : kept + 1;
    return united;
}

void lull_gap_map_guess_compute(struct lull_gap_map *map)
{
    size_t count;
    struct lull_interval *united = unite_kernels(map, &count);

    map->record.run_count = 0;
    for (size_t i = 0; united != NULL && i + 1 < count; i++)
        if (!append_run(&map->record, united[i].end_ns, united[i + 1].begin_ns))
            break;
    free(united);
}
