/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_string.h"

enum { TOKEN_BYTES = 4 };

/* The text of a token, of as many bytes as completion.c counts for one. */
static const char *token_text(uint32_t index)
{
    static const char *const texts[] = {" the", " gpu", " has", " not", " yet", " run", " low"};

    return texts[index % (sizeof(texts) / sizeof(texts[0]))];
}

static const char *end_reason(const struct lull_completion *completion)
{
    return completion->is_cut ? "length" : "stop";
}

static json_int_t prompt_tokens(const struct lull_completion *completion)
{
    json_int_t sum = 0;

    for (uint32_t i = 0; i < completion->choices; i++)
        sum += completion->prompt_tokens[i];
    return sum;
}

static json_int_t output_tokens(const struct lull_completion *completion)
{
    return (json_int_t)completion->choices * completion->output_tokens;
}

/* ---- chunks of a stream ------------------------------------------------------------------ */

/* Writes the begin of a chunk, up to its choices. */
static size_t write_head(const struct lull_answer *answer, char *chunk)
{
    const bool is_chat = answer->completion->is_chat;

    return (size_t)snprintf(chunk, LULL_ANSWER_CHUNK_BYTES,
                            "data: {\"id\": \"%s-%016" PRIx64
                            "\", \"object\": \"%s\", \"created\": %lld, "
                            "\"model\": \"%.200s\", ",
                            is_chat ? "chatcmpl" : "cmpl", answer->number,
                            is_chat ? "chat.completion.chunk" : "text_completion",
                            (long long)answer->created, answer->model);
}

static size_t write_choice(const struct lull_answer *answer, uint32_t choice, const char *content,
                           const char *end, char *chunk)
{
    const size_t head = write_head(answer, chunk);

    return head + (size_t)snprintf(chunk + head, LULL_ANSWER_CHUNK_BYTES - head,
                                   "\"choices\": [{\"index\": %u, %s, \"logprobs\": null, "
                                   "\"finish_reason\": %s}]%s}\n\n",
                                   choice, content, end,
                                   answer->completion->includes_usage ? ", \"usage\": null" : "");
}

size_t lull_answer_write_token(const struct lull_answer *answer, uint32_t choice, uint32_t index,
                               char chunk_out[LULL_ANSWER_CHUNK_BYTES])
{
    const struct lull_completion *const completion = answer->completion;
    char content[64];
    char end[16] = "null";

    snprintf(content, sizeof(content),
             completion->is_chat ? "\"delta\": {\"content\": \"%s\"}" : "\"text\": \"%s\"",
             token_text(index));
    if (index + 1 == completion->output_tokens)
        snprintf(end, sizeof(end), "\"%s\"", end_reason(completion));
    return write_choice(answer, choice, content, end, chunk_out);
}

size_t lull_answer_write_role(const struct lull_answer *answer, uint32_t choice,
                              char chunk_out[LULL_ANSWER_CHUNK_BYTES])
{
    return write_choice(answer, choice, "\"delta\": {\"role\": \"assistant\", \"content\": \"\"}",
                        "null", chunk_out);
}

size_t lull_answer_write_usage(const struct lull_answer *answer,
                               char chunk_out[LULL_ANSWER_CHUNK_BYTES])
{
    const json_int_t prompt = prompt_tokens(answer->completion);
    const json_int_t output = output_tokens(answer->completion);
    const size_t head = write_head(answer, chunk_out);

    return head + (size_t)snprintf(chunk_out + head, LULL_ANSWER_CHUNK_BYTES - head,
                                   "\"choices\": [], \"usage\": {\"prompt_tokens\": %lld, "
                                   "\"total_tokens\": %lld, \"completion_tokens\": %lld}}\n\n",
                                   (long long)prompt, (long long)(prompt + output),
                                   (long long)output);
}

/* ---- documents --------------------------------------------------------------------------- */

static json_t *answer_text(const struct lull_completion *completion)
{
    const size_t size = (size_t)completion->output_tokens * TOKEN_BYTES;
    char *const text = malloc(size + 1);
    json_t *string;

    if (text == NULL)
        return NULL;
    for (uint32_t i = 0; i < completion->output_tokens; i++)
        memcpy(text + (size_t)i * TOKEN_BYTES, token_text(i), TOKEN_BYTES);
    text[size] = '\0';
    string = lull_json_string(text);
    free(text);
    return string;
}

static json_t *answer_choice(const struct lull_completion *completion, uint32_t index)
{
    if (!completion->is_chat)
        return json_pack("{s:i, s:o, s:n, s:s}", "index", (int)index, "text",
                         answer_text(completion), "logprobs", "finish_reason",
                         end_reason(completion));
    return json_pack("{s:i, s:{s:s, s:o}, s:n, s:s}", "index", (int)index, "message", "role",
                     "assistant", "content", answer_text(completion), "logprobs", "finish_reason",
                     end_reason(completion));
}

json_t *lull_answer_whole(const struct lull_answer *answer)
{
    const struct lull_completion *const completion = answer->completion;
    const json_int_t prompt = prompt_tokens(completion);
    const json_int_t output = output_tokens(completion);
    json_t *const choices = json_array();
    char id[32];

    for (uint32_t i = 0; i < completion->choices; i++)
        if (json_array_append_new(choices, answer_choice(completion, i)) < 0) {
            json_decref(choices);
            return NULL;
        }
    snprintf(id, sizeof(id), "%s-%016" PRIx64, completion->is_chat ? "chatcmpl" : "cmpl",
             answer->number);
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:{s:I, s:I, s:I}}", "id", id, "object",
                     completion->is_chat ? "chat.completion" : "text_completion", "created",
                     (json_int_t)answer->created, "model", answer->model, "choices", choices,
                     "usage", "prompt_tokens", prompt, "total_tokens", prompt + output,
                     "completion_tokens", output);
}

json_t *lull_answer_error(unsigned int status, const char *text)
{
    const char *type = "InternalServerError";

    if (status == 404)
        type = "NotFoundError";
    else if (status < 500)
        type = "BadRequestError";
    return json_pack("{s:{s:o, s:s, s:n, s:i}}", "error", "message", lull_json_string(text), "type",
                     type, "param", "code", (int)status);
}

json_t *lull_answer_models(const char *model, uint32_t most_tokens, time_t created)
{
    return json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:s, s:n, s:I}]}", "object", "list", "data",
                     "id", model, "object", "model", "created", (json_int_t)created, "owned_by",
                     "lull", "root", model, "parent", "max_model_len", (json_int_t)most_tokens);
}
