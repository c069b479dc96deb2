/*
 * The purposes of communicators: by the names of Megatron, PyTorch and torchtitan, and by the
 * patterns of the typical ways to distribute training. SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/communicator.h"

#include "../property.h"

#define MIB (UINT64_C(1) << 20)

enum { ITERATIONS = 10 };

/* ---- names ---- */

static const struct {
    const char *name;
    enum lull_parallelism expected;
} names[] = {
    {"DATA_PARALLEL_GROUP", LULL_PARALLELISM_DATA},
    {"DATA_PARALLEL_GROUP_WITH_CP", LULL_PARALLELISM_DATA},
    {"DATA_PARALLEL_GROUP_WITH_CP:12", LULL_PARALLELISM_DATA},
    {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", LULL_PARALLELISM_DATA},
    {"EXPERT_DATA_PARALLEL_GROUP", LULL_PARALLELISM_DATA},
    {"EMBEDDING_GROUP", LULL_PARALLELISM_DATA},
    {"POSITION_EMBEDDING_GROUP", LULL_PARALLELISM_DATA},
    {"TENSOR_MODEL_PARALLEL_GROUP", LULL_PARALLELISM_TENSOR},
    {"TENSOR_MODEL_PARALLEL_GROUP:3", LULL_PARALLELISM_TENSOR},
    {"CONTEXT_PARALLEL_GROUP", LULL_PARALLELISM_TENSOR},
    {"EXPERT_TENSOR_PARALLEL_GROUP", LULL_PARALLELISM_TENSOR},
    {"PIPELINE_MODEL_PARALLEL_GROUP", LULL_PARALLELISM_PIPELINE},
    {"EXPERT_MODEL_PARALLEL_GROUP", LULL_PARALLELISM_EXPERT},
    {"mesh_dp", LULL_PARALLELISM_DATA},
    {"mesh_dp_shard_cp", LULL_PARALLELISM_DATA},
    {"mesh_fsdp", LULL_PARALLELISM_DATA},
    {"mesh_tp:5", LULL_PARALLELISM_TENSOR},
    {"mesh_pp", LULL_PARALLELISM_PIPELINE},
    {"mesh_ep", LULL_PARALLELISM_EXPERT},
    {"TENSOR_AND_DATA_PARALLEL_GROUP", LULL_PARALLELISM_UNKNOWN},
    {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", LULL_PARALLELISM_UNKNOWN},
    {"MODEL_PARALLEL_GROUP", LULL_PARALLELISM_UNKNOWN},
    {"default_pg", LULL_PARALLELISM_UNKNOWN},
    {"default_pg:dp", LULL_PARALLELISM_UNKNOWN},
    {"http", LULL_PARALLELISM_UNKNOWN},
    {"updated_stepper", LULL_PARALLELISM_UNKNOWN},
    {"::", LULL_PARALLELISM_UNKNOWN},
    {"", LULL_PARALLELISM_UNKNOWN},
    {NULL, LULL_PARALLELISM_UNKNOWN},
};

static void names_say_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (lull_parallelism_of_name(names[i].name) != names[i].expected)
            fail_msg("%s: %s", names[i].name,
                     lull_parallelism_name(lull_parallelism_of_name(names[i].name)));
}

/* ---- patterns ---- */

struct transfer {
    enum lull_transfer transfer;
    uint64_t bytes;
    int32_t peer;
};

/* One iteration of a job, as rank `rank` of the communicator sees it. */
static struct transfer iteration[4096];
static uint32_t iteration_length;

static void add(enum lull_transfer transfer, uint64_t bytes, int32_t peer)
{
    assert_true(iteration_length < sizeof(iteration) / sizeof(*iteration));
    iteration[iteration_length++] = (struct transfer){transfer, bytes, peer};
}

static enum lull_parallelism verdict(const char *name, uint32_t ranks, uint32_t nodes, int32_t rank)
{
    struct lull_communicator communicator;

    lull_communicator_init(&communicator, name, ranks, nodes, rank);
    for (uint32_t i = 0; i < ITERATIONS; i++)
        for (uint32_t at = 0; at < iteration_length; at++)
            lull_communicator_take(&communicator, iteration[at].transfer, iteration[at].bytes,
                                   iteration[at].peer);
    return lull_communicator_parallelism(&communicator, ITERATIONS);
}

static void ddp_buckets_are_data(void **state)
{
    (void)state;
    iteration_length = 0;
    add(LULL_TRANSFER_ALLREDUCE, MIB, -1);
    for (uint32_t i = 0; i < 5; i++)
        add(LULL_TRANSFER_ALLREDUCE, 25 * MIB + i * 4096, -1);
    add(LULL_TRANSFER_ALLREDUCE, 4, -1); /* the loss */
    assert_int_equal(verdict(NULL, 8, 1, 3), LULL_PARALLELISM_DATA);
    assert_int_equal(verdict(NULL, 64, 8, 3), LULL_PARALLELISM_DATA);
}

static void a_single_bucket_is_data(void **state)
{
    (void)state;
    iteration_length = 0;
    add(LULL_TRANSFER_ALLREDUCE, 20 * MIB, -1);
    assert_int_equal(verdict(NULL, 4, 1, 0), LULL_PARALLELISM_DATA);
}

static void megatron_layers_are_tensor(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t layer = 0; layer < 24 * 4; layer++)
        add(LULL_TRANSFER_ALLREDUCE, 32 * MIB, -1);
    add(LULL_TRANSFER_ALLREDUCE, 8192, -1); /* vocabulary's maximum */
    assert_int_equal(verdict("", 8, 1, 2), LULL_PARALLELISM_TENSOR);
    assert_int_equal(verdict("default_pg:0", 8, 1, 2), LULL_PARALLELISM_TENSOR);
    assert_int_equal(verdict("", 8, 2, 2), LULL_PARALLELISM_DATA); /* never across nodes */
    assert_int_equal(verdict("", 1, 1, 0), LULL_PARALLELISM_UNKNOWN);
}

