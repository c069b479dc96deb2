/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/course.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct lull_simulation_course {
    uint32_t ranks;
    uint64_t periods;
    int64_t *begins_ns; /* of each period, the ranks side by side */
    double *energies_j; /* of each rank until then, in the same places */
};

struct lull_simulation_course *lull_simulation_course_create(uint32_t ranks, uint64_t periods)
{
    struct lull_simulation_course *course = calloc(1, sizeof(*course));

    assert(ranks >= 1 && periods >= 1);
    if (course == NULL)
        return NULL;
    course->ranks = ranks;
    course->periods = periods;
    course->begins_ns = calloc((periods + 1) * ranks, sizeof(course->begins_ns[0]));
    course->energies_j = calloc((periods + 1) * ranks, sizeof(course->energies_j[0]));
    if (course->begins_ns == NULL || course->energies_j == NULL) {
        lull_simulation_course_destroy(course);
        return NULL;
    }
    return course;
}

void lull_simulation_course_destroy(struct lull_simulation_course *course)
{
    if (course == NULL)
        return;
    free(course->begins_ns);
    free(course->energies_j);
    free(course);
}

void lull_simulation_course_note(struct lull_simulation_course *course, uint32_t rank,
                                 uint64_t period, int64_t time_ns, double energy_j)
{
    assert(rank < course->ranks && period <= course->periods);
    course->begins_ns[period * course->ranks + rank] = time_ns;
    course->energies_j[period * course->ranks + rank] = energy_j;
}

static int64_t length_ns(const struct lull_simulation_course *course, uint32_t rank, uint64_t from,
                         uint64_t to)
{
    return course->begins_ns[to * course->ranks + rank] -
           course->begins_ns[from * course->ranks + rank];
}

/* Energy of all ranks, each over its own periods. */
static double course_energy_of(const struct lull_simulation_course *course, uint64_t from,
                               uint64_t to)
{
    double energy_j = 0.0;

    for (uint32_t rank = 0; rank < course->ranks; rank++)
        energy_j += course->energies_j[to * course->ranks + rank] -
                    course->energies_j[from * course->ranks + rank];
    return energy_j;
}

/* Slowdown of the periods from..to - 1, for the rank that loses most. */
static double course_slowdown_of(const struct lull_simulation_course *course,
                                 const struct lull_simulation_course *reference, uint64_t from,
                                 uint64_t to)
{
    double most = -INFINITY;

    for (uint32_t rank = 0; rank < course->ranks; rank++)
        most = fmax(most, (double)length_ns(course, rank, from, to) /
                                  (double)length_ns(reference, rank, from, to) -
                              1.0);
    return most;
}

struct lull_course_change
lull_simulation_course_compare(const struct lull_simulation_course *course,
                               const struct lull_simulation_course *reference, uint64_t from,
                               uint64_t to)
{
    assert(from < to && to <= course->periods);
    assert(course->ranks == reference->ranks && course->periods == reference->periods);
    return (struct lull_course_change){
        .slowdown_ratio = course_slowdown_of(course, reference, from, to),
        .saving_ratio =
            1.0 - course_energy_of(course, from, to) / course_energy_of(reference, from, to),
    };
}

double lull_simulation_course_worst(const struct lull_simulation_course *course,
                                    const struct lull_simulation_course *reference, uint64_t least)
{
    double worst = -INFINITY;

    assert(least >= 1 && least <= course->periods);
    assert(course->ranks == reference->ranks && course->periods == reference->periods);
    for (uint64_t to = least; to <= course->periods; to++)
        worst = fmax(worst, course_slowdown_of(course, reference, 0, to));
    return worst;
}
