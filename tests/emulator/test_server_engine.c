/* The inference engine, driven by random requests. SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>

#include "emulator/noise.h"
#include "emulator/server/engine.h"

enum { REQUESTS = 400, TOKENS = 200000 };

static const struct lull_engine_config roomy = {
    .max_sequences = 64, .max_batched_tokens = 512, .cache_tokens = 1e6};

/* What the test knows of a request, and of the tokens that came. */
struct known {
    uint32_t prompt;
    uint32_t output;
    int64_t arrival_ns;
    int64_t first_ns;
    int64_t last_ns;
    uint32_t got;
    bool is_over;
};

struct play {
    struct lull_engine *engine;
    struct lull_engine_config config;
    struct known requests[REQUESTS];
    uint32_t submitted;
    int64_t now_ns;
    uint64_t random;
    double ttft_s[REQUESTS];
    uint32_t ttfts;
    double tpot_s[REQUESTS];
    double latency_s[REQUESTS];
    uint32_t finished;
    double itl_s[TOKENS];
    uint32_t itls;
    double prefilled; /* tokens */
    double prefill_context;
    uint32_t last_first; /* the latest request that got its first token */
};

static uint32_t draw(struct play *play, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(lull_noise_next(&play->random) * (most - least + 1));
}

static struct play *begin(const struct lull_engine_config *config, uint64_t seed)
{
    struct play *play = calloc(1, sizeof(*play));

    assert_non_null(play);
    play->config = *config;
    play->random = seed;
    play->engine = lull_engine_create(config);
    assert_non_null(play->engine);
    return play;
}

static void end(struct play *play)
{
    lull_engine_destroy(play->engine);
    free(play);
}

static void submit(struct play *play, uint32_t prompt, uint32_t output)
{
    play->requests[play->submitted] =
        (struct known){.prompt = prompt, .output = output, .arrival_ns = play->now_ns};
    assert_int_equal(
        lull_engine_submit(play->engine, play->submitted++, prompt, output, play->now_ns), 0);
}

static void take_token(struct play *play, const struct lull_engine_token *token)
{
    struct known *request = &play->requests[token->request];

    assert_true(token->request < play->submitted && !request->is_over);
    assert_int_equal(token->is_first, request->got == 0);
    if (token->is_first) {
        request->first_ns = play->now_ns;
        play->ttft_s[play->ttfts++] = token->ttft_s;
        assert_true(fabs(token->ttft_s - 1e-9 * (double)(play->now_ns - request->arrival_ns)) <
                    1e-12);
        assert_true(token->request >= play->last_first);
        play->last_first = (uint32_t)token->request;
    } else {
        assert_true(isnan(token->ttft_s) != token->is_last);
        play->itl_s[play->itls++] = (double)(play->now_ns - request->last_ns) * 1e-9;
    }
    request->last_ns = play->now_ns;
    request->got++;
    request->is_over = token->is_last;
    if (!token->is_last) {
        assert_true(isnan(token->tpot_s));
        return;
    }
    play->tpot_s[play->finished] = 0.0;
    if (request->got > 1)
        play->tpot_s[play->finished] =
            1e-9 * (double)(request->last_ns - request->first_ns) / (request->got - 1);
    assert_true(isnan(token->tpot_s) == (request->got == 1));
    if (request->got > 1)
        assert_true(fabs(token->tpot_s - play->tpot_s[play->finished]) < 1e-12);
    play->latency_s[play->finished++] = (double)(play->now_ns - request->arrival_ns) * 1e-9;
}

