/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/webhook.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "cluster/cli/budget/grid.h"
#include "cli/shared/http_guard.h"

enum {
    MIN_SECRET = 16,
    SECRET_BYTES = 4096,
    MAX_CONNECTIONS = 32,
    MAX_OF_ADDRESS = 24,
    SILENCE_S = 5,
    REQUEST_S = 10,
};

struct lull_webhook {
    const struct lull_budget_settings *settings;
    struct MHD_Daemon *daemon;
    struct lull_http_guard *guard;
    char secret[SECRET_BYTES];
};

/* A request under way. */
struct webhook_request {
    bool is_refused; /* its body has become too long, and is dropped */
    unsigned status;
    size_t size;
    char body[];
};

static enum MHD_Result webhook_reply(struct MHD_Connection *connection, unsigned status,
                                     const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result;

    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
    lull_http_guard_note(connection, LULL_HTTP_ANSWERED);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Compares in constant time, so that the timing does not reveal how much of a guess is correct. */
static bool has_secret(const struct lull_webhook *webhook, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *given =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const size_t length = strlen(webhook->secret);
    unsigned char difference = 0;

    if (given == NULL || strncmp(given, scheme, strlen(scheme)) != 0)
        return false;
    given += strlen(scheme);
    if (strlen(given) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(given[i] ^ webhook->secret[i]);
    return difference == 0;
}

/* Decides from its head whether a request is accepted. */
static unsigned webhook_check_request(const struct lull_webhook *webhook,
                                      struct MHD_Connection *connection, const char *url,
                                      const char *method)
{
    if (!has_secret(webhook, connection))
        return MHD_HTTP_UNAUTHORIZED;
    if (strcmp(url, "/grid") != 0)
        return MHD_HTTP_NOT_FOUND;
    return strcmp(method, MHD_HTTP_METHOD_POST) == 0 ? MHD_HTTP_NO_CONTENT
                                                     : MHD_HTTP_METHOD_NOT_ALLOWED;
}

/* Puts the events into the grid's file. */
static int take_body(const struct lull_webhook *webhook, const struct webhook_request *request,
                     struct lull_error *err)
{
    struct lull_grid_events *grid = malloc(sizeof(*grid));
    char *text = NULL;
    int result = -ENOMEM;

    if (grid == NULL)
        return lull_error_set(err, result, "not enough memory for it");
    result =
        lull_grid_read("webhook", request->body, request->size, (int64_t)time(NULL), grid, err);
    if (result == 0)
        text = lull_grid_print(grid);
    if (result == 0 && text == NULL)
        result = lull_error_set(err, -ENOMEM, "not enough memory for it");
    if (result == 0)
        result = lull_path_write(webhook->settings->grid_file, text, strlen(text), 0644,
                                 LULL_PATH_LOOK_MS, err);
    if (result == 0)
        lull_log(LULL_LOG_INFO, "budget", "webhook: %u events", grid->count);
    free(text);
    free(grid);
    return result;
}

static enum MHD_Result webhook_finish(const struct lull_webhook *webhook,
                                      struct MHD_Connection *connection,
                                      const struct webhook_request *request)
{
    struct lull_error error = {0};
    char text[512];
    int result;

    if (request->is_refused)
        return webhook_reply(connection, request->status, "refused\n");
    result = take_body(webhook, request, &error);
    if (result == 0)
        return webhook_reply(connection, request->status, "");
    lull_log(LULL_LOG_WARNING, "budget", "webhook: refused: %s", error.text);
    snprintf(text, sizeof(text), "%s\n", error.text);
    return webhook_reply(connection,
                         result == -EINVAL ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_INTERNAL_SERVER_ERROR,
                         text);
}

static enum MHD_Result webhook_serve(void *context, struct MHD_Connection *connection,
                                     const char *url, const char *method, const char *version,
                                     const char *data, size_t *data_size, void **state)
{
    const struct lull_webhook *webhook = context;
    struct webhook_request *request = *state;

    (void)version;
    if (request == NULL) { /* the head */
        const unsigned status = webhook_check_request(webhook, connection, url, method);

        /* Checked before the body, so that a client without the secret cannot hold the connection
         * by sending one. */
        if (status != MHD_HTTP_NO_CONTENT)
            return webhook_reply(connection, status, "refused\n");
        request = calloc(1, sizeof(*request) + LULL_GRID_MAX_BYTES);
        if (request == NULL)
            return MHD_NO;
        request->status = status;
        *state = request;
        return MHD_YES;
    }
    if (*data_size == 0)
        return webhook_finish(webhook, connection, request);
    if (!request->is_refused && *data_size > LULL_GRID_MAX_BYTES - request->size) {
        request->is_refused = true;
        request->status = MHD_HTTP_CONTENT_TOO_LARGE;
    }
    if (!request->is_refused) {
        memcpy(request->body + request->size, data, *data_size);
        request->size += *data_size;
    }
    *data_size = 0;
    return MHD_YES;
}

static void webhook_forget(void *context, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)code;
    free(*state);
    *state = NULL;
    lull_http_guard_note(connection, LULL_HTTP_ASKING);
}

static int read_secret(const char *path, char *secret_out, struct lull_error *err)
{
    const int result = lull_file_read_secret(path, secret_out, SECRET_BYTES, err);

    if (result < 0)
        return result;
    if (strlen(secret_out) < MIN_SECRET)
        return lull_error_set(err, -EINVAL, "%s: a secret has %d characters at least", path,
                              MIN_SECRET);
    return 0;
}

static int webhook_parse_address(const char *text, struct sockaddr_in *address_out,
                                 struct lull_error *err)
{
    const char *colon = strrchr(text, ':');
    char host[LULL_BUDGET_NAME_BYTES];
    int64_t port;

    *address_out = (struct sockaddr_in){.sin_family = AF_INET};
    if (colon == NULL || lull_text_parse_int(colon + 1, 1, 65535, &port) < 0)
        goto refuse;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    if (inet_pton(AF_INET, host, &address_out->sin_addr) != 1)
        goto refuse;
    address_out->sin_port = htons((uint16_t)port);
    return 0;
refuse:
    return lull_error_set(err, -EINVAL,
                          "webhook: \"%.60s\" is not an address such as 127.0.0.1:8642", text);
}

static int listen_at(struct lull_webhook *webhook, const struct sockaddr_in *address,
                     struct lull_error *err)
{
    static const struct lull_http_limits limits = {
        .most = MAX_CONNECTIONS,
        .most_of_address = MAX_OF_ADDRESS,
        .request_ns = REQUEST_S * LULL_NS_PER_S,
        .answer_ns = REQUEST_S * LULL_NS_PER_S,
    };
    const int result = lull_http_guard_create(&limits, &webhook->guard, err);

    if (result < 0)
        return result;
    webhook->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD, ntohs(address->sin_port), NULL, NULL, webhook_serve,
        webhook, MHD_OPTION_SOCK_ADDR, (const struct sockaddr *)address,
        MHD_OPTION_CONNECTION_LIMIT, lull_http_guard_room(webhook->guard),
        MHD_OPTION_NOTIFY_CONNECTION, lull_http_guard_notify, webhook->guard,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_S, MHD_OPTION_NOTIFY_COMPLETED,
        webhook_forget, NULL, MHD_OPTION_END);
    if (webhook->daemon != NULL)
        return 0;
    lull_http_guard_destroy(webhook->guard);
    return lull_error_set(err, -EADDRNOTAVAIL, "webhook: cannot listen at %s: %s",
                          webhook->settings->webhook, strerror(errno));
}

int lull_webhook_start(const struct lull_budget_settings *settings,
                       struct lull_webhook **webhook_out, struct lull_error *err)
{
    struct lull_webhook *webhook = calloc(1, sizeof(*webhook));
    struct sockaddr_in address;
    int result;

    if (webhook == NULL)
        return lull_error_set(err, -ENOMEM, "webhook: out of memory");
    webhook->settings = settings;
    result = webhook_parse_address(settings->webhook, &address, err);
    if (result == 0)
        result = read_secret(settings->webhook_token_file, webhook->secret, err);
    if (result == 0)
        result = listen_at(webhook, &address, err);
    if (result < 0) {
        free(webhook);
        return result;
    }
    *webhook_out = webhook;
    return 0;
}

void lull_webhook_stop(struct lull_webhook *webhook)
{
    if (webhook == NULL)
        return;
    MHD_stop_daemon(webhook->daemon);
    lull_http_guard_destroy(webhook->guard);
    free(webhook);
}
