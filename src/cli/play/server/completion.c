/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/completion.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/printable.h"

enum {
    BYTES_PER_TOKEN = 4,
    TOKENS_PER_MESSAGE = 4, /* what a chat's template adds: role and separators */
};

/* ---- sizes of prompts -------------------------------------------------------------------- */

static uint64_t count_text(const json_t *text)
{
    return (json_string_length(text) + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;
}

static bool is_tokens(const json_t *value)
{
    const json_t *token;
    size_t index;

    json_array_foreach(value, index, token) if (!json_is_integer(token) ||
                                                json_integer_value(token) < 0) return false;
    return json_array_size(value) > 0;
}

/* Counts the tokens of one prompt; 0: it is none. */
static uint64_t count_prompt(const json_t *prompt)
{
    if (json_is_string(prompt))
        return count_text(prompt) > 0 ? count_text(prompt) : 1;
    return is_tokens(prompt) ? json_array_size(prompt) : 0;
}

/* Counts the tokens of a message's content; false: it is neither text nor parts of text. */
static bool count_content(const json_t *content, uint64_t *tokens)
{
    const json_t *part;
    size_t index;

    if (json_is_string(content) || json_is_null(content)) {
        *tokens += count_text(content);
        return true;
    }
    json_array_foreach(content, index, part)
    {
        const json_t *const text = json_object_get(part, "text");

        if (!json_is_string(text))
            return false;
        *tokens += count_text(text);
    }
    return json_is_array(content);
}

/* ---- the fields -------------------------------------------------------------------------- */

static int add_prompt(struct lull_completion *completion, uint64_t tokens,
                      const struct lull_completion_limits *limits, struct lull_error *err)
{
    if (tokens >= limits->most_tokens)
        return lull_error_set(err, -EINVAL,
                              "This model's maximum context length is %u tokens. However, the "
                              "prompt has %llu tokens, which leaves no room for the output.",
                              limits->most_tokens, (unsigned long long)tokens);
    if (completion->choices == LULL_COMPLETION_CHOICES)
        return lull_error_set(err, -EINVAL, "prompt: more than %d prompts",
                              LULL_COMPLETION_CHOICES);
    completion->prompt_tokens[completion->choices++] = (uint32_t)tokens;
    return 0;
}

static int read_prompt(const json_t *root, const struct lull_completion_limits *limits,
                       struct lull_completion *completion, struct lull_error *err)
{
    const json_t *const prompt = json_object_get(root, "prompt");
    const json_t *one;
    size_t index;

    if (count_prompt(prompt) > 0)
        return add_prompt(completion, count_prompt(prompt), limits, err);
    json_array_foreach(prompt, index, one)
    {
        const uint64_t tokens = count_prompt(one);
        int result;

        if (tokens == 0)
            break;
        result = add_prompt(completion, tokens, limits, err);
        if (result < 0)
            return result;
    }
    if (completion->choices > 0 && completion->choices == json_array_size(prompt))
        return 0;
    return lull_error_set(err, -EINVAL,
                          "prompt: it must be a text, a list of tokens, or a list of either");
}

static int read_messages(const json_t *root, const struct lull_completion_limits *limits,
                         struct lull_completion *completion, struct lull_error *err)
{
    const json_t *const messages = json_object_get(root, "messages");
    const json_t *message;
    uint64_t tokens = 0;
    size_t index;

    json_array_foreach(messages, index, message)
    {
        if (!json_is_string(json_object_get(message, "role")) ||
            !count_content(json_object_get(message, "content"), &tokens))
            return lull_error_set(
                err, -EINVAL, "messages.%zu: it must have a role, and a content of text", index);
        tokens += TOKENS_PER_MESSAGE;
    }
    if (tokens == 0)
        return lull_error_set(err, -EINVAL, "messages: it must be a list with a message");
    return add_prompt(completion, tokens, limits, err);
}

/* Reads a whole number from 1 to most. Returns 1 if it is there, 0 if not, or null. */
static int read_whole(const json_t *root, const char *name, uint32_t most, uint32_t *value_out,
                      struct lull_error *err)
{
    const json_t *const value = json_object_get(root, name);

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > most)
        return lull_error_set(err, -EINVAL, "%s: it must be a whole number from 1 to %u", name,
                              most);
    *value_out = (uint32_t)json_integer_value(value);
    return 1;
}

/* Reads a boolean into *value_out, which stays where it is not there, or null. */
static int read_flag(const json_t *root, const char *name, bool *value_out, struct lull_error *err)
{
    const json_t *const value = json_object_get(root, name);

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_boolean(value))
        return lull_error_set(err, -EINVAL, "%s: it must be true or false", name);
    *value_out = json_is_true(value);
    return 0;
}

