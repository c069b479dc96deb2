/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/timeline/job.h"

#include <errno.h>
#include <string.h>

#include "core/pipeline/model/profile.h"

enum {
    MAX_OPS = 1 << 24,
    /* An operation that ends less than this after another one starts
     * counts as ended before it, because times of traces are rounded. */
    ROUNDING_NS = 1000,
};

/* Key that the operations of one collective or transfer share. */
struct collective_key {
    uint32_t step;
    uint32_t kind; /* that of the sender, where there are two */
    int64_t copy;
    int64_t stage;
    int64_t tensor;
    uint32_t ordinal; /* of its kind in its rank's step */
    uint32_t op;
};

/* The operations of one rank in one step, in the order of time. */
struct rank_step {
    struct lull_timeline_job *job;
    const uint32_t *ops;
    uint32_t count;
    int64_t last_chunk; /* of the model */
};

/* ---- meetings ---- */

static struct collective_key timeline_job_key_of(const struct lull_timeline_job *job,
                                                 uint32_t index, uint32_t ordinal)
{
    const struct lull_timeline_op *const op = &job->timeline->ops[index];
    const struct lull_timeline_rank *const rank = &job->timeline->ranks[op->rank];
    const int64_t stages = (int64_t)job->stages;
    struct collective_key key = {
        op->step, (uint32_t)op->kind, rank->copy, rank->stage, rank->tensor, ordinal, index};

    switch (lull_timeline_scope(op->kind)) {
    case LULL_SCOPE_RANK:
        key.ordinal = index; /* there is no other */
        break;
    case LULL_SCOPE_PAIR:
        if (op->kind == LULL_TIMELINE_FORWARD_RECEIVE) {
            key.kind = LULL_TIMELINE_FORWARD_SEND;
            key.stage = (rank->stage + stages - 1) % stages;
        } else if (op->kind == LULL_TIMELINE_BACKWARD_RECEIVE) {
            key.kind = LULL_TIMELINE_BACKWARD_SEND;
            key.stage = (rank->stage + 1) % stages;
        }
        break;
    case LULL_SCOPE_COPIES:
        key.copy = 0;
        break;
    case LULL_SCOPE_ENDS:
        key.stage = 0;
        break;
    case LULL_SCOPE_STEP:
        key.copy = key.stage = key.tensor = 0;
        break;
    }
    return key;
}

static int timeline_job_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_collectives(const struct collective_key *a, const struct collective_key *b)
{
    int order = timeline_job_compare(a->step, b->step);

    if (order == 0)
        order = timeline_job_compare(a->kind, b->kind);
    if (order == 0)
        order = timeline_job_compare(a->ordinal, b->ordinal);
    if (order == 0)
        order = timeline_job_compare(a->copy, b->copy);
    if (order == 0)
        order = timeline_job_compare(a->stage, b->stage);
    return order != 0 ? order : timeline_job_compare(a->tensor, b->tensor);
}

static int compare_keys(const void *left, const void *right)
{
    const struct collective_key *const a = left;
    const struct collective_key *const b = right;
    const int order = compare_collectives(a, b);

    return order != 0 ? order : timeline_job_compare(a->op, b->op);
}

/* A member's own length begins when the last member begins. */
static void timeline_job_measure(struct lull_timeline_job *job, uint32_t collective)
{
    const struct lull_timeline_op *const ops = job->timeline->ops;
    int64_t last_ns = 0;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++)
        if (ops[job->members[m]].begin_ns > last_ns)
            last_ns = ops[job->members[m]].begin_ns;
    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++) {
        const struct lull_timeline_op *const op = &ops[job->members[m]];
        const int64_t length_ns = op->begin_ns + op->duration_ns - last_ns;

        job->length_ns[job->members[m]] = length_ns > 0 ? length_ns : 0;
    }
}

/* The ordinals of each kind and rank start again with each step. */
static void timeline_job_number(const struct lull_timeline_job *job,
                                uint32_t (*ordinals)[LULL_TIMELINE_KINDS],
                                struct collective_key *keys)
{
    const struct lull_operation_timeline *const timeline = job->timeline;

    for (uint32_t i = 0; i < timeline->op_count; i++) {
        const struct lull_timeline_op *const op = &timeline->ops[i];

        if (i == 0 || op->step != op[-1].step)
            memset(ordinals, 0, timeline->rank_count * sizeof(*ordinals));
        keys[i] = timeline_job_key_of(job, i, ordinals[op->rank][op->kind]++);
    }
}

