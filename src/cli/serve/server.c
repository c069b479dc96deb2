/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bucket.h"
#include "cli/shared/http_guard.h"
#include "cli/serve/answer.h"
#include "cli/serve/metrics.h"
#include "cli/serve/request.h"

struct lull_serve_server {
    struct lull_serve_options options;
    struct lull_serve_sources sources;
    json_t *metrics;
    struct MHD_Daemon *daemon;
    struct lull_http_guard *guard;
    struct lull_bucket buckets[LULL_SERVE_ROUTES + 1]; /* by route; the last is for the rest */
};

/* ---- a request --------------------------------------------------------------------------- */

/* Finds the route of a path, LULL_SERVE_ROUTES if there is none, and what of the path follows. */
static size_t find_route(const char *path, const char **rest_out)
{
    for (size_t i = 0; i < LULL_SERVE_ROUTES; i++) {
        const char *const own = lull_serve_routes[i].path;
        const size_t size = strlen(own);
        const bool has_name = size > 1 && own[size - 1] == '/';

        *rest_out = path + size;
        if (strcmp(path, own) == 0 && !has_name)
            return i;
        if (has_name && strncmp(path, own, size) == 0)
            return i;
    }
    return LULL_SERVE_ROUTES;
}

static const char *http_server_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Returns whether the client is authorized. */
static bool is_admitted(const struct lull_serve_server *server, struct MHD_Connection *connection)
{
    const char *const token = server->options.token;

    if (token == NULL)
        return lull_serve_is_own_host(http_server_header(connection, "Host"));
    return lull_serve_is_authorized(http_server_header(connection, "Authorization"), token);
}

static void http_server_refuse(const struct lull_serve_server *server,
                               struct lull_serve_exchange *exchange)
{
    if (server->options.token == NULL) {
        lull_serve_answer_error(exchange, MHD_HTTP_FORBIDDEN,
                                "without a token only localhost, 127.0.0.1 and [::1] are answered; "
                                "see lull-serve(1)");
        return;
    }
    lull_serve_answer_error(exchange, MHD_HTTP_UNAUTHORIZED,
                            "a token is needed: Authorization: Bearer TOKEN, or TOKEN as the "
                            "password of any user");
    if (exchange->response != NULL)
        MHD_add_response_header(exchange->response, "WWW-Authenticate",
                                "Basic realm=\"lull\", charset=\"UTF-8\"");
}

/* Clients without access have a bucket of their own, so that they do not use up the requests of
 * clients with access. */
static void http_server_reply(struct lull_serve_server *server,
                              struct lull_serve_exchange *exchange, const char *path,
                              const char *method)
{
    const bool is_in = is_admitted(server, exchange->connection);
    const size_t route = find_route(path, &exchange->rest);

    if (!lull_bucket_take(&server->buckets[is_in ? route : LULL_SERVE_ROUTES], lull_now_ns())) {
        lull_serve_watch_count(server->sources.watch, LULL_SERVE_REFUSED);
        lull_serve_answer_error(exchange, MHD_HTTP_TOO_MANY_REQUESTS,
                                "too many requests; try again in a second");
        if (exchange->response != NULL)
            MHD_add_response_header(exchange->response, "Retry-After", "1");
    } else if (!is_in) {
        lull_serve_watch_count(server->sources.watch, LULL_SERVE_REFUSED);
        http_server_refuse(server, exchange);
    } else if (route == LULL_SERVE_ROUTES) {
        lull_serve_answer_error(exchange, MHD_HTTP_NOT_FOUND,
                                "unknown path; see /api/v1/openapi.json");
    } else if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
               strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        lull_serve_answer_error(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are");
        if (exchange->response != NULL)
            MHD_add_response_header(exchange->response, "Allow", "GET, HEAD");
    } else {
        lull_serve_routes[route].answer(exchange);
    }
}

/* Returns whether a request has a body, as none should: it is answered before that is read, and its
 * connection ends. */
static bool has_body(struct MHD_Connection *connection)
{
    const char *const length = http_server_header(connection, "Content-Length");

    return http_server_header(connection, "Transfer-Encoding") != NULL ||
           (length != NULL && strcmp(length, "0") != 0);
}

/* Callback of the library: called once the head of a request is read, and once more if it has no
 * body. If the request is answered in the second call, the connection can be reused. */
