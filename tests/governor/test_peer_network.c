/*
 * The network between governors: every message reaches all other nodes exactly once; peers without
 * the job key or without encryption are refused; invalid messages have no effect.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "base/clock.h"
#include "governor/peers/job_key.h"
#include "governor/peers/peer_network.h"
#include "governor/peers/peers.h"

enum { ENDPOINT_BYTES = 64, NODES = 3, PATIENCE_MS = 5000 };

struct fixture {
    char directory[32];
    char key_path[64];
    char endpoint[ENDPOINT_BYTES];
    struct lull_job_key key;
    struct lull_peer_network *nodes[NODES];
};

/* A port that is free now. */
static void find_endpoint(char endpoint[ENDPOINT_BYTES])
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_PAIR);
    size_t size = ENDPOINT_BYTES;

    assert_int_equal(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
    zmq_close(socket);
    zmq_ctx_term(context);
}

static void open_node(struct fixture *fixture, uint32_t node, const struct lull_job_key *key)
{
    const struct lull_nodes nodes = {node, NODES};
    struct lull_error err = {0};

    if (lull_peer_network_open(fixture->endpoint, &nodes, key, &fixture->nodes[node], &err) < 0)
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct lull_error err = {0};

    assert_non_null(fixture);
    snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/lull-together-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    snprintf(fixture->key_path, sizeof(fixture->key_path), "%s/key", fixture->directory);
    assert_int_equal(lull_job_key_read_or_make(fixture->key_path, &fixture->key, &err), 0);
    find_endpoint(fixture->endpoint);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t i = 0; i < NODES; i++)
        lull_peer_network_close(fixture->nodes[i]);
    unlink(fixture->key_path);
    rmdir(fixture->directory);
    free(fixture);
    return 0;
}

static struct lull_proposal proposal_of(uint32_t node, uint64_t sequence)
{
    return (struct lull_proposal){
        .node = node,
        .nodes = NODES,
        .incarnation = 5,
        .sequence = sequence,
        .structure = 9,
        .entry_count = 1,
        .entries = {{.signature = 3, .kept_mhz = 700, .settled = 1}},
    };
}

static void pause_ms(int64_t ms)
{
    lull_sleep_until_ns(lull_now_ns() + ms * LULL_NS_PER_MS);
}

/* Every node says something again and again until each has heard both others. */
static bool talk(struct fixture *fixture, int64_t patience_ms)
{
    const int64_t end_ns = lull_now_ns() + patience_ms * LULL_NS_PER_MS;
    bool heard[NODES][NODES] = {{false}};
    uint32_t pairs = 0;

    for (uint64_t sequence = 1; lull_now_ns() < end_ns && pairs < NODES * (NODES - 1); sequence++) {
        for (uint32_t i = 0; i < NODES; i++) {
            struct lull_proposal proposal = proposal_of(i, sequence);

            lull_peer_network_send(fixture->nodes[i], &proposal);
            while (lull_peer_network_receive(fixture->nodes[i], &proposal)) {
                assert_int_not_equal(proposal.node, i);
                assert_int_equal(proposal.entries[0].kept_mhz, 700);
                pairs += !heard[i][proposal.node];
                heard[i][proposal.node] = true;
            }
        }
        pause_ms(20);
    }
    return pairs == NODES * (NODES - 1);
}

static void test_all_hear_all_others(void **state)
{
    struct fixture *fixture = *state;

    open_node(fixture, 1, &fixture->key); /* before the one that listens */
    open_node(fixture, 0, &fixture->key);
    open_node(fixture, 2, &fixture->key);
    assert_true(talk(fixture, PATIENCE_MS));
}

static void test_a_node_that_comes_back_is_heard_again(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t i = 0; i < NODES; i++)
        open_node(fixture, i, &fixture->key);
    assert_true(talk(fixture, PATIENCE_MS));
    for (uint32_t i = 0; i < 2; i++) { /* the first time the one that listens */
        lull_peer_network_close(fixture->nodes[i]);
        open_node(fixture, i, &fixture->key);
        assert_true(talk(fixture, 2 * PATIENCE_MS));
    }
}

