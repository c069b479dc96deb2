/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/posted_prices.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct posted_prices_slot {
    double price_j;
    uint32_t load;
};

/* Price and load of several slots together. */
struct posted_prices_stretch {
    double price_j; /* of a GPU */
    double read_j;  /* of a MB/s */
    uint32_t load;  /* the most that is booked in one of them */
    uint32_t reads; /* the same, of the storage */
};

struct posted_prices_row {
    struct lull_price_law law;
    struct posted_prices_slot *slots;
};

struct lull_prices {
    uint32_t type_count;
    uint32_t slots;
    uint32_t room;
    struct posted_prices_row *rows;      /* of the types, and behind them the storage's */
    struct posted_prices_stretch *tails; /* room for tail_room, to look at windows with */
    uint32_t tail_room;
    double ratio;
    /* So far. The first is at most the second times the ratio. */
    double dual_j;
    double gain_j;
};

/* ---- the law ------------------------------------------------------------------------------- */

/* ln(1 + U / (c L)). */
static double log_range(const struct lull_price_law *law)
{
    return log1p(law->max_j / (law->bend * law->min_j));
}

/* The GPUs over which prices rise. */
static double rest_of(const struct lull_price_law *law)
{
    return law->gpus - law->gang - law->free;
}

double lull_price_of(const struct lull_price_law *law, uint32_t load)
{
    const double above = load > law->free ? load - law->free : 0.0;

    return law->bend * law->min_j * expm1(log_range(law) * above / rest_of(law));
}

double lull_price_kappa(const struct lull_price_law *law)
{
    const double x = law->gang * log_range(law) / rest_of(law);

    return law->gpus / rest_of(law) * (expm1(x) / x) * log_range(law);
}

double lull_price_ratio(const struct lull_price_law *law)
{
    const double kappa = lull_price_kappa(law);

    return fmax(1.0, kappa) + law->bend * kappa;
}

double lull_price_pair_ratio(const struct lull_price_law *law, const struct lull_price_law *storage)
{
    double kappa;

    if (storage == NULL || storage->gang == 0)
        return lull_price_ratio(law);
    kappa = lull_price_kappa(storage);
    return fmax(lull_price_ratio(law), kappa + law->bend * lull_price_kappa(law)) +
           storage->bend * kappa;
}

/* Up to rounding: at the ends of the ranges lie the jobs that they were taken from. */
static bool is_in_range(const struct lull_price_law *law, const struct lull_slot_point *point,
                        uint32_t amount, double gain_j)
{
    const double slack = 1e-12;

    return point->slots > 0 && amount <= law->gang && gain_j > 0.0 &&
           gain_j <= law->max_j * amount * (1.0 + slack) &&
           gain_j >= law->min_j * amount * point->slots * (1.0 - slack);
}

bool lull_price_law_covers(const struct lull_price_law *law, const struct lull_price_law *storage,
                           const struct lull_slot_point *point, double gain_j)
{
    return is_in_range(law, point, point->gpus, gain_j) &&
           (point->reads == 0 || is_in_range(storage, point, point->reads, gain_j));
}

/* Tries values of ln c from one to another; returns the best of them. */
static double try_bends(struct lull_price_law *law, double from, double step, int count)
{
    double best = from;
    double best_ratio = INFINITY;

    for (int i = 0; i < count; i++) {
        double ratio;

        law->bend = exp(from + i * step);
        ratio = lull_price_ratio(law);
        if (ratio < best_ratio) {
            best_ratio = ratio;
            best = from + i * step;
        }
    }
    return best;
}

void lull_price_law_tune(struct lull_price_law *law)
{
    enum { ROUNDS = 5, TRIALS = 41 };
    double from = -14.0; /* c below a millionth: the ratio only rises from there down */
    double step;
    double best = 0.0;

    law->bend = 1.0;
    law->free = 0;
    if (law->gang == 0)
        return;
    /* Far above U C / L prices are straight lines, and c changes nothing any more. */
    step = (log(law->max_j / law->min_j) + log(law->gpus) + 12.0 - from) / (TRIALS - 1);
    for (int i = 0; i < ROUNDS; i++) {
        best = try_bends(law, from, step, TRIALS);
        from = best - step;
        step *= 2.0 / (TRIALS - 1);
    }
    law->bend = exp(best);
}