static int timeline_job_find_collectives(struct lull_timeline_job *job)
{
    const struct lull_operation_timeline *const timeline = job->timeline;
    const size_t count = timeline->op_count;
    struct collective_key *const keys = calloc(count, sizeof(*keys));
    uint32_t(*const ordinals)[LULL_TIMELINE_KINDS] =
        calloc(timeline->rank_count, sizeof(*ordinals));

    if (keys == NULL || ordinals == NULL) {
        free(keys);
        free(ordinals);
        return -ENOMEM;
    }
    timeline_job_number(job, ordinals, keys);
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || compare_collectives(&keys[i], &keys[i - 1]) != 0)
            job->first_member[job->collective_count++] = i;
        job->members[i] = keys[i].op;
        job->collective[keys[i].op] = job->collective_count - 1;
    }
    job->first_member[job->collective_count] = (uint32_t)count;
    for (uint32_t m = 0; m < job->collective_count; m++)
        timeline_job_measure(job, m);
    free(keys);
    free(ordinals);
    return 0;
}

/* ---- dependencies ---- */

static void timeline_job_await(struct lull_timeline_job *job, uint32_t op, uint32_t before)
{
    uint32_t w = 0;

    if (before == LULL_TIMELINE_NONE)
        return;
    while (w < LULL_TIMELINE_WAITS - 1 && job->waits[op][w] != LULL_TIMELINE_NONE)
        w++;
    job->waits[op][w] = before;
}

/* Sends and receives of each direction keep their own order. */
static void order_threads(const struct rank_step *rank)
{
    enum { THREADS = LULL_STREAM_MISC + 1 + LULL_TIMELINE_KINDS };
    uint32_t last[THREADS];

    memset(last, 0xff, sizeof(last));
    for (uint32_t i = 0; i < rank->count; i++) {
        const uint32_t op = rank->ops[i];
        const struct lull_timeline_op *const at = &rank->job->timeline->ops[op];
        const uint32_t thread = at->stream == LULL_STREAM_PIPELINE
                                    ? LULL_STREAM_MISC + 1 + (uint32_t)at->kind
                                    : (uint32_t)at->stream;

        timeline_job_await(rank->job, op, last[thread]);
        last[thread] = op;
    }
}

static const struct lull_timeline_op *timeline_job_at(const struct rank_step *rank, uint32_t i)
{
    return &rank->job->timeline->ops[rank->ops[i]];
}

/* The first chunk of the first stage receives nothing, and the last of the last sends nothing;
 * backwards it is the other way round. */
static bool has_partner(const struct rank_step *rank, const struct lull_timeline_op *op,
                        bool receives)
{
    const int64_t stage = rank->job->timeline->ranks[op->rank].stage;
    const bool is_first = stage == 0 && op->chunk <= 0;
    const bool is_last = stage == (int64_t)rank->job->stages - 1 && op->chunk == rank->last_chunk;

    return (op->kind == LULL_TIMELINE_FORWARD) == receives ? !is_first : !is_last;
}

/* The n-th computing that has a partner goes with the n-th receive, or send, of its direction. */
static void timeline_job_join(const struct rank_step *rank, enum lull_timeline_kind computing,
                              enum lull_timeline_kind moving, bool receives)
{
    uint32_t partner = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        if (timeline_job_at(rank, i)->kind != computing ||
            !has_partner(rank, timeline_job_at(rank, i), receives))
            continue;
        while (partner < rank->count && timeline_job_at(rank, partner)->kind != moving)
            partner++;
        if (partner == rank->count)
            return;
        if (receives)
            timeline_job_await(rank->job, rank->ops[i], rank->ops[partner]);
        else
            timeline_job_await(rank->job, rank->ops[partner], rank->ops[i]);
        partner++;
    }
}

/* Finds the last operation before place i that had ended when it began, either one that is chosen
 * or a collective. */
static uint32_t find_before(const struct rank_step *rank, uint32_t i, bool wants_chosen)
{
    while (i-- > 0) {
        const struct lull_timeline_op *const op = timeline_job_at(rank, i);
        const bool fits =
            wants_chosen ? op->kind <= LULL_TIMELINE_BACKWARD : op->stream == LULL_STREAM_DATA;

        if (fits)
            return rank->ops[i];
    }
    return LULL_TIMELINE_NONE;
}

static bool had_ended(const struct rank_step *rank, uint32_t before, uint32_t i)
{
    const struct lull_timeline_op *const op = &rank->job->timeline->ops[before];

    return op->begin_ns + op->duration_ns <= timeline_job_at(rank, i)->begin_ns + ROUNDING_NS;
}

/* Collectives wait for computing, the optimizer and the first computing for collectives. */
static void join_collectives(const struct rank_step *rank)
{
    bool has_computed = false;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct lull_timeline_op *const op = timeline_job_at(rank, i);
        const bool is_chosen = op->kind <= LULL_TIMELINE_BACKWARD;
        const bool is_collective = op->stream == LULL_STREAM_DATA;
        uint32_t before;

        if (!is_collective && (op->stream != LULL_STREAM_COMPUTE || (is_chosen && has_computed)))
            continue;
        before = find_before(rank, i, is_collective);
        if (before != LULL_TIMELINE_NONE && had_ended(rank, before, i))
            timeline_job_await(rank->job, rank->ops[i], before);
        has_computed = has_computed || is_chosen;
    }
}

