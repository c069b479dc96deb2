/*
 * `lull quiesce` and `lull resume`: lulld releases GPUs that an administrator needs free, and
 * takes them back. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "device/writer.h"
#include "wire/client.h"

enum {
    ANSWER_MS = 2000,
    /* A GPU is released within a second, unless it cannot be restored or hangs. */
    PATIENCE_MS = 5000,
    LOOK_MS = 20,
};

struct quiesce_arguments {
    const char *runtime_dir;
};

static int quiesce_query_gpu(struct lull_client *client, uint32_t gpu,
                             struct lull_message_state *state_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_STATUS, .body.status.gpu = gpu};
    struct lull_message answer;
    int result =
        lull_client_call(client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL, err);

    if (result == 0)
        *state_out = answer.body.state;
    return result;
}

/* Finds the GPU that a word names, by its number or its UUID, and adds its bit. */
static int quiesce_add_gpu(struct lull_client *client, uint32_t count, const char *word,
                           uint64_t *mask, struct lull_error *err)
{
    int64_t number;

    if (lull_text_parse_int(word, 0, (int64_t)count - 1, &number) == 0) {
        *mask |= UINT64_C(1) << number;
        return 0;
    }
    for (uint32_t gpu = 0; gpu < count; gpu++) {
        struct lull_message_state state;
        int result = quiesce_query_gpu(client, gpu, &state, err);

        if (result < 0)
            return result;
        if (strcmp(state.uuid, word) == 0) {
            *mask |= UINT64_C(1) << gpu;
            return 0;
        }
    }
    return lull_error_set(err, -EINVAL, "%.60s: no such GPU here; lull status shows them", word);
}

/* Without a word every GPU is meant. */
static int quiesce_pick_gpus(struct lull_client *client, uint32_t count,
                             const struct lull_operands *operands, uint64_t *mask_out,
                             struct lull_error *err)
{
    int result = 0;

    *mask_out = 0;
    if (count == 0)
        return lull_error_set(err, -ENODEV, "lulld manages no GPU; see lull status for the reason");
    for (uint32_t gpu = 0; operands->count == 0 && gpu < count; gpu++)
        *mask_out |= UINT64_C(1) << gpu;
    for (uint32_t i = 0; i < operands->count && result == 0; i++)
        result = quiesce_add_gpu(client, count, operands->words[i], mask_out, err);
    return result;
}

/* Returns whether lulld has release the GPU, or has taken it up again. */
static bool quiesce_is_done(const struct lull_message_state *state, bool is_resuming)
{
    return is_resuming ? state->health == LULL_WRITER_UP || state->health == LULL_WRITER_FOREIGN
                       : state->health == LULL_WRITER_QUIESCED;
}

static int wait_for_one(struct lull_client *client, uint32_t gpu, bool is_resuming,
                        int64_t until_ns, struct lull_error *err)
{
    struct lull_message_state state = {0};
    int result;

    for (;;) {
        result = quiesce_query_gpu(client, gpu, &state, err);
        if (result < 0 || quiesce_is_done(&state, is_resuming))
            return result;
        if (lull_now_ns() > until_ns)
            break;
        lull_sleep_until_ns(lull_now_ns() + LOOK_MS * LULL_NS_PER_MS);
    }
    if (is_resuming)
        return lull_error_set(
            err, -ETIMEDOUT,
            "GPU %u: resumed, but it does not answer yet; lulld keeps trying, see lull status",
            gpu);
    return lull_error_set(
        err, -ETIMEDOUT,
        "GPU %u: not restored or released yet; lulld keeps trying, see lull status and its log",
        gpu);
}

static int quiesce_all(struct lull_client *client, uint32_t count,
                       const struct lull_operands *operands, bool is_resuming,
                       struct lull_error *err)
{
    const int64_t until_ns = lull_now_ns() + PATIENCE_MS * LULL_NS_PER_MS;
    struct lull_message message = {.type =
                                       is_resuming ? LULL_MESSAGE_RESUME : LULL_MESSAGE_QUIESCE};
    struct lull_message answer;
    int result = quiesce_pick_gpus(client, count, operands, &message.body.gpus.mask, err);
    const uint64_t mask = message.body.gpus.mask;

    if (result == 0)
        result =
            lull_client_call(client, &message, LULL_MESSAGE_REPLY, ANSWER_MS, &answer, NULL, err);
    for (uint32_t gpu = 0; gpu < count && result == 0; gpu++)
        if ((mask >> gpu & 1) != 0)
            result = wait_for_one(client, gpu, is_resuming, until_ns, err);
    return result;
}

static int quiesce_command(void *options, const struct lull_operands *operands, bool is_resuming)
{
    const struct quiesce_arguments *const arguments = options;
    const char *name = is_resuming ? "resume" : "quiesce";
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);

    if (result == 0) {
        result = quiesce_all(client, welcome.gpu_count, operands, is_resuming, &err);
        lull_client_close(client);
    }
    return result < 0 ? lull_cli_fail(name, &err) : LULL_EXIT_OK;
}

static int quiesce_main(void *options, const struct lull_operands *operands)
{
    return quiesce_command(options, operands, false);
}

static int quiesce_resume(void *options, const struct lull_operands *operands)
{
    return quiesce_command(options, operands, true);
}

static const struct lull_option rows[] = {
    LULL_CLI_RUNTIME_DIR_ROW(struct quiesce_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_quiesce_command = {
    .name = "quiesce",
    .summary = "release GPUs before maintenance",
    .arguments = "[GPU...]",
    .about = "Ends all leases on these GPUs (numbers or UUIDs; default all), restores the GPUs, "
             "and closes lulld's handles to them. With all GPUs, it closes the driver itself. The "
             "GPUs cannot be leased until `lull resume`. Requires root.",
    .tables = {{rows, 0}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct quiesce_arguments),
    .run = quiesce_main,
};

const struct lull_program_command lull_resume_command = {
    .name = "resume",
    .summary = "take quiesced GPUs back",
    .arguments = "[GPU...]",
    .about = "Reopens the driver, finds these GPUs, or all, by their UUIDs, and makes them "
             "available for leases. Requires root.",
    .tables = {{rows, 0}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct quiesce_arguments),
    .run = quiesce_resume,
};
