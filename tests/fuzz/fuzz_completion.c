/*
 * Requests of clients of `lull play --server`: any body is accepted with values in their ranges, or
 * refused with a message. The first byte of the input selects the path. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "cli/play/server/answer.h"
#include "fuzz.h"

static const struct lull_completion_limits limits = {"maker/Model-1B", 4096};

static void check_accepted(const struct lull_completion *completion)
{
    require(completion->choices >= 1 && completion->choices <= LULL_COMPLETION_CHOICES);
    require(completion->output_tokens >= 1);
    for (uint32_t i = 0; i < completion->choices; i++) {
        require(completion->prompt_tokens[i] >= 1);
        require(completion->prompt_tokens[i] + completion->output_tokens <= limits.most_tokens);
    }
    require(completion->is_stream || !completion->includes_usage);
}

/* The chunks of a stream are events with JSON, and fit. */
static void check_chunk(const char *chunk, size_t size)
{
    json_t *document;

    require(size < LULL_ANSWER_CHUNK_BYTES && size > 8);
    require(memcmp(chunk, "data: ", 6) == 0 && memcmp(chunk + size - 2, "\n\n", 2) == 0);
    document = json_loadb(chunk + 6, size - 8, 0, NULL);
    require(document != NULL);
    json_decref(document);
}

static void check_answer(const struct lull_completion *completion)
{
    const struct lull_answer answer = {completion, limits.model, UINT64_MAX, 1};
    char chunk[LULL_ANSWER_CHUNK_BYTES];
    json_t *const whole = lull_answer_whole(&answer);

    require(whole != NULL);
    require(json_array_size(json_object_get(whole, "choices")) == completion->choices);
    json_decref(whole);
    check_chunk(chunk, lull_answer_write_token(&answer, completion->choices - 1,
                                               completion->output_tokens - 1, chunk));
    check_chunk(chunk, lull_answer_write_role(&answer, 0, chunk));
    check_chunk(chunk, lull_answer_write_usage(&answer, chunk));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_completion completion = {.choices = UINT32_MAX};
    struct lull_error err = {0};
    int result;

    if (size == 0 || size > 1 << 16)
        return 0;
    result = lull_completion_parse((const char *)data + 1, size - 1, data[0] == 'c', &limits,
                                   &completion, &err);
    if (result < 0) {
        require(result == -EINVAL || result == -ENOENT);
        require(err.code == result && err.text[0] != '\0' && completion.choices == UINT32_MAX);
        return 0;
    }
    require(result == 0 && completion.is_chat == (data[0] == 'c'));
    check_accepted(&completion);
    check_answer(&completion);
    return 0;
}
