/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/model/fit.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "base/minmax.h"

/* A derived class is a sum of shares of measured ones. */
struct fit_share {
    const struct lull_pipeline_class *operations;
    double ratio;
};

/* A derived class is the sum of at most this many shares. */
enum { MAX_SHARES = 3 };

struct recipe {
    struct fit_share shares[MAX_SHARES];
    size_t count;
};

/* The last stage carries the model's head, so the last one measured represents it; all between are
 * alike and take one of the middle. */
uint32_t lull_pipeline_fit_stage(const struct lull_pipeline_fit *fit, uint32_t stage)
{
    const uint32_t measured = lull_pipeline_profile_stages(fit->measured);
    const uint32_t whole = stage / fit->parts;
    const uint32_t last = (fit->stages - 1) / fit->parts;

    assert(fit->stages > 0 && whole <= last);
    if (measured < 2)
        return 0;
    if (whole == last)
        return measured - 1;
    return lull_min_u32(whole, measured - 2);
}

static const struct lull_pipeline_class *profile_fit_find(const struct lull_pipeline_fit *fit,
                                                          uint32_t stage,
                                                          enum lull_pipeline_kind kind,
                                                          uint32_t partner)
{
    const int found = lull_pipeline_profile_find(fit->measured, 0, stage, kind, partner);

    return found >= 0 ? &fit->measured->classes[found] : NULL;
}

/* Adds a share of a measured class. Returns false if that was not measured. */
static bool profile_fit_take(const struct lull_pipeline_fit *fit, uint32_t stage,
                             enum lull_pipeline_kind kind, double ratio, struct recipe *recipe)
{
    const struct lull_pipeline_class *operations = profile_fit_find(fit, stage, kind, 0);

    if (operations == NULL)
        return false;
    assert(recipe->count < MAX_SHARES);
    recipe->shares[recipe->count++] = (struct fit_share){operations, ratio};
    return true;
}

static bool take_backward(const struct lull_pipeline_fit *fit, uint32_t stage,
                          struct recipe *recipe)
{
    return profile_fit_take(fit, stage, LULL_PIPELINE_BACKWARD, 1.0, recipe) ||
           (profile_fit_find(fit, stage, LULL_PIPELINE_WEIGHT, 0) != NULL &&
            profile_fit_take(fit, stage, LULL_PIPELINE_INPUT, 1.0, recipe) &&
            profile_fit_take(fit, stage, LULL_PIPELINE_WEIGHT, 1.0, recipe));
}

/* Finds what a class is made of, in measured stages. Returns false if it was neither measured nor
 * can be derived. */
static bool choose_recipe(const struct lull_pipeline_fit *fit, uint32_t stage,
                          enum lull_pipeline_kind kind, uint32_t partner, struct recipe *recipe)
{
    const struct lull_pipeline_class *measured = profile_fit_find(fit, stage, kind, partner);

    if (measured != NULL) {
        recipe->shares[recipe->count++] = (struct fit_share){measured, 1.0};
        return true;
    }
    switch (kind) {
    case LULL_PIPELINE_BACKWARD:
        return take_backward(fit, stage, recipe);
    case LULL_PIPELINE_INPUT:
        return profile_fit_take(fit, stage, LULL_PIPELINE_BACKWARD, fit->input_ratio, recipe);
    case LULL_PIPELINE_WEIGHT:
        return profile_fit_take(fit, stage, LULL_PIPELINE_BACKWARD, 1.0 - fit->input_ratio, recipe);
    case LULL_PIPELINE_RECOMPUTE:
        return profile_fit_take(fit, stage, LULL_PIPELINE_FORWARD, 1.0, recipe);
    case LULL_PIPELINE_OVERLAP:
        return profile_fit_take(fit, stage, LULL_PIPELINE_FORWARD, 1.0, recipe) &&
               take_backward(fit, partner, recipe);
    default:
        return false;
    }
}

/* Mixes the recipe at one clock. Returns false if a share has no such clock. */
static bool profile_fit_mix(const struct recipe *recipe, uint32_t parts, uint32_t sm_mhz,
                            struct lull_pipeline_point *point_out)
{
    double time_ns = 0.0;
    double energy_nj = 0.0;

    for (size_t i = 0; i < recipe->count; i++) {
        const struct fit_share *share = &recipe->shares[i];
        const uint32_t at = lull_pipeline_point_at(share->operations, sm_mhz);

        if (at == UINT32_MAX)
            return false;
        time_ns += share->ratio * (double)share->operations->points[at].time_ns;
        energy_nj += share->ratio * (double)share->operations->points[at].energy_nj;
    }
    point_out->sm_mhz = sm_mhz;
    point_out->time_ns = llround(time_ns / parts);
    point_out->energy_nj = llround(energy_nj / parts);
    return true;
}

