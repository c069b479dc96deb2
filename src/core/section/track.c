/*
 * The finder's period is one *round* of calls. Positions are numbered through the rounds that make
 * up an iteration, mostly one; sections count from the boundary position, which is the one with the
 * longest computation before it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/track.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/section/iteration.h"

/* Calls belong to one section if the computation between them is shorter than this, ms, because no
 * clock could change in it... */
static const double merge_gap_ms = 1.0;
/* ...and is less than this share of the section's length. */
static const double merge_gap_ratio = 0.02;

/* Several rounds are one iteration if that leaves less than this share of the variance of their
 * gaps unexplained... */
static const double unexplained_ratio = 0.05;
/* ...and the gaps of one round vary by more than this share of its length. */
static const double notable_ratio = 0.05;
enum { MAX_ROUNDS = 3 }; /* every number up to it divides LULL_TRACK_LEARN_ITERATIONS */

struct position {
    uint64_t signature;
    uint64_t class;
    uint32_t place;
    uint64_t bytes;
    uint32_t ranks;
    uint32_t name;
    uint16_t operation;
    bool is_cautious;
    struct lull_moments gap_ms; /* computation before it */
    struct lull_moments length_ms;
    double typical_gap_ms; /* once folded, without what a busy host adds now and then */
};

struct lull_track {
    struct lull_iteration_finder *finder;
    bool joins_rounds;
    enum lull_track_phase phase;
    uint32_t round_calls;       /* the finder's period */
    uint32_t rounds;            /* in an iteration; while learning: all that are learnt from */
    uint64_t round;             /* begun since learning started; 0: not even one */
    struct position *positions; /* rounds * round_calls of them */
    uint32_t boundary;          /* position at which iterations are counted */

    uint32_t depth;    /* of nested calls */
    uint32_t position; /* of the current or last outermost call */
    bool position_known;
    int64_t begin_ns;    /* of the current outermost call */
    int64_t last_end_ns; /* of the last outermost call; 0: none */

    uint64_t iteration;
    int64_t iteration_begin_ns; /* 0 before the first boundary */
    struct lull_moments iteration_ms;

    struct lull_section sections[LULL_TRACK_MAX_SECTIONS];
    uint32_t section_count;
    int32_t open_section; /* that has started and not ended; -1: none */
    int64_t section_begin_ns;
    int64_t section_end_ns; /* of the last ended section; 0: none */
    double section_exposed_ms;
    bool is_slowed;        /* computation runs at a steady point now... */
    uint32_t slowed_point; /* ...and when it did so last, at this one; 0: it never has */

    struct lull_track_totals totals;
};

/* Share of a deviation that a slowed iteration adds to the stretch: after two of them it is known
 * to a quarter. */
static const double stretch_gain = 0.5;

static double track_ms_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-6;
}

void lull_track_set_steady(struct lull_track *track, uint32_t point)
{
    track->is_slowed = point != 0;
    if (point == 0 || point == track->slowed_point)
        return;
    for (uint32_t i = 0; i < track->section_count && track->slowed_point != 0; i++)
        track->sections[i].stretch_ms *= (double)point / track->slowed_point;
    track->slowed_point = point;
}

struct lull_track *lull_track_create(bool joins_rounds)
{
    struct lull_track *track = calloc(1, sizeof(*track));

    if (track == NULL)
        return NULL;
    track->finder = lull_iteration_finder_create();
    if (track->finder == NULL) {
        free(track);
        return NULL;
    }
    track->joins_rounds = joins_rounds;
    track->open_section = -1;
    return track;
}

void lull_track_destroy(struct lull_track *track)
{
    if (track == NULL)
        return;
    lull_iteration_finder_destroy(track->finder);
    free(track->positions);
    free(track);
}

static void track_forget(struct lull_track *track)
{
    free(track->positions);
    track->positions = NULL;
    track->round_calls = 0;
    track->rounds = 0;
    track->position_known = false;
    track->section_count = 0;
    track->open_section = -1;
    track->section_end_ns = 0;
    track->phase = LULL_TRACK_SEARCHING;
}

