/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/grid.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Margin by which a time may grow beyond the fall of its clock before the clock counts as not
 * honoured. It covers the scatter of a measured time. Measured: reference values in
 * docs/research/measurements/models.md.
 */
static const double honoured_margin = 1.03;

/* A clock counts as not reached where kernels take so much longer than a straight line through
 * clocks a little lower says, and as reached where one takes no longer than this; and how many
 * kernels have to show it. Measured: nothing is found in the seven sets of
 * docs/research/measurements/models.md. */
static const double short_ratio = 1.02;
static const double reached_ratio = 1.01;
static const double reach_ratio = 0.05;
static const double far_ratio = 0.15;
enum { MIN_SHORT = 2 };

/* ---- rows in order ------------------------------------------------------------------------ */

/* A row, and its place in the input, which decides among rows of the same point. */
struct placed_row {
    struct lull_grid_row row;
    size_t place;
};

static int model_grid_compare(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_point(const struct lull_grid_row *a, const struct lull_grid_row *b)
{
    const int sm = model_grid_compare(a->sm_mhz, b->sm_mhz);

    return sm != 0 ? sm : model_grid_compare(a->mem_mhz, b->mem_mhz);
}

static int by_kernel(const void *first, const void *second)
{
    const struct placed_row *const a = first, *const b = second;
    int order = (a->row.kernel > b->row.kernel) - (a->row.kernel < b->row.kernel);

    if (order == 0)
        order = by_point(&a->row, &b->row);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

/* Copies the rows by kernel and point, each point of a kernel once. Null: out of memory. */
static struct lull_grid_row *model_grid_sort_rows(const struct lull_grid_row *rows, size_t *count)
{
    struct placed_row *const placed = malloc((*count + 1) * sizeof(*placed));
    struct lull_grid_row *const sorted = malloc((*count + 1) * sizeof(*sorted));
    size_t kept = 0;

    if (placed != NULL && sorted != NULL) {
        for (size_t i = 0; i < *count; i++)
            placed[i] = (struct placed_row){rows[i], i};
        qsort(placed, *count, sizeof(*placed), by_kernel);
        for (size_t i = 0; i < *count; i++)
            if (kept == 0 || placed[i].row.kernel != sorted[kept - 1].kernel ||
                by_point(&placed[i].row, &sorted[kept - 1]) != 0)
                sorted[kept++] = placed[i].row;
        *count = kept;
        free(placed);
        return sorted;
    }
    free(placed);
    free(sorted);
    return NULL;
}

static size_t end_of_kernel(const struct lull_grid_row *rows, size_t count, size_t begin)
{
    size_t end = begin;

    while (end < count && rows[end].kernel == rows[begin].kernel)
        end++;
    return end;
}

/* ---- clocks that were not honoured -------------------------------------------------------- */

/* The row of the highest valid SM clock at this memory clock; null: there is none. */
static const struct lull_grid_row *find_top(const struct lull_grid_row *rows, size_t begin,
                                            size_t end, double mem_mhz)
{
    for (size_t i = end; i-- > begin;)
        if (rows[i].is_valid && model_grid_compare(rows[i].mem_mhz, mem_mhz) == 0)
            return &rows[i];
    return NULL;
}

/* The row's time over what its clock explains by the time at the top: 1 for a kernel that only
 * computes, less for one that waits for memory, more if the clock was not the set one. */
static double excess_of(const struct lull_grid_row *row, const struct lull_grid_row *top)
{
    if (top == NULL || row->sm_mhz >= top->sm_mhz)
        return 0.0;
    return row->time_ms * row->sm_mhz / (top->time_ms * top->sm_mhz);
}

static struct lull_unhonoured *find_unhonoured(struct lull_grid *grid, double sm_mhz)
{
    for (uint32_t i = 0; i < grid->unhonoured_count; i++)
        if (model_grid_compare(grid->unhonoured[i].sm_mhz, sm_mhz) == 0)
            return &grid->unhonoured[i];
    return NULL;
}

static void note_unhonoured(struct lull_grid *grid, double sm_mhz)
{
    struct lull_unhonoured *const known = find_unhonoured(grid, sm_mhz);
    uint32_t at = grid->unhonoured_count;

    if (known != NULL) {
        known->kernels++;
        return;
    }
    if (at == LULL_GRID_ROW_CLOCKS)
        return;
    for (; at > 0 && grid->unhonoured[at - 1].sm_mhz > sm_mhz; at--)
        grid->unhonoured[at] = grid->unhonoured[at - 1];
    grid->unhonoured[at] = (struct lull_unhonoured){sm_mhz, 1, 0};
    grid->unhonoured_count++;
}

/* Rows of a kernel come by SM clock, so that a clock that several memory clocks show counts once.
 */
static void find_unhonoured_clocks(struct lull_grid *grid, const struct lull_grid_row *rows,
                                   size_t begin, size_t end)
{
    double last_mhz = 0.0;

    for (size_t i = begin; i < end; i++)
        if (rows[i].sm_mhz > last_mhz &&
            excess_of(&rows[i], find_top(rows, begin, end, rows[i].mem_mhz)) > honoured_margin) {
            last_mhz = rows[i].sm_mhz;
            note_unhonoured(grid, last_mhz);
        }
}

/* Returns whether at least half of a kernel's rows below the top only compute: such a kernel
 * follows the clock, so that its times prove clocks. */
static bool follows_clock(const struct lull_grid_row *rows, size_t begin, size_t end)
{
    size_t below = 0, followed = 0;

    for (size_t i = begin; i < end; i++) {
        const double excess = excess_of(&rows[i], find_top(rows, begin, end, rows[i].mem_mhz));

        below += excess > 0.0;
        followed += excess * honoured_margin > 1.0;
    }
    return 2 * followed >= below;
}

/* Returns whether a kernel proves a clock: it follows the clock and runs as fast there as the clock
 * explains, at every memory clock, and no faster. */
static bool proves_clock(const struct lull_grid_row *rows, size_t begin, size_t end, double sm_mhz)
{
    bool has_row = false;

    for (size_t i = begin; i < end; i++) {
        const double excess = excess_of(&rows[i], find_top(rows, begin, end, rows[i].mem_mhz));

        if (model_grid_compare(rows[i].sm_mhz, sm_mhz) != 0)
            continue;
        if (excess > honoured_margin)
            return false;
        has_row |= excess * honoured_margin >= 1.0;
    }
    return has_row;
}

static void count_proofs(struct lull_grid *grid, const struct lull_grid_row *rows, size_t begin,
                         size_t end)
{
    if (!follows_clock(rows, begin, end))
        return;
    for (uint32_t i = 0; i < grid->unhonoured_count; i++)
        grid->unhonoured[i].proofs += proves_clock(rows, begin, end, grid->unhonoured[i].sm_mhz);
}

/* A clock that more kernels prove than refute was set: rows that are slower were disturbed. */
static void drop_disturbed(struct lull_grid *grid, struct lull_grid_row *rows, size_t begin,
                           size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const struct lull_unhonoured *const known = find_unhonoured(grid, rows[i].sm_mhz);

        if (known == NULL || known->proofs < known->kernels || !rows[i].is_valid ||
            excess_of(&rows[i], find_top(rows, begin, end, rows[i].mem_mhz)) <= honoured_margin)
            continue;
        rows[i].is_valid = false;
        grid->disturbed++;
    }
}

static void forget_proven(struct lull_grid *grid)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < grid->unhonoured_count; i++)
        if (grid->unhonoured[i].proofs < grid->unhonoured[i].kernels)
            grid->unhonoured[kept++] = grid->unhonoured[i];
    grid->unhonoured_count = kept;
}

