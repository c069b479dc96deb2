/*
 * Stands for libgloo.so.0 and PyTorch where the gloo shim is tested without them: every function
 * says that it ran, and throws if it is told to. SPDX-License-Identifier: Apache-2.0
 */
#include "gloo_stub.h"

#include <cstdio>
#include <stdexcept>

namespace {

void run(const char *name, bool fails)
{
    std::printf("ran %s\n", name);
    if (fails)
        throw std::runtime_error(name);
}

class AsyncBroadcastWork : public c10d::Work {};
class SomethingElse : public c10d::Work {};

} // namespace

namespace gloo {

void allgather(AllgatherOptions &options) { run("allgather", options.fails); }
void allgatherv(AllgathervOptions &options) { run("allgatherv", options.fails); }
void allreduce(const AllreduceOptions &options) { run("allreduce", options.fails); }
void alltoall(AlltoallOptions &options) { run("alltoall", options.fails); }
void alltoallv(AlltoallvOptions &options) { run("alltoallv", options.fails); }
void barrier(BarrierOptions &options) { run("barrier", options.fails); }
void broadcast(BroadcastOptions &options) { run("broadcast", options.fails); }
void gather(GatherOptions &options) { run("gather", options.fails); }
void gatherv(GathervOptions &options) { run("gatherv", options.fails); }
void reduce(ReduceOptions &options) { run("reduce", options.fails); }
void scatter(ScatterOptions &options) { run("scatter", options.fails); }

} // namespace gloo

namespace c10d {

Work::~Work() = default;

bool Work::wait(std::chrono::milliseconds timeout)
{
    run("wait", timeout.count() < 0);
    return timeout.count() == 7;
}

void Reducer::finalize_backward()
{
    run("finalize_backward", false);
}

} // namespace c10d

c10d::Work *make_broadcast_work()
{
    return new AsyncBroadcastWork;
}

c10d::Work *make_other_work()
{
    return new SomethingElse;
}