/* The most that may be free at the law's bend: the ratio rises with it. */
static uint32_t most_free(const struct lull_price_law *law, const struct lull_price_law *beside,
                          double ratio)
{
    struct lull_price_law tried = *law;
    uint32_t fits = 0;
    uint32_t fails = law->gpus - law->gang;

    while (fails - fits > 1) {
        tried.free = fits + (fails - fits) / 2;
        if (lull_price_pair_ratio(&tried, beside) <= ratio)
            fits = tried.free;
        else
            fails = tried.free;
    }
    return fits;
}

/* How far jobs that gain L fill a slot before its GPUs cost the ratio times what they gained. A
 * few fixed-point iterations are accurate enough to compare bends. */
static double fill_of(const struct lull_price_law *law, double ratio)
{
    double load = law->gpus;

    for (int i = 0; i < 4; i++)
        load = fmin(law->free + rest_of(law) / log_range(law) *
                                    log1p(ratio * load / (law->gpus * law->bend)),
                    law->gpus);
    return load;
}

void lull_price_law_fit(struct lull_price_law *law, const struct lull_price_law *beside,
                        double ratio)
{
    enum { HALF = 50, TRIALS = 2 * HALF };
    struct lull_price_law best = *law;
    double best_load;

    if (law->gang == 0 || !isfinite(ratio))
        return;
    best.free = most_free(law, beside, ratio);
    best_load = fill_of(&best, ratio);
    for (int i = 0; i < TRIALS; i++) {
        struct lull_price_law tried = *law;

        tried.bend = law->bend * exp(0.1 * (i - HALF));
        tried.free = 0;
        if (lull_price_pair_ratio(&tried, beside) > ratio)
            continue;
        tried.free = most_free(&tried, beside, ratio);
        if (fill_of(&tried, ratio) <= best_load)
            continue;
        best_load = fill_of(&tried, ratio);
        best = tried;
    }
    *law = best;
}

/* ---- slots --------------------------------------------------------------------------------- */

static int prices_grow(struct lull_prices *prices, uint32_t room)
{
    for (uint32_t i = 0; i <= prices->type_count; i++) {
        struct posted_prices_slot *slots =
            realloc(prices->rows[i].slots, (size_t)room * sizeof(*slots));

        if (slots == NULL)
            return -ENOMEM;
        prices->rows[i].slots = slots;
    }
    prices->room = room;
    return 0;
}

/* Makes at least this many slots known; nothing is booked in the new ones. */
static int prices_reach(struct lull_prices *prices, uint32_t slots)
{
    if (slots <= prices->slots)
        return 0;
    if (slots > prices->room && prices_grow(prices, slots < UINT32_MAX / 2 ? slots * 2 : slots) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i <= prices->type_count; i++)
        for (uint32_t slot = prices->slots; slot < slots; slot++)
            prices->rows[i].slots[slot] = (struct posted_prices_slot){0};
    prices->slots = slots;
    return 0;
}

int lull_prices_create(const struct lull_price_law *laws, uint32_t type_count,
                       const struct lull_price_law *storage, double ratio,
                       struct lull_prices **prices_out)
{
    struct lull_prices *prices = calloc(1, sizeof(*prices));

    if (prices == NULL)
        return -ENOMEM;
    prices->type_count = type_count;
    assert(ratio >= lull_bid_ratio(laws, type_count, storage));
    prices->ratio = ratio;
    prices->rows = calloc((size_t)type_count + 1, sizeof(*prices->rows));
    if (prices->rows == NULL) {
        free(prices);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < type_count; i++) {
        assert(laws[i].gang == 0 || laws[i].bend > 0.0);
        prices->rows[i].law = laws[i];
    }
    if (storage != NULL)
        prices->rows[type_count].law = *storage;
    if (prices_reach(prices, 1) < 0) {
        lull_prices_destroy(prices);
        return -ENOMEM;
    }
    *prices_out = prices;
    return 0;
}

void lull_prices_destroy(struct lull_prices *prices)
{
    if (prices == NULL)
        return;
    for (uint32_t i = 0; prices->rows != NULL && i <= prices->type_count; i++)
        free(prices->rows[i].slots);
    free(prices->rows);
    free(prices->tails);
    free(prices);
}

uint32_t lull_prices_slots(const struct lull_prices *prices)
{
    return prices->slots;
}

uint32_t lull_prices_load(const struct lull_prices *prices, uint32_t type, uint32_t slot)
{
    return prices->rows[type].slots[slot].load;
}

double lull_prices_sum(const struct lull_prices *prices, uint32_t type, uint32_t first,
                       uint32_t slots)
{
    double sum_j = 0.0;

    assert((uint64_t)first + slots <= prices->slots);
    for (uint32_t i = 0; i < slots; i++)
        sum_j += prices->rows[type].slots[first + i].price_j;
    return sum_j;
}