/* ---- clocks that were not reached --------------------------------------------------------- */

/* The highest valid row of a kernel at this memory clock whose SM clock is at most this, and was
 * not found short; null: there is none. */
static const struct lull_grid_row *find_below(const struct lull_grid *grid,
                                              const struct lull_grid_row *rows, size_t begin,
                                              size_t end, const struct lull_grid_row *like,
                                              double max_mhz)
{
    for (size_t i = end; i-- > begin;)
        if (rows[i].is_valid && rows[i].sm_mhz <= max_mhz &&
            model_grid_compare(rows[i].mem_mhz, like->mem_mhz) == 0 &&
            (grid->short_mhz <= 0.0 || rows[i].sm_mhz < grid->short_mhz))
            return &rows[i];
    return NULL;
}

/*
 * Returns the time of a kernel at a clock, relative to the line of its time over 1 / clock through
 * two clocks below, each by 5 to 15 % of the next. 0: the clock should make no difference, or there
 * are no such clocks.
 */
static double shortfall_of(const struct lull_grid *grid, const struct lull_grid_row *rows,
                           size_t begin, size_t end, const struct lull_grid_row *row)
{
    const struct lull_grid_row *const near =
        find_below(grid, rows, begin, end, row, row->sm_mhz * (1.0 - reach_ratio));
    const struct lull_grid_row *const far =
        near == NULL ? NULL
                     : find_below(grid, rows, begin, end, row, near->sm_mhz * (1.0 - reach_ratio));
    double expected_ms;

    if (far == NULL || far->sm_mhz < near->sm_mhz * (1.0 - far_ratio) ||
        near->sm_mhz < row->sm_mhz * (1.0 - far_ratio))
        return 0.0;
    expected_ms = near->time_ms + (near->time_ms - far->time_ms) *
                                      (1.0 / row->sm_mhz - 1.0 / near->sm_mhz) /
                                      (1.0 / near->sm_mhz - 1.0 / far->sm_mhz);
    if (expected_ms <= 0.0 || expected_ms > near->time_ms * (1.0 - 0.5 * reach_ratio))
        return 0.0;
    return row->time_ms / expected_ms;
}

