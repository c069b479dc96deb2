/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pci.h"

#include <stdlib.h>
#include <string.h>

static bool parse_part(const char **text, char end, uint64_t most, uint64_t *value_out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const size_t length = strspn(*text, digits);

    if (length == 0 || length > 8 || (*text)[length] != end)
        return false;
    *value_out = strtoull(*text, NULL, 16);
    *text += length + (end != '\0');
    return *value_out <= most;
}

bool lull_pci_parse(const char *text, uint64_t *address_out)
{
    uint64_t domain, bus, device, function;

    if (!parse_part(&text, ':', UINT32_MAX, &domain) || !parse_part(&text, ':', 0xff, &bus) ||
        !parse_part(&text, '.', 0x1f, &device) || !parse_part(&text, '\0', 7, &function))
        return false;
    *address_out = domain << 24 | bus << 16 | device << 8 | function;
    return true;
}