static void link_rank(const struct rank_step *rank)
{
    order_threads(rank);
    timeline_job_join(rank, LULL_TIMELINE_FORWARD, LULL_TIMELINE_FORWARD_RECEIVE, true);
    timeline_job_join(rank, LULL_TIMELINE_FORWARD, LULL_TIMELINE_FORWARD_SEND, false);
    timeline_job_join(rank, LULL_TIMELINE_BACKWARD, LULL_TIMELINE_BACKWARD_RECEIVE, true);
    timeline_job_join(rank, LULL_TIMELINE_BACKWARD, LULL_TIMELINE_BACKWARD_SEND, false);
    join_collectives(rank);
}

/* Sorts the operations of one step, from first up to end, by rank, and links those of each. */
static void link_step(struct rank_step *rank, uint32_t first, uint32_t end, uint32_t *begins,
                      uint32_t *sorted)
{
    const struct lull_operation_timeline *const timeline = rank->job->timeline;
    const size_t ranks = timeline->rank_count;

    memset(begins, 0, (ranks + 1) * sizeof(*begins));
    for (uint32_t i = first; i < end; i++)
        begins[timeline->ops[i].rank + 1]++;
    for (size_t r = 0; r < ranks; r++)
        begins[r + 1] += begins[r];
    for (uint32_t i = first; i < end; i++)
        sorted[begins[timeline->ops[i].rank]++] = i;
    for (size_t r = 0; r < ranks; r++) {
        const uint32_t begin = r > 0 ? begins[r - 1] : 0;

        rank->ops = sorted + begin;
        rank->count = begins[r] - begin;
        link_rank(rank);
    }
}

static int link_all(struct lull_timeline_job *job)
{
    const struct lull_operation_timeline *const timeline = job->timeline;
    uint32_t *const begins = calloc(timeline->rank_count + 1, sizeof(*begins));
    uint32_t *const sorted = calloc(timeline->op_count, sizeof(*sorted));
    struct rank_step rank = {.job = job};
    uint32_t first = 0;

    for (uint32_t i = 0; i < timeline->op_count; i++)
        if (timeline->ops[i].chunk > rank.last_chunk)
            rank.last_chunk = timeline->ops[i].chunk;
    memset(job->waits, 0xff, timeline->op_count * sizeof(*job->waits));
    for (uint32_t i = 1; begins != NULL && sorted != NULL && i <= timeline->op_count; i++) {
        if (i < timeline->op_count && timeline->ops[i].step == timeline->ops[first].step)
            continue;
        link_step(&rank, first, i, begins, sorted);
        first = i;
    }
    free(begins);
    free(sorted);
    return begins != NULL && sorted != NULL ? 0 : -ENOMEM;
}

/* ---- order ---- */

/* Lists, for each operation, the meetings that wait for it; counts what each meeting waits for. */
static void list_followers(const struct lull_timeline_job *job, uint32_t *first,
                           uint32_t *followers, uint32_t *missing)
{
    const size_t count = job->timeline->op_count;

    for (uint32_t i = 0; i < count; i++)
        for (int w = 0; w < LULL_TIMELINE_WAITS; w++)
            if (job->waits[i][w] != LULL_TIMELINE_NONE) {
                first[job->waits[i][w] + 1]++;
                missing[job->collective[i]]++;
            }
    for (size_t i = 0; i < count; i++)
        first[i + 1] += first[i];
    for (uint32_t i = (uint32_t)count; i-- > 0;)
        for (int w = 0; w < LULL_TIMELINE_WAITS; w++)
            if (job->waits[i][w] != LULL_TIMELINE_NONE)
                followers[--first[job->waits[i][w] + 1]] = job->collective[i];
}

/* Kahn's algorithm. Returns how many meetings could be put in order. After list_followers, the
 * followers of operation i begin at first[i + 1] and end where those of the next begin. */
static uint32_t sort_collectives(struct lull_timeline_job *job, const uint32_t *first,
                                 const uint32_t *followers, uint32_t follower_count,
                                 uint32_t *missing)
{
    const size_t count = job->timeline->op_count;
    uint32_t sorted = 0;

    for (uint32_t m = 0; m < job->collective_count; m++)
        if (missing[m] == 0)
            job->order[sorted++] = m;
    for (uint32_t at_place = 0; at_place < sorted; at_place++) {
        const uint32_t collective = job->order[at_place];

        for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1];
             m++) {
            const uint32_t op = job->members[m];
            const uint32_t end = op + 1 < count ? first[op + 2] : follower_count;

            for (uint32_t f = first[op + 1]; f < end; f++)
                if (--missing[followers[f]] == 0)
                    job->order[sorted++] = followers[f];
        }
    }
    return sorted;
}

