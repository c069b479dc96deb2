/*
 * Student's t by the regularised incomplete beta function: with x = degrees / (degrees + t^2),
 * P(T > t) = I_x(degrees/2, 1/2) / 2 for t >= 0 (Abramowitz and Stegun 26.7.1, 26.5.8).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/stats/student.h"

#include <assert.h>
#include <math.h>

/* From here on the normal distribution with one correction errs by less than the continued
 * fraction does (test_student). */
static const double normal_degrees = 1e6;

/* log(Gamma(a + 1/2) / Gamma(a)); for large a by its series, as the difference would cancel. */
static double log_gamma_half_step(double a)
{
    int sign;

    if (a < 64.0)
        return lgamma_r(a + 0.5, &sign) - lgamma_r(a, &sign);
    const double inverse = 1.0 / a;
    const double square = inverse * inverse;
    return 0.5 * log(a) -
           inverse *
               (0.125 - square * (1.0 / 192.0 - square * (1.0 / 640.0 - square * 17.0 / 14336.0)));
}

/* Keeps the continued fraction's partial results off zero. */
static double student_avoid_zero(double value)
{
    return fabs(value) < 1e-300 ? 1e-300 : value;
}

/*
 * The continued fraction of I_x(a, b) (Abramowitz and Stegun 26.5.8), evaluated from the front by
 * the modified Lentz method (Thompson and Barnett 1986). Converges in some sqrt(max(a, b)) rounds
 * for x < (a + 1) / (a + b + 2).
 */
static double beta_fraction(double a, double b, double x)
{
    enum { MAX_ROUNDS = 1000000 };
    double c = 1.0;
    double d = 1.0 / student_avoid_zero(1.0 - (a + b) * x / (a + 1.0));
    double value = d;

    for (int i = 1; i <= MAX_ROUNDS; i++) {
        const double m = (double)i;
        const double even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));

        d = 1.0 / student_avoid_zero(1.0 + even * d);
        c = student_avoid_zero(1.0 + even / c);
        value *= c * d;
        d = 1.0 / student_avoid_zero(1.0 + odd * d);
        c = student_avoid_zero(1.0 + odd / c);
        value *= c * d;
        if (fabs(c * d - 1.0) < 1e-15)
            break;
    }
    return value;
}

/* x = 1 / (1 + s) and y = 1 - x, with logarithms that stay precise for tiny s. */
struct student_share {
    double x, y, log_x, log_y;
};

/* I_x(a, b) with log(1 / B(a, b)) given; each side where its fraction converges. */
static double beta_ratio(double a, double b, const struct student_share *share, double log_scale)
{
    if (share->x <= 0.0)
        return 0.0;
    if (share->y <= 0.0)
        return 1.0;
    const double front = exp(log_scale + a * share->log_x + b * share->log_y);
    if (share->x < (a + 1.0) / (a + b + 2.0))
        return front * beta_fraction(a, b, share->x) / a;
    return 1.0 - front * beta_fraction(b, a, share->y) / b;
}

/* Abramowitz and Stegun 26.7.8 to the first order in 1/degrees. */
static double area_of_many(double t, double degrees, int tail)
{
    const double correction =
        t * (t * t + 1.0) / (4.0 * degrees) * exp(-0.5 * t * t) / sqrt(2.0 * M_PI);

    if (tail)
        return 0.5 * erfc(t * M_SQRT1_2) + correction;
    return 0.5 * erf(t * M_SQRT1_2) - correction;
}

/* The share of t > 0 whose square may overflow: then x is 0, and only its logarithm is known. */
static struct student_share student_share_of(double t, double degrees)
{
    const double s = t / degrees * t;

    if (isinf(s))
        return (struct student_share){0.0, 1.0, log(degrees) - 2.0 * log(t), 0.0};
    return (struct student_share){
        .x = 1.0 / (1.0 + s),
        .y = s / (1.0 + s),
        .log_x = -log1p(s),
        .log_y = log(s) - log1p(s),
    };
}

/* P(T > t) if tail, else P(0 < T < t); t >= 0. Each is precise where it is small. */
static double student_area(double t, double degrees, int tail)
{
    if (isinf(t))
        return tail ? 0.0 : 0.5;
    if (degrees > normal_degrees)
        return area_of_many(t, degrees, tail);

    const double half = 0.5 * degrees;
    const struct student_share share = student_share_of(t, degrees);
    const struct student_share swapped = {share.y, share.x, share.log_y, share.log_x};
    /* B(a, 1/2) = Gamma(a) Gamma(1/2) / Gamma(a + 1/2), and log Gamma(1/2) = log(pi) / 2 */
    const double log_scale = log_gamma_half_step(half) - 0.5 * log(M_PI);

    if (tail)
        return 0.5 * beta_ratio(half, 0.5, &share, log_scale);
    return 0.5 * beta_ratio(0.5, half, &swapped, log_scale);
}

double lull_student_cdf(double t, double degrees)
{
    assert(degrees > 0.0);
    if (isnan(t))
        return t;
    if (fabs(t) < 0.5)
        return 0.5 + copysign(student_area(fabs(t), degrees, 0), t);
    const double tail = student_area(fabs(t), degrees, 1);
    if (t < 0.0)
        return tail;
    return 1.0 - tail;
}

/* d(area)/dt: the density at t. */
static double student_density(double t, double degrees)
{
    return exp(log_gamma_half_step(0.5 * degrees) - 0.5 * log(M_PI * degrees) -
               0.5 * (degrees + 1.0) * log1p(t / degrees * t));
}

/*
 * The t > 0 with area(t) = wanted. Newton on log(area) over log(t), which is nearly straight for
 * heavy tails and monotone everywhere; a step that leaves the bracket becomes a bisection.
 */
static double student_solve(double wanted, double degrees, int tail)
{
    double low = -350.0, high = 350.0, u = 0.0;

    for (int i = 0; i < 200; i++) {
        const double t = exp(u);
        const double value = student_area(t, degrees, tail);
        const double error = log(value / wanted);

        if ((error > 0.0) == (tail != 0))
            low = u;
        else
            high = u;
        const double slope = (tail ? -1.0 : 1.0) * student_density(t, degrees) * t / value;
        double next = u - error / slope;
        if (!(next > low && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - u) < 1e-14)
            return exp(next);
        u = next;
    }
    return exp(u);
}

double lull_student_quantile(double p, double degrees)
{
    assert(degrees > 0.0 && p >= 0.0 && p <= 1.0);
    if (p <= 0.0)
        return -INFINITY;
    if (p >= 1.0)
        return INFINITY;
    const double centre = fabs(p - 0.5);
    if (centre <= 0.0)
        return 0.0;
    if (centre < 0.25)
        return copysign(student_solve(centre, degrees, 0), p - 0.5);
    return copysign(student_solve(fmin(p, 1.0 - p), degrees, 1), p - 0.5);
}
