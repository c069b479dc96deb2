/*
 * Time and power of a step: properties over many shapes, and the sum of one dense model computed
 * here once more. SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "emulator/noise.h"
#include "emulator/server/engine.h"
#include "emulator/server/step.h"
#include "emulator/server/step_gpu.h"
#include "tests/emulator/closed_loop.h"

static const char *const gpus[] = {"A100-SXM4-80GB", "H100-SXM5", "H200-SXM", "B200-SXM", "A40"};
static const uint32_t batches[] = {1, 2, 8, 32, 100, 256, 1024};

enum {
    GPU_COUNT = sizeof(gpus) / sizeof(gpus[0]),
    BATCH_COUNT = sizeof(batches) / sizeof(batches[0]),
};

static struct lull_step_setup setup_of(const char *gpu, const char *llm, uint32_t count)
{
    return (struct lull_step_setup){
        .gpu = lull_gpu_model_find(gpu, (uint32_t)strlen(gpu)),
        .llm = lull_llm_find(llm),
        .gpus = count,
    };
}

static struct lull_step_cost cost_of(const struct lull_step_setup *setup, uint32_t decoding,
                                     double context, uint32_t prompt)
{
    const struct lull_step_batch batch = {
        .decoding = decoding,
        .decode_context = decoding * context,
        .prefill_tokens = prompt,
        .prefill_context = (double)prompt * prompt / 2.0,
        .sampled = decoding + (prompt > 0),
    };
    struct lull_step_cost cost;

    lull_step_cost(setup, &batch, &cost);
    assert_true(cost.gpu_s > 0 && cost.gpu_s < 100);
    assert_true(cost.host_s > 0 && cost.host_s < 1);
    assert_true(cost.profile.memory_ratio >= 0 && cost.profile.memory_ratio <= 1);
    assert_true(cost.profile.base_w >= setup->gpu->idle_w);
    assert_true(cost.profile.slope_w > 0);
    return cost;
}

static void check_setup(const struct lull_step_setup *setup)
{
    double last_s = 0;

    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        const double batch_s = cost_of(setup, batches[i], 500, 0).gpu_s;
        double last_context_s = 0;
        double last_prompt_s = batch_s;

        assert_true(batch_s > last_s);
        last_s = batch_s;
        for (double context = 1; context < 40000; context *= 3) {
            const double seconds = cost_of(setup, batches[i], context, 0).gpu_s;

            assert_true(seconds >= last_context_s);
            last_context_s = seconds;
        }
        for (uint32_t prompt = 64; prompt <= 8192; prompt *= 2) {
            const double seconds = cost_of(setup, batches[i], 500, prompt).gpu_s;

            assert_true(seconds > last_prompt_s);
            last_prompt_s = seconds;
        }
    }
}

static void test_more_work_takes_longer(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < GPU_COUNT; g++)
        for (uint32_t m = 0; m < lull_llm_count; m++)
            for (uint32_t count = 1; count <= 8; count *= 2) {
                const struct lull_step_setup setup = setup_of(gpus[g], lull_llms[m].name, count);

                check_setup(&setup);
            }
}

static void test_tensor_parallelism_is_faster(void **state)
{
    const char *const models[] = {"Llama-3.1-70B-Instruct", "Qwen3-32B",
                                  "Mixtral-8x7B-Instruct-v0.1"};

    (void)state;
    for (uint32_t g = 0; g < GPU_COUNT; g++)
        for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
            for (uint32_t i = 0; i < BATCH_COUNT; i++) {
                double last_s = INFINITY;

                for (uint32_t count = 1; count <= 8; count *= 2) {
                    const struct lull_step_setup setup = setup_of(gpus[g], models[m], count);
                    const double seconds = cost_of(&setup, batches[i], 800, 0).gpu_s;

                    if (!(seconds < last_s && (seconds > last_s / 2.0 || !isfinite(last_s))))
                        fail_msg("%s on %u %s, batch %u: %.4g s after %.4g s", models[m], count,
                                 gpus[g], batches[i], seconds, last_s);
                    last_s = seconds;
                }
            }
}

static void test_a_lower_clock_is_not_faster(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < GPU_COUNT; g++) {
        const struct lull_step_setup setup = setup_of(gpus[g], "Qwen3-8B", 1);
        const struct lull_gpu_profile decode = cost_of(&setup, 16, 1000, 0).profile;
        const struct lull_gpu_profile prefill = cost_of(&setup, 0, 0, 8192).profile;
        double last_decode = 0;
        double last_prefill = 0;

        assert_true(decode.memory_ratio > prefill.memory_ratio);
        assert_true(prefill.memory_ratio < 0.3);
        for (uint32_t step = 0; step < lull_gpu_model_step_count(setup.gpu); step++) {
            const double mhz = lull_gpu_model_step_mhz(setup.gpu, step);
            const double decode_speed = lull_gpu_model_speed(setup.gpu, decode.memory_ratio, mhz);
            const double prefill_speed = lull_gpu_model_speed(setup.gpu, prefill.memory_ratio, mhz);

            assert_true(decode_speed >= last_decode && prefill_speed >= last_prefill);
            last_decode = decode_speed;
            last_prefill = prefill_speed;
        }
    }
}

/* 128 KiB of keys and values for each token of Llama-3.1-8B, over the links of all its GPUs. */
static void test_keys_and_values_are_handed_over(void **state)
{
    const struct lull_step_setup one = setup_of("H100-SXM5", "Llama-3.1-8B", 1);
    const struct lull_step_setup four = setup_of("H100-SXM5", "Llama-3.1-8B", 4);
    const struct lull_step_setup older = setup_of("A100-SXM4-80GB", "Llama-3.1-8B", 4);
    const double gbs = lull_step_handover_gbs(&one, &one);

    (void)state;
    assert_true(gbs > 100.0 && gbs < 450.0);
    assert_true(lull_step_handover_gbs(&one, &four) == gbs);
    assert_true(lull_step_handover_gbs(&four, &four) == 4.0 * gbs);
    assert_true(lull_step_handover_gbs(&older, &four) < 4.0 * gbs);
    assert_true(fabs(lull_step_handover_s(one.llm, 1000, gbs) - 0.131072 / gbs) < 1e-9);
}