static void start_learning(struct lull_track *track, uint32_t round_calls)
{
    const uint32_t rounds = LULL_TRACK_LEARN_ITERATIONS;

    track_forget(track);
    track->positions = calloc((size_t)rounds * round_calls, sizeof(*track->positions));
    if (track->positions == NULL)
        return; /* the track continues searching: no section is known, so nothing is lowered */
    track->round_calls = round_calls;
    track->rounds = rounds;
    track->round = 0;
    track->phase = LULL_TRACK_LEARNING;
    track->boundary = 0;
}

static uint32_t period_of(const struct lull_track *track)
{
    return track->rounds * track->round_calls;
}

/* The number of a position counted from the boundary. */
static uint32_t from_boundary(const struct lull_track *track, uint32_t position)
{
    const uint32_t period = period_of(track);

    assert(period > 0);
    return (position + period - track->boundary) % period;
}

static struct position *position_at(const struct lull_track *track, uint32_t from_boundary_number)
{
    assert(track->positions != NULL && period_of(track) > 0);
    return &track->positions[(track->boundary + from_boundary_number) % period_of(track)];
}

/* The gap before a call in every rounds-th of the rounds learnt from. */
static struct lull_moments gap_in_rounds(const struct lull_track *track, uint32_t position,
                                         uint32_t rounds)
{
    struct lull_moments gap_ms = {0};

    for (uint32_t i = position; i < period_of(track); i += rounds * track->round_calls)
        lull_moments_merge(&gap_ms, &track->positions[i].gap_ms);
    return gap_ms;
}

/* Variance of the gaps of a round, summed over them, if this many rounds are an iteration, ms^2. */
static double gap_variance(const struct lull_track *track, uint32_t rounds)
{
    const uint32_t period = rounds * track->round_calls;
    double sum = 0.0;

    for (uint32_t i = 0; i < period; i++) {
        const struct lull_moments gap_ms = gap_in_rounds(track, i, rounds);

        sum += lull_moments_variance(&gap_ms);
    }
    return sum / rounds;
}

/* A loop whose rounds make the same calls, with more computation before some than before others
 * (a step that reduces its loss and its score apart): rounds that repeat together are its
 * iteration, as only these have one length. */
static uint32_t find_rounds(const struct lull_track *track)
{
    const double alone = gap_variance(track, 1);
    double length_ms = 0.0;

    for (uint32_t i = 0; i < period_of(track); i++)
        length_ms += track->positions[i].gap_ms.mean + track->positions[i].length_ms.mean;
    length_ms /= track->rounds;
    if (alone < notable_ratio * notable_ratio * length_ms * length_ms)
        return 1;
    for (uint32_t rounds = 2; rounds <= MAX_ROUNDS; rounds++)
        if (gap_variance(track, rounds) < unexplained_ratio * alone)
            return rounds;
    return 1;
}

/* Of the gaps before a call in the iterations learnt from, the shorter half: a few milliseconds
 * that another program held the rank up between two calls do not make them two sections. */
static double typical_gap_ms(const struct lull_track *track, uint32_t position, uint32_t period)
{
    struct lull_quantile gaps_ms = {0};

    for (uint32_t i = position; i < period_of(track); i += period)
        if (track->positions[i].gap_ms.count > 0)
            lull_quantile_add(&gaps_ms, track->positions[i].gap_ms.mean);
    if (gaps_ms.count == 0)
        return 0.0;
    return lull_quantile_lower_mean(&gaps_ms);
}

/* Folds what was learnt into the positions of one iteration. */
static void fold_rounds(struct lull_track *track)
{
    const uint32_t rounds = track->joins_rounds ? find_rounds(track) : 1;
    const uint32_t period = rounds * track->round_calls;

    assert(period > 0);
    for (uint32_t i = 0; i < period; i++)
        track->positions[i].typical_gap_ms = typical_gap_ms(track, i, period);
    for (uint32_t i = period; i < period_of(track); i++) {
        struct position *position = &track->positions[i % period];

        lull_moments_merge(&position->gap_ms, &track->positions[i].gap_ms);
        lull_moments_merge(&position->length_ms, &track->positions[i].length_ms);
    }
    assert(LULL_TRACK_LEARN_ITERATIONS % rounds == 0);
    track->rounds = rounds;
}

