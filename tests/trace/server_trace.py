"""Traces as vLLM and SGLang record them with the PyTorch profiler, made from the documented form of their annotations.

A step is (phase, requests, tokens): its kernels on the GPU, their launches on the CPU ahead of it, and the server's annotation around
the launches. A decode step may be one launch of a graph. Names of kernels are those of public libraries.
SPDX-License-Identifier: Apache-2.0"""

LAYERS = 4
GEMM = "nvjet_tst_128x64_64x12_1x2_h_bz_TNT"
ALLREDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)"
SAMPLER = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(float)"
FLASH = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>(Params)"
FLASHINFER = {"prefill": "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<1>>(Params)",
              "decode": "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2, 128>(Params)"}


def vllm_name(phase, requests, tokens):
    if phase == "mixed":
        return f"execute_context_{requests[0]}({tokens[0]})_generation_{requests[1]}({tokens[1]})"
    if phase == "prefill":
        return f"execute_context_{requests}({tokens})_generation_0(0)"
    return f"execute_context_0(0)_generation_{requests}({tokens})"


def sglang_name(phase, requests, tokens):
    if phase == "mixed":
        return f"step[MIXED bs={sum(requests)} c={requests[0]} g={requests[1]} c_sq={tokens[0]} c_sk=9 g_sq={tokens[1]} g_sk=9]"
    return f"step[EXTEND bs={requests} toks={tokens}]" if phase == "prefill" else f"step[DECODE bs={requests}]"


class Server:
    """Collects the events of steps; times in microseconds."""

    def __init__(self, name=vllm_name, attention=None, graphs=True, marks=("user_annotation",), launches=True):
        self.name, self.graphs, self.marks, self.launches = name, graphs, marks, launches
        self.attention = attention or {"prefill": FLASH, "decode": FLASH}
        self.events, self.now, self.correlation = [], 1000.0, 0
        self.kernels = []  # (phase, begin, end, communicates)
        self.spans = []  # (phase, begin, end) of each step

    def add(self, name, category, begin, length, **arguments):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 0 if "gpu" in category or category == "kernel" else 77,
                            "tid": 7 if category in ("kernel", "gpu_user_annotation") else 77, "ts": begin, "dur": length, "args": arguments})

    def launch(self, name, begin):
        self.correlation += 1
        if self.launches:
            self.add(name, "cuda_runtime", begin, 2.0, correlation=self.correlation)
        return self.correlation

    def step(self, phase, requests, tokens, gap=300.0):
        """The CPU is 200 us ahead of the GPU; the sampler is launched behind the annotation, as by vLLM."""
        cpu, begin = self.now - 200.0, self.now
        kind = "decode" if phase == "decode" else "prefill"
        scale = 1.0 if phase == "decode" else 5.0
        is_graph = self.graphs and phase == "decode"
        correlation = self.launch("cudaGraphLaunch", cpu + 1) if is_graph else 0
        for layer in range(LAYERS):
            for name, length in ((GEMM, 40.0 * scale), (self.attention[kind], 20.0 * scale), (ALLREDUCE, 10.0)):
                if not is_graph:
                    correlation = self.launch("cudaLaunchKernel", cpu + 1 + layer * 3)
                self.kernel(phase, name, length, correlation)
        last = self.now
        if "user_annotation" in self.marks:
            self.add(self.name(phase, requests, tokens), "user_annotation", cpu, 100.0)
        if "gpu_user_annotation" in self.marks:
            self.add(self.name(phase, requests, tokens), "gpu_user_annotation", begin, last - begin)
        if "python_function" in self.marks:
            function = "forward_decode" if phase == "decode" else "forward_extend"
            self.add(f"sglang/srt/model_executor/model_runner.py(2110): {function}", "python_function", cpu, 100.0)
            self.add(f"sglang/srt/layers/attention/flashinfer_backend.py(99): {function}", "python_function", cpu + 1, 20.0)
        self.kernel(phase, SAMPLER, 15.0, self.launch("cudaLaunchKernel", cpu + 120))
        self.spans.append((phase, begin, self.now))
        self.now += gap

    def kernel(self, phase, name, length, correlation):
        self.add(name, "kernel", self.now, length, device=0, stream=7, correlation=correlation)
        self.kernels.append((phase, self.now, self.now + length, name == ALLREDUCE))
        self.now += length + 1.0

    def document(self, gpu="NVIDIA A100-SXM4-80GB", world_size=4):
        return {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": world_size},
                "deviceProperties": [{"id": 0, "name": gpu}], "traceEvents": self.events}


def serve(**options):
    """Two prompts, a mixed step, and decode."""
    server = Server(**options)
    server.step("prefill", 2, 1024)
    for _ in range(5):
        server.step("decode", 8, 8)
    server.step("mixed", (1, 8), (512, 8))
    for _ in range(10):
        server.step("decode", 9, 9)
    server.step("prefill", 1, 300)
    return server
