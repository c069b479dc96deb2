/* SPDX-License-Identifier: Apache-2.0 */
#include "noise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Chosen as what jobs show, not measured on one. */
static const double stall_least = 0.05;
static const double stall_most = 0.35;
static const double drift_per_iteration = 1e-4;
static const double regime_step = 0.03;
static const double regime_change_share = 1.0 / 60.0;
static const double periodic_excess = 0.05;
static const double least_factor = 0.3;

enum { DRIFT_TURN = 1000 };

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void audit_random_init(struct audit_random *random, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed;

    state = splitmix(&state) ^ stream;
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix(&state);
    random->has_spare = false;
}

static uint64_t rotated(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t next(struct audit_random *random)
{
    uint64_t *s = random->state;
    const uint64_t result = rotated(s[0] + s[3], 23) + s[0];
    const uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotated(s[3], 45);
    return result;
}

double audit_random_uniform(struct audit_random *random)
{
    return (double)(next(random) >> 11) * 0x1.0p-53;
}

double audit_random_normal(struct audit_random *random)
{
    const double angle = 6.283185307179586 * audit_random_uniform(random);
    double radius;

    if (random->has_spare) {
        random->has_spare = false;
        return random->spare;
    }
    radius = sqrt(-2.0 * log(1.0 - audit_random_uniform(random)));
    random->spare = radius * sin(angle);
    random->has_spare = true;
    return radius * cos(angle);
}

/* A t of 3 degrees of freedom has the variance 3. */
static double student3(struct audit_random *random)
{
    const double numerator = audit_random_normal(random);
    double squares = 0.0;

    for (int i = 0; i < 3; i++) {
        const double normal = audit_random_normal(random);

        squares += normal * normal;
    }
    return numerator / sqrt(squares / 3.0) / sqrt(3.0);
}

/* exp of a standard normal number has the mean e^0.5 and the variance (e - 1) e. */
static double lognormal(struct audit_random *random)
{
    const double e = exp(1.0);

    return (exp(audit_random_normal(random)) - sqrt(e)) / sqrt((e - 1.0) * e);
}

/* Present drift. From 0 it rises for DRIFT_TURN iterations, then falls for as many. */
static double drift(const struct audit_noise *noise)
{
    const uint32_t at = (noise->counted + noise->phase) % (2 * DRIFT_TURN);
    const uint32_t from_turn = at < DRIFT_TURN ? at : 2 * DRIFT_TURN - at;

    return drift_per_iteration * (double)from_turn;
}

int audit_parse(const char *text, char name_out[16], double numbers_out[3])
{
    const int read = sscanf(text, "%15[a-z0-9-]:%lf:%lf:%lf", name_out, &numbers_out[0],
                            &numbers_out[1], &numbers_out[2]);

    return read - 1;
}

bool audit_noise_parse(const char *text, struct audit_noise_spec *spec_out)
{
    static const struct {
        const char *name;
        enum audit_noise_kind kind;
        int numbers;
    } kinds[] = {
        {"gauss", AUDIT_NOISE_GAUSS, 1},     {"ar1", AUDIT_NOISE_AR1, 2},
        {"t3", AUDIT_NOISE_T3, 1},           {"lognormal", AUDIT_NOISE_LOGNORMAL, 1},
        {"stalls", AUDIT_NOISE_STALLS, 2},   {"drift", AUDIT_NOISE_DRIFT, 1},
        {"regimes", AUDIT_NOISE_REGIMES, 1}, {"periodic", AUDIT_NOISE_PERIODIC, 3},
        {"warm-up", AUDIT_NOISE_WARM_UP, 3}, {"trend", AUDIT_NOISE_TREND, 2},
        {"pareto", AUDIT_NOISE_PARETO, 2},   {"rhythm", AUDIT_NOISE_RHYTHM, 3},
    };
    char name[16];
    double numbers[3];
    const int count = audit_parse(text, name, numbers);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, kinds[i].name) != 0 || count != kinds[i].numbers)
            continue;
        *spec_out = (struct audit_noise_spec){
            .kind = kinds[i].kind,
            .deviation = numbers[count - 1],
            .rho = numbers[0],
            .share = numbers[0],
            .size = numbers[0],
            .period = (uint32_t)numbers[1],
        };
        if (kinds[i].kind == AUDIT_NOISE_PERIODIC)
            spec_out->long_ones = (uint32_t)numbers[0];
        return true;
    }
    return false;
}