static uint32_t longest_gap(const struct lull_track *track)
{
    uint32_t longest = 0;

    for (uint32_t i = 1; i < period_of(track); i++)
        if (track->positions[i].typical_gap_ms > track->positions[longest].typical_gap_ms)
            longest = i;
    return longest;
}

static void section_open_with(struct lull_section *section, const struct position *position,
                              uint32_t first)
{
    *section = (struct lull_section){
        .signature = lull_signature_join(0, position->signature),
        .class = lull_signature_join(0, position->class),
        .place = position->place,
        .first = first,
        .calls = 1,
        .operation = position->operation,
        .bytes = position->bytes,
        .ranks = position->ranks,
        .name = position->name,
        .is_cautious = position->is_cautious,
    };
}

static void section_extend_with(struct lull_section *section, const struct position *position,
                                bool longest)
{
    section->signature = lull_signature_join(section->signature, position->signature);
    section->class = lull_signature_join(section->class, position->class);
    section->calls++;
    section->bytes += position->bytes;
    section->is_cautious |= position->is_cautious;
    if (longest) {
        section->operation = position->operation;
        section->ranks = position->ranks;
        section->name = position->name;
    }
}

/* A section while its calls are merged; the lengths only decide on merging and on what to keep. */
struct forming {
    struct lull_section section;
    double length_ms;
    double longest_call_ms;
};

static bool track_belongs_to_section(const struct forming *forming, const struct position *position)
{
    double gap_ms = position->typical_gap_ms;
    double joint_ms = forming->length_ms + gap_ms + position->length_ms.mean;

    return position->place == 0 && forming->section.place == 0 && gap_ms <= merge_gap_ms &&
           gap_ms <= merge_gap_ratio * joint_ms;
}

static void track_store_section(struct lull_track *track, const struct forming *forming,
                                double lengths_ms[LULL_TRACK_MAX_SECTIONS])
{
    uint32_t place = track->section_count;

    if (place == LULL_TRACK_MAX_SECTIONS) {
        place = 0;
        for (uint32_t i = 1; i < LULL_TRACK_MAX_SECTIONS; i++)
            if (lengths_ms[i] < lengths_ms[place])
                place = i;
        if (lengths_ms[place] >= forming->length_ms)
            return;
        /* Keep the order of the iteration. */
        memmove(&track->sections[place], &track->sections[place + 1],
                (LULL_TRACK_MAX_SECTIONS - 1 - place) * sizeof(track->sections[0]));
        memmove(&lengths_ms[place], &lengths_ms[place + 1],
                (LULL_TRACK_MAX_SECTIONS - 1 - place) * sizeof(lengths_ms[0]));
        track->section_count--;
        place = track->section_count;
    }
    assert(place < LULL_TRACK_MAX_SECTIONS);
    track->sections[place] = forming->section;
    lengths_ms[place] = forming->length_ms;
    track->section_count++;
}

static void form_sections(struct lull_track *track)
{
    double lengths_ms[LULL_TRACK_MAX_SECTIONS];
    struct forming forming = {0};

    fold_rounds(track);
    track->boundary = longest_gap(track);
    track->section_count = 0;
    for (uint32_t i = 0; i < period_of(track); i++) {
        const struct position *position = position_at(track, i);

        if (i > 0 && track_belongs_to_section(&forming, position)) {
            bool longest = position->length_ms.mean > forming.longest_call_ms;

            section_extend_with(&forming.section, position, longest);
            forming.length_ms += position->typical_gap_ms + position->length_ms.mean;
        } else {
            if (i > 0)
                track_store_section(track, &forming, lengths_ms);
            section_open_with(&forming.section, position, i);
            forming.length_ms = position->length_ms.mean;
            forming.longest_call_ms = 0.0;
        }
        if (position->length_ms.mean > forming.longest_call_ms)
            forming.longest_call_ms = position->length_ms.mean;
    }
    track_store_section(track, &forming, lengths_ms);
    track->phase = LULL_TRACK_KNOWN;
    track->open_section = -1;
    track->iteration = 0;
    track->iteration_begin_ns = 0;
    track->iteration_ms = (struct lull_moments){0};
}