static enum MHD_Result http_server_handle(void *context, struct MHD_Connection *connection,
                                          const char *path, const char *method, const char *version,
                                          const char *upload, size_t *upload_size, void **state)
{
    struct lull_serve_server *const server = context;
    struct lull_serve_exchange exchange = {.sources = &server->sources, .connection = connection};
    enum MHD_Result result;

    (void)version;
    (void)upload;
    (void)upload_size;
    if (*state == NULL && !has_body(connection)) {
        *state = server;
        return MHD_YES;
    }
    lull_serve_watch_count(server->sources.watch, LULL_SERVE_REQUESTS);
    http_server_reply(server, &exchange, path, method);
    if (exchange.response == NULL)
        return MHD_NO;
    MHD_add_response_header(exchange.response, "Cache-Control", "no-store");
    MHD_add_response_header(exchange.response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(exchange.response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(exchange.response, "Cross-Origin-Resource-Policy", "same-origin");
    lull_http_guard_note(connection, exchange.is_stream ? LULL_HTTP_STREAMING : LULL_HTTP_ANSWERED);
    result = MHD_queue_response(connection, exchange.status, exchange.response);
    MHD_destroy_response(exchange.response);
    return result;
}

static void http_server_on_complete(void *context, struct MHD_Connection *connection, void **state,
                                    enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)code;
    *state = NULL;
    lull_http_guard_note(connection, LULL_HTTP_ASKING);
}

/* ---- start ------------------------------------------------------------------------------- */

/* An address to listen on. */
struct endpoint {
    bool is_loopback;
    unsigned int flags;
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address;
};

static int http_server_find_place(const struct lull_serve_options *options,
                                  struct endpoint *place_out, struct lull_error *err)
{
    struct endpoint place = {0};

    if (inet_pton(AF_INET, options->address, &place.address.four.sin_addr) == 1) {
        place.address.four.sin_family = AF_INET;
        place.address.four.sin_port = htons(options->port);
        place.is_loopback = ntohl(place.address.four.sin_addr.s_addr) >> 24 == 127;
    } else if (inet_pton(AF_INET6, options->address, &place.address.six.sin6_addr) == 1) {
        place.address.six.sin6_family = AF_INET6;
        place.address.six.sin6_port = htons(options->port);
        place.is_loopback = IN6_IS_ADDR_LOOPBACK(&place.address.six.sin6_addr);
        place.flags = MHD_USE_IPv6;
    } else {
        return lull_error_set(err, -EINVAL,
                              "%.60s is not a numeric IPv4 or IPv6 address, such as 127.0.0.1",
                              options->address);
    }
    if (!place.is_loopback && options->token == NULL)
        return lull_error_set(err, -EPERM,
                              "%.60s can be reached from other machines, which needs a token: give "
                              "--token-file FILE, or leave out --address",
                              options->address);
    *place_out = place;
    return 0;
}

static int listen_there(struct lull_serve_server *server, const struct endpoint *place,
                        struct lull_error *err)
{
    static const struct lull_http_limits limits = {
        .most = LULL_SERVE_MAX_CONNECTIONS,
        .most_of_address = LULL_SERVE_MAX_OF_ADDRESS,
        .request_ns = LULL_SERVE_REQUEST_S * LULL_NS_PER_S,
        .answer_ns = LULL_SERVE_ANSWER_S * LULL_NS_PER_S,
    };
    const int result = lull_http_guard_create(&limits, &server->guard, err);

    if (result < 0)
        return result;
    errno = 0;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | place->flags,
        server->options.port, NULL, NULL, http_server_handle, server, MHD_OPTION_SOCK_ADDR,
        &place->address.any, MHD_OPTION_CONNECTION_LIMIT, lull_http_guard_room(server->guard),
        MHD_OPTION_NOTIFY_CONNECTION, lull_http_guard_notify, server->guard,
        MHD_OPTION_NOTIFY_COMPLETED, http_server_on_complete, server,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LULL_SERVE_MAX_HEAD,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)LULL_SERVE_SILENCE_S, MHD_OPTION_END);
    if (server->daemon != NULL)
        return 0;
    return lull_error_set(err, errno != 0 ? -errno : -EIO, "cannot listen on %.60s, port %u: %s",
                          server->options.address, server->options.port,
                          errno != 0 ? strerror(errno) : "the HTTP library gives no reason");
}

static void http_server_stop(struct lull_serve_server *server)
{
    if (server->daemon != NULL) {
        lull_serve_streams_end(server->sources.streams);
        MHD_stop_daemon(server->daemon);
    }
    lull_http_guard_destroy(server->guard);
    lull_serve_watch_stop(server->sources.watch);
    lull_serve_streams_destroy(server->sources.streams);
    json_decref(server->metrics);
    free(server);
}

static int http_server_listen(struct lull_serve_server *server, struct lull_error *err)
{
    struct lull_serve_watch_options watch = {
        .runtime_dir = server->options.runtime_dir,
        .runs = server->options.runs,
        .is_for_all = server->options.is_for_all,
        .rate_hz = server->options.rate_hz,
        .reported = lull_serve_streams_notify,
    };
    struct endpoint place;
    int result = http_server_find_place(&server->options, &place, err);

    if (result < 0)
        return result;
    server->metrics = lull_serve_metrics_open();
    server->sources.streams = lull_serve_streams_create();
    if (server->metrics == NULL || server->sources.streams == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the server");
    server->sources.metrics = server->metrics;
    server->sources.runs = server->options.runs;
    server->sources.rate_hz = server->options.rate_hz;
    watch.context = server->sources.streams;
    result = lull_serve_watch_start(&watch, &server->sources.watch, err);
    if (result < 0)
        return result;
    lull_serve_streams_set_watch(server->sources.streams, server->sources.watch);
    return listen_there(server, &place, err);
}

int lull_serve_start(const struct lull_serve_options *options,
                     struct lull_serve_server **server_out, struct lull_error *err)
{
    struct lull_serve_server *const server = calloc(1, sizeof(*server));
    int result;

    if (server == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the server");
    server->options = *options;
    for (size_t i = 0; i <= LULL_SERVE_ROUTES; i++)
        server->buckets[i] =
            (struct lull_bucket){.interval_ns = LULL_NS_PER_S / LULL_SERVE_REQUESTS_PER_S,
                                 .burst = LULL_SERVE_REQUESTS_PER_S};
    result = http_server_listen(server, err);
    if (result < 0) {
        http_server_stop(server);
        return result;
    }
    *server_out = server;
    return 0;
}

uint16_t lull_serve_port(const struct lull_serve_server *server)
{
    const union MHD_DaemonInfo *const info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info != NULL ? info->port : 0;
}

void lull_serve_stop(struct lull_serve_server *server)
{
    if (server != NULL)
        http_server_stop(server);
}