/* A stranger's socket: with the server's key, but a key pair of its own; or without any. */
static void knock(const struct fixture *fixture, bool encrypted, const void *message, size_t size)
{
    char public_key[41];
    char secret_key[41];
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    const int linger = 0;

    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    if (encrypted) {
        zmq_curve_keypair(public_key, secret_key);
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, fixture->key.public_key, 40);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, 40);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, 40);
    }
    assert_int_equal(zmq_connect(socket, fixture->endpoint), 0);
    zmq_send(socket, message, size, ZMQ_DONTWAIT);
    pause_ms(500);
    zmq_close(socket);
    zmq_ctx_term(context);
}

static void test_who_has_not_the_key_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct lull_peer_network_counts counts;

    open_node(fixture, 0, &fixture->key);
    knock(fixture, true, "anything", 8);
    lull_peer_network_counts(fixture->nodes[0], &counts);
    assert_true(counts.refused >= 1);
    assert_int_equal(counts.received + counts.malformed, 0);
    knock(fixture, false, "anything", 8);
    lull_peer_network_counts(fixture->nodes[0], &counts);
    assert_int_equal(counts.received + counts.malformed, 0);
}

static void test_another_jobs_node_hears_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct lull_job_key other;
    struct lull_error err = {0};
    char path[80];

    snprintf(path, sizeof(path), "%s/other", fixture->directory);
    assert_int_equal(lull_job_key_read_or_make(path, &other, &err), 0);
    unlink(path);
    assert_string_not_equal(other.public_key, fixture->key.public_key);
    open_node(fixture, 0, &fixture->key);
    open_node(fixture, 1, &fixture->key);
    open_node(fixture, 2, &other);
    assert_false(talk(fixture, 1500));
    for (uint32_t i = 0; i < NODES; i++) {
        struct lull_peer_network_counts counts;

        lull_peer_network_counts(fixture->nodes[i], &counts);
        assert_true(i == 2 ? counts.received == 0 : counts.received > 0);
    }
}

/* From a node with the key, but not a proposal. */
static void test_what_is_no_proposal_is_counted(void **state)
{
    struct fixture *fixture = *state;
    struct lull_peer_network_counts counts = {0};
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    const int linger = 0;

    open_node(fixture, 0, &fixture->key);
    open_node(fixture, 1, &fixture->key);
    open_node(fixture, 2, &fixture->key);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, fixture->key.public_key, 40);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, fixture->key.public_key, 40);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, fixture->key.secret_key, 40);
    assert_int_equal(zmq_connect(socket, fixture->endpoint), 0);
    zmq_send(socket, "junk", 4, 0);
    zmq_send(socket, "", 0, 0);
    zmq_send(socket, "two", 3, ZMQ_SNDMORE);
    zmq_send(socket, "frames", 6, 0);
    for (uint32_t i = 0; i < 100 && counts.malformed < 3; i++) {
        pause_ms(20);
        lull_peer_network_counts(fixture->nodes[0], &counts);
    }
    assert_int_equal(counts.malformed, 3);
    assert_true(talk(fixture, PATIENCE_MS));
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* Nobody is there: saying costs nothing and never waits. */
static void test_nobody_there_never_waits(void **state)
{
    struct fixture *fixture = *state;
    struct lull_proposal proposal = proposal_of(1, 1);
    int64_t begin_ns;

    open_node(fixture, 1, &fixture->key);
    begin_ns = lull_now_ns();
    for (uint32_t i = 0; i < 100000; i++)
        lull_peer_network_send(fixture->nodes[1], &proposal);
    assert_false(lull_peer_network_receive(fixture->nodes[1], &proposal));
    print_message("%.0f ns per word\n", (double)(lull_now_ns() - begin_ns) / 100000.0);
    begin_ns = lull_now_ns();
    lull_peer_network_close(fixture->nodes[1]);
    fixture->nodes[1] = NULL;
    assert_true(lull_now_ns() - begin_ns < 2000 * LULL_NS_PER_MS);
}