/* The section whose first or last call stands at this number; -1: there is none. */
static int32_t section_at(const struct lull_track *track, uint32_t number, bool last)
{
    for (uint32_t i = 0; i < track->section_count; i++) {
        const struct lull_section *section = &track->sections[i];
        uint32_t wanted = section->first;

        if (last)
            wanted += section->calls - 1;
        if (wanted == number)
            return (int32_t)i;
    }
    return -1;
}

static void note_boundary(struct lull_track *track, int64_t now_ns, struct lull_track_note *note)
{
    note->iteration_ended = true;
    if (track->iteration_begin_ns != 0) {
        note->iteration_ms = track_ms_between(track->iteration_begin_ns, now_ns);
        lull_moments_add(&track->iteration_ms, note->iteration_ms);
        track->iteration++;
    }
    track->iteration_begin_ns = now_ns;
}

/*
 * A trial lets iterations at the reference and slowed ones take turns. Their times are
 * distinguished by one offset, so that both forecasts know of each other's scatter: without it a
 * lowering came too early by half of what a steady point adds, which cost 0.35 % of a recorded
 * job's time.
 */
static void learn_gap(struct lull_section *section, bool is_slowed, double gap_ms)
{
    double typical_ms = gap_ms;

    if (is_slowed) {
        typical_ms = gap_ms - section->stretch_ms;
        if (section->recent_gap.count > 0)
            section->stretch_ms +=
                stretch_gain * (typical_ms - lull_quantile_get(&section->recent_gap, 0.5));
    }
    lull_quantile_add(&section->recent_gap, typical_ms);
}

static void track_begin_section(struct lull_track *track, uint32_t number, int64_t now_ns,
                                struct lull_track_note *note)
{
    int32_t index = section_at(track, number, false);

    if (index < 0)
        return;
    if (track->section_end_ns != 0)
        learn_gap(&track->sections[index], track->is_slowed,
                  track_ms_between(track->section_end_ns, now_ns));
    track->open_section = index;
    track->section_begin_ns = now_ns;
    track->section_exposed_ms = 0.0;
    note->begun_section = index;
}

static void track_end_section(struct lull_track *track, uint32_t number, int64_t now_ns,
                              struct lull_track_note *note)
{
    struct lull_section *section;
    double length_ms;

    if (track->open_section < 0)
        return;
    track->section_exposed_ms += track_ms_between(track->begin_ns, now_ns);
    if (section_at(track, number, true) != track->open_section)
        return;
    assert((uint32_t)track->open_section < track->section_count);
    section = &track->sections[track->open_section];
    length_ms = track_ms_between(track->section_begin_ns, now_ns);
    lull_moments_add(&section->length_ms, length_ms);
    lull_moments_add(&section->exposed_ms, track->section_exposed_ms);
    lull_quantile_add(&section->recent_length, length_ms);
    note->ended_section = track->open_section;
    track->open_section = -1;
    track->section_end_ns = now_ns;
}

static void track_describe(struct position *position, const struct lull_call *call,
                           uint64_t signature)
{
    position->signature = signature;
    position->class = lull_call_class(call);
    position->place = call->place;
    position->bytes = call->bytes;
    position->ranks = call->ranks;
    position->name = call->name;
    position->operation = call->operation;
    position->is_cautious = call->is_cautious;
}

static void learn_begin(struct lull_track *track, const struct lull_call *call, uint64_t signature)
{
    struct position *position = &track->positions[track->position];

    assert(track->position < period_of(track));
    track_describe(position, call, signature);
    lull_moments_add(&position->gap_ms, track_ms_between(track->last_end_ns, call->time_ns));
}

