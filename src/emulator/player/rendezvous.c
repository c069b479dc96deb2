/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/rendezvous.h"

#include <stdatomic.h>

#include "emulator/physics/physics.h"

/* More operations than a rank can have started and not ended at one meeting, so that a place is
 * free again before it is used the next time. */
enum { PLACES = 2 * LULL_PHYSICS_KERNELS };

struct place {
    _Atomic uint32_t present; /* one bit per rank that has come */
    struct {
        uint64_t number;
        int64_t begin_ns;
    } ranks[LULL_PLAY_RANKS];
};

size_t lull_play_rendezvouss_size(const struct lull_play *play)
{
    return (size_t)play->collective_count * PLACES * sizeof(struct place);
}

static void rendezvous_read_place(const struct place *place, uint32_t members,
                                  struct lull_play_release *release_out)
{
    *release_out = (struct lull_play_release){.at_ns = INT64_MIN};
    for (uint32_t rank = 0; rank < LULL_PLAY_RANKS; rank++) {
        if ((members >> rank & 1) == 0)
            continue;
        release_out->members[release_out->count].rank = rank;
        release_out->members[release_out->count++].number = place->ranks[rank].number;
        if (place->ranks[rank].begin_ns > release_out->at_ns)
            release_out->at_ns = place->ranks[rank].begin_ns;
    }
}

bool lull_play_join(void *collectives, const struct lull_play *play, uint32_t rank, uint64_t number,
                    int64_t begin_ns, struct lull_play_release *release_out)
{
    const struct lull_play_rank *ops = &play->ranks[rank];
    const struct lull_play_op *op = &ops->ops[number % ops->count];
    const uint32_t members = play->collective_members[op->collective];
    const uint64_t visit = number / ops->count * op->visits + op->ordinal;
    struct place *place =
        (struct place *)collectives + op->collective * (size_t)PLACES + visit % PLACES;

    place->ranks[rank].number = number;
    place->ranks[rank].begin_ns = begin_ns;
    if ((atomic_fetch_or(&place->present, 1u << rank) | 1u << rank) != members)
        return false;
    rendezvous_read_place(place, members, release_out);
    atomic_store(&place->present, 0);
    return true;
}