/* One step, with all that must hold of it. False: there was nothing to do. */
static bool step(struct play *play, struct lull_step_batch *batch)
{
    const struct lull_engine_statistics *statistics = lull_engine_statistics(play->engine);
    const struct lull_engine_token *tokens;
    uint32_t count;

    if (!lull_engine_begin_step(play->engine, play->now_ns, batch))
        return false;
    assert_true(batch->decoding + batch->prefill_tokens <= play->config.max_batched_tokens);
    assert_true(batch->decoding + batch->prefill_tokens > 0);
    assert_true(batch->sampled >= batch->decoding);
    assert_true(statistics->running <= play->config.max_sequences);
    assert_true(statistics->cache_ratio <= 1.0);
    play->prefilled += batch->prefill_tokens;
    play->prefill_context += batch->prefill_context;
    play->now_ns += MS(5) + draw(play, 0, 20000000);
    count = lull_engine_end_step(play->engine, play->now_ns, &tokens);
    assert_int_equal(count, batch->sampled);
    for (uint32_t i = 0; i < count; i++)
        take_token(play, &tokens[i]);
    return true;
}

/* Submits all requests over time and runs to the end. */
static void run(struct play *play, uint32_t max_prompt, uint32_t max_output)
{
    struct lull_step_batch batch;

    for (uint32_t i = 0; i < 100000; i++) {
        while (play->submitted < REQUESTS && draw(play, 0, 2) == 0)
            submit(play, draw(play, 1, max_prompt), draw(play, 1, max_output));
        if (!step(play, &batch) && play->submitted == REQUESTS)
            return;
    }
    fail_msg("the engine did not end");
}

static void check_conserved(const struct play *play)
{
    const struct lull_engine_statistics *statistics = lull_engine_statistics(play->engine);
    uint64_t prompts = 0;
    uint64_t outputs = 0;

    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(play->requests[i].got, play->requests[i].output);
        assert_true(play->requests[i].is_over);
        prompts += play->requests[i].prompt;
        outputs += play->requests[i].output;
    }
    assert_int_equal(statistics->prompt_tokens, prompts);
    assert_int_equal(statistics->output_tokens, outputs);
    assert_int_equal(statistics->finished, REQUESTS);
    assert_int_equal(statistics->running, 0);
    assert_int_equal(statistics->waiting, 0);
    assert_true(statistics->cache_ratio == 0.0);
    if (statistics->preempted == 0)
        assert_true(play->prefilled == (double)prompts);
    else
        assert_true(play->prefilled > (double)prompts);
}

static void test_tokens_are_conserved(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct play *play = begin(&roomy, seed);

        run(play, 1500, 60);
        check_conserved(play);
        assert_int_equal(lull_engine_statistics(play->engine)->preempted, 0);
        end(play);
    }
}

static void test_a_full_cache_preempts_the_latest(void **state)
{
    const struct lull_engine_config tight = {
        .max_sequences = 64, .max_batched_tokens = 512, .cache_tokens = 2000};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct play *play = begin(&tight, seed);

        run(play, 900, 300);
        check_conserved(play);
        assert_true(lull_engine_statistics(play->engine)->preempted > 0);
        end(play);
    }
}

static void test_the_preempted_request_waits_first(void **state)
{
    const struct lull_engine_config tight = {
        .max_sequences = 8, .max_batched_tokens = 100, .cache_tokens = 20};
    struct play *play = begin(&tight, 1);
    const struct lull_engine_statistics *statistics = lull_engine_statistics(play->engine);
    struct lull_step_batch batch;

    (void)state;
    submit(play, 9, 10);
    submit(play, 9, 10);
    submit(play, 9, 2);
    assert_true(step(play, &batch)); /* both prompts: 18 tokens are held */
    assert_int_equal(batch.prefill_tokens, 18);
    assert_int_equal(statistics->running, 2);
    assert_true(step(play, &batch)); /* 20 are held */
    assert_int_equal(batch.decoding, 2);
    assert_true(batch.decode_context == 20.0);
    assert_true(step(play, &batch)); /* no room for two more */
    assert_int_equal(batch.decoding, 1);
    assert_int_equal(statistics->preempted, 1);
    assert_int_equal(statistics->waiting, 2);
    while (play->requests[0].got < 10)
        assert_true(step(play, &batch));
    assert_true(step(play, &batch)); /* the prompt and two output tokens are computed again */
    assert_int_equal(play->requests[1].got, 3);
    end(play);
}

