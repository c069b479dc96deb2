/* The address of a node from a Slurm that knows it, does not know it, or
 * hangs. If Slurm hangs, the lookup is abandoned and no child process
 * remains. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <slurm/slurm.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/slurm/node_address.h"

int slurm_conf_get_addr(const char *node, struct sockaddr_storage *address, uint16_t flags);

/* In the place of Slurm's. */
int slurm_conf_get_addr(const char *node, struct sockaddr_storage *address, uint16_t flags)
{
    struct sockaddr_in ip = {.sin_family = AF_INET, .sin_port = htons(6818)};

    if (strcmp(node, "hanging") == 0)
        for (;;)
            pause();
    if (strcmp(node, "ipv6") == 0)
        ip.sin_family = AF_INET6;
    inet_pton(AF_INET, "192.168.255.254", &ip.sin_addr);
    memcpy(address, &ip, sizeof(ip));
    return strcmp(node, "unknown") == 0 || flags != 0 ? -1 : 0;
}

static void test_addresses(void **state)
{
    char address[LULL_NODE_ADDRESS_TEXT];
    bool is_found = false;

    (void)state;
    if (SLURM_VERSION_NUMBER >> 8 != (22 << 8) + 5) {
        print_message("skipped: addresses of nodes were checked with Slurm 22.05 alone\n");
        assert_false(lull_node_address_find("known", address));
        return;
    }
    /* A host that is busy may give the child no time within a second. */
    for (int i = 0; i < 20 && !is_found; i++)
        is_found = lull_node_address_find("known", address);
    assert_true(is_found);
    assert_string_equal(address, "192.168.255.254");
    assert_false(lull_node_address_find("unknown", address));
    assert_false(lull_node_address_find("ipv6", address));
    assert_false(lull_node_address_find("hanging", address));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
