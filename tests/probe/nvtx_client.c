/*
 * Announces ranges as programs do, and prints NVTX's results.
 * Uses NVIDIA's headers if they are installed. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#ifdef LULL_TESTS_NVTX3
#include <nvtx3/nvToolsExt.h>
#else
#include "nvtx_stub.h"
#endif

static nvtxEventAttributes_t named(const char *name)
{
    nvtxEventAttributes_t what = {0};

    what.version = NVTX_VERSION;
    what.size = (uint16_t)NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    what.messageType = NVTX_MESSAGE_TYPE_ASCII;
    what.message.ascii = name;
    return what;
}

static void in_default_domain(void)
{
    const nvtxEventAttributes_t backward = named("backward-compute");

    printf("%d ", nvtxRangePushA("train_batch"));             /* says nothing */
    printf("%d ", nvtxRangePushA("DeepSpeedEngine.forward")); /* forward */
    printf("%d ", nvtxRangePushA("forward"));                 /* within it */
    printf("%d ", nvtxRangePop());
    printf("%d ", nvtxRangePop()); /* its end */
    printf("%d ", nvtxRangePushEx(&backward));
    printf("%d ", nvtxRangePop());
    printf("%d\n", nvtxRangePop());
}

static void in_own_domain(void)
{
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("trainer");
    nvtxEventAttributes_t registered = named(NULL);
    const nvtxEventAttributes_t forward = named("Forward 3");

    registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    registered.message.registered = nvtxDomainRegisterStringA(domain, "backward_step");
    nvtxDomainRangePushEx(domain, &registered);
    nvtxRangePushA("elsewhere");
    nvtxDomainRangePop(domain); /* the domain's own */
    nvtxRangePop();
    nvtxDomainRangeEnd(domain, nvtxDomainRangeStartEx(domain, &forward));
}

int main(void)
{
    nvtxRangeId_t started;

    in_default_domain();
    in_own_domain();
    started = nvtxRangeStartA("fwd");
    nvtxRangeEnd(nvtxRangeStartA("optimizer"));
    nvtxRangeEnd(started);
    nvtxRangePop(); /* nothing is open */
    return 0;
}
