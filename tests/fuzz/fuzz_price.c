/*
 * lull.conf: refused with its line, or prices that are numbers and a currency that fits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "governor/report/energy_price.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_energy_price price = {.per_kwh = -1.0, .co2_g_per_kwh = -1.0};
    struct lull_error err = {0};

    if (lull_energy_price_read("lull.conf", (const char *)data, size, &price, &err) < 0) {
        require(err.code == -EINVAL && strncmp(err.text, "lull.conf:", 10) == 0);
        require(price.per_kwh < 0.0 && price.co2_g_per_kwh < 0.0);
        return 0;
    }
    require(!price.has_money || (isfinite(price.per_kwh) && price.per_kwh >= 0.0));
    require(!price.has_co2 || (isfinite(price.co2_g_per_kwh) && price.co2_g_per_kwh >= 0.0));
    require(memchr(price.currency, '\0', sizeof(price.currency)) != NULL);
    for (const char *c = price.currency; *c != '\0'; c++)
        require((unsigned char)*c >= ' ');
    return 0;
}
