/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/together.h"

#include <ctype.h>
#include <string.h>
#include <sys/random.h>

/* Jobs of consecutive numbers meet on a node more often than many steps of one job do. */
enum { PORTS_BETWEEN_STEPS = 97 };

static const char digits[] = "0123456789abcdef";

bool lull_together_draw_key(char key_out[LULL_TOGETHER_KEY_TEXT])
{
    unsigned char bytes[LULL_TOGETHER_KEY_BYTES];

    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        key_out[2 * i] = digits[bytes[i] >> 4];
        key_out[2 * i + 1] = digits[bytes[i] & 15];
    }
    key_out[LULL_TOGETHER_KEY_TEXT - 1] = '\0';
    return true;
}

bool lull_together_is_key(const char *text)
{
    return strlen(text) == LULL_TOGETHER_KEY_TEXT - 1 &&
           strspn(text, digits) == LULL_TOGETHER_KEY_TEXT - 1;
}

/* Of [1-3,7] the first number counts, as it is written: it may have zeros before it. */
bool lull_together_first_node(const char *nodes, char name_out[LULL_TOGETHER_NAME])
{
    size_t size = 0;

    for (const char *c = nodes; *c != '\0' && *c != ','; c++) {
        if (*c == '[') {
            const size_t length = strcspn(c + 1, "-,]");

            if (length == 0 || length >= LULL_TOGETHER_NAME - size ||
                strspn(c + 1, "0123456789") < length || strchr(c, ']') == NULL)
                return false;
            memcpy(name_out + size, c + 1, length);
            size += length;
            c = strchr(c, ']');
        } else if (size + 1 < LULL_TOGETHER_NAME &&
                   (isalnum((unsigned char)*c) || strchr("._-", *c) != NULL)) {
            name_out[size++] = *c;
        } else {
            return false;
        }
    }
    name_out[size] = '\0';
    return size > 0;
}

/* Reads a port at the start of a text, and moves it on. Returns 0 if there is none. */
static uint16_t read_port(const char **text)
{
    uint32_t port = 0;

    for (; isdigit((unsigned char)**text) && port <= UINT16_MAX; (*text)++)
        port = 10 * port + (uint32_t)(**text - '0');
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

bool lull_together_take_ports(const char *text, struct lull_together_ports *ports)
{
    struct lull_together_ports taken;

    if (strcmp(text, "off") == 0) {
        *ports = (struct lull_together_ports){0};
        return true;
    }
    taken.first = read_port(&text);
    if (*text++ != '-')
        return false;
    taken.last = read_port(&text);
    if (*text != '\0' || taken.first == 0 || taken.last < taken.first)
        return false;
    *ports = taken;
    return true;
}

uint16_t lull_together_port(const struct lull_together_ports *ports, uint32_t job, uint32_t step)
{
    const uint32_t count = (uint32_t)ports->last - ports->first + 1;

    if (ports->first == 0)
        return 0;
    return (uint16_t)(ports->first + (job + (uint64_t)PORTS_BETWEEN_STEPS * step) % count);
}