static void check_histogram(const struct lull_engine_histogram *histogram, const double *values,
                            uint32_t count)
{
    double sum = 0.0;

    assert_true(isinf(histogram->bound_s[histogram->count - 1]));
    for (uint32_t b = 0; b < histogram->count; b++) {
        uint64_t within = 0;

        for (uint32_t i = 0; i < count; i++)
            within += values[i] <= histogram->bound_s[b];
        assert_int_equal(histogram->total[b], within);
    }
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    assert_true(fabs(sum - histogram->sum_s) < 1e-6 * (1.0 + sum));
}

static void test_histograms_equal_brute_force(void **state)
{
    struct play *play = begin(&roomy, 5);
    const struct lull_engine_statistics *statistics = lull_engine_statistics(play->engine);

    (void)state;
    run(play, 1500, 60);
    check_histogram(&statistics->ttft, play->ttft_s, play->ttfts);
    check_histogram(&statistics->tpot, play->tpot_s, play->finished);
    check_histogram(&statistics->itl, play->itl_s, play->itls);
    check_histogram(&statistics->latency, play->latency_s, play->finished);
    assert_int_equal(statistics->queue.total[statistics->queue.count - 1], REQUESTS);
    end(play);
}

static void test_chunks_of_a_prompt_have_the_context_of_the_whole(void **state)
{
    struct play *play = begin(&roomy, 6);
    struct lull_step_batch batch;

    (void)state;
    submit(play, 2000, 1);
    while (step(play, &batch))
        continue;
    assert_true(play->prefilled == 2000.0);
    assert_true(play->prefill_context == 2000.0 * 2001.0 / 2.0);
    end(play);
}

static void test_the_batch_is_limited(void **state)
{
    const struct lull_engine_config narrow = {
        .max_sequences = 4, .max_batched_tokens = 3, .cache_tokens = 1e6};
    struct play *play = begin(&narrow, 7);

    (void)state;
    run(play, 20, 5);
    check_conserved(play);
    end(play);
}

static void test_a_prefill_engine_hands_over_with_the_first_token(void **state)
{
    struct lull_engine_config config = roomy;
    const struct lull_engine_token *tokens;
    struct lull_step_batch batch;
    struct lull_engine *engine;

    (void)state;
    config.role = LULL_ENGINE_PREFILL;
    engine = lull_engine_create(&config);
    assert_int_equal(lull_engine_submit(engine, 9, 100, 50, 0), 0);
    assert_true(lull_engine_begin_step(engine, 0, &batch));
    assert_int_equal(lull_engine_end_step(engine, MS(10), &tokens), 1);
    assert_true(tokens[0].is_first && tokens[0].is_last && tokens[0].request == 9);
    assert_int_equal(tokens[0].prompt_tokens, 100);
    assert_int_equal(tokens[0].output_tokens, 50);
    assert_false(lull_engine_begin_step(engine, MS(10), &batch));
    assert_true(lull_engine_statistics(engine)->cache_ratio == 0.0);
    lull_engine_destroy(engine);
}

/* Its client has waited since it sent the request, the engine's statistics begin at the hand-over.
 */
static void test_a_received_request_was_sent_earlier(void **state)
{
    struct lull_engine_config config = roomy;
    const struct lull_engine_token *tokens;
    struct lull_step_batch batch;
    struct lull_engine *engine;

    (void)state;
    config.role = LULL_ENGINE_DECODE;
    engine = lull_engine_create(&config);
    assert_int_equal(lull_engine_receive(engine, 9, 100, 5, 0, MS(30)), 0);
    assert_true(lull_engine_begin_step(engine, MS(40), &batch));
    assert_int_equal(lull_engine_end_step(engine, MS(50), &tokens), 1);
    assert_true(fabs(tokens[0].ttft_s - 0.05) < 1e-12);
    assert_true(fabs(lull_engine_statistics(engine)->ttft.sum_s - 0.02) < 1e-12);
    lull_engine_destroy(engine);
}