static void sequence_parallel_layers_are_tensor(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t layer = 0; layer < 24; layer++) {
        for (uint32_t i = 0; i < 6; i++)
            add(LULL_TRANSFER_ALLGATHER, 4 * MIB, -1);
        for (uint32_t i = 0; i < 4; i++)
            add(LULL_TRANSFER_REDUCE_SCATTER, 4 * MIB, -1);
    }
    assert_int_equal(verdict(NULL, 8, 1, 2), LULL_PARALLELISM_TENSOR);
}

static void fsdp_is_data(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t layer = 0; layer < 12; layer++) {
        const uint64_t bytes = (layer % 3 + 1) * 6 * MIB;

        add(LULL_TRANSFER_ALLGATHER, bytes, -1);
        add(LULL_TRANSFER_ALLGATHER, bytes, -1);
        add(LULL_TRANSFER_REDUCE_SCATTER, 2 * bytes, -1);
    }
    assert_int_equal(verdict(NULL, 8, 1, 2), LULL_PARALLELISM_DATA);
    assert_int_equal(verdict(NULL, 32, 4, 2), LULL_PARALLELISM_DATA);
}

static void neighbours_are_a_pipeline(void **state)
{
    (void)state;
    for (int32_t rank = 0; rank < 4; rank++) {
        iteration_length = 0;
        for (uint32_t batch = 0; batch < 8; batch++) {
            add(LULL_TRANSFER_RECEIVE, 16 * MIB, (rank + 3) % 4);
            add(LULL_TRANSFER_SEND, 16 * MIB, (rank + 1) % 4);
        }
        assert_int_equal(verdict(NULL, 4, 4, rank), LULL_PARALLELISM_PIPELINE);
    }
    assert_int_equal(verdict(NULL, 8, 4, -1), LULL_PARALLELISM_UNKNOWN);
    assert_int_equal(verdict(NULL, 0, 4, 3), LULL_PARALLELISM_UNKNOWN);
}

/* A rank that does not know itself has neighbours, but they are unknown: rank 0 is not one. */
static void an_unknown_rank_has_no_neighbours(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t batch = 0; batch < 8; batch++)
        add(LULL_TRANSFER_SEND, 16 * MIB, 0);
    assert_int_equal(verdict(NULL, 8, 4, -1), LULL_PARALLELISM_UNKNOWN);
    assert_int_equal(verdict(NULL, 8, 4, 1), LULL_PARALLELISM_PIPELINE);
}

