/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/front.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "cli/play/server/answer.h"
#include "cli/play/server/page.h"
#include "cli/serve/request.h"
#include "cli/shared/http_guard.h"

enum {
    DOORS = 1 + LULL_FRONT_POOLS,
    /* lull_http_guard_room() permits this many connections at all doors together. */
    SLOTS = 2 * (LULL_FRONT_CONNECTIONS + LULL_FRONT_POOLS * LULL_FRONT_POOL_CONNECTIONS),
    BLOCK = 4096, /* of a stream, handed over at once */
    POLLED = 64,  /* connections looked at together */
};

/* One request, from its head to the end of its answer. */
struct exchange {
    struct lull_front *front;
    const struct front_door *door;
    struct MHD_Connection *connection;
    uint64_t number; /* of the exchange: a multiple of SLOTS, plus its slot */
    time_t created;
    char *body;
    size_t body_size;
    size_t body_room;
    bool is_too_large;
    bool is_submitted;
    struct lull_completion completion;

    /* Guarded by the front's mutex. */
    uint32_t running;                           /* choices that the engine has not finished */
    uint32_t produced[LULL_COMPLETION_CHOICES]; /* tokens of each choice */
    bool is_suspended;                          /* until there is more to send */
    bool is_gone;                               /* its client has left */

    /* The state of a streamed answer, and its next part. */
    uint32_t sent[LULL_COMPLETION_CHOICES];
    uint64_t roles; /* a bit for each choice whose role has been sent */
    bool has_usage; /* it has been sent */
    bool has_done;
    size_t chunk_size;
    size_t chunk_read;
    char chunk[LULL_ANSWER_CHUNK_BYTES];
};

_Static_assert((int)LULL_COMPLETION_CHOICES <= 64, "roles has a bit for each choice");

/* A port. The first one has the API; those of pools have the metrics of one server each. */
struct front_door {
    struct lull_front *front;
    struct lull_model_server *server;
    struct MHD_Daemon *daemon;
    struct lull_http_guard *guard;
};

struct lull_front {
    const char *model;
    struct lull_model_server *server;
    double start_s;
    struct front_door doors[DOORS];
    uint32_t door_count;
    pthread_mutex_t mutex; /* guards what follows; taken before the server's */
    struct exchange *exchanges[SLOTS];
    uint64_t opened; /* exchanges so far */
    uint64_t stopped;
    bool is_ending;
};

/* ---- exchanges --------------------------------------------------------------------------- */

static struct exchange *exchange_open(const struct front_door *door,
                                      struct MHD_Connection *connection)
{
    struct lull_front *const front = door->front;
    struct exchange *const exchange = calloc(1, sizeof(*exchange));

    if (exchange == NULL)
        return NULL;
    exchange->front = front;
    exchange->door = door;
    exchange->connection = connection;
    exchange->created = time(NULL);
    pthread_mutex_lock(&front->mutex);
    do
        exchange->number = front->opened++;
    while (front->exchanges[exchange->number % SLOTS] != NULL);
    front->exchanges[exchange->number % SLOTS] = exchange;
    pthread_mutex_unlock(&front->mutex);
    return exchange;
}

/* The number that a choice has as a request of the engine. */
static uint64_t request_of(const struct exchange *exchange, uint32_t choice)
{
    return exchange->number * LULL_COMPLETION_CHOICES + choice;
}

/* Cancels the choices that are not finished. The caller holds the mutex. */
static void exchange_cancel(struct exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->completion.choices && exchange->running > 0; i++)
        if (exchange->produced[i] < exchange->completion.output_tokens)
            lull_model_server_cancel(exchange->front->server, request_of(exchange, i));
    exchange->running = 0;
}

static void exchange_close(struct exchange *exchange)
{
    struct lull_front *const front = exchange->front;

    pthread_mutex_lock(&front->mutex);
    exchange_cancel(exchange);
    front->exchanges[exchange->number % SLOTS] = NULL;
    pthread_mutex_unlock(&front->mutex);
    free(exchange->body);
    free(exchange);
}

static void exchange_resume(struct exchange *exchange)
{
    exchange->is_suspended = false;
    MHD_resume_connection(exchange->connection);
}

