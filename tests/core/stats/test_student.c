/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/stats/student.h"
#include "../property.h"

enum { QUANTILES = 8 };

static const double probabilities[QUANTILES] = {0.6,   0.75,  0.9,    0.95,
                                                0.975, 0.999, 0.9999, 0.999999};

/*
 * Origin: mpmath 1.x at 40 digits, the t at which betainc(v/2, 1/2, 0, v/(v+t^2), regularized) is
 * 2 (1 - p), by bisection.
 */
static const struct {
    double degrees;
    double t[QUANTILES];
} table[] = {
    /* clang-format off */
    {1, {0.32491969623291, 1.0, 3.0776835371753, 6.313751514675,
         12.706204736175, 318.30883898555, 3183.0987571182, 318309.88618274}},
    {2, {0.28867513459481, 0.81649658092773, 1.8856180831641, 2.9199855803537,
         4.3026527297495, 22.32712477012, 70.700071074964, 707.10572052593}},
    {3, {0.27667066233269, 0.76489232840435, 1.6377443536962, 2.3533634348018,
         3.1824463052837, 10.214531852407, 22.203742273204, 103.29946778042}},
    {4, {0.2707222947076, 0.74069708411268, 1.5332062740589, 2.1318467863267,
         2.7764451051978, 7.1731822197823, 13.033671720896, 41.577854150451}},
    {5, {0.26718086570415, 0.72668684380042, 1.4758840488245, 2.015048373333,
         2.5705818356363, 5.893429531356, 9.6775663008826, 24.771029720516}},
    {7, {0.26316686135202, 0.71114177808179, 1.4149239276505, 1.89457860509,
         2.3646242515928, 4.7852896286383, 7.0634328281575, 14.241469651981}},
    {10, {0.26018482949208, 0.69981206131243, 1.3721836411103, 1.8124611228117,
         2.2281388519863, 4.1437004940466, 5.6938201014575, 9.7519954909406}},
    {15, {0.25788530093726, 0.69119694895849, 1.3406056078505, 1.7530503556926,
         2.1314495455598, 3.7328344253109, 4.8799982884244, 7.4643849400964}},
    {20, {0.2567427538545, 0.6869544964488, 1.325340706985, 1.7247182429208,
         2.0859634472659, 3.5518083432033, 4.5385208537937, 6.5965301483588}},
    {30, {0.25560536495191, 0.68275569332129, 1.3104150253914, 1.697260886594,
         2.0422724563012, 3.3851848668293, 4.233985957272, 5.8711171204189}},
    {50, {0.25469934298859, 0.67942820032635, 1.2987136941948, 1.6759050251631,
         2.0085591121008, 3.2614090557983, 4.0140473201558, 5.3766734017405}},
    {63, {0.2544196312477, 0.67840396105786, 1.2951342937829, 1.6694022217068,
         1.9983405425207, 3.2247087385454, 3.9498892249755, 5.2372001988705}},
    {64, {0.25440283272341, 0.67834249415162, 1.2949198195952, 1.6690130250241,
         1.9977296543177, 3.2225266748244, 3.9460900072941, 5.2290092285662}},
    {100, {0.25402218245823, 0.67695104301147, 1.2900747613465, 1.6602343260853,
         1.9839715185236, 3.1737394937388, 3.8615997909501, 5.0488308772283}},
    {127, {0.25387848558787, 0.67642644701155, 1.2882531090394, 1.6569403435421,
         1.9788195347029, 3.1556453278025, 3.8304860233645, 4.9834379702368}},
    {128, {0.25387432909799, 0.67641127840667, 1.2882004769117, 1.6568452260815,
         1.9786708498378, 3.1551245475926, 3.829592303732, 4.9815672588281}},
    {129, {0.25387023712721, 0.6763963455607, 1.2881486650517, 1.6567515939817,
         1.9785244914793, 3.154611993485, 3.828712798782, 4.9797267187947}},
    {200, {0.25368437919015, 0.67571841140422, 1.2857987939948, 1.6525081009109,
         1.9718962236339, 3.1314798142211, 3.7891207887477, 4.8973021028268}},
    /* clang-format on */
};