static int no_class(const struct lull_pipeline_fit *fit, uint32_t stage,
                    enum lull_pipeline_kind kind, const char *why, struct lull_error *err)
{
    return lull_error_set(err, -ENOENT,
                          "stage %u of the pipeline needs %s: stage %u of the profile %s", stage,
                          lull_pipeline_kind_name(kind), lull_pipeline_fit_stage(fit, stage), why);
}

/* Adds the class with all clocks that its recipe has. */
static int profile_fit_add_class(struct lull_pipeline_fit *fit, uint32_t stage,
                                 enum lull_pipeline_kind kind, uint32_t partner,
                                 const struct recipe *recipe, struct lull_error *err)
{
    const struct lull_pipeline_class *first = recipe->shares[0].operations;
    bool has_point = false;

    assert(recipe->count > 0);
    for (size_t i = 0; i < first->point_count; i++) {
        struct lull_pipeline_point point;
        int rc;

        if (!profile_fit_mix(recipe, fit->parts, first->points[i].sm_mhz, &point))
            continue;
        rc = lull_pipeline_profile_add(fit->fitted, fit->copy, stage, kind, partner, &point, err);
        if (rc < 0)
            return rc;
        has_point = true;
    }
    if (!has_point)
        return no_class(fit, stage, kind, "has no clock in common with its partner", err);
    return lull_pipeline_profile_find(fit->fitted, fit->copy, stage, kind, partner);
}

/* The stages come from a file or the command line, so they are checked before anything is derived.
 * */
static int check_fit(const struct lull_pipeline_fit *fit, uint32_t stage, uint32_t partner,
                     struct lull_error *err)
{
    if (fit->stages > LULL_PIPELINE_MAX_STAGES || stage >= fit->stages || partner >= fit->stages)
        return lull_error_set(err, -EINVAL, "stage %u: a pipeline of %u stages (at most %d)",
                              lull_max_u32(stage, partner), fit->stages, LULL_PIPELINE_MAX_STAGES);
    if (fit->parts == 0 || !(fit->input_ratio > 0.0 && fit->input_ratio < 1.0))
        return lull_error_set(err, -EINVAL,
                              "%g of a backward is for the input's gradient, a stage in %u parts: "
                              "the first must lie between 0 and 1, the second be 1 or more",
                              fit->input_ratio, fit->parts);
    return 0;
}

int lull_pipeline_fit_class(struct lull_pipeline_fit *fit, uint32_t stage,
                            enum lull_pipeline_kind kind, uint32_t partner, struct lull_error *err)
{
    const int known = lull_pipeline_profile_find(fit->fitted, fit->copy, stage, kind, partner);
    struct recipe recipe = {.count = 0};
    uint32_t measured_partner = 0;
    int rc;

    if (known >= 0)
        return known;
    rc = check_fit(fit, stage, partner, err);
    if (rc < 0)
        return rc;
    if (kind == LULL_PIPELINE_OVERLAP)
        measured_partner = lull_pipeline_fit_stage(fit, partner);
    if (!choose_recipe(fit, lull_pipeline_fit_stage(fit, stage), kind, measured_partner, &recipe))
        return no_class(fit, stage, kind, "has none, nor what it could be derived from", err);
    return profile_fit_add_class(fit, stage, kind, partner, &recipe, err);
}

/* Fixed classes are few, so equal ones are found by looking at all of them. */
int lull_pipeline_fit_fixed(struct lull_pipeline_fit *fit, uint32_t stage, int64_t time_ns,
                            int64_t energy_nj, struct lull_error *err)
{
    const struct lull_pipeline_point point = {time_ns, energy_nj, 0};
    uint32_t number = 0; /* fixed classes of a stage are distinguished by it, as by partners */
    int rc;

    for (size_t i = 0; i < fit->fitted->class_count; i++) {
        const struct lull_pipeline_class *known = &fit->fitted->classes[i];

        if (known->kind != LULL_PIPELINE_FIXED || known->stage != stage)
            continue;
        if (known->points[0].time_ns == time_ns && known->points[0].energy_nj == energy_nj)
            return (int)i;
        number++;
    }
    rc = lull_pipeline_profile_add(fit->fitted, 0, stage, LULL_PIPELINE_FIXED, number, &point, err);
    if (rc < 0)
        return rc;
    return lull_pipeline_profile_find(fit->fitted, 0, stage, LULL_PIPELINE_FIXED, number);
}
