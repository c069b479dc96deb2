/* SPDX-License-Identifier: Apache-2.0 */
#include "harm.h"

#include <string.h>

bool audit_harm_parse(const char *text, struct audit_harm_spec *spec_out)
{
    static const struct {
        const char *name;
        enum audit_harm_kind kind;
        int least_numbers;
    } kinds[] = {
        {"none", AUDIT_HARM_NONE, 0},     {"flat", AUDIT_HARM_FLAT, 1},
        {"knee", AUDIT_HARM_KNEE, 2},     {"every", AUDIT_HARM_EVERY, 2},
        {"random", AUDIT_HARM_RANDOM, 2}, {"late", AUDIT_HARM_LATE, 2},
        {"in-row", AUDIT_HARM_IN_ROW, 2}, {"carry", AUDIT_HARM_CARRY, 2},
    };
    char name[16];
    double numbers[3] = {0.0, 0.0, 0.0};
    const int count = audit_parse(text, name, numbers);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (count < kinds[i].least_numbers || strcmp(name, kinds[i].name) != 0)
            continue;
        *spec_out = (struct audit_harm_spec){.kind = kinds[i].kind, .mean = numbers[0]};
        if (kinds[i].kind == AUDIT_HARM_FLAT || kinds[i].kind == AUDIT_HARM_KNEE)
            spec_out->from_point = (uint32_t)numbers[1];
        else
            spec_out->every = spec_out->after = (uint32_t)numbers[1];
        return true;
    }
    return false;
}

void audit_harm_init(struct audit_harm *harm, const struct audit_harm_spec *spec, uint32_t points,
                     uint64_t seed, uint64_t stream)
{
    *harm = (struct audit_harm){.spec = *spec, .points = points};
    if (harm->spec.from_point == 0)
        harm->spec.from_point = 1;
    audit_random_init(&harm->random, seed, stream);
    if (spec->kind == AUDIT_HARM_EVERY)
        harm->iteration = (uint32_t)(audit_random_uniform(&harm->random) * spec->every);
}

void audit_harm_next(struct audit_harm *harm, bool was_low)
{
    harm->iteration++;
    if (harm->spec.kind != AUDIT_HARM_CARRY)
        harm->low += was_low;
    harm->strikes = true;
    switch (harm->spec.kind) {
    case AUDIT_HARM_EVERY:
        harm->strikes = harm->iteration % harm->spec.every == 0;
        break;
    case AUDIT_HARM_RANDOM:
        harm->strikes = audit_random_uniform(&harm->random) * harm->spec.every < 1.0;
        break;
    case AUDIT_HARM_IN_ROW:
        if (!was_low)
            harm->low = 0;
        harm->strikes = harm->low >= harm->spec.after;
        break;
    case AUDIT_HARM_LATE:
        harm->strikes = harm->low >= harm->spec.after;
        break;
    case AUDIT_HARM_CARRY:
        if (was_low)
            harm->low = harm->spec.after + 1;
        harm->low -= harm->low > 0;
        harm->strikes = harm->low > 0;
        break;
    case AUDIT_HARM_NONE:
    case AUDIT_HARM_FLAT:
    case AUDIT_HARM_KNEE:
        break;
    }
}

double audit_harm_lasting(const struct audit_harm *harm, uint32_t point)
{
    const uint32_t from = harm->spec.from_point;

    if (point < from || harm->spec.kind == AUDIT_HARM_NONE)
        return 0.0;
    if (harm->spec.kind != AUDIT_HARM_KNEE)
        return harm->spec.mean;
    return harm->spec.mean * (double)(point - from + 1) / (double)(harm->points - from);
}

double audit_harm_now(const struct audit_harm *harm, uint32_t point)
{
    const double lasting = audit_harm_lasting(harm, point);

    if (!harm->strikes)
        return 0.0;
    if (harm->spec.kind == AUDIT_HARM_CARRY)
        return harm->spec.mean;
    if (harm->spec.kind == AUDIT_HARM_EVERY || harm->spec.kind == AUDIT_HARM_RANDOM)
        return lasting * harm->spec.every;
    return lasting;
}

double audit_harm_expected(const struct audit_harm *harm, uint32_t point)
{
    if (harm->spec.kind == AUDIT_HARM_RANDOM)
        return audit_harm_lasting(harm, point);
    return audit_harm_now(harm, point);
}