static void test_weights_that_do_not_fit(void **state)
{
    const struct lull_step_setup too_small = setup_of("A100-SXM4-40GB", "Qwen3-32B", 1);
    const struct lull_step_setup one = setup_of("H100-SXM5", "Qwen3-32B", 1);
    const struct lull_step_setup two = setup_of("H100-SXM5", "Qwen3-32B", 2);
    const struct lull_step_setup latent = setup_of("B200-SXM", "DeepSeek-V3.1", 8);

    (void)state;
    assert_true(lull_step_cache_tokens(&too_small) == 0);
    assert_true(lull_step_cache_tokens(&one) > 5e3);
    assert_true(lull_step_cache_tokens(&two) > 2.0 * lull_step_cache_tokens(&one));
    assert_true(lull_step_cache_tokens(&latent) > 5e5);
}

/* A board without measurements has the steps of the GPU that lends its curves: an H800 differs from
 * an H100 in its links alone, and a GB200 is faster than a B200 by its memory or its cores. */
static void test_boards_without_measurements(void **state)
{
    const struct lull_step_setup h100 = setup_of("H100-SXM5", "Qwen3-8B", 1);
    const struct lull_step_setup h800 = setup_of("H800", "Qwen3-8B", 1);
    const struct lull_step_setup b200 = setup_of("B200-SXM", "Qwen3-8B", 1);
    const struct lull_step_setup gb200 = setup_of("GB200", "Qwen3-8B", 1);

    (void)state;
    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        const double slow_s = cost_of(&b200, batches[i], 800, 0).gpu_s;
        const double fast_s = cost_of(&gb200, batches[i], 800, 0).gpu_s;

        assert_true(cost_of(&h800, batches[i], 800, 0).gpu_s ==
                    cost_of(&h100, batches[i], 800, 0).gpu_s);
        assert_true(fast_s < slow_s && fast_s > slow_s / 1.1);
    }
}