/* ---- windows ------------------------------------------------------------------------------- */

/*
 * All windows of `slots` slots one after the other. Slots are cut into blocks of that length, so
 * that a window is the tail of a block and the head of the next: sums of prices without a
 * difference, in which small prices after large ones would be lost.
 */
struct posted_prices_scan {
    const struct posted_prices_row *row;
    const struct posted_prices_row *storage; /* NULL: what is looked at does not read */
    struct posted_prices_stretch *tails;     /* [slots] of the block */
    uint32_t slots;
    uint32_t start;  /* of the window */
    uint32_t offset; /* in its block */
    struct posted_prices_stretch head;
};

static struct posted_prices_stretch prices_join(struct posted_prices_stretch a,
                                                struct posted_prices_stretch b)
{
    return (struct posted_prices_stretch){a.price_j + b.price_j, a.read_j + b.read_j,
                                          a.load > b.load ? a.load : b.load,
                                          a.reads > b.reads ? a.reads : b.reads};
}

static struct posted_prices_stretch prices_stretch_of(const struct posted_prices_scan *scan,
                                                      uint32_t slot)
{
    static const struct posted_prices_slot nothing;
    const struct posted_prices_slot *at = &scan->row->slots[slot];
    const struct posted_prices_slot *read =
        scan->storage != NULL ? &scan->storage->slots[slot] : &nothing;

    return (struct posted_prices_stretch){at->price_j, read->price_j, at->load, read->load};
}

static void prices_begin_block(struct posted_prices_scan *scan)
{
    struct posted_prices_stretch tail = {0};

    for (uint32_t i = scan->slots; i > 0; i--) {
        tail = prices_join(prices_stretch_of(scan, scan->start + i - 1), tail);
        scan->tails[i - 1] = tail;
    }
    scan->offset = 0;
    scan->head = (struct posted_prices_stretch){0};
}

/* Makes room for windows of that length. -ENOMEM. */
static int make_tails(struct lull_prices *prices, uint32_t slots)
{
    struct posted_prices_stretch *tails;

    if (slots <= prices->tail_room)
        return 0;
    tails = realloc(prices->tails, (size_t)slots * sizeof(*tails));
    if (tails == NULL)
        return -ENOMEM;
    prices->tails = tails;
    prices->tail_room = slots;
    return 0;
}

static struct posted_prices_scan scan_begin(struct lull_prices *prices,
                                            const struct lull_slot_point *point)
{
    const struct posted_prices_row *storage = &prices->rows[prices->type_count];
    struct posted_prices_scan scan = {.row = &prices->rows[point->type],
                                      .storage = point->reads > 0 ? storage : NULL,
                                      .tails = prices->tails,
                                      .slots = point->slots,
                                      .start = point->first};

    prices_begin_block(&scan);
    return scan;
}

static struct posted_prices_stretch scan_window(const struct posted_prices_scan *scan)
{
    return prices_join(scan->tails[scan->offset], scan->head);
}

/* Goes to the next window, which lies within the known slots. */
static void scan_next(struct posted_prices_scan *scan)
{
    scan->head = prices_join(scan->head, prices_stretch_of(scan, scan->start + scan->slots));
    scan->start++;
    scan->offset++;
    if (scan->offset == scan->slots)
        prices_begin_block(scan);
}

/* ---- the rule with a proof ------------------------------------------------------------------- */

/* Exceeds the rounding error of millions of added gains and prices: the room below the proven
 * ratio is reduced by this share of its parts. */
static const double sum_slip_ratio = 1e-9;

static double gain_at(const struct lull_slot_point *point, uint32_t start)
{
    return -(point->cost_j + point->delay_j * (double)(start - point->first));
}

static const struct lull_price_law *storage_of(const struct lull_prices *prices)
{
    return &prices->rows[prices->type_count].law;
}

/* Returns whether any start of an operating point could be booked. */
static bool prices_is_usable(const struct lull_prices *prices, const struct lull_slot_point *point)
{
    return point->slots > 0 && point->gpus > 0 && prices->rows[point->type].law.gang > 0 &&
           (point->reads == 0 || storage_of(prices)->gang > 0) &&
           gain_at(point, point->first) > 0.0;
}

/* Returns whether there is room for the operating point in a window. */
static bool prices_has_room(const struct lull_prices *prices, const struct lull_slot_point *point,
                            const struct posted_prices_stretch *window)
{
    return (uint64_t)window->load + point->gpus <= prices->rows[point->type].law.gpus &&
           (point->reads == 0 ||
            (uint64_t)window->reads + point->reads <= storage_of(prices)->gpus);
}

