/*
 * libcurl is declared from its documentation (libcurl-easy(3)); its ABI is that of libcurl.so.4,
 * whose numbers of options do not change. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/serving/metrics_http.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "trace/prometheus.h"

/* Options of curl_easy_setopt: LONG, OBJECT and FUNCTION have arguments of those types. */
enum {
    LONG = 0,
    OBJECT = 10000,
    FUNCTION = 20000,
    WRITEDATA = OBJECT + 1,
    URL = OBJECT + 2,
    PROXY = OBJECT + 4,
    ERRORBUFFER = OBJECT + 10,
    WRITEFUNCTION = FUNCTION + 11,
    USERAGENT = OBJECT + 18,
    HTTPHEADER = OBJECT + 23,
    NOSIGNAL = LONG + 99,
    SOCKOPTFUNCTION = FUNCTION + 148,
    TIMEOUT_MS = LONG + 155,
    UNIX_SOCKET_PATH = OBJECT + 231,
};

/* Fields of curl_easy_getinfo. */
enum { RESPONSE_CODE = 0x200002, REDIRECT_URL = 0x10001f };

/* Results of curl_easy_perform. */
enum {
    COULDNT_RESOLVE_HOST = 6,
    COULDNT_CONNECT = 7,
    PARTIAL_FILE = 18,
    WRITE_ERROR = 23,
    OPERATION_TIMEDOUT = 28,
    GOT_NOTHING = 52,
    RECV_ERROR = 56,
};

enum { ERROR_BYTES = 256 /* of ERRORBUFFER */, FIRST_BYTES = 1 << 16, SHOWN_BYTES = 180 };

struct curl_library {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*setopt)(void *easy, int option, ...);
    int (*perform)(void *easy);
    int (*getinfo)(void *easy, int field, ...);
    void (*cleanup)(void *easy);
    void *(*list_append)(void *list, const char *text);
    void (*list_free)(void *list);
};

struct lull_metrics_http {
    struct curl_library curl;
    void *easy;
    void *headers;
    char *page;
    size_t size;
    size_t room;
    int64_t time_ns; /* when the first byte came; 0: none did */
    char error[ERROR_BYTES];
};

/* ---- the library --------------------------------------------------------------------------- */

static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *const library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

        if (library != NULL)
            return library;
    }
    return NULL;
}

static int curl_load(struct curl_library *curl, struct lull_error *err)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"curl_global_init", &curl->global_init},  {"curl_easy_init", &curl->easy_init},
        {"curl_easy_setopt", &curl->setopt},       {"curl_easy_perform", &curl->perform},
        {"curl_easy_getinfo", &curl->getinfo},     {"curl_easy_cleanup", &curl->cleanup},
        {"curl_slist_append", &curl->list_append}, {"curl_slist_free_all", &curl->list_free},
    };
    void *const library = open_library();

    if (library == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "metrics are read with libcurl, which is not installed here; install "
                              "it (Debian: libcurl4)");
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *const symbol = dlsym(library, functions[i].name);

        if (symbol == NULL)
            return lull_error_set(err, LULL_E_UNSUPPORTED, "libcurl is too old: %s is missing",
                                  functions[i].name);
        memcpy(functions[i].place, &symbol, sizeof(symbol));
    }
    return 0;
}

/* ---- what libcurl calls -------------------------------------------------------------------- */

/* Takes a part of the page. Returns how much it took; less ends the transfer. */
static size_t http_take(char *bytes, size_t unit, size_t count, void *context)
{
    struct lull_metrics_http *const http = context;
    const size_t size = unit * count;

    if (http->time_ns == 0)
        http->time_ns = lull_now_ns();
    if (size > LULL_PROMETHEUS_MAX_BYTES || http->size > LULL_PROMETHEUS_MAX_BYTES - size)
        return 0;
    while (http->room < http->size + size) {
        const size_t room = http->room > 0 ? 2 * http->room : FIRST_BYTES;
        char *const page = realloc(http->page, room);

        if (page == NULL)
            return 0;
        http->page = page;
        http->room = room;
    }
    memcpy(http->page + http->size, bytes, size);
    http->size += size;
    return size;
}