static void test_a_decode_engine_receives_prompts(void **state)
{
    struct lull_engine_config config = roomy;
    struct play *play;
    struct lull_step_batch batch;

    (void)state;
    config.role = LULL_ENGINE_DECODE;
    play = begin(&config, 8);
    submit(play, 100, 5);
    assert_true(step(play, &batch));
    assert_int_equal(batch.decoding, 1);
    assert_int_equal(batch.prefill_tokens, 0);
    assert_true(batch.decode_context == 100.0);
    assert_true(fabs(lull_engine_statistics(play->engine)->cache_ratio * 1e6 - 100.0) < 1e-6);
    while (step(play, &batch))
        assert_int_equal(batch.prefill_tokens, 0);
    assert_int_equal(play->requests[0].got, 5);
    assert_true(lull_engine_statistics(play->engine)->cache_ratio == 0.0);
    end(play);
}

static void test_requests_leave_in_every_state(void **state)
{
    const struct lull_engine_config one = {
        .max_sequences = 1, .max_batched_tokens = 100, .cache_tokens = 1000};
    struct lull_engine *engine = lull_engine_create(&one);
    const struct lull_engine_statistics *statistics = lull_engine_statistics(engine);
    const struct lull_engine_token *tokens;
    struct lull_step_batch batch;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(lull_engine_submit(engine, i, 10, 10, 0), 0);
    lull_engine_cancel(engine, 3, 0);                             /* the last of the queue */
    assert_int_equal(lull_engine_submit(engine, 4, 10, 1, 0), 0); /* behind the one before */
    lull_engine_cancel(engine, 4, 0);
    assert_true(lull_engine_cancel(engine, 1, 0)); /* within it */
    assert_false(lull_engine_cancel(engine, 77, 0));
    assert_int_equal(statistics->waiting, 2);
    assert_true(lull_engine_begin_step(engine, 0, &batch));
    lull_engine_cancel(engine, 0, 0); /* while it is computed */
    assert_int_equal(lull_engine_end_step(engine, MS(1), &tokens), 0);
    assert_int_equal(statistics->running, 0);
    assert_true(lull_engine_begin_step(engine, MS(1), &batch));
    assert_int_equal(lull_engine_end_step(engine, MS(2), &tokens), 1);
    assert_int_equal(tokens[0].request, 2);
    lull_engine_cancel(engine, 2, MS(2)); /* between steps */
    assert_false(lull_engine_begin_step(engine, MS(2), &batch));
    assert_true(statistics->cache_ratio == 0.0);
    assert_int_equal(statistics->finished, 0);
    assert_int_equal(lull_engine_submit(engine, 5, 10, 1, MS(3)), 0); /* a place is used again */
    assert_true(lull_engine_begin_step(engine, MS(3), &batch));
    assert_int_equal(lull_engine_end_step(engine, MS(4), &tokens), 1);
    lull_engine_destroy(engine);
}

static void test_a_copy_goes_on_alike(void **state)
{
    struct play *play = begin(&roomy, 9);
    struct lull_engine *copy = lull_engine_create(&roomy);
    struct lull_step_batch batch;
    struct lull_step_batch other;

    (void)state;
    for (uint32_t i = 0; i < 200; i++)
        submit(play, draw(play, 1, 900), draw(play, 1, 90));
    for (uint32_t i = 0; i < 30; i++)
        assert_true(step(play, &batch));
    assert_true(lull_engine_begin_step(play->engine, play->now_ns, &batch));
    assert_int_equal(lull_engine_copy(copy, play->engine), 0);
    do {
        const struct lull_engine_token *tokens;
        const struct lull_engine_token *others;
        const uint32_t count = lull_engine_end_step(play->engine, play->now_ns, &tokens);

        assert_int_equal(lull_engine_end_step(copy, play->now_ns, &others), count);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(tokens[i].request, others[i].request);
        play->now_ns += MS(7);
        assert_int_equal(lull_engine_begin_step(copy, play->now_ns, &other),
                         lull_engine_begin_step(play->engine, play->now_ns, &batch));
        assert_memory_equal(&batch, &other, sizeof(batch));
    } while (lull_engine_statistics(play->engine)->running > 0);
    assert_int_equal(lull_engine_statistics(copy)->finished, 200);
    lull_engine_destroy(copy);
    end(play);
}