/* Makes n choices of each prompt. */
static int read_choices(const json_t *root, struct lull_completion *completion,
                        struct lull_error *err)
{
    const uint32_t prompts = completion->choices;
    uint32_t n = 1;
    const int result = read_whole(root, "n", LULL_COMPLETION_CHOICES, &n, err);

    if (result < 0)
        return result;
    if (prompts * n > LULL_COMPLETION_CHOICES)
        return lull_error_set(err, -EINVAL, "n: more than %d choices", LULL_COMPLETION_CHOICES);
    completion->choices = prompts * n;
    for (uint32_t i = completion->choices; i-- > 0;)
        completion->prompt_tokens[i] = completion->prompt_tokens[i / n];
    return 0;
}

/* Reads the length of the output. Without one, a completion has OpenAI's default, and an answer in
 * a chat ends by itself, unless it must not. */
static int read_length(const json_t *root, const struct lull_completion_limits *limits,
                       struct lull_completion *completion, struct lull_error *err)
{
    uint32_t room = limits->most_tokens;
    bool ignores_end = false;
    int result = read_flag(root, "ignore_eos", &ignores_end, err);

    for (uint32_t i = 0; i < completion->choices; i++)
        if (limits->most_tokens - completion->prompt_tokens[i] < room)
            room = limits->most_tokens - completion->prompt_tokens[i];
    completion->output_tokens =
        completion->is_chat ? LULL_COMPLETION_CHAT_DEFAULT : LULL_COMPLETION_DEFAULT;
    if (ignores_end && completion->is_chat)
        completion->output_tokens = room;
    if (completion->output_tokens > room)
        completion->output_tokens = room;
    completion->is_cut = !completion->is_chat || completion->output_tokens == room;
    for (uint32_t i = 0; i < 2 && result >= 0; i++) {
        static const char *const names[] = {"max_tokens", "max_completion_tokens"};

        result = read_whole(root, names[i], room, &completion->output_tokens, err);
        completion->is_cut |= result > 0;
    }
    return result < 0 ? result : 0;
}

static int read_stream(const json_t *root, struct lull_completion *completion,
                       struct lull_error *err)
{
    const json_t *const options = json_object_get(root, "stream_options");
    const int result = read_flag(root, "stream", &completion->is_stream, err);

    if (result < 0 || options == NULL || json_is_null(options))
        return result;
    if (!json_is_object(options) || !completion->is_stream)
        return lull_error_set(err, -EINVAL,
                              "stream_options: it must be an object, and needs stream: true");
    return read_flag(options, "include_usage", &completion->includes_usage, err);
}

/* ---- the body ---------------------------------------------------------------------------- */

bool lull_completion_is_model(const char *name, const char *model)
{
    const char *const slash = strrchr(model, '/');

    return strcasecmp(name, model) == 0 || (slash != NULL && strcasecmp(name, slash + 1) == 0);
}

static int check_model(const json_t *root, const struct lull_completion_limits *limits,
                       struct lull_error *err)
{
    const json_t *const model = json_object_get(root, "model");
    char shown[128];

    if (model == NULL || json_is_null(model)) /* as in vLLM */
        return 0;
    if (!json_is_string(model))
        return lull_error_set(err, -EINVAL, "model: it must be a text");
    if (lull_completion_is_model(json_string_value(model), limits->model))
        return 0;
    lull_printable_write(json_string_value(model), shown, sizeof(shown));
    return lull_error_set(err, -ENOENT, "The model `%s` does not exist.", shown);
}

static int completion_read(const json_t *root, const struct lull_completion_limits *limits,
                           struct lull_completion *completion, struct lull_error *err)
{
    int result = check_model(root, limits, err);

    if (result == 0)
        result = completion->is_chat ? read_messages(root, limits, completion, err)
                                     : read_prompt(root, limits, completion, err);
    if (result == 0)
        result = read_choices(root, completion, err);
    if (result == 0)
        result = read_length(root, limits, completion, err);
    if (result == 0)
        result = read_stream(root, completion, err);
    return result;
}

int lull_completion_parse(const char *body, size_t size, bool is_chat,
                          const struct lull_completion_limits *limits,
                          struct lull_completion *completion_out, struct lull_error *err)
{
    struct lull_completion completion = {.is_chat = is_chat};
    json_error_t error;
    json_t *const root = json_loadb(body, size, JSON_ALLOW_NUL, &error);
    char shown[JSON_ERROR_TEXT_LENGTH];
    int result;

    if (!json_is_object(root)) {
        json_decref(root);
        lull_printable_write(root == NULL ? error.text : "it is not an object", shown,
                             sizeof(shown));
        return lull_error_set(err, -EINVAL, "JSON, line %d: %s", root == NULL ? error.line : 1,
                              shown);
    }
    result = completion_read(root, limits, &completion, err);
    json_decref(root);
    if (result == 0)
        *completion_out = completion;
    return result;
}
