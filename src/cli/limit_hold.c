/*
 * lull limit hold: power limits for a program that chooses them itself, line by line. The GPUs are
 * leased while the command runs; whatever ends it, or the program, restores the previous limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/own_run.h"
#include "cli/shared/command.h"
#include "cli/shared/answers.h"
#include "governor/control/actuator.h"
#include "governor/report/report_fields.h"
#include "governor/run/visible_gpus.h"

/* Interval of lease checks, and how long the driver may take to set the limits of all GPUs. */
static const int look_ms = 100;
static const int64_t patience_ns = 10 * LULL_NS_PER_S;

struct limit_hold_arguments {
    const char *gpus;
    const char *runtime_dir;
    bool no_daemon;
};

struct limit_holder {
    struct lull_devices *devices;
    struct lull_actuator *actuator;
    uint32_t count;
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t slots[LULL_DEVICE_MAX_GPUS];
    struct lull_own_run run;
};

/* ---- opening ----------------------------------------------------------------------------- */

static int limit_hold_lease(struct limit_holder *holder, struct lull_error *err)
{
    for (uint32_t i = 0; i < holder->count; i++) {
        const struct lull_device_info *info = lull_device_info(holder->devices, holder->gpus[i]);
        const struct lull_band band = {.max_mhz = UINT32_MAX,
                                       .min_limit_mw = info->power_limit_min_mw,
                                       .max_limit_mw = info->power_limit_max_mw};
        int result;

        if ((info->capabilities & LULL_CAPABILITY_POWER_LIMIT) == 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED, "GPU %u (%.60s) has no power limit",
                                  holder->gpus[i], info->name);
        result = lull_actuator_lease(holder->actuator, info->uuid, &band, &holder->slots[i], err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int limit_hold_open(struct limit_holder *holder,
                           const struct limit_hold_arguments *arguments, struct lull_error *err)
{
    int result = lull_devices_open(&holder->devices, err);

    if (result == 0)
        result = lull_visible_gpus_choose(holder->devices, arguments->gpus, holder->gpus,
                                          &holder->count, err);
    if (result < 0)
        return result;
    lull_own_run_pause(&holder->run);
    if (arguments->no_daemon)
        result = lull_actuator_open_local(holder->devices, arguments->runtime_dir,
                                          &holder->actuator, err);
    else
        result = lull_actuator_open_daemon(arguments->runtime_dir, &holder->actuator, err);
    if (result < 0)
        return result;
    return limit_hold_lease(holder, err);
}

/* ---- lines ------------------------------------------------------------------------------- */

static json_t *limit_hold_greeting(struct limit_holder *holder)
{
    json_t *document = json_object();
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < holder->count; i++) {
        const struct lull_device_info *info = lull_device_info(holder->devices, holder->gpus[i]);
        struct lull_device_reading reading;
        json_t *gpu = json_object();

        lull_device_read(holder->devices, holder->gpus[i], LULL_READING_POWER_LIMIT, &reading);
        lull_field_text(gpu, "uuid", info->uuid);
        lull_field_number(gpu, "power_limit_min_w", info->power_limit_min_mw * 1e-3);
        lull_field_number(gpu, "power_limit_max_w", info->power_limit_max_mw * 1e-3);
        lull_field_known(gpu, "power_limit_w", reading.power_limit_mw * 1e-3,
                         reading.valid & LULL_READING_POWER_LIMIT);
        json_array_append_new(gpus, gpu);
    }
    lull_field_json(document, "gpus", gpus);
    return document;
}

/* Waits for the outcome of a request. It is unchanged if the driver takes too long. */
static void limit_hold_await(struct limit_holder *holder, uint32_t i, uint64_t sequence,
                             int64_t until_ns, struct lull_limit_result *result_out)
{
    *result_out = (struct lull_limit_result){.status = -ETIMEDOUT};
    while (lull_now_ns() < until_ns && lull_actuator_poll(holder->actuator, NULL) == 0) {
        struct lull_limit_result now;

        lull_actuator_limit_result(holder->actuator, holder->slots[i], &now);
        if (now.sequence >= sequence) {
            *result_out = now;
            return;
        }
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
}

static json_t *limit_hold_set(struct limit_holder *holder, uint32_t limit_mw)
{
    const int64_t until_ns = lull_now_ns() + patience_ns;
    uint64_t sequences[LULL_DEVICE_MAX_GPUS] = {0};
    json_t *document = json_object();
    json_t *limits = json_array();

    for (uint32_t i = 0; i < holder->count; i++)
        sequences[i] = lull_actuator_set_limit(holder->actuator, holder->slots[i], limit_mw);
    for (uint32_t i = 0; i < holder->count; i++) {
        struct lull_limit_result result;

        limit_hold_await(holder, i, sequences[i], until_ns, &result);
        if (result.status < 0) {
            json_decref(document);
            json_decref(limits);
            return lull_answers_error(result.status == -ETIMEDOUT
                                          ? "lulld or the driver does not respond"
                                          : "the driver refused the power limit");
        }
        json_array_append_new(limits, result.limit_mw > 0 ? json_real(result.limit_mw * 1e-3)
                                                          : json_null());
    }
    lull_field_json(document, "limits_w", limits);
    return document;
}

static json_t *limit_hold_answer(void *context, const char *line)
{
    double limit_w;

    if (lull_text_parse_between(line, 0.0, 1e6, &limit_w) < 0)
        return lull_answers_error("not a power limit in watts; 0 is the previous one");
    return limit_hold_set(context, (uint32_t)llround(limit_w * 1e3));
}

static int limit_hold_poll(void *context, struct lull_error *err)
{
    struct limit_holder *holder = context;

    return lull_actuator_poll(holder->actuator, err);
}

static int limit_hold_wait_ms(const void *context)
{
    (void)context;
    return look_ms;
}

/* ---- the command ------------------------------------------------------------------------- */

static int limit_hold_run(void *options, const struct lull_operands *operands)
{
    struct limit_holder holder = {0};
    struct lull_error err = {0};
    int result = limit_hold_open(&holder, options, &err);
    int closed;

    (void)operands;
    if (result == 0)
        result = lull_answers_serve(&(struct lull_answers){.answer = limit_hold_answer,
                                                           .idle = limit_hold_poll,
                                                           .wait_ms = limit_hold_wait_ms,
                                                           .context = &holder},
                                    limit_hold_greeting(&holder), &err);
    closed = lull_actuator_close(holder.actuator);
    lull_own_run_resume(&holder.run);
    if (holder.devices != NULL && closed == 0)
        lull_devices_close(holder.devices);
    return result < 0 ? lull_cli_fail("limit hold", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_VALUE("gpus", "LIST", TEXT, struct limit_hold_arguments, gpus,
               "The GPUs, by their numbers among those that the program sees.",
               .otherwise = "all of them"),
    LULL_CLI_NO_DAEMON_ROW(struct limit_hold_arguments, no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(struct limit_hold_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_limit_hold_command = {
    .name = "limit hold",
    .summary = "set power limits for a program that chooses them, until it ends",
    .about =
        "Sets the power limit (W) that each line of standard input contains on the GPUs, never "
        "above the one set before, and answers with the limits read back, as one line of "
        "JSON. 0 restores the previous limits, and so does the end of input or of this "
        "command for any reason. Under `lull run` it pauses that run, which leases the same GPUs; "
        "the run continues at the end of this command. The Python package uses it.",
    .tables = {{rows, 0}},
    .size = sizeof(struct limit_hold_arguments),
    .run = limit_hold_run,
};