/* ---- ends only ---- */

/* An engine that reports all tokens, and one that reports ends only. */
struct pair {
    struct lull_engine *all;
    struct lull_engine *ends;
    struct lull_engine *spare; /* to copy the latter to */
};

/* Both report the same first and last tokens, in the same order. */
static void check_ends(const struct lull_engine_token *all, uint32_t all_count,
                       const struct lull_engine_token *ends, uint32_t end_count)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < all_count; i++) {
        const struct lull_engine_token *end = &ends[seen];

        if (!all[i].is_first && !all[i].is_last)
            continue;
        assert_true(seen++ < end_count);
        assert_int_equal(all[i].request, end->request);
        assert_true(all[i].is_first == end->is_first && all[i].is_last == end->is_last);
        assert_memory_equal(&all[i].ttft_s, &end->ttft_s, sizeof(end->ttft_s));
        assert_memory_equal(&all[i].tpot_s, &end->tpot_s, sizeof(end->tpot_s));
    }
    assert_int_equal(seen, end_count);
}

static void check_statistics(const struct pair *pair)
{
    assert_memory_equal(lull_engine_statistics(pair->all), lull_engine_statistics(pair->ends),
                        sizeof(struct lull_engine_statistics));
}

static void cancel_both(const struct pair *pair, uint64_t request)
{
    assert_int_equal(lull_engine_cancel(pair->all, request, 0),
                     lull_engine_cancel(pair->ends, request, 0));
    check_statistics(pair);
}

/* One step of both; now and then a client leaves, or a copy goes on. */
static void step_both(struct pair *pair, uint64_t *random, int64_t now_ns, uint32_t submitted)
{
    const int64_t end_ns = now_ns + (int64_t)(1e7 * lull_noise_next(random));
    const struct lull_engine_token *all;
    const struct lull_engine_token *ends;
    struct lull_step_batch batch = {0};
    struct lull_step_batch other = {0};
    uint32_t count;
    uint32_t end_count;

    assert_int_equal(lull_engine_begin_step(pair->all, now_ns, &batch),
                     lull_engine_begin_step(pair->ends, now_ns, &other));
    assert_memory_equal(&batch, &other, sizeof(batch));
    check_statistics(pair);
    if (batch.decoding + batch.prefill_tokens == 0)
        return;
    if (lull_noise_next(random) < 0.02)
        cancel_both(pair, (uint64_t)(lull_noise_next(random) * submitted));
    if (lull_noise_next(random) < 0.1) {
        struct lull_engine *const old = pair->ends;

        assert_int_equal(lull_engine_copy(pair->spare, old), 0);
        pair->ends = pair->spare;
        pair->spare = old;
    }
    count = lull_engine_end_step(pair->all, end_ns, &all);
    end_count = lull_engine_end_step(pair->ends, end_ns, &ends);
    check_ends(all, count, ends, end_count);
    check_statistics(pair);
}

