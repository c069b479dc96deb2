/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/pair_schedule.h"

#include <assert.h>

/* The coin of a number: the finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t pair_schedule_toss(uint64_t seed, uint64_t number)
{
    uint64_t mixed = seed + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static uint64_t blocks_of(const struct lull_pair_schedule *schedule)
{
    return (uint64_t)schedule->candidate_blocks + 1;
}

/* Returns whether the first pair of a round has the longer blocks; else the second one has. */
static bool begins_long(const struct lull_pair_schedule *schedule, uint64_t round)
{
    return (pair_schedule_toss(~schedule->seed, round) & 1) != 0;
}

static uint64_t block_length(const struct lull_pair_schedule *schedule, uint64_t pair)
{
    const bool is_second = pair % 2 == 1;

    return (uint64_t)schedule->block_iterations + schedule->washout + 1 +
           (begins_long(schedule, pair / 2) != is_second);
}

/* The number of the block of a pair that runs at the reference. */
static uint64_t reference_block(const struct lull_pair_schedule *schedule, uint64_t pair)
{
    return pair_schedule_toss(schedule->seed, pair) % blocks_of(schedule);
}

/* Before the first pair the job runs at the reference. */
static bool was_candidate(const struct lull_pair_schedule *schedule, uint64_t pair, uint64_t block)
{
    if (block > 0)
        return block - 1 != reference_block(schedule, pair);
    return pair > 0 && reference_block(schedule, pair - 1) != schedule->candidate_blocks;
}

uint64_t lull_pair_schedule_round(const struct lull_pair_schedule *schedule)
{
    return blocks_of(schedule) *
           (2 * ((uint64_t)schedule->block_iterations + schedule->washout + 1) + 1);
}

uint64_t lull_pair_schedule_begin(const struct lull_pair_schedule *schedule, uint32_t pair)
{
    const uint64_t begin = pair / 2 * lull_pair_schedule_round(schedule);

    if (pair % 2 == 0)
        return begin;
    return begin + blocks_of(schedule) * block_length(schedule, pair - 1);
}

/* The iterations of a pair's first `offset` ones that are not in its block at the reference. */
static uint64_t lowered_before(uint64_t offset, uint64_t length, uint64_t reference)
{
    if (offset <= reference * length)
        return offset;
    if (offset < (reference + 1) * length)
        return reference * length;
    return offset - length;
}

struct lull_pair_slot lull_pair_slot(const struct lull_pair_schedule *schedule, uint64_t iteration)
{
    const uint64_t round_length = lull_pair_schedule_round(schedule);
    uint64_t offset = iteration % round_length;
    uint64_t pair = iteration / round_length * 2;
    uint64_t length = block_length(schedule, pair);
    uint64_t reference;
    uint64_t block;
    bool candidate;

    assert(schedule->block_iterations >= 1 && schedule->candidate_blocks >= 1);
    if (offset >= length * blocks_of(schedule)) {
        offset -= length * blocks_of(schedule);
        length = block_length(schedule, ++pair);
    }
    block = offset / length;
    reference = reference_block(schedule, pair);
    candidate = block != reference;
    return (struct lull_pair_slot){
        .pair = (uint32_t)pair,
        .offset = iteration,
        .block = block,
        .candidate = candidate,
        .measured = offset % length > schedule->washout ||
                    candidate == was_candidate(schedule, pair, block),
        .pair_ends = offset == length * blocks_of(schedule) - 1,
        .lowered = lowered_before(offset, length, reference),
    };
}