static void two_ranks_with_messages_are_a_pipeline(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t batch = 0; batch < 8; batch++)
        add(LULL_TRANSFER_SEND, 16 * MIB, -1);
    assert_int_equal(verdict(NULL, 2, 1, 0), LULL_PARALLELISM_PIPELINE);
    assert_int_equal(verdict(NULL, 4, 1, 0), LULL_PARALLELISM_UNKNOWN); /* to whom? */
}

static void messages_to_all_are_expert(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t layer = 0; layer < 6; layer++)
        for (int32_t peer = 0; peer < 8; peer++) {
            add(LULL_TRANSFER_SEND, MIB + (uint64_t)peer, peer);
            add(LULL_TRANSFER_RECEIVE, MIB, peer);
        }
    assert_int_equal(verdict(NULL, 8, 2, 3), LULL_PARALLELISM_EXPERT);
}

static void alltoall_is_expert(void **state)
{
    (void)state;
    iteration_length = 0;
    for (uint32_t layer = 0; layer < 6; layer++) {
        add(LULL_TRANSFER_ALLTOALL, MIB, -1);
        add(LULL_TRANSFER_ALLGATHER, 8192, -1);
    }
    assert_int_equal(verdict(NULL, 8, 2, 3), LULL_PARALLELISM_EXPERT);
}

static void a_name_is_stronger(void **state)
{
    (void)state;
    alltoall_is_expert(state);
    assert_int_equal(verdict("mesh_tp", 8, 2, 3), LULL_PARALLELISM_TENSOR);
}

static void little_says_nothing(void **state)
{
    struct lull_communicator communicator;

    (void)state;
    lull_communicator_init(&communicator, NULL, 8, 2, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        lull_communicator_take(&communicator, LULL_TRANSFER_ALLREDUCE, 4, -1);
        lull_communicator_take(&communicator, LULL_TRANSFER_COUNT, MIB, -1);
    }
    for (uint32_t i = 0; i + 1 < LULL_COMMUNICATOR_MIN_TRANSFERS; i++)
        lull_communicator_take(&communicator, LULL_TRANSFER_ALLTOALL, MIB, -1);
    assert_int_equal(lull_communicator_parallelism(&communicator, 1), LULL_PARALLELISM_UNKNOWN);
    lull_communicator_take(&communicator, LULL_TRANSFER_ALLTOALL, MIB, -1);
    assert_int_equal(lull_communicator_parallelism(&communicator, 1), LULL_PARALLELISM_EXPERT);
}

/* ---- properties ---- */

static void add_random(struct lull_random *random)
{
    const uint64_t kinds = 1 + lull_random_below(random, 3);
    const uint64_t sizes = 1 + lull_random_below(random, LULL_COMMUNICATOR_SIZES);

    iteration_length = 0;
    for (uint64_t i = lull_random_below(random, 200); i > 0; i--)
        add((enum lull_transfer)(lull_random_below(random, kinds) * 2),
            (1 + lull_random_below(random, sizes)) * 8192, (int32_t)lull_random_below(random, 3));
}

/* Results must not depend on the order if it has no meaning. */
static void the_order_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_random random;
        enum lull_parallelism before;

        lull_random_init(&random, seed);
        add_random(&random);
        before = verdict(NULL, 3, 1, 1);
        for (uint32_t i = iteration_length; i > 1; i--) {
            const uint64_t other = lull_random_below(&random, i);
            const struct transfer moved = iteration[i - 1];

            iteration[i - 1] = iteration[other];
            iteration[other] = moved;
        }
        holds(verdict(NULL, 3, 1, 1) == before, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_it),
        cmocka_unit_test(ddp_buckets_are_data),
        cmocka_unit_test(a_single_bucket_is_data),
        cmocka_unit_test(megatron_layers_are_tensor),
        cmocka_unit_test(sequence_parallel_layers_are_tensor),
        cmocka_unit_test(fsdp_is_data),
        cmocka_unit_test(neighbours_are_a_pipeline),
        cmocka_unit_test(an_unknown_rank_has_no_neighbours),
        cmocka_unit_test(two_ranks_with_messages_are_a_pipeline),
        cmocka_unit_test(messages_to_all_are_expert),
        cmocka_unit_test(alltoall_is_expert),
        cmocka_unit_test(a_name_is_stronger),
        cmocka_unit_test(little_says_nothing),
        cmocka_unit_test(the_order_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