/* Same origin: P(T <= t) directly. */
static const struct {
    double t, degrees, p;
} cdf_table[] = {
    {0.1, 0.5, 0.526834189435697}, {3.0, 0.5, 0.816345922007028}, {1e-3, 2.5, 0.500361808639608},
    {2.0, 1e4, 0.977236369669282}, {2.0, 1e6, 0.97724973307434},  {-5.0, 1e6, 2.86699893544537e-7},
    {1.0, 1e8, 0.841344744858689}, {0.3, 2e6, 0.617911406599727}, {0.45, 5e7, 0.673644778736629},
};

static void test_quantiles_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (size_t j = 0; j < QUANTILES; j++) {
            const double p = probabilities[j];
            const double t = table[i].t[j];

            /* 1 - p carries the rounding of p: 1e-6 has 10 digits left. */
            assert_near(lull_student_quantile(p, table[i].degrees) / t, 1.0, 1e-9);
            assert_near(lull_student_quantile(1.0 - p, table[i].degrees) / t, -1.0, 1e-9);
            assert_near(lull_student_cdf(t, table[i].degrees), p, 1e-12);
            assert_near(lull_student_cdf(-t, table[i].degrees) / (1.0 - p), 1.0, 1e-9);
        }
    }
}

static void test_probabilities_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cdf_table) / sizeof(cdf_table[0]); i++)
        assert_near(lull_student_cdf(cdf_table[i].t, cdf_table[i].degrees), cdf_table[i].p, 1e-11);
}

static void test_one_and_two_degrees_have_closed_forms(void **state)
{
    (void)state;
    for (double t = -50.0; t < 50.0; t += 0.37) {
        assert_near(lull_student_cdf(t, 1.0), 0.5 + atan(t) / M_PI, 1e-13);
        assert_near(lull_student_cdf(t, 2.0), 0.5 + 0.5 * t / sqrt(2.0 + t * t), 1e-13);
    }
}

static void test_the_quantile_inverts_the_distribution(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct lull_random random;

        lull_random_init(&random, seed);
        const double degrees = exp(-1.0 + 15.0 * lull_random_uniform(&random));
        const double tail = exp(log(0.5) + (log(1e-12) - log(0.5)) * lull_random_uniform(&random));
        const double t = lull_student_quantile(tail, degrees);
        holds(fabs(lull_student_cdf(t, degrees) / tail - 1.0) < 1e-9, seed);
    }
}

static void test_the_ends_are_infinite_and_the_middle_zero(void **state)
{
    (void)state;
    assert_true(isinf(lull_student_quantile(0.0, 3.0)) && lull_student_quantile(0.0, 3.0) < 0.0);
    assert_true(isinf(lull_student_quantile(1.0, 3.0)) && lull_student_quantile(1.0, 3.0) > 0.0);
    assert_near(lull_student_quantile(0.5, 3.0), 0.0, 0.0);
    assert_near(lull_student_cdf(-INFINITY, 3.0), 0.0, 0.0);
    assert_near(lull_student_cdf(INFINITY, 3.0), 1.0, 0.0);
    assert_near(lull_student_cdf(0.0, 3.0), 0.5, 0.0);
    assert_true(isnan(lull_student_cdf(NAN, 3.0)));
    assert_near(lull_student_cdf(1e300, 0.1), 1.0, 1e-15);
}

static void test_many_degrees_are_the_normal_distribution(void **state)
{
    (void)state;
    for (double t = -6.0; t < 6.0; t += 0.25) {
        assert_near(lull_student_cdf(t, 1e12), 0.5 * erfc(-t * M_SQRT1_2), 1e-12);
        assert_near(lull_student_cdf(t, 9e8), 0.5 * erfc(-t * M_SQRT1_2), 1e-9);
    }
    assert_near(lull_student_quantile(0.975, 1e12), 1.959963984540054, 1e-11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_are_those_of_the_table),
        cmocka_unit_test(test_probabilities_are_those_of_the_table),
        cmocka_unit_test(test_one_and_two_degrees_have_closed_forms),
        cmocka_unit_test(test_the_quantile_inverts_the_distribution),
        cmocka_unit_test(test_the_ends_are_infinite_and_the_middle_zero),
        cmocka_unit_test(test_many_degrees_are_the_normal_distribution),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
