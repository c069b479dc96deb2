/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/power_round.h"

bool lull_power_round_take(struct lull_power_round *round, uint32_t gpu, double power_w)
{
    if (round->read >> gpu != 0)
        *round = (struct lull_power_round){.all = round->read};
    round->read |= UINT64_C(1) << gpu;
    round->sum_w += power_w;
    return round->read == round->all;
}