/*
 * Finds the lowest clock from which on the GPU does not get as fast as the clock says, because its
 * boost ends there: kernels that follow the clock below it all gain less there, by more than
 * scatter. A kernel alone may bend for another reason, and one that still follows proves the clock.
 */
static void find_short(struct lull_grid *grid, const struct lull_grid_row *rows, size_t count)
{
    double mhz = 0.0;

    while (grid->short_mhz <= 0.0) {
        double next_mhz = INFINITY;
        uint32_t shows = 0, proofs = 0;

        for (size_t i = 0; i < count; i++)
            if (rows[i].sm_mhz > mhz)
                next_mhz = fmin(next_mhz, rows[i].sm_mhz);
        if (isinf(next_mhz))
            return;
        mhz = next_mhz;
        for (size_t begin = 0, end; begin < count; begin = end) {
            bool has_shown = false, has_proven = false;

            end = end_of_kernel(rows, count, begin);
            for (size_t i = begin; i < end; i++) {
                const double shortfall =
                    rows[i].is_valid && model_grid_compare(rows[i].sm_mhz, mhz) == 0
                        ? shortfall_of(grid, rows, begin, end, &rows[i])
                        : 0.0;

                has_shown |= shortfall > short_ratio;
                has_proven |= shortfall > 0.0 && shortfall < reached_ratio;
            }
            shows += has_shown && !has_proven;
            proofs += has_proven;
        }
        if (shows >= MIN_SHORT && shows > 4 * proofs) {
            grid->short_mhz = mhz;
            grid->short_kernels = shows;
        }
    }
}

/* Drops the rows that are not to be used, and returns how many are left. */
static size_t model_grid_drop_unusable(struct lull_grid *grid, struct lull_grid_row *rows,
                                       size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (rows[i].is_valid && find_unhonoured(grid, rows[i].sm_mhz) == NULL &&
            (grid->short_mhz <= 0.0 || rows[i].sm_mhz < grid->short_mhz))
            rows[kept++] = rows[i];
    return kept;
}

