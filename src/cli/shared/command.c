/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/command.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "base/progress.h"
#include "core/energy/device_curve.h"
#include "core/tuning/cost.h"
#include "emulator/gpu_model.h"

int lull_cli_fail(const char *command, const struct lull_error *err)
{
    char name[64];

    snprintf(name, sizeof(name), "lull %s", command);
    return lull_program_fail(name, err);
}

int lull_cli_fail_to_start(const char *command, const struct lull_error *err)
{
    lull_cli_fail(command, err);
    if (err->code == -ENOENT)
        return 127;
    return err->code == -EACCES || err->code == -ENOEXEC ? 126 : LULL_EXIT_FAILED;
}

int lull_cli_print_json(json_t *document, size_t flags)
{
    int result = -1;

    if (document == NULL) {
        fprintf(stderr, "lull: no memory for the JSON document\n");
        return result;
    }
    result = json_dumpf(document, stdout, JSON_INDENT(2) | flags);
    putchar('\n');
    json_decref(document);
    return result;
}

/* ---- values -------------------------------------------------------------------------------- */

int lull_cli_parse_times(const char *text, void *first_ms, struct lull_error *err)
{
    const double max_ms = 10000.0;
    const char *const comma = strchr(text, ',');
    double *const times_ms = first_ms;
    double parsed_ms[2];
    char first[32];

    (void)err;
    if (comma == NULL || (size_t)(comma - text) >= sizeof(first))
        return -EINVAL;
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = '\0';
    if (lull_text_parse_between(first, 0.0, max_ms, &parsed_ms[0]) < 0 ||
        lull_text_parse_between(comma + 1, 0.0, max_ms, &parsed_ms[1]) < 0)
        return -EINVAL;
    times_ms[0] = parsed_ms[0];
    times_ms[1] = parsed_ms[1];
    return 0;
}

int lull_cli_parse_model(const char *text, void *model, struct lull_error *err)
{
    const struct lull_gpu_model *const found = lull_gpu_model_find(text, (uint32_t)strlen(text));

    (void)err;
    if (found == NULL)
        return LULL_E_UNSUPPORTED;
    memcpy(model, &found, sizeof(found));
    return 0;
}

int lull_cli_parse_curve(const char *text, void *curve, struct lull_error *err)
{
    const struct lull_device_curve *const found = lull_device_curve_find(text, strlen(text));

    (void)err;
    if (found == NULL)
        return LULL_E_UNSUPPORTED;
    memcpy(curve, &found, sizeof(found));
    return 0;
}

const char *lull_cli_model_name(uint32_t index)
{
    return index < lull_device_curve_count ? lull_device_curves[index].name : NULL;
}

const char *lull_cli_choice_name(uint32_t index)
{
    static const char *const names[] = {"cost", "energy", "time", "edp", "slowdown=5%", NULL};

    return names[index];
}

int lull_cli_parse_choice(const char *text, void *selector, struct lull_error *err)
{
    static const char bound[] = "slowdown=";
    struct lull_job_selector *const chosen = selector;
    enum lull_job_aim aim;

    if (strncmp(text, bound, sizeof(bound) - 1) == 0) {
        double value;

        if (lull_text_is_bare_percent(text + sizeof(bound) - 1, &value))
            return lull_option_refuse_bare(value, err);
        if (lull_text_parse_ratio(text + sizeof(bound) - 1, &chosen->slowdown_ratio) < 0)
            return -EINVAL;
        chosen->aim = LULL_JOB_SLOWDOWN;
        return 0;
    }
    if (strcmp(text, "edp") == 0)
        text = lull_job_aim_name(LULL_JOB_DELAY);
    if (lull_job_aim_parse(text, &aim) < 0 || aim == LULL_JOB_SLOWDOWN)
        return -EINVAL;
    chosen->aim = aim;
    return 0;
}

void lull_cli_show_oracle(void *watch, uint32_t run, uint64_t period)
{
    if (lull_progress_is_due(watch))
        lull_progress_draw("oracles: run %" PRIu32 ", period %" PRIu64, run, period);
}