static void check_pair(struct lull_engine_config config, uint64_t seed)
{
    struct pair pair = {.all = lull_engine_create(&config)};
    uint64_t random = seed;
    int64_t now_ns = 0;
    uint64_t submitted = 0;

    config.ends_only = true;
    pair.ends = lull_engine_create(&config);
    pair.spare = lull_engine_create(&config);
    while (submitted < REQUESTS || lull_engine_statistics(pair.all)->running > 0) {
        while (submitted < REQUESTS && lull_noise_next(&random) < 0.3) {
            const uint32_t prompt = 1 + (uint32_t)(lull_noise_next(&random) * 900);
            const uint32_t output = 1 + (uint32_t)(lull_noise_next(&random) * 90);

            assert_int_equal(lull_engine_submit(pair.all, submitted, prompt, output, now_ns), 0);
            assert_int_equal(lull_engine_submit(pair.ends, submitted++, prompt, output, now_ns), 0);
        }
        step_both(&pair, &random, now_ns, (uint32_t)submitted);
        if (lull_noise_next(&random) < 0.01)
            cancel_both(&pair, (uint64_t)(lull_noise_next(&random) * (double)submitted));
        now_ns += 10000000;
    }
    printf("%u steps, %u finished, %u preempted\n",
           (uint32_t)lull_engine_statistics(pair.ends)->steps,
           (uint32_t)lull_engine_statistics(pair.ends)->finished,
           (uint32_t)lull_engine_statistics(pair.ends)->preempted);
    assert_true(lull_engine_statistics(pair.ends)->finished > 200);
    lull_engine_destroy(pair.all);
    lull_engine_destroy(pair.ends);
    lull_engine_destroy(pair.spare);
}

static void test_an_engine_that_reports_ends_only_does_the_same(void **state)
{
    static const struct lull_engine_config configs[] = {
        {.max_sequences = 64, .max_batched_tokens = 512, .cache_tokens = 1e6},
        {.max_sequences = 64, .max_batched_tokens = 512, .cache_tokens = 3000}, /* preempts */
        {.max_sequences = 64, .max_batched_tokens = 16, .cache_tokens = 1e5},   /* too few tokens */
        {.role = LULL_ENGINE_PREFILL,
         .max_sequences = 8,
         .max_batched_tokens = 256,
         .cache_tokens = 1e5},
        {.role = LULL_ENGINE_DECODE,
         .max_sequences = 32,
         .max_batched_tokens = 64,
         .cache_tokens = 4000},
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
        check_pair(configs[i], 100 + i);
}

static void test_impossible_requests_are_refused(void **state)
{
    const struct lull_engine_config tiny = {
        .max_sequences = 1, .max_batched_tokens = 100, .cache_tokens = 10};
    struct lull_engine *engine = lull_engine_create(&tiny);

    (void)state;
    assert_int_equal(lull_engine_submit(engine, 0, 0, 1, 0), -EINVAL);
    assert_int_equal(lull_engine_submit(engine, 0, 1, 0, 0), -EINVAL);
    assert_int_equal(lull_engine_submit(engine, 0, 8, 4, 0), -EINVAL);
    assert_int_equal(lull_engine_submit(engine, 0, UINT32_MAX, UINT32_MAX, 0), -EINVAL);
    assert_int_equal(lull_engine_submit(engine, 0, 8, 3, 0), 0);
    lull_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_are_conserved),
        cmocka_unit_test(test_a_full_cache_preempts_the_latest),
        cmocka_unit_test(test_the_preempted_request_waits_first),
        cmocka_unit_test(test_histograms_equal_brute_force),
        cmocka_unit_test(test_chunks_of_a_prompt_have_the_context_of_the_whole),
        cmocka_unit_test(test_the_batch_is_limited),
        cmocka_unit_test(test_a_prefill_engine_hands_over_with_the_first_token),
        cmocka_unit_test(test_a_decode_engine_receives_prompts),
        cmocka_unit_test(test_a_received_request_was_sent_earlier),
        cmocka_unit_test(test_requests_leave_in_every_state),
        cmocka_unit_test(test_a_copy_goes_on_alike),
        cmocka_unit_test(test_an_engine_that_reports_ends_only_does_the_same),
        cmocka_unit_test(test_impossible_requests_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