/* ---- the points --------------------------------------------------------------------------- */

static int by_clocks(const void *first, const void *second)
{
    return by_point(first, second);
}

/* Takes the points that more than half of the kernels have. */
static enum lull_grid_result model_grid_take_points(struct lull_grid *grid,
                                                    const struct lull_grid_row *rows, size_t count,
                                                    uint32_t kernels)
{
    struct lull_grid_row *const all = malloc((count + 1) * sizeof(*all));
    enum lull_grid_result result = LULL_GRID_MADE;

    grid->points = calloc(LULL_GRID_POINTS, sizeof(*grid->points));
    if (all == NULL || grid->points == NULL) {
        free(all);
        return LULL_GRID_NO_MEMORY;
    }
    memcpy(all, rows, count * sizeof(*all));
    qsort(all, count, sizeof(*all), by_clocks);
    for (size_t begin = 0, end; begin < count && result == LULL_GRID_MADE; begin = end) {
        for (end = begin; end < count && by_point(&all[end], &all[begin]) == 0;)
            end++;
        if (2 * (end - begin) <= kernels)
            continue;
        if (grid->point_count == LULL_GRID_POINTS)
            result = LULL_GRID_TOO_MANY_POINTS;
        else
            grid->points[grid->point_count++] = (struct lull_grid_point){
                .sm_mhz = all[begin].sm_mhz, .mem_mhz = all[begin].mem_mhz};
    }
    free(all);
    if (result == LULL_GRID_MADE && grid->point_count < 2)
        result = LULL_GRID_NO_POINTS;
    return result;
}

/* The point nearest to these clocks, by the ratios of clocks. */
static uint32_t model_grid_nearest(const struct lull_grid *grid, double sm_mhz, double mem_mhz)
{
    double least = INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < grid->point_count; i++) {
        const double far =
            hypot(grid->points[i].sm_mhz / sm_mhz - 1.0, grid->points[i].mem_mhz / mem_mhz - 1.0);

        if (far < least) {
            least = far;
            best = i;
        }
    }
    return best;
}

static void set_base(struct lull_grid *grid, double sm_mhz, double mem_mhz)
{
    double highest_mhz = 0.0;

    for (uint32_t i = 0; i < grid->point_count; i++)
        highest_mhz = fmax(highest_mhz, grid->points[i].mem_mhz);
    if (sm_mhz <= 0.0)
        sm_mhz = grid->points[grid->point_count - 1].sm_mhz;
    if (mem_mhz <= 0.0)
        mem_mhz = highest_mhz;
    grid->base = model_grid_nearest(grid, sm_mhz, mem_mhz);
    for (uint32_t i = 0; i < grid->point_count; i++) {
        struct lull_grid_point *const point = &grid->points[i];

        point->sm_ratio = point->sm_mhz / grid->points[grid->base].sm_mhz;
        point->mem_ratio = point->mem_mhz / grid->points[grid->base].mem_mhz;
    }
}

/* ---- the kernels -------------------------------------------------------------------------- */

static void fill_counters(const struct lull_grid_row *row, double *counters)
{
    for (uint32_t i = 0; i < LULL_GRID_COUNTERS; i++)
        counters[i] = row->counters != NULL ? row->counters[i] : NAN;
}

/* Writes the values of the next kernel at all points; both lists are sorted alike. false: it lacks
 * a point. *is_powered_out: it has power at all of them. */
static bool fill_kernel(const struct lull_grid *grid, const struct lull_grid_row *rows,
                        size_t begin, size_t end, bool *is_powered_out)
{
    const size_t kernel = grid->kernel_count;
    double *const time_ms = &grid->time_ms[kernel * grid->point_count];
    double *const power_w = &grid->power_w[kernel * grid->point_count];
    size_t at = begin;

    *is_powered_out = true;
    for (uint32_t i = 0; i < grid->point_count; i++) {
        const struct lull_grid_row wanted = {.sm_mhz = grid->points[i].sm_mhz,
                                             .mem_mhz = grid->points[i].mem_mhz};

        while (at < end && by_point(&rows[at], &wanted) < 0)
            at++;
        if (at == end || by_point(&rows[at], &wanted) != 0)
            return false;
        time_ms[i] = rows[at].time_ms;
        power_w[i] = rows[at].power_w;
        *is_powered_out = *is_powered_out && !isnan(power_w[i]);
        if (i == grid->base)
            fill_counters(&rows[at], &grid->counters[kernel * LULL_GRID_COUNTERS]);
    }
    return true;
}