void lull_front_deliver(struct lull_front *front, const struct lull_engine_token *tokens,
                        uint32_t count)
{
    pthread_mutex_lock(&front->mutex);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t number = tokens[i].request / LULL_COMPLETION_CHOICES;
        const uint32_t choice = tokens[i].request % LULL_COMPLETION_CHOICES;
        struct exchange *const exchange = front->exchanges[number % SLOTS];

        /* A request of the trace, or one that was cancelled after the step had begun. */
        if (exchange == NULL || exchange->number != number || exchange->running == 0)
            continue;
        exchange->produced[choice]++;
        if (tokens[i].is_last) {
            exchange->running--;
            front->stopped += !exchange->completion.is_cut;
        }
        if (exchange->is_suspended && (exchange->completion.is_stream || exchange->running == 0))
            exchange_resume(exchange);
    }
    pthread_mutex_unlock(&front->mutex);
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Sends a response, which it takes over. NULL: there was no memory; the connection ends. */
static enum MHD_Result send_response(struct exchange *exchange, unsigned int status,
                                     struct MHD_Response *response, const char *type)
{
    enum MHD_Result result;

    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_text(struct exchange *exchange, unsigned int status, char *text,
                                 size_t size, const char *type)
{
    struct MHD_Response *response;

    if (text == NULL)
        return MHD_NO;
    response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(text);
    lull_http_guard_note(exchange->connection, LULL_HTTP_ANSWERED);
    return send_response(exchange, status, response, type);
}

/* Sends a document, which it takes over. */
static enum MHD_Result send_json(struct exchange *exchange, unsigned int status, json_t *document)
{
    char *const text = json_dumps(document, 0);

    json_decref(document);
    return send_text(exchange, status, text, text != NULL ? strlen(text) : 0, "application/json");
}

static enum MHD_Result send_error(struct exchange *exchange, unsigned int status, const char *text)
{
    return send_json(exchange, status, lull_answer_error(status, text));
}

static struct lull_answer answer_of(const struct exchange *exchange)
{
    return (struct lull_answer){&exchange->completion, exchange->front->model, exchange->number,
                                exchange->created};
}

/* ---- streams ----------------------------------------------------------------------------- */

/* Finds a choice of which there is a token to send; as many as there are choices: none. */
static uint32_t find_unsent(const struct exchange *exchange)
{
    uint32_t choice = 0;

    while (choice < exchange->completion.choices &&
           exchange->sent[choice] == exchange->produced[choice])
        choice++;
    return choice;
}

static size_t write_token(struct exchange *exchange, uint32_t choice)
{
    const struct lull_answer answer = answer_of(exchange);
    const uint64_t role = UINT64_C(1) << choice;

    if (!exchange->completion.is_chat || (exchange->roles & role) != 0)
        return lull_answer_write_token(&answer, choice, exchange->sent[choice]++, exchange->chunk);
    exchange->roles |= role;
    return lull_answer_write_role(&answer, choice, exchange->chunk);
}

/* Writes the next chunk. False: there is none yet. The caller holds the mutex, and has sent the one
 * before. */
static bool write_next(struct exchange *exchange)
{
    const uint32_t choice = find_unsent(exchange);

    if (choice < exchange->completion.choices) {
        exchange->chunk_size = write_token(exchange, choice);
        return true;
    }
    if (exchange->running > 0 || exchange->has_done)
        return false;
    if (exchange->completion.includes_usage && !exchange->has_usage) {
        const struct lull_answer answer = answer_of(exchange);

        exchange->has_usage = true;
        exchange->chunk_size = lull_answer_write_usage(&answer, exchange->chunk);
        return true;
    }
    exchange->has_done = true;
    exchange->chunk_size =
        (size_t)snprintf(exchange->chunk, sizeof(exchange->chunk), "%s", "data: [DONE]\n\n");
    return true;
}

/* Copies what there is to send, at most size bytes. The caller holds the mutex. */
static size_t copy_chunks(struct exchange *exchange, char *buffer, size_t size)
{
    size_t copied = 0;

    while (copied < size) {
        size_t part;

        if (exchange->chunk_read == exchange->chunk_size) {
            if (!write_next(exchange))
                break;
            exchange->chunk_read = 0;
        }
        part = lull_min_size(exchange->chunk_size - exchange->chunk_read, size - copied);
        memcpy(buffer + copied, exchange->chunk + exchange->chunk_read, part);
        exchange->chunk_read += part;
        copied += part;
    }
    return copied;
}

/* The library calls this when it can send more. */
static ssize_t front_read_more(void *context, uint64_t position, char *buffer, size_t size)
{
    struct exchange *const exchange = context;
    struct lull_front *const front = exchange->front;
    ssize_t result;

    (void)position;
    pthread_mutex_lock(&front->mutex);
    result = (ssize_t)copy_chunks(exchange, buffer, size);
    if (exchange->is_gone || (result == 0 && front->is_ending))
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    else if (result == 0 && exchange->has_done)
        result = MHD_CONTENT_READER_END_OF_STREAM;
    if (result == 0) {
        exchange->is_suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&front->mutex);
    return result;
}

/* ---- completions ------------------------------------------------------------------------- */

/* Submits all choices; if the engine refuses one, none. */
static int exchange_submit(struct exchange *exchange)
{
    struct lull_front *const front = exchange->front;
    const struct lull_completion *const completion = &exchange->completion;
    int result = 0;

    pthread_mutex_lock(&front->mutex);
    exchange->is_submitted = true;
    for (; exchange->running < completion->choices && result == 0; exchange->running++)
        result = lull_model_server_submit(front->server, request_of(exchange, exchange->running),
                                          completion->prompt_tokens[exchange->running],
                                          completion->output_tokens);
    if (result < 0)
        exchange_cancel(exchange);
    pthread_mutex_unlock(&front->mutex);
    return result;
}

/* Answers a request that is not streamed, once it is finished. */
static enum MHD_Result send_whole(struct exchange *exchange)
{
    struct lull_front *const front = exchange->front;
    const struct lull_answer answer = answer_of(exchange);
    bool is_over;

