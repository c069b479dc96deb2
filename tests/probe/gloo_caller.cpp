/*
 * Calls everything that the gloo shim wraps, as PyTorch would: collectives on threads beside the
 * main one, one of each failing; waits on the main thread. A library, so that it can be loaded
 * the way Python loads its modules. SPDX-License-Identifier: Apache-2.0
 */
#include "gloo_stub.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <thread>

namespace {

template <typename Options, typename Function>
void call(Function function)
{
    for (const bool fails : {false, true}) {
        Options options{fails};

        try {
            function(options);
            std::printf("returned\n");
        } catch (const std::exception &exception) {
            std::printf("caught %s\n", exception.what());
        }
    }
}

void call_collectives()
{
    call<gloo::AllgatherOptions>(gloo::allgather);
    call<gloo::AllgathervOptions>(gloo::allgatherv);
    call<gloo::AllreduceOptions>(gloo::allreduce);
    call<gloo::AlltoallOptions>(gloo::alltoall);
    call<gloo::AlltoallvOptions>(gloo::alltoallv);
    call<gloo::BarrierOptions>(gloo::barrier);
    call<gloo::BroadcastOptions>(gloo::broadcast);
    call<gloo::GatherOptions>(gloo::gather);
    call<gloo::GathervOptions>(gloo::gatherv);
    call<gloo::ReduceOptions>(gloo::reduce);
    call<gloo::ScatterOptions>(gloo::scatter);
}

void wait_for(c10d::Work *work)
{
    const std::unique_ptr<c10d::Work> owned(work);

    std::printf("wait gave %d\n", owned->wait(std::chrono::milliseconds(7)));
    try {
        owned->wait(std::chrono::milliseconds(-1));
    } catch (const std::exception &exception) {
        std::printf("caught %s\n", exception.what());
    }
}

} // namespace

extern "C" void gloo_caller_run()
{
    std::thread([] {
        call_collectives();
        wait_for(make_other_work()); /* as a barrier waits for work before it */
    }).join();
    wait_for(make_broadcast_work());
    wait_for(make_other_work());
    c10d::Reducer().finalize_backward();
}