/* Takes the kernels with power (or those without) that have all points. */
static void take_kernels(struct lull_grid *grid, const struct lull_grid_row *rows, size_t count,
                         bool with_power)
{
    for (size_t begin = 0, end; begin < count; begin = end) {
        bool is_powered;

        end = end_of_kernel(rows, count, begin);
        if (fill_kernel(grid, rows, begin, end, &is_powered) && is_powered == with_power)
            grid->kernels[grid->kernel_count++] = rows[begin].kernel;
    }
}

static enum lull_grid_result model_grid_fill(struct lull_grid *grid,
                                             const struct lull_grid_row *rows, size_t count,
                                             uint32_t kernels)
{
    /* One more than there are: a kernel is written before it is known whether it counts. */
    const size_t cells = ((size_t)kernels + 1) * grid->point_count;

    assert(grid->point_count > 0);
    grid->kernels = calloc((size_t)kernels + 1, sizeof(*grid->kernels));
    grid->time_ms = calloc(cells, sizeof(*grid->time_ms));
    grid->power_w = calloc(cells, sizeof(*grid->power_w));
    grid->counters = calloc((size_t)kernels + 1, LULL_GRID_COUNTERS * sizeof(*grid->counters));
    if (grid->kernels == NULL || grid->time_ms == NULL || grid->power_w == NULL ||
        grid->counters == NULL)
        return LULL_GRID_NO_MEMORY;
    take_kernels(grid, rows, count, true);
    grid->powered_count = grid->kernel_count;
    take_kernels(grid, rows, count, false);
    grid->left_out = kernels - grid->kernel_count;
    return grid->kernel_count > 0 ? LULL_GRID_MADE : LULL_GRID_NO_POINTS;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static enum lull_grid_result model_grid_make(struct lull_grid *grid, struct lull_grid_row *rows,
                                             size_t count, double base_sm_mhz, double base_mem_mhz)
{
    enum lull_grid_result result;
    uint32_t kernels = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        end = end_of_kernel(rows, count, begin);
        find_unhonoured_clocks(grid, rows, begin, end);
        if (kernels++ == LULL_GRID_KERNELS)
            return LULL_GRID_TOO_MANY_KERNELS;
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = end_of_kernel(rows, count, begin);
        count_proofs(grid, rows, begin, end);
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = end_of_kernel(rows, count, begin);
        drop_disturbed(grid, rows, begin, end);
    }
    forget_proven(grid);
    count = model_grid_drop_unusable(grid, rows, count);
    find_short(grid, rows, count);
    count = model_grid_drop_unusable(grid, rows, count);
    result = model_grid_take_points(grid, rows, count, kernels);
    if (result != LULL_GRID_MADE)
        return result;
    set_base(grid, base_sm_mhz, base_mem_mhz);
    return model_grid_fill(grid, rows, count, kernels);
}

enum lull_grid_result lull_grid_make(const struct lull_grid_row *rows, size_t row_count,
                                     double base_sm_mhz, double base_mem_mhz,
                                     struct lull_grid *grid_out)
{
    struct lull_grid grid = {0};
    struct lull_grid_row *const sorted = model_grid_sort_rows(rows, &row_count);
    enum lull_grid_result result = LULL_GRID_NO_MEMORY;

    if (sorted != NULL)
        result = model_grid_make(&grid, sorted, row_count, base_sm_mhz, base_mem_mhz);
    free(sorted);
    if (result != LULL_GRID_MADE)
        lull_grid_fini(&grid);
    *grid_out = grid;
    return result;
}