    pthread_mutex_lock(&front->mutex);
    is_over = exchange->running == 0 || exchange->is_gone || front->is_ending;
    if (!is_over) {
        exchange->is_suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&front->mutex);
    if (!is_over)
        return MHD_YES;
    if (exchange->is_gone)
        return MHD_NO;
    if (exchange->running > 0)
        return send_error(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "The server is ending.");
    return send_json(exchange, MHD_HTTP_OK, lull_answer_whole(&answer));
}

static enum MHD_Result answer_completion(struct exchange *exchange, bool is_chat)
{
    struct lull_front *const front = exchange->front;
    const struct lull_completion_limits limits = {front->model,
                                                  lull_model_server_most_tokens(front->server)};
    struct lull_error err = {0};
    int result;

    if (exchange->is_submitted)
        return send_whole(exchange);
    if (exchange->is_too_large)
        return send_error(exchange, MHD_HTTP_CONTENT_TOO_LARGE, "The request has more than 4 MiB.");
    result =
        lull_completion_parse(exchange->body != NULL ? exchange->body : "", exchange->body_size,
                              is_chat, &limits, &exchange->completion, &err);
    if (result < 0)
        return send_error(exchange, result == -ENOENT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST,
                          err.text);
    if (exchange_submit(exchange) < 0)
        return send_error(exchange, MHD_HTTP_INTERNAL_SERVER_ERROR,
                          "The engine has no memory for the request.");
    lull_http_guard_note(exchange->connection, LULL_HTTP_STREAMING);
    if (!exchange->completion.is_stream)
        return send_whole(exchange);
    return send_response(
        exchange, MHD_HTTP_OK,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, front_read_more, exchange, NULL),
        "text/event-stream; charset=utf-8");
}

static enum MHD_Result answer_text_completion(struct exchange *exchange)
{
    return answer_completion(exchange, false);
}

static enum MHD_Result answer_chat_completion(struct exchange *exchange)
{
    return answer_completion(exchange, true);
}

/* ---- the other paths --------------------------------------------------------------------- */

static enum MHD_Result answer_models(struct exchange *exchange)
{
    struct lull_front *const front = exchange->front;

    return send_json(exchange, MHD_HTTP_OK,
                     lull_answer_models(front->model, lull_model_server_most_tokens(front->server),
                                        (time_t)front->start_s));
}

static enum MHD_Result answer_health(struct exchange *exchange)
{
    return send_text(exchange, MHD_HTTP_OK, strdup(""), 0, "text/plain");
}

static enum MHD_Result answer_version(struct exchange *exchange)
{
    return send_json(exchange, MHD_HTTP_OK, json_pack("{s:s}", "version", LULL_VERSION "+lull"));
}

/* A proxy in front of pools has no metrics of an engine. */
static enum MHD_Result refuse_metrics(struct exchange *exchange)
{
    char text[128];

