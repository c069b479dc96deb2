/*
 * Requests of OpenAI's API: POST /v1/completions and /v1/chat/completions. Pure functions of texts,
 * which may hold anything. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_COMPLETION_H
#define LULL_CLI_PLAY_SERVER_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_COMPLETION_CHOICES = 64, /* prompts of a request, times n */
    LULL_COMPLETION_DEFAULT =
        16, /* tokens of a completion without max_tokens, as in OpenAI's API */
    LULL_COMPLETION_CHAT_DEFAULT = 256, /* of an answer in a chat, which then ends by itself */
};

/* The limits that a request must keep. */
struct lull_completion_limits {
    const char *model;    /* the name of its model */
    uint32_t most_tokens; /* of a prompt and its output together, >= 2 */
};

struct lull_completion {
    bool is_chat;
    bool is_stream;
    bool includes_usage; /* a stream ends with the number of tokens */
    bool is_cut;         /* the output ends because of max_tokens; otherwise by itself */
    uint32_t choices;    /* 1..LULL_COMPLETION_CHOICES */
    uint32_t prompt_tokens[LULL_COMPLETION_CHOICES]; /* >= 1 */
    uint32_t output_tokens;                          /* of each choice, >= 1 */
};

/*
 * Parses the body of a request. A prompt is a text, tokens, or a list of either. A text has a token
 * for each four bytes; a chat's message has four more. Fields without meaning for the emulated
 * model are ignored. Errors, which leave completion_out unchanged: -EINVAL the body is wrong,
 * -ENOENT it names another model.
 */
int lull_completion_parse(const char *body, size_t size, bool is_chat,
                          const struct lull_completion_limits *limits,
                          struct lull_completion *completion_out, struct lull_error *err);

/* Returns whether a name is that of the model: the whole, or what is behind its last '/'. */
bool lull_completion_is_model(const char *name, const char *model);

#endif