static void test_a_key_that_others_can_read_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct lull_job_key key;
    struct lull_error err = {0};
    struct stat status;
    FILE *file;

    assert_int_equal(stat(fixture->key_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    chmod(fixture->key_path, 0640);
    assert_int_equal(lull_job_key_read(fixture->key_path, &key, &err), -EPERM);
    assert_int_equal(lull_job_key_read_or_make(fixture->key_path, &key, &err), -EPERM);
    chmod(fixture->key_path, 0600);
    assert_int_equal(lull_job_key_read(fixture->key_path, &key, &err), 0);
    for (uint32_t length = 0; length < 3; length++) {
        file = fopen(fixture->key_path, "w");
        assert_non_null(file);
        for (uint32_t i = 0; i < 82 * length; i++)
            fputc('x', file);
        fclose(file);
        assert_int_equal(lull_job_key_read(fixture->key_path, &key, &err), LULL_E_FORMAT);
        assert_non_null(strstr(err.text, fixture->key_path));
    }
    unlink(fixture->key_path);
    assert_int_equal(lull_job_key_read(fixture->key_path, &key, &err), -ENOENT);
}

/* The secret half of a pair that ZeroMQ has made gives the pair; anything else is refused, and not
 * repeated in what is said. */
static void test_a_key_is_derived_from_its_secret(void **state)
{
    static const char *const bad[] = {"", "12", "g"};
    char secret[LULL_JOB_SECRET_DIGITS + 2];
    uint8_t bytes[32];
    struct lull_job_key key;
    struct lull_error err = {0};

    (void)state;
    for (int round = 0; round < 20; round++) {
        char public_key[41], secret_key[41];

        assert_int_equal(zmq_curve_keypair(public_key, secret_key), 0);
        assert_non_null(zmq_z85_decode(bytes, secret_key));
        for (size_t i = 0; i < sizeof(bytes); i++)
            snprintf(secret + 2 * i, 3, round % 2 == 0 ? "%02x" : "%02X", bytes[i]);
        assert_int_equal(lull_job_key_derive(secret, &key, &err), 0);
        assert_string_equal(key.public_key, public_key);
        assert_string_equal(key.secret_key, secret_key);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(lull_job_key_derive(bad[i], &key, &err), LULL_E_FORMAT);
    memcpy(secret + LULL_JOB_SECRET_DIGITS, "0", 2);
    assert_int_equal(lull_job_key_derive(secret, &key, &err), LULL_E_FORMAT);
    secret[LULL_JOB_SECRET_DIGITS] = '\0';
    secret[9] = '-';
    assert_int_equal(lull_job_key_derive(secret, &key, &err), LULL_E_FORMAT);
    assert_null(strstr(err.text, secret));
}

static void test_nodes_are_found(void **state)
{
    static const char *const variables[] = {"SLURM_NODEID",
                                            "SLURM_NNODES",
                                            "SLURM_STEP_NUM_NODES",
                                            "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE",
                                            "PMI_RANK",
                                            "PMI_SIZE",
                                            "PMIX_RANK",
                                            "PMIX_SIZE"};
    static const char *const bad[] = {"", "/", "1", "2/2", "-1/2", "0/0", "0/65", "0/2/3", "a/2"};
    struct lull_nodes nodes;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_nodes_parse("1/3", &nodes), 0);
    assert_true(nodes.self == 1 && nodes.count == 3);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(lull_nodes_parse(bad[i], &nodes) < 0);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    assert_int_equal(lull_nodes_find(&nodes, &err), -ENOENT);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "4", 1);
    assert_int_equal(lull_nodes_find(&nodes, &err), 0);
    assert_true(nodes.self == 1 && nodes.count == 4);
    setenv("SLURM_NODEID", "0", 1);
    setenv("SLURM_NNODES", "2", 1);
    assert_int_equal(lull_nodes_find(&nodes, &err), 0);
    assert_true(nodes.self == 0 && nodes.count == 2);
}

static void test_a_job_has_its_own_seed_on_all_nodes(void **state)
{
    uint64_t seed;

    (void)state;
    unsetenv("SLURM_JOB_ID");
    assert_int_equal(lull_nodes_seed(), 0);
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    seed = lull_nodes_seed();
    assert_true(seed > 0);
    setenv("SLURM_NODEID", "1", 1);
    assert_int_equal(lull_nodes_seed(), seed);
    setenv("SLURM_STEP_ID", "1", 1);
    assert_int_not_equal(lull_nodes_seed(), seed);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_hear_all_others),
        TEST(test_a_node_that_comes_back_is_heard_again),
        TEST(test_who_has_not_the_key_is_refused),
        TEST(test_another_jobs_node_hears_nothing),
        TEST(test_what_is_no_proposal_is_counted),
        TEST(test_nobody_there_never_waits),
        TEST(test_a_key_that_others_can_read_is_refused),
        cmocka_unit_test(test_a_key_is_derived_from_its_secret),
        cmocka_unit_test(test_nodes_are_found),
        cmocka_unit_test(test_a_job_has_its_own_seed_on_all_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