static void test_models(void **state)
{
    (void)state;
    assert_string_equal(lull_llm_find("qwen3-8b")->name, "Qwen/Qwen3-8B");
    assert_string_equal(lull_llm_find("meta-llama/llama-3.1-8b-instruct")->name,
                        "meta-llama/Llama-3.1-8B-Instruct");
    assert_null(lull_llm_find("8B"));
    assert_null(lull_llm_find(""));
    check_within("Qwen3-32B, billion parameters",
                 lull_llm_total_params(lull_llm_find("Qwen3-32B")) / 1e9, 32.7, 32.8);
    check_within("gpt-oss-120b, billion parameters",
                 lull_llm_total_params(lull_llm_find("gpt-oss-120b")) / 1e9, 116, 117.5);
    check_within("and active ones", lull_llm_active_params(lull_llm_find("gpt-oss-120b")) / 1e9,
                 5.0, 5.2);
}

/* ---- one model, computed here ------------------------------------------------------------- */

static double rounded_s(double memory_s, double core_s)
{
    return pow(pow(memory_s, 3) + pow(core_s, 3), 1.0 / 3.0);
}

static double product_s(const struct lull_step_gpu *gpu, double rows, double columns, double depth)
{
    const double bytes = 2.0 * (columns * depth + rows * columns + rows * depth);
    const double flops = 2.0 * columns * depth * (rows < 64 ? 64 : rows);

    return gpu->matmul_us / 1e6 +
           rounded_s(bytes / gpu->weight_gbs / 1e9, flops / gpu->tflops[0] / 1e12);
}

/* Decode of Llama-3.1-8B on one H100: 32 layers, 4096 wide, 32 heads of 128, 8 of keys. */
static double llama_s(const struct lull_step_gpu *gpu, double sequences, double context)
{
    const double cache = sequences * (context + gpu->tile_tokens) * 32 * 8 * 128 * 2 * 2;
    const double between = 32 * sequences * (8 * 4096 + 3 * 14336) * 2 + sequences * 128256 * 12;
    double seconds = 0;

    for (int layer = 0; layer < 32; layer++)
        seconds +=
            product_s(gpu, sequences, 6144, 4096) + product_s(gpu, sequences, 4096, 4096) +
            product_s(gpu, sequences, 28672, 4096) + product_s(gpu, sequences, 4096, 14336) +
            (gpu->attention_us + gpu->split_us * context / (context + 4096) + gpu->layer_us) / 1e6;
    return seconds + product_s(gpu, sequences, 128256, 4096) + cache / gpu->cache_gbs / 1e9 +
           between / gpu->weight_gbs / 1e9;
}

static void test_is_the_sum_of_its_kernels(void **state)
{
    const struct lull_step_setup setup = setup_of("H100-SXM5", "Llama-3.1-8B-Instruct", 1);
    const struct lull_step_gpu *const params = closed_loop_params("H100-SXM5");

    (void)state;
    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        const double wanted = llama_s(params, batches[i], 700);
        const double got = cost_of(&setup, batches[i], 700, 0).gpu_s;

        if (fabs(got / wanted - 1.0) > 1e-9)
            fail_msg("batch %u: %.9g s, not %.9g s", batches[i], got, wanted);
    }
}