void lull_grid_fini(struct lull_grid *grid)
{
    free(grid->points);
    free(grid->kernels);
    free(grid->time_ms);
    free(grid->power_w);
    free(grid->counters);
    grid->points = NULL;
    grid->kernels = NULL;
    grid->time_ms = grid->power_w = grid->counters = NULL;
    grid->point_count = grid->kernel_count = grid->powered_count = 0;
}

const double *lull_grid_times(const struct lull_grid *grid, uint32_t kernel)
{
    assert(kernel < grid->kernel_count);
    return &grid->time_ms[(size_t)kernel * grid->point_count];
}

const double *lull_grid_powers(const struct lull_grid *grid, uint32_t kernel)
{
    assert(kernel < grid->powered_count);
    return &grid->power_w[(size_t)kernel * grid->point_count];
}

/* ---- probes ------------------------------------------------------------------------------- */

/* The memory clocks, rising. */
static uint32_t list_mem_clocks(const struct lull_grid *grid, double *clocks_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < grid->point_count; i++) {
        const double mhz = grid->points[i].mem_mhz;
        uint32_t at = count;

        while (at > 0 && clocks_out[at - 1] > mhz)
            at--;
        if (at > 0 && model_grid_compare(clocks_out[at - 1], mhz) == 0)
            continue;
        memmove(&clocks_out[at + 1], &clocks_out[at], (count - at) * sizeof(*clocks_out));
        clocks_out[at] = mhz;
        count++;
    }
    return count;
}

/* The SM clocks, rising, as are the points. */
static uint32_t list_sm_clocks(const struct lull_grid *grid, double *clocks_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < grid->point_count; i++)
        if (count == 0 || clocks_out[count - 1] < grid->points[i].sm_mhz)
            clocks_out[count++] = grid->points[i].sm_mhz;
    return count;
}

bool lull_grid_has_mem_axis(const struct lull_grid *grid)
{
    for (uint32_t i = 1; i < grid->point_count; i++)
        if (model_grid_compare(grid->points[i].mem_mhz, grid->points[0].mem_mhz) != 0)
            return true;
    return false;
}

/* Adds a probe in its place, once. */
static uint32_t add_probe(uint32_t *probes, uint32_t count, uint32_t probe)
{
    uint32_t at = count;

    while (at > 0 && probes[at - 1] > probe)
        at--;
    if (at > 0 && probes[at - 1] == probe)
        return count;
    memmove(&probes[at + 1], &probes[at], (count - at) * sizeof(*probes));
    probes[at] = probe;
    return count + 1;
}

static uint32_t list_probes(const struct lull_grid *grid, bool with_middle, uint32_t *probes_out)
{
    double sm_mhz[LULL_GRID_POINTS + 1], mem_mhz[LULL_GRID_POINTS + 1];
    const uint32_t sm_count = list_sm_clocks(grid, sm_mhz);
    const uint32_t mem_count = list_mem_clocks(grid, mem_mhz);
    uint32_t count = 0;

    assert(sm_count > 0 && mem_count > 0);
    for (uint32_t corner = 0; corner < 4; corner++)
        count = add_probe(probes_out, count,
                          model_grid_nearest(grid, sm_mhz[(corner & 1) != 0 ? sm_count - 1 : 0],
                                             mem_mhz[(corner & 2) != 0 ? mem_count - 1 : 0]));
    if (with_middle)
        count = add_probe(probes_out, count,
                          model_grid_nearest(grid, sm_mhz[sm_count / 2], mem_mhz[mem_count / 2]));
    return count;
}

uint32_t lull_grid_probe_ends(const struct lull_grid *grid, uint32_t *probes_out)
{
    return list_probes(grid, false, probes_out);
}

uint32_t lull_grid_probe_middle(const struct lull_grid *grid, uint32_t *probes_out)
{
    return list_probes(grid, true, probes_out);
}