/* Returns the price of running at this operating point in a window, J. */
static double prices_pay(const struct lull_slot_point *point,
                         const struct posted_prices_stretch *window)
{
    return point->gpus * window->price_j + point->reads * window->read_j;
}

/* The highest surplus of the set's schedules, and which it is; without room it is none, but for
 * rounding. */
static void find_surplus(struct lull_prices *prices, const struct lull_slot_point *point,
                         uint32_t number, struct lull_bid *best)
{
    const struct lull_price_law *law = &prices->rows[point->type].law;
    struct posted_prices_scan scan = scan_begin(prices, point);

    for (;; scan_next(&scan)) {
        const double gain_j = gain_at(point, scan.start);
        const struct posted_prices_stretch window = scan_window(&scan);
        const double price_j = prices_pay(point, &window);

        if (gain_j <= best->surplus_j)
            return; /* later starts gain no more, and prices are not below 0 */
        if (lull_price_law_covers(law, storage_of(prices), point, gain_j) &&
            gain_j - price_j > best->surplus_j) {
            best->surplus_j = gain_j - price_j;
            best->choice = (struct lull_slot_choice){number, scan.start};
            best->refusal =
                prices_has_room(prices, point, &window) ? LULL_BID_ACCEPTED : LULL_BID_NO_ROOM;
        }
        if (scan.start == point->last)
            return;
    }
}

/* Returns by how much, at most, a booking makes all GPUs of a type, or all of the storage, more
 * expensive: each slot's price, and c L, grow by the same factor, or less where the booking begins
 * in the free load. */
static double rise_of_row(const struct lull_price_law *law, uint32_t amount, uint32_t slots,
                          double price_j)
{
    const double z = log_range(law) * amount / rest_of(law);

    return law->gpus * expm1(z) * (price_j + law->bend * law->min_j * slots);
}

static double rise_of(const struct lull_prices *prices, const struct lull_slot_point *point,
                      const struct posted_prices_stretch *window)
{
    const double rise_j =
        rise_of_row(&prices->rows[point->type].law, point->gpus, point->slots, window->price_j);

    if (point->reads == 0)
        return rise_j;
    return rise_j + rise_of_row(storage_of(prices), point->reads, point->slots, window->read_j);
}

/* How much the dual may rise beyond the ratio times what a booking gains. */
static double left_j(const struct lull_prices *prices)
{
    const double max_j = prices->ratio * prices->gain_j;

    return fmax(max_j - prices->dual_j - sum_slip_ratio * (max_j + prices->dual_j), 0.0);
}

static bool prices_is_better(const struct lull_bid *bid, uint32_t end, const struct lull_bid *best,
                             uint32_t best_end)
{
    if (best->refusal != LULL_BID_ACCEPTED || bid->gain_j != best->gain_j)
        return best->refusal != LULL_BID_ACCEPTED || bid->gain_j > best->gain_j;
    return end < best_end;
}

/* Tries the starts of an operating point that keep the ratio proven. */
static void find_affordable(struct lull_prices *prices, const struct lull_slot_point *point,
                            uint32_t number, uint32_t *end, struct lull_bid *best)
{
    struct posted_prices_scan scan = scan_begin(prices, point);
    const double left = left_j(prices) - best->surplus_j;

    for (;; scan_next(&scan)) {
        const struct posted_prices_stretch window = scan_window(&scan);
        struct lull_bid bid = *best;

        bid.gain_j = gain_at(point, scan.start);
        if (bid.gain_j <= 0.0 || (best->refusal == LULL_BID_ACCEPTED &&
                                  !prices_is_better(&bid, scan.start + point->slots, best, *end)))
            return; /* later starts gain no more and end later */
        bid.refusal = LULL_BID_ACCEPTED;
        bid.choice = (struct lull_slot_choice){number, scan.start};
        bid.price_j = prices_pay(point, &window);
        bid.rise_j = rise_of(prices, point, &window);
        if (prices_has_room(prices, point, &window)) {
            if (bid.rise_j <= prices->ratio * bid.gain_j + left) {
                *best = bid;
                *end = scan.start + point->slots;
                return;
            }
            if (best->refusal != LULL_BID_ACCEPTED)
                best->refusal = LULL_BID_TOO_DEAR;
        }
        if (scan.start == point->last)
            return;
    }
}