static int sort_all(struct lull_timeline_job *job, struct lull_error *err)
{
    const size_t count = job->timeline->op_count;
    struct lull_memory memory = {0};
    uint32_t *const first = lull_memory_take(&memory, count + 2, sizeof(*first));
    uint32_t *const followers =
        lull_memory_take(&memory, count * LULL_TIMELINE_WAITS, sizeof(*followers));
    uint32_t *const missing = lull_memory_take(&memory, job->collective_count, sizeof(*missing));
    uint32_t follower_count;
    int result = 0;

    if (memory.has_failed) {
        lull_memory_free(&memory);
        return -ENOMEM;
    }
    list_followers(job, first, followers, missing);
    follower_count = 0;
    for (uint32_t m = 0; m < job->collective_count; m++)
        follower_count += missing[m];
    if (sort_collectives(job, first, followers, follower_count, missing) < job->collective_count)
        result = lull_error_set(err, LULL_E_FORMAT,
                                "its operations wait for each other in a circle, so that they "
                                "cannot have been recorded in one job");
    lull_memory_free(&memory);
    return result;
}

/* ---- the whole ---- */

static bool timeline_job_allocate(struct lull_timeline_job *job)
{
    const size_t count = job->timeline->op_count;

    job->length_ns = lull_memory_take(&job->memory, count, sizeof(*job->length_ns));
    job->waits = lull_memory_take(&job->memory, count, sizeof(*job->waits));
    job->collective = lull_memory_take(&job->memory, count, sizeof(*job->collective));
    job->first_member = lull_memory_take(&job->memory, count + 1, sizeof(*job->first_member));
    job->members = lull_memory_take(&job->memory, count, sizeof(*job->members));
    job->order = lull_memory_take(&job->memory, count, sizeof(*job->order));
    return !job->memory.has_failed;
}

int lull_timeline_job_init(struct lull_timeline_job *job,
                           const struct lull_operation_timeline *timeline, struct lull_error *err)
{
    int result = -ENOMEM;

    *job = (struct lull_timeline_job){.timeline = timeline, .stages = 1};
    if (timeline->op_count > MAX_OPS)
        return lull_error_set(err, -E2BIG, "more than %d operations; give fewer steps", MAX_OPS);
    for (size_t i = 0; i < timeline->op_count; i++)
        if (timeline->ops[i].duration_ns > LULL_PIPELINE_MAX_TIME_NS)
            return lull_error_set(err, LULL_E_FORMAT,
                                  "an operation of step %lld takes more than 100 s: ts and dur are "
                                  "microseconds",
                                  (long long)timeline->steps[timeline->ops[i].step]);
    for (size_t r = 0; r < timeline->rank_count; r++)
        if (timeline->ranks[r].stage >= (int64_t)job->stages)
            job->stages = (uint32_t)timeline->ranks[r].stage + 1;
    if (timeline_job_allocate(job))
        result = timeline_job_find_collectives(job);
    if (result == 0)
        result = link_all(job);
    if (result == 0)
        result = sort_all(job, err);
    if (result == -ENOMEM)
        lull_error_set(err, result, "not enough memory for %zu operations", timeline->op_count);
    if (result < 0)
        lull_timeline_job_fini(job);
    return result;
}

void lull_timeline_job_fini(struct lull_timeline_job *job)
{
    lull_memory_free(&job->memory);
}

int64_t lull_timeline_begin(const struct lull_timeline_job *job, uint32_t collective,
                            const int64_t *end_ns)
{
    int64_t begin_ns = 0;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++) {
        const uint32_t *const waits = job->waits[job->members[m]];

        for (int w = 0; w < LULL_TIMELINE_WAITS; w++)
            if (waits[w] != LULL_TIMELINE_NONE && end_ns[waits[w]] > begin_ns)
                begin_ns = end_ns[waits[w]];
    }
    return begin_ns;
}

void lull_timeline_replay(const struct lull_timeline_job *job, const int64_t *length_ns,
                          int64_t *end_out, int64_t *step_out)
{
    const struct lull_operation_timeline *const timeline = job->timeline;

    memset(step_out, 0, timeline->step_count * sizeof(*step_out));
    for (uint32_t i = 0; i < job->collective_count; i++) {
        const uint32_t collective = job->order[i];
        const int64_t begin_ns = lull_timeline_begin(job, collective, end_out);

        for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1];
             m++) {
            const uint32_t op = job->members[m];
            int64_t *const step_ns = &step_out[timeline->ops[op].step];

            end_out[op] = begin_ns + length_ns[op];
            if (end_out[op] > *step_ns)
                *step_ns = end_out[op];
        }
    }
}
