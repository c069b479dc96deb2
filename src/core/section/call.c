/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/call.h"

/* The finalizer of splitmix64 (Steele et al. 2014): every input bit reaches every output bit. */
static uint64_t call_mix(uint64_t value)
{
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Payloads in the same power of two are of one class: 0, 1, 2-3, 4-7, ... become 0, 1, 2, 3, ... */
static uint32_t size_class(uint64_t bytes)
{
    uint32_t bits = 0;

    for (; bytes != 0; bytes >>= 1)
        bits++;
    return bits;
}

uint64_t lull_signature_join(uint64_t before, uint64_t next)
{
    uint64_t joined = call_mix(before + UINT64_C(0x9e3779b97f4a7c15) + next);

    return joined + (joined == 0);
}

uint64_t lull_call_class(const struct lull_call *call)
{
    uint64_t what = (uint64_t)call->operation << 32 | size_class(call->bytes);
    uint64_t where = (uint64_t)call->communicator << 32 | call->ranks;
    uint64_t whom = (uint64_t)(uint32_t)call->peer << 32 | call->name;

    return lull_signature_join(lull_signature_join(lull_signature_join(0, what), where), whom);
}

uint64_t lull_call_signature(const struct lull_call *call)
{
    const uint64_t class = lull_call_class(call);

    if (call->place == 0)
        return class;
    return lull_signature_join(class, call->place);
}