/* Full batches of short answers bring prompts into every step: a GPU is at its limit, not above. */
static void test_a_closed_loop_keeps_the_limit(void **state)
{
    (void)state;
    for (double batch = 1; batch <= 1024; batch *= 32) {
        const struct closed_loop loop = {
            .setup = setup_of("H100-SXM5", "Llama-3.1-8B-Instruct", 1),
            .batch = batch,
            .output_tokens = 200,
            .prompt_tokens = 1000,
        };
        const struct closed_loop_result result =
            closed_loop_run(closed_loop_params("H100-SXM5"), &loop);

        printf("batch %g: %.0f W, %.0f MHz, %.1f ms, busy %.2f\n", batch, result.gpu_w, result.mhz,
               result.mean_s * 1e3, result.busy_ratio);
        assert_true(result.gpu_w > 150 && result.gpu_w <= 700);
        assert_true(result.mean_s > 0 && result.median_s > 0);
        assert_true(result.busy_ratio > 0.5 && result.busy_ratio < 1);
        assert_true((result.mhz < 1980) == (batch > 32));
    }
}

/* ---- the engine in the same loop ---------------------------------------------------------- */

enum { WARM_STEPS = 1000, LOOP_STEPS = 5000 };

/* Output lengths are uniform with a standard deviation of 40 %: then a running sequence has
 * produced 0.58 of the mean, as in closed_loop.c. */
static void submit_one(struct lull_engine *engine, const struct closed_loop *loop, int64_t now_ns,
                       uint64_t *random)
{
    static uint64_t number;
    const double output = loop->output_tokens * (0.3 + 1.4 * lull_noise_next(random));

    assert_int_equal(lull_engine_submit(engine, number++, (uint32_t)loop->prompt_tokens,
                                        (uint32_t)lround(output), now_ns),
                     0);
}

/* Runs a step and replaces the requests that it finishes. Returns its duration. */
static double run_step(struct lull_engine *engine, const struct closed_loop *loop, int64_t *now_ns,
                       uint64_t *random)
{
    const struct lull_engine_token *tokens;
    struct lull_step_batch batch;
    struct lull_step_cost cost;
    uint32_t finished = 0;
    uint32_t count;

    assert_true(lull_engine_begin_step(engine, *now_ns, &batch));
    lull_step_cost(&loop->setup, &batch, &cost);
    *now_ns += (int64_t)((cost.host_s + cost.gpu_s) * 1e9);
    count = lull_engine_end_step(engine, *now_ns, &tokens);
    for (uint32_t i = 0; i < count; i++)
        finished += tokens[i].is_last;
    for (uint32_t i = 0; i < finished; i++)
        submit_one(engine, loop, *now_ns, random);
    return cost.host_s + cost.gpu_s;
}

static double engine_mean_s(const struct closed_loop *loop)
{
    const struct lull_engine_config config = {
        .max_sequences = (uint32_t)loop->batch,
        .max_batched_tokens = 8192,
        .cache_tokens = lull_step_cache_tokens(&loop->setup),
    };
    struct lull_engine *const engine = lull_engine_create(&config);
    uint64_t random = 1;
    int64_t now_ns = 0;
    double sum_s = 0;

    assert_non_null(engine);
    for (uint32_t i = 0; i < config.max_sequences; i++)
        submit_one(engine, loop, 0, &random);
    for (uint32_t step = 0; step < WARM_STEPS + LOOP_STEPS; step++) {
        const double seconds = run_step(engine, loop, &now_ns, &random);

        sum_s += step >= WARM_STEPS ? seconds : 0;
    }
    lull_engine_destroy(engine);
    return sum_s / LOOP_STEPS;
}