/* Makes the slots known that the job's schedules reach, and room to look at them. */
static int prices_prepare(struct lull_prices *prices, const struct lull_slot_job *job)
{
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_slot_point *point = &job->points[i];

        if (prices_reach(prices, point->last + point->slots) < 0 ||
            make_tails(prices, point->slots) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* The schedule with the surplus, whose booking the theorem itself covers. */
static void take_surplus(const struct lull_prices *prices, const struct lull_slot_job *job,
                         struct lull_bid *bid)
{
    const struct lull_slot_point *point = &job->points[bid->choice.point];
    const uint32_t first = bid->choice.start;
    const struct posted_prices_stretch window = {
        .price_j = lull_prices_sum(prices, point->type, first, point->slots),
        .read_j = lull_prices_sum(prices, prices->type_count, first, point->slots)};

    bid->gain_j = gain_at(point, first);
    bid->price_j = prices_pay(point, &window);
    bid->rise_j = rise_of(prices, point, &window);
}

bool lull_bid_choose(struct lull_prices *prices, const struct lull_slot_job *job,
                     struct lull_bid *bid_out)
{
    struct lull_bid best = {.choice = {LULL_SLOT_REJECTED, 0}, .refusal = LULL_BID_NO_SCHEDULE};
    struct lull_bid bid;
    uint32_t end = 0;

    *bid_out = best;
    if (prices_prepare(prices, job) < 0)
        return false;
    for (uint32_t i = 0; i < job->point_count; i++)
        if (prices_is_usable(prices, &job->points[i]))
            find_surplus(prices, &job->points[i], i, &best);
    bid = (struct lull_bid){.choice = {LULL_SLOT_REJECTED, 0},
                            .refusal = LULL_BID_NO_SCHEDULE,
                            .surplus_j = best.surplus_j};
    for (uint32_t i = 0; i < job->point_count; i++) {
        if (!prices_is_usable(prices, &job->points[i]))
            continue;
        if (bid.refusal == LULL_BID_NO_SCHEDULE)
            bid.refusal = LULL_BID_NO_ROOM;
        find_affordable(prices, &job->points[i], i, &end, &bid);
    }
    if (bid.refusal != LULL_BID_ACCEPTED && best.refusal == LULL_BID_ACCEPTED) {
        take_surplus(prices, job, &best);
        bid = best;
    }
    if (bid.refusal != LULL_BID_ACCEPTED)
        prices->dual_j += bid.surplus_j; /* 0, but for rounding */
    *bid_out = bid;
    return bid.refusal == LULL_BID_ACCEPTED;
}

static void prices_book(struct posted_prices_row *row, uint32_t first, uint32_t slots,
                        uint32_t amount)
{
    for (uint32_t slot = first; slot < first + slots; slot++) {
        row->slots[slot].load += amount;
        row->slots[slot].price_j = lull_price_of(&row->law, row->slots[slot].load);
    }
}

void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid)
{
    const struct lull_slot_point *point = &job->points[bid->choice.point];

    prices_book(&prices->rows[point->type], bid->choice.start, point->slots, point->gpus);
    if (point->reads > 0)
        prices_book(&prices->rows[prices->type_count], bid->choice.start, point->slots,
                    point->reads);
    prices->dual_j += bid->surplus_j + bid->rise_j;
    prices->gain_j += bid->gain_j;
}

double lull_bid_ratio(const struct lull_price_law *laws, uint32_t type_count,
                      const struct lull_price_law *storage)
{
    double ratio = 1.0;

    for (uint32_t i = 0; i < type_count; i++)
        if (laws[i].gang > 0)
            ratio = fmax(ratio, lull_price_pair_ratio(&laws[i], storage));
    return ratio;
}

/* Widens the ranges of one row by a schedule that takes so much of it. */
static void prices_widen(struct lull_price_law *law, uint32_t amount, uint32_t slots, double gain_j)
{
    const double of_slot_j = gain_j / amount / slots;

    law->min_j = law->gang == 0 ? of_slot_j : fmin(law->min_j, of_slot_j);
    law->max_j = fmax(law->max_j, gain_j / amount);
    law->gang = amount > law->gang ? amount : law->gang;
}

void lull_bid_widen(const struct lull_slot_job *job, struct lull_price_law *laws,
                    struct lull_price_law *storage)
{
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_slot_point *point = &job->points[i];

        if (point->slots == 0 || point->gpus >= laws[point->type].gpus || point->cost_j >= 0.0 ||
            (point->reads > 0 && point->reads >= storage->gpus))
            continue;
        prices_widen(&laws[point->type], point->gpus, point->slots, -point->cost_j);
        if (point->reads > 0)
            prices_widen(storage, point->reads, point->slots, -point->cost_j);
    }
}