    snprintf(text, sizeof(text), "Each pool has its own metrics: ports %u (prefill), %u (decode).",
             lull_front_port(exchange->front, 1), lull_front_port(exchange->front, 2));
    return send_error(exchange, MHD_HTTP_NOT_FOUND, text);
}

static enum MHD_Result answer_metrics(struct exchange *exchange)
{
    struct lull_front *const front = exchange->front;
    const bool has_pools = front->door_count > 1;
    const bool has_clients = exchange->door->server != front->server || !has_pools;
    struct lull_model_server_page page = {.model = front->model, .start_s = front->start_s};
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (has_pools && exchange->door == &front->doors[0])
        return refuse_metrics(exchange);
    out = open_memstream(&text, &size);
    if (out == NULL)
        return MHD_NO;
    lull_model_server_read(exchange->door->server, &page.reading);
    pthread_mutex_lock(&front->mutex);
    if (has_clients)
        page.stopped = front->stopped;
    pthread_mutex_unlock(&front->mutex);
    lull_model_server_page_write(out, &page);
    if (fclose(out) != 0) {
        free(text);
        return MHD_NO;
    }
    return send_text(exchange, MHD_HTTP_OK, text, size, "text/plain; version=0.0.4; charset=utf-8");
}

static const struct route {
    const char *method;
    const char *path;
    enum MHD_Result (*answer)(struct exchange *exchange);
} routes[] = {
    {MHD_HTTP_METHOD_POST, "/v1/completions", answer_text_completion},
    {MHD_HTTP_METHOD_POST, "/v1/chat/completions", answer_chat_completion},
    {MHD_HTTP_METHOD_GET, "/v1/models", answer_models},
    {MHD_HTTP_METHOD_GET, "/health", answer_health},
    {MHD_HTTP_METHOD_GET, "/version", answer_version},
    {MHD_HTTP_METHOD_GET, "/metrics", answer_metrics},
};

/* ---- what the library calls -------------------------------------------------------------- */

static enum MHD_Result front_answer(struct exchange *exchange, const char *path, const char *method)
{
    const char *const host =
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Host");

    if (!lull_serve_is_own_host(host))
        return send_error(exchange, MHD_HTTP_FORBIDDEN,
                          "Only localhost, 127.0.0.1 and [::1] are answered.");
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strcmp(path, routes[i].path) != 0)
            continue;
        if (exchange->door != &exchange->front->doors[0] &&
            strcmp(routes[i].method, MHD_HTTP_METHOD_GET) != 0)
            return send_error(exchange, MHD_HTTP_NOT_FOUND,
                              "A pool has metrics only. Send requests to the first port.");
        if (strcmp(method, routes[i].method) == 0)
            return routes[i].answer(exchange);
        return send_error(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed");
    }
    return send_error(exchange, MHD_HTTP_NOT_FOUND, "Not Found");
}

static void exchange_add_body(struct exchange *exchange, const char *upload, size_t size)
{
    const size_t wanted = exchange->body_size + size;

    if (exchange->is_too_large || wanted > LULL_FRONT_BODY_BYTES) {
        exchange->is_too_large = true;
        return;
    }
    if (wanted > exchange->body_room) {
        const size_t room = lull_max_size(wanted, lull_grow_room(exchange->body_room, BLOCK));
        char *const body = realloc(exchange->body, room);

        exchange->is_too_large = body == NULL;
        if (body == NULL)
            return;
        exchange->body = body;
        exchange->body_room = room;
    }
    memcpy(exchange->body + exchange->body_size, upload, size);
    exchange->body_size = wanted;
}

/* Called with the head of a request, with each part of its body, at its end, and once more for each
 * time that the connection was suspended. */
