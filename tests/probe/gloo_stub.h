/*
 * The interface of the stub of gloo and PyTorch (gloo_stub.cpp): functions and classes whose
 * symbols are those of the real libraries. SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLOO_STUB_H
#define GLOO_STUB_H

#include <chrono>

namespace gloo
{

struct AllgatherOptions {
    bool fails;
};
struct AllgathervOptions {
    bool fails;
};
struct AllreduceOptions {
    bool fails;
};
struct AlltoallOptions {
    bool fails;
};
struct AlltoallvOptions {
    bool fails;
};
struct BarrierOptions {
    bool fails;
};
struct BroadcastOptions {
    bool fails;
};
struct GatherOptions {
    bool fails;
};
struct GathervOptions {
    bool fails;
};
struct ReduceOptions {
    bool fails;
};
struct ScatterOptions {
    bool fails;
};

void allgather(AllgatherOptions &options);
void allgatherv(AllgathervOptions &options);
void allreduce(const AllreduceOptions &options);
void alltoall(AlltoallOptions &options);
void alltoallv(AlltoallvOptions &options);
void barrier(BarrierOptions &options);
void broadcast(BroadcastOptions &options);
void gather(GatherOptions &options);
void gatherv(GathervOptions &options);
void reduce(ReduceOptions &options);
void scatter(ScatterOptions &options);

} // namespace gloo

namespace c10d
{

class Work
{
  public:
    virtual ~Work();
    virtual bool wait(std::chrono::milliseconds timeout);
};

class Reducer
{
  public:
    void finalize_backward();
};

} // namespace c10d

/* Work of one class per operation, as ProcessGroupGloo has it. */
c10d::Work *make_broadcast_work();
c10d::Work *make_other_work();

#endif