/* Programs that this process starts do not inherit the connection. */
static int http_keep_socket(void *unused, int fd, int purpose)
{
    (void)unused;
    (void)purpose;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

/* ---- pages --------------------------------------------------------------------------------- */

static int fail_transfer(const struct lull_metrics_http *http, int result, int64_t limit_ns,
                         struct lull_error *err)
{
    char shown[SHOWN_BYTES];

    switch (result) {
    case COULDNT_RESOLVE_HOST:
        return lull_error_set(err, -EHOSTUNREACH, "the host is unknown; is the address right?");
    case COULDNT_CONNECT:
        return lull_error_set(err, -ECONNREFUSED,
                              "no server answers there; is it running, and is the port right?");
    case OPERATION_TIMEDOUT:
        return lull_error_set(err, -ETIMEDOUT, "no page within %.0f ms", lull_ms_from_ns(limit_ns));
    case PARTIAL_FILE:
    case GOT_NOTHING:
    case RECV_ERROR:
        return lull_error_set(err, -EPIPE, "the answer ended early");
    case WRITE_ERROR:
        return lull_error_set(err, -EFBIG, "the page is larger than %d MiB",
                              LULL_PROMETHEUS_MAX_BYTES >> 20);
    default:
        lull_printable_write(http->error, shown, sizeof(shown));
        return lull_error_set(err, -EIO, "%s", shown);
    }
}

static int check_status(const struct lull_metrics_http *http, struct lull_error *err)
{
    char shown[SHOWN_BYTES];
    const char *target = NULL;
    long status = 0;

    http->curl.getinfo(http->easy, RESPONSE_CODE, &status);
    if (status == 200)
        return 0;
    if (status == 401 || status == 403)
        return lull_error_set(err, -EPROTO,
                              "the server refuses (HTTP %ld): Lull sends no credentials; give an "
                              "address that needs none",
                              status);
    if (status == 404)
        return lull_error_set(err, -EPROTO,
                              "there is no page there (HTTP 404): SGLang needs --enable-metrics, "
                              "llama-server --metrics; trtllm-serve has /prometheus/metrics");
    if (status == 503)
        return lull_error_set(err, -EAGAIN, "the server answers HTTP 503");
    if (status < 300 || status > 399)
        return lull_error_set(err, -EPROTO, "the server answers HTTP %ld", status);
    http->curl.getinfo(http->easy, REDIRECT_URL, &target);
    lull_printable_write(target != NULL ? target : "itself", shown, sizeof(shown));
    return lull_error_set(err, -EPROTO, "the page is elsewhere (HTTP %ld): give the address %s",
                          status, shown);
}

int lull_metrics_http_get(struct lull_metrics_http *http, int64_t limit_ns,
                          struct lull_metrics_answer *answer_out, struct lull_error *err)
{
    int result;

    http->size = 0;
    http->time_ns = 0;
    http->error[0] = '\0';
    http->curl.setopt(http->easy, TIMEOUT_MS, (long)(limit_ns / LULL_NS_PER_MS));
    result = http->curl.perform(http->easy);
    if (result != 0)
        return fail_transfer(http, result, limit_ns, err);
    result = check_status(http, err);
    if (result < 0)
        return result;
    *answer_out = (struct lull_metrics_answer){http->page, http->size,
                                               http->time_ns != 0 ? http->time_ns : lull_now_ns()};
    return 0;
}

int lull_metrics_http_open(const struct lull_metrics_address *address,
                           struct lull_metrics_http **http_out, struct lull_error *err)
{
    struct lull_metrics_http *http = calloc(1, sizeof(*http));
    int result;

    if (http == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to read metrics");
    result = curl_load(&http->curl, err);
    if (result < 0) {
        free(http);
        return result;
    }
    http->curl.global_init(0); /* without encryption */
    http->easy = http->curl.easy_init();
    http->headers = http->curl.list_append(NULL, "Accept: text/plain;version=0.0.4");
    if (http->easy == NULL || http->headers == NULL) {
        lull_metrics_http_close(http);
        return lull_error_set(err, -ENOMEM, "no memory to read metrics");
    }
    http->curl.setopt(http->easy, URL, address->url);
    if (address->socket[0] != '\0')
        http->curl.setopt(http->easy, UNIX_SOCKET_PATH, address->socket);
    http->curl.setopt(http->easy, PROXY, ""); /* none, whatever the environment says */
    http->curl.setopt(http->easy, NOSIGNAL, 1L);
    http->curl.setopt(http->easy, USERAGENT, "lull");
    http->curl.setopt(http->easy, HTTPHEADER, http->headers);
    http->curl.setopt(http->easy, ERRORBUFFER, http->error);
    http->curl.setopt(http->easy, WRITEFUNCTION, http_take);
    http->curl.setopt(http->easy, WRITEDATA, http);
    http->curl.setopt(http->easy, SOCKOPTFUNCTION, http_keep_socket);
    *http_out = http;
    return 0;
}

void lull_metrics_http_close(struct lull_metrics_http *http)
{
    if (http == NULL)
        return;
    if (http->easy != NULL)
        http->curl.cleanup(http->easy);
    http->curl.list_free(http->headers);
    free(http->page);
    free(http);
}