static enum MHD_Result front_handle(void *context, struct MHD_Connection *connection,
                                    const char *path, const char *method, const char *version,
                                    const char *upload, size_t *upload_size, void **state)
{
    struct exchange *exchange = *state;

    (void)version;
    if (exchange == NULL) {
        *state = exchange_open(context, connection);
        return *state != NULL ? MHD_YES : MHD_NO;
    }
    if (*upload_size > 0) {
        exchange_add_body(exchange, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    return front_answer(exchange, path, method);
}

static void front_complete(void *context, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)code;
    if (*state != NULL)
        exchange_close(*state);
    *state = NULL;
    lull_http_guard_note(connection, LULL_HTTP_ASKING);
}

/* ---- clients that leave ------------------------------------------------------------------ */

/* Cancels the requests whose clients have left. The caller holds the mutex. */
static void drop_departed(struct pollfd *polled, struct exchange **exchanges, nfds_t count)
{
    if (poll(polled, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++) {
        if (polled[i].revents == 0)
            continue;
        exchanges[i]->is_gone = true;
        exchange_cancel(exchanges[i]);
        exchange_resume(exchanges[i]);
    }
}

void lull_front_check_clients(struct lull_front *front)
{
    struct pollfd polled[POLLED];
    struct exchange *exchanges[POLLED];
    nfds_t count = 0;

    pthread_mutex_lock(&front->mutex);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct exchange *const exchange = front->exchanges[i];
        const union MHD_ConnectionInfo *fd;

        if (exchange == NULL || !exchange->is_suspended)
            continue;
        fd = MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (fd == NULL)
            continue;
        polled[count] = (struct pollfd){.fd = fd->connect_fd, .events = POLLRDHUP};
        exchanges[count++] = exchange;
        if (count < POLLED)
            continue;
        drop_departed(polled, exchanges, count);
        count = 0;
    }
    drop_departed(polled, exchanges, count);
    pthread_mutex_unlock(&front->mutex);
}

/* ---- start and stop ---------------------------------------------------------------------- */

struct lull_front *lull_front_create(const char *model)
{
    struct lull_front *const front = calloc(1, sizeof(*front));
    struct timespec now;

    if (front == NULL)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    front->model = model;
    front->start_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    pthread_mutex_init(&front->mutex, NULL);
    return front;
}

/* Listens for this many connections. */
static int front_open_door(struct lull_front *front, struct lull_model_server *server,
                           uint32_t connections, uint16_t port, struct lull_error *err)
{
    const struct lull_http_limits limits = {
        .most = connections,
        .most_of_address = connections,
        .request_ns = LULL_FRONT_REQUEST_S * LULL_NS_PER_S,
        .answer_ns = LULL_FRONT_ANSWER_S * LULL_NS_PER_S,
    };
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct front_door *const door = &front->doors[front->door_count];
    const int result = lull_http_guard_create(&limits, &door->guard, err);

    assert(front->door_count < DOORS);
    if (result < 0)
        return result;
    front->door_count++;
    door->front = front;
    door->server = server;
    errno = 0;
    door->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, port, NULL, NULL, front_handle,
        door, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
        lull_http_guard_room(door->guard), MHD_OPTION_NOTIFY_CONNECTION, lull_http_guard_notify,
        door->guard, MHD_OPTION_NOTIFY_COMPLETED, front_complete, front,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)LULL_FRONT_SILENCE_S, MHD_OPTION_END);
    if (door->daemon != NULL)
        return 0;
    return lull_error_set(err, errno != 0 ? -errno : -EIO,
                          "cannot listen on 127.0.0.1, port %u: %s; give another --port, or 0 for "
                          "any that is free",
                          port, errno != 0 ? strerror(errno) : "the HTTP library gives no reason");
}

int lull_front_open_pool(struct lull_front *front, struct lull_model_server *server, uint16_t port,
                         struct lull_error *err)
{
    return front_open_door(front, server, LULL_FRONT_POOL_CONNECTIONS, port, err);
}

int lull_front_open(struct lull_front *front, struct lull_model_server *server, uint16_t port,
                    struct lull_error *err)
{
    front->server = server;
    return front_open_door(front, server, LULL_FRONT_CONNECTIONS, port, err);
}

uint16_t lull_front_port(const struct lull_front *front, uint32_t door)
{
    const union MHD_DaemonInfo *const info =
        MHD_get_daemon_info(front->doors[door].daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info != NULL ? info->port : 0;
}

void lull_front_close(struct lull_front *front)
{
    if (front == NULL)
        return;
    pthread_mutex_lock(&front->mutex);
    front->is_ending = true;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (front->exchanges[i] != NULL && front->exchanges[i]->is_suspended)
            exchange_resume(front->exchanges[i]);
    pthread_mutex_unlock(&front->mutex);
    for (uint32_t i = 0; i < front->door_count; i++) {
        if (front->doors[i].daemon != NULL)
            MHD_stop_daemon(front->doors[i].daemon);
        lull_http_guard_destroy(front->doors[i].guard);
    }
    front->door_count = 0;
}

void lull_front_destroy(struct lull_front *front)
{
    if (front == NULL)
        return;
    pthread_mutex_destroy(&front->mutex);
    free(front);
}