static void test_the_engine_runs_the_same_loop(void **state)
{
    static const struct {
        const char *gpu;
        const char *llm;
        double batch, output, prompt;
    } cases[] = {
        {"H100-SXM5", "Qwen3-8B", 32, 645, 350},
        {"H100-SXM5", "Llama-3.1-8B-Instruct", 128, 397, 350},
        {"B200-SXM", "Qwen3-32B", 64, 630, 350},
        {"H100-SXM5", "Qwen3-8B", 8, 300, 1500},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct closed_loop loop = {
            .setup = setup_of(cases[i].gpu, cases[i].llm, 1),
            .batch = cases[i].batch,
            .output_tokens = cases[i].output,
            .prompt_tokens = cases[i].prompt,
        };
        const struct closed_loop_result computed =
            closed_loop_run(closed_loop_params(cases[i].gpu), &loop);

        assert_true(computed.mhz == loop.setup.gpu->sm_max_mhz);
        check_within("mean step of the engine, per computed one",
                     engine_mean_s(&loop) / computed.mean_s, 0.97, 1.03);
    }
}

static void test_is_fast(void **state)
{
    const struct lull_step_setup setup = setup_of("B200-SXM", "Qwen3-235B-A22B-Thinking-2507", 8);
    enum { CALLS = 100000 };
    struct timespec begin, end;
    double sum = 0;

    (void)state;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint32_t i = 0; i < CALLS; i++) {
        const struct lull_step_batch batch = {
            .decoding = 1 + i % 256, .decode_context = 1000.0 * i, .prefill_tokens = i % 3 * 512};
        struct lull_step_cost cost;

        lull_step_cost(&setup, &batch, &cost);
        sum += cost.gpu_s;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_true(sum > 0);
    printf("%.2f us a call\n", ((double)(end.tv_sec - begin.tv_sec) * 1e6 +
                                (double)(end.tv_nsec - begin.tv_nsec) / 1e3) /
                                   CALLS);
}

static void check_memo(const struct lull_step_setup *setup, uint32_t max_tokens)
{
    struct lull_step_memo *memo = lull_step_memo_create(setup, max_tokens);
    uint64_t random = 7;

    assert_non_null(memo);
    for (int i = 0; i < 3000; i++) {
        const uint32_t decoding = (uint32_t)(lull_noise_next(&random) * 40);
        const uint32_t prompt = (uint32_t)(fmax(lull_noise_next(&random) - 0.5, 0.0) * 100);
        const struct lull_step_batch batch = {
            .decoding = decoding,
            .decode_context = floor(decoding * 5000 * lull_noise_next(&random)),
            .prefill_tokens = prompt + (decoding == 0),
            .prompts = 1 + (prompt > 30),
            .prefill_context = prompt * 100.0 + 1.0,
            .sampled = decoding + (uint32_t)(lull_noise_next(&random) * 2),
        };
        struct lull_step_cost known = {0};
        struct lull_step_cost cost = {0};

        lull_step_cost(setup, &batch, &cost);
        lull_step_memo_cost(memo, &batch, &known);
        assert_memory_equal(&known, &cost, sizeof(cost));
    }
    lull_step_memo_destroy(memo);
}

static void test_remembered_costs_are_the_same(void **state)
{
    const struct lull_step_setup dense = setup_of("H100-SXM5", "Llama-3.1-70B", 4);
    const struct lull_step_setup guessed = setup_of("A40", "Llama-3.1-8B", 1);

    (void)state;
    check_memo(&dense, 90);
    check_memo(&guessed, 90);
    check_memo(&dense, 20); /* larger batches are not remembered */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_work_takes_longer),
        cmocka_unit_test(test_tensor_parallelism_is_faster),
        cmocka_unit_test(test_a_lower_clock_is_not_faster),
        cmocka_unit_test(test_keys_and_values_are_handed_over),
        cmocka_unit_test(test_weights_that_do_not_fit),
        cmocka_unit_test(test_boards_without_measurements),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_is_the_sum_of_its_kernels),
        cmocka_unit_test(test_a_closed_loop_keeps_the_limit),
        cmocka_unit_test(test_the_engine_runs_the_same_loop),
        cmocka_unit_test(test_remembered_costs_are_the_same),
        cmocka_unit_test(test_is_fast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
