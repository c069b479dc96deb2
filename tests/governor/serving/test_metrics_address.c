/*
 * Addresses of metrics: those of users, and those guessed from command lines.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/serving/metrics_address.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        const char *url;
        const char *socket;
    } cases[] = {
        {"http://localhost:8000/metrics", "http://localhost:8000/metrics", ""},
        {"http://localhost:8000", "http://localhost:8000/metrics", ""},
        {"HTTP://localhost:8000/", "http://localhost:8000/metrics", ""},
        {"localhost:8000", "http://localhost:8000/metrics", ""},
        {"127.0.0.1:8000/prometheus/metrics", "http://127.0.0.1:8000/prometheus/metrics", ""},
        {"http://[::1]:8000/m?x=1", "http://[::1]:8000/m?x=1", ""},
        {"[::1]:8000", "http://[::1]:8000/metrics", ""},
        {"http://node", "http://node/metrics", ""},
        {"unix:/run/vllm.sock", "http://localhost/metrics", "/run/vllm.sock"},
        {"unix:/run/vllm.sock:/x", "http://localhost/x", "/run/vllm.sock"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_metrics_address address;
        struct lull_error err = {0};

        if (lull_metrics_address_parse(cases[i].text, &address, &err) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(address.url, cases[i].url);
        assert_string_equal(address.socket, cases[i].socket);
    }
}

static void test_refused_addresses(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *part;
    } cases[] = {
        {"https://node:8000/metrics", LULL_E_UNSUPPORTED, "local http port"},
        {"ftp://node:8000", -EINVAL, "only http is supported"},
        {"", -EINVAL, "no host"},
        {"localhost", -EINVAL, "neither http:// nor a port"},
        {"http://", -EINVAL, "no host"},
        {"http://:80", -EINVAL, "no host"},
        {"http://a:0", -EINVAL, "between 1 and 65535"},
        {"http://a:65536", -EINVAL, "between 1 and 65535"},
        {"http://a:80000000000", -EINVAL, "between 1 and 65535"},
        {"http://a:x", -EINVAL, "between 1 and 65535"},
        {"http://::1:80", -EINVAL, "needs brackets"},
        {"http://[::1", -EINVAL, "not closed"},
        {"http://me:secret@a:80", -EINVAL, "no user name"},
        {"http://a b", -EINVAL, "blanks"},
        {"http://a\n", -EINVAL, "blanks"},
        {"unix:vllm.sock", -EINVAL, "absolute path"},
        {"unix:/a:b", -EINVAL, "absolute path"},
        {"unix:", -EINVAL, "absolute path"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_metrics_address address;
        struct lull_error err = {0};

        assert_int_equal(lull_metrics_address_parse(cases[i].text, &address, &err), cases[i].code);
        if (strstr(err.text, cases[i].part) == NULL ||
            strstr(err.text, "http://localhost:8000/metrics") == NULL)
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

enum { WORDS = 16 };

static void test_guesses(void **state)
{
    static const struct {
        char *argv[WORDS];
        const char *url;
        const char *part; /* of what was assumed */
    } cases[] = {
        {{"vllm", "serve", "m"}, "http://localhost:8000/metrics", "default port"},
        {{"vllm", "serve", "m", "--port", "8001", "--host", "0.0.0.0"},
         "http://localhost:8001/metrics",
         "vLLM"},
        {{"vllm", "serve", "m", "--port=8001", "--host=10.0.0.1"},
         "http://10.0.0.1:8001/metrics",
         "vLLM"},
        {{"env", "A=1", "numactl", "-N0", "/usr/bin/vllm", "serve", "m", "--host", "::"},
         "http://localhost:8000/metrics",
         "vLLM"},
        {{"vllm", "serve", "m", "--host", "::1"}, "http://[::1]:8000/metrics", "vLLM"},
        {{"vllm", "serve", "m", "--uds", "/run/v.sock"}, "unix:/run/v.sock:/metrics", "vLLM"},
        {{"python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "9"},
         "http://localhost:9/metrics",
         "vLLM"},
        {{"python", "-m", "sglang.launch_server", "--model-path", "m", "--port", "30001"},
         "http://localhost:30001/metrics",
         "needs the option --enable-metrics"},
        {{"python", "-m", "sglang.launch_server", "--enable-metrics"},
         "http://localhost:30000/metrics",
         "default port"},
        {{"sglang", "serve", "--model-path", "m", "--enable-metrics"},
         "http://localhost:30000/metrics",
         "SGLang"},
        {{"trtllm-serve", "m", "--port", "8002"},
         "http://localhost:8002/prometheus/metrics",
         "TensorRT-LLM"},
        {{"text-generation-launcher", "-p", "8080"}, "http://localhost:8080/metrics", "TGI"},
        {{"text-generation-launcher"}, "http://localhost:3000/metrics", "TGI"},
        {{"llama-server", "-m", "x.gguf", "--port", "81", "--metrics"},
         "http://localhost:81/metrics",
         "llama.cpp"},
        {{"./llama-server", "-m", "x.gguf"}, "http://localhost:8080/metrics", "--metrics"},
        {{"llama-server", "--host", "/run/l.sock", "--metrics"},
         "unix:/run/l.sock:/metrics",
         "llama.cpp"},
        {{"python", "-m", "dynamo.frontend", "--http-port", "8100"},
         "http://localhost:8100/metrics",
         "Dynamo"},
        {{"bin/lull", "play", "--server", "m", "-p", "8001"},
         "http://localhost:8001/metrics",
         "lull play"},
        {{"lull", "play", "--server=m"}, "http://localhost:8000/metrics", "default port"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char url[LULL_METRICS_URL_BYTES];
        char assumed[LULL_METRICS_ASSUMED_BYTES];
        struct lull_metrics_address address;
        struct lull_error err = {0};

        if (lull_metrics_address_guess(cases[i].argv, url, assumed, &err) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(url, cases[i].url);
        if (strstr(assumed, cases[i].part) == NULL || strstr(assumed, url) == NULL ||
            strstr(assumed, "--metrics gives another address") == NULL)
            fail_msg("%s", assumed);
        assert_int_equal(lull_metrics_address_parse(url, &address, &err), 0);
    }
}

static void test_no_guess(void **state)
{
    static const struct {
        char *argv[WORDS];
        int code;
        const char *part;
    } cases[] = {
        {{"python", "train.py"}, -ENOENT, "--metrics URL"},
        {{"vllm", "bench", "m"}, -ENOENT, "--metrics URL"},
        {{"lull", "play", "--preset", "m"}, -ENOENT, "--metrics URL"},
        {{"lull", "play", "--server", "m", "--port", "0"}, LULL_E_UNSUPPORTED, "cannot be known"},
        {{NULL}, -ENOENT, "--metrics URL"},
        {{"vllm", "serve", "m", "--ssl-keyfile", "k"}, LULL_E_UNSUPPORTED, "https"},
        {{"vllm", "serve", "m", "--port", "0"}, LULL_E_UNSUPPORTED, "cannot be known"},
        {{"vllm", "serve", "m", "--port", "$PORT"}, LULL_E_UNSUPPORTED, "cannot be known"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char url[LULL_METRICS_URL_BYTES];
        char assumed[LULL_METRICS_ASSUMED_BYTES];
        struct lull_error err = {0};

        assert_int_equal(lull_metrics_address_guess(cases[i].argv, url, assumed, &err),
                         cases[i].code);
        if (strstr(err.text, cases[i].part) == NULL)
            fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_refused_addresses),
        cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_no_guess),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