/* Finds where in the iteration a call stands, from its position in the finder's round. */
static void place_call(struct lull_track *track, uint32_t in_round, struct lull_track_note *note)
{
    track->round += in_round == 0;
    track->position_known = track->round > 0;
    if (!track->position_known)
        return;
    if (track->phase == LULL_TRACK_LEARNING && track->round > LULL_TRACK_LEARN_ITERATIONS) {
        form_sections(track);
        note->became_known = true;
    }
    track->position =
        in_round + track->round_calls * (uint32_t)((track->round - 1) % track->rounds);
}

static void track_take_begin(struct lull_track *track, const struct lull_call *call,
                             struct lull_track_note *note)
{
    uint64_t signature = lull_call_signature(call);
    struct lull_iteration_state state = lull_iteration_push(track->finder, signature);
    uint32_t number;

    track->begin_ns = call->time_ns;
    /* Kernels that were passed on until now must not block what comes after them. */
    if (call->place == LULL_CALL_BREAK)
        lull_iteration_forget_runs(track->finder);
    if (state.event == LULL_ITERATION_DEVIATED) {
        note->deviated = track->phase != LULL_TRACK_SEARCHING;
        track_forget(track);
        return;
    }
    if (state.event == LULL_ITERATION_SEARCHING)
        return;
    if (state.event == LULL_ITERATION_FOUND || state.period != track->round_calls) {
        /* A longer loop around a known one takes over without a deviation of its own. */
        note->deviated = track->phase != LULL_TRACK_SEARCHING;
        start_learning(track, state.period);
    }
    if (track->positions == NULL)
        return;
    place_call(track, state.position, note);
    if (track->phase == LULL_TRACK_LEARNING && track->position_known)
        learn_begin(track, call, signature);
    if (track->phase != LULL_TRACK_KNOWN)
        return;
    number = from_boundary(track, track->position);
    if (number == 0)
        note_boundary(track, call->time_ns, note);
    track_begin_section(track, number, call->time_ns, note);
}

static void take_end(struct lull_track *track, int64_t now_ns, struct lull_track_note *note)
{
    track->totals.communication_ms += track_ms_between(track->begin_ns, now_ns);
    if (track->position_known) {
        lull_moments_add(&track->positions[track->position].length_ms,
                         track_ms_between(track->begin_ns, now_ns));
        if (track->phase == LULL_TRACK_KNOWN)
            track_end_section(track, from_boundary(track, track->position), now_ns, note);
    }
    track->last_end_ns = now_ns;
}

struct lull_track_note lull_track_take(struct lull_track *track, const struct lull_call *call)
{
    struct lull_track_note note = {.begun_section = -1, .ended_section = -1};

    if (track->totals.first_ns == 0)
        track->totals.first_ns = call->time_ns;
    track->totals.last_ns = call->time_ns;
    if (call->is_late) {
        track->totals.communication_ms +=
            (call->begin ? -1e-6 : 1e-6) * (double)(call->time_ns - track->totals.first_ns);
    } else if (call->begin) {
        if (track->depth++ == 0) {
            track->totals.calls++;
            track_take_begin(track, call, &note);
        }
    } else if (track->depth > 0 && --track->depth == 0) {
        take_end(track, call->time_ns, &note);
    }
    return note;
}

enum lull_track_phase lull_track_phase(const struct lull_track *track)
{
    return track->phase;
}

uint64_t lull_track_iteration(const struct lull_track *track)
{
    return track->iteration;
}

int64_t lull_track_boundary_ns(const struct lull_track *track)
{
    if (track->phase != LULL_TRACK_KNOWN)
        return 0;
    return track->iteration_begin_ns;
}

uint32_t lull_track_period(const struct lull_track *track)
{
    return period_of(track);
}

const struct lull_section *lull_track_sections(const struct lull_track *track, uint32_t *count_out)
{
    *count_out = track->section_count;
    return track->sections;
}

const struct lull_moments *lull_track_iteration_ms(const struct lull_track *track)
{
    return &track->iteration_ms;
}

void lull_track_totals(const struct lull_track *track, struct lull_track_totals *totals_out)
{
    *totals_out = track->totals;
}