void audit_noise_init(struct audit_noise *noise, const struct audit_noise_spec *spec, uint64_t seed,
                      uint64_t stream)
{
    *noise = (struct audit_noise){.spec = *spec};
    audit_random_init(&noise->random, seed, stream);
    noise->phase = (uint32_t)(audit_random_uniform(&noise->random) * 2.0 * DRIFT_TURN);
    if (spec->kind == AUDIT_NOISE_AR1)
        noise->level = spec->deviation * audit_random_normal(&noise->random);
    if (spec->kind == AUDIT_NOISE_REGIMES && audit_random_uniform(&noise->random) < 0.5)
        noise->level = regime_step;
}

static double next_of_ar1(struct audit_noise *noise)
{
    const double rho = noise->spec.rho;

    noise->level = rho * noise->level + sqrt(1.0 - rho * rho) * noise->spec.deviation *
                                            audit_random_normal(&noise->random);
    return noise->level;
}

static double stall(struct audit_noise *noise)
{
    if (audit_random_uniform(&noise->random) >= noise->spec.share)
        return 0.0;
    return stall_least + (stall_most - stall_least) * audit_random_uniform(&noise->random);
}

static double regime(struct audit_noise *noise)
{
    if (audit_random_uniform(&noise->random) < regime_change_share)
        noise->level = regime_step - noise->level;
    return noise->level;
}

static double periodic(const struct audit_noise *noise)
{
    const uint32_t at = (noise->counted + noise->phase) % noise->spec.period;

    return at < noise->spec.long_ones ? periodic_excess : 0.0;
}

/* Pareto's distribution from 1 on has the mean a / (a - 1) and the variance
 * a / ((a - 1)^2 (a - 2)). */
static double pareto(struct audit_noise *noise)
{
    const double a = noise->spec.size;
    const double value = pow(1.0 - audit_random_uniform(&noise->random), -1.0 / a);

    return (value - a / (a - 1.0)) * (a - 1.0) * sqrt((a - 2.0) / a);
}

static double rhythm(const struct audit_noise *noise)
{
    return (noise->counted + noise->phase) % noise->spec.period == 0 ? noise->spec.size - 1.0 : 0.0;
}

static double excess(struct audit_noise *noise)
{
    const double deviation = noise->spec.deviation;

    switch (noise->spec.kind) {
    case AUDIT_NOISE_AR1:
        return next_of_ar1(noise);
    case AUDIT_NOISE_T3:
        return deviation * student3(&noise->random);
    case AUDIT_NOISE_LOGNORMAL:
        return deviation * lognormal(&noise->random);
    case AUDIT_NOISE_STALLS:
        return deviation * audit_random_normal(&noise->random) + stall(noise);
    case AUDIT_NOISE_DRIFT:
        return deviation * audit_random_normal(&noise->random) + drift(noise);
    case AUDIT_NOISE_REGIMES:
        return deviation * audit_random_normal(&noise->random) + regime(noise);
    case AUDIT_NOISE_PERIODIC:
        return deviation * audit_random_normal(&noise->random) + periodic(noise);
    case AUDIT_NOISE_WARM_UP:
        return deviation * audit_random_normal(&noise->random) +
               noise->spec.size * exp(-(double)noise->counted / noise->spec.period);
    case AUDIT_NOISE_TREND:
        return deviation * audit_random_normal(&noise->random) +
               noise->spec.size * 1e-3 * noise->counted;
    case AUDIT_NOISE_PARETO:
        return deviation * pareto(noise);
    case AUDIT_NOISE_RHYTHM:
        return deviation * audit_random_normal(&noise->random) + rhythm(noise);
    case AUDIT_NOISE_GAUSS:
        break;
    }
    return deviation * audit_random_normal(&noise->random);
}

double audit_noise_next(struct audit_noise *noise)
{
    const double factor = 1.0 + excess(noise);

    noise->counted++;
    return fmax(factor, least_factor);
}
