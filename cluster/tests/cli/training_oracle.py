"""A second prediction of a training step, written from docs/research/composition.md: what kernels and collectives take, and a
discrete-event simulation of devices, links and the host of one pipeline. It shares no code with Lull.

SPDX-License-Identifier: Apache-2.0"""
import heapq
import math

CONTENTION = 0.189
# Peaks (bf16, fp8), memory bytes/s, share of it, rate of fused attention, a kernel's fixed time; latencies and bytes/s
# of the links within a node and between nodes.
GPUS = {
    "A100-SXM4-80GB": (312e12, 0.0, 2.0e12, 0.7, 0.5, 5e-6, 2e-6, 230e9, 4e-6, 22.5e9),
    "H100-SXM5": (989e12, 1979e12, 3.35e12, 0.7, 0.4, 5e-6, 2e-6, 360e9, 4e-6, 45e9),
}
NODE = 8


def collective(gpu, ranks, neighbours, size):
    """Seconds of gathering so many bytes, and of reducing them everywhere."""
    within = min(ranks, neighbours)
    nodes = -(-ranks // within)
    rate = gpu[7] if nodes == 1 else min(gpu[9] * within, gpu[7])
    inside = (within - 1) * gpu[6]
    gather = inside + (nodes - 1) * gpu[8] + size * (ranks - 1) / ranks / rate
    tree = inside + math.ceil(math.log2(nodes)) * gpu[8] + size / rate
    return gather, 2 * min(gather, tree)


class Parts:
    """Times of a job's parts on one GPU. faster: what memory is made faster by, but for the operands of products;
    launched: how much of each launch counts."""

    def __init__(self, job, faster=1, launched=1):
        gpu = GPUS[job["gpu"]]
        model = job["model"]
        get = job.get
        tensor, context, pipeline, chunks = (get(key, 1) for key in ("tensor", "context", "pipeline", "chunks"))
        micro = get("micro_batch", 1)
        ratio, operands, fixed = job["matrix_ratio"], gpu[2] * gpu[3], gpu[5] * launched
        memory = operands * faster
        peak = gpu[1] if get("precision") == "fp8" else gpu[0]
        hidden, heads, sequence = model["hidden"], model["heads"], model["sequence"]
        kv = hidden * model.get("kv_heads", heads) / heads
        wide = model.get("feed_forward", 4 * hidden)
        gated = model.get("feed_forward_products", 2) == 3
        rows = micro * sequence / context
        fused = get("attention", "fused") == "fused"
        frozen = get("weights") == "frozen"

        def product(k, n):
            return 2 * rows * k * n / peak / ratio + 2 * (rows * k + k * n + rows * n) / operands + fixed
        products = (product(hidden, (hidden + 2 * kv) / tensor) + product(hidden / tensor, hidden)
                    + product(hidden, wide * (2 if gated else 1) / tensor) + product(wide / tensor, hidden))
        halved = 0.5 if fused and model.get("mask", "causal") == "causal" else 1
        core_s = 4 * halved * rows * sequence * hidden / tensor / (gpu[0] * (gpu[4] if fused else 1)) / ratio
        core = core_s + (fixed if fused else 10 * rows * sequence * heads / tensor / memory + 5 * fixed)
        whole = 1 if get("between_products") != "split" else tensor
        between = 2 * rows * (12 * hidden / whole + wide * (3 if gated else 2) / tensor) / memory + 6 * fixed
        forward = products + core + between
        backward = products * (1 if frozen else 2) + core * (2.5 if fused else 2) + 2 * between
        backward += {"nothing": 0, "selective": core, "full": forward}[get("recompute", "nothing")]

        once = 2 * collective(gpu, tensor, NODE, 2 * rows * hidden)[0]
        calls = 4 if get("recompute") == "full" else 3 if get("between_products") == "split" else 2
        layers = model["layers"] / pipeline / chunks
        self.forward, self.backward = forward * layers, backward * layers
        self.forward_link, self.backward_link = 2 * once * layers, calls * once * layers
        if get("tensor_collectives") == "overlapped":
            for name in ("forward", "backward"):
                compute, link = getattr(self, name), getattr(self, name + "_link")
                setattr(self, name, compute + CONTENTION * min(compute, link))
                setattr(self, name + "_link", max(link - compute, 0))
        width = model.get("vocabulary", 0) / tensor
        head = (2 * rows * hidden * width / gpu[0] / ratio + 8 * rows * width / memory + 4 * fixed) if width else 0
        self.head = head

        self.copies = job["gpus"] // (tensor * context * pipeline)
        ranks = self.copies * context
        own = 2 * hidden * (hidden + kv) + hidden * wide * (3 if gated else 2)
        parameters = (model["layers"] / pipeline * own + model.get("vocabulary", 0) * hidden) / tensor
        gather, reduce = collective(gpu, ranks, max(NODE // tensor, 1), 2 * parameters)
        sharded = get("sharded", "nothing")
        self.bucket = self.parameter = self.gather = self.scatter = 0
        if ranks > 1 and not frozen:
            if sharded == "nothing":
                self.bucket = reduce / chunks
            elif sharded == "optimizer":
                self.bucket = self.parameter = gather / chunks
            else:
                self.gather = self.scatter = gather / chunks
                self.forward += CONTENTION * min(self.forward, self.gather)
                self.backward += CONTENTION * min(self.backward, 2 * self.gather)
        share = 1 if sharded == "nothing" else ranks
        self.optimizer = 0 if frozen else 30 * parameters / share / memory + model["layers"] / pipeline * fixed
        self.stage = gpu[8] + 2 * rows * hidden / tensor / gpu[9]
        self.pieces = math.ceil(layers)
        self.ranks = ranks
        self.microbatches = job["batch"] // self.copies // micro


def order(device, pipeline, chunks, microbatches):
    """(is forward, chunk, micro-batch) in the order of 1F1B, or of Megatron-LM's interleaving."""
    total = chunks * microbatches

    def forward(k):
        return True, k % (pipeline * chunks) // pipeline, k // (pipeline * chunks) * pipeline + k % pipeline

    def backward(k):
        _, chunk, microbatch = forward(k)
        return False, chunks - 1 - chunk, microbatch
    if chunks == 1:
        warm = min(pipeline - device, microbatches)
        forwards = [(True, 0, m) for m in range(microbatches)]
        backwards = [(False, 0, m) for m in range(microbatches)]
    else:
        warm = min(2 * (pipeline - device - 1) + (chunks - 1) * pipeline + 1, total)
        forwards = [forward(k) for k in range(total)]
        backwards = [backward(k) for k in range(total)]
    actions = forwards[:warm]
    for k in range(total):
        actions.append(backwards[k])
        if warm + k < total:
            actions.append(forwards[warm + k])
    return actions


class Graph:
    def __init__(self):
        self.time, self.at, self.after, self.waits, self.kind, self.device = [], [], [], [], [], []

    def add(self, at, time, kind, device, *before):
        """A task on a resource; before: what it waits for, None is nothing."""
        self.time.append(round(time * 1e9))
        self.at.append(at)
        self.kind.append(kind)
        self.device.append(device)
        self.after.append([])
        self.waits.append(0)
        for task in before:
            self.wait(len(self.time) - 1, task)
        return len(self.time) - 1

    def wait(self, task, before):
        if before is not None:
            self.after[before].append(task)
            self.waits[task] += 1

    def ranks(self):
        left, ranks = [len(after) for after in self.after], list(self.time)
        before = [[] for _ in self.time]
        for task, after in enumerate(self.after):
            for other in after:
                before[other].append(task)
        stack = [task for task, count in enumerate(left) if count == 0]
        while stack:
            task = stack.pop()
            for other in before[task]:
                ranks[other] = max(ranks[other], self.time[other] + ranks[task])
                left[other] -= 1
                if left[other] == 0:
                    stack.append(other)
        return ranks

    def run(self):
        """Begins of all tasks: a free resource takes the shortest task that is ready, of equals the one with the
        longest path behind it."""
        ranks, waits = self.ranks(), list(self.waits)
        ready, busy, events, begin, now = {}, set(), [], [0] * len(self.time), 0
        for task, count in enumerate(waits):
            if count == 0:
                heapq.heappush(ready.setdefault(self.at[task], []), (self.time[task], -ranks[task], task))
        while True:
            for at, queue in ready.items():
                if queue and at not in busy:
                    task = heapq.heappop(queue)[2]
                    busy.add(at)
                    begin[task] = now
                    heapq.heappush(events, (now + self.time[task], task))
            if not events:
                return begin, now
            now = events[0][0]
            while events and events[0][0] == now:
                task = heapq.heappop(events)[1]
                busy.discard(self.at[task])
                for other in self.after[task]:
                    waits[other] -= 1
                    if waits[other] == 0:
                        heapq.heappush(ready.setdefault(self.at[other], []), (self.time[other], -ranks[other], other))


def add_device(graph, parts, job, device, first, last):
    """The tasks of a device; first and last: of each action, by (is forward, stage, micro-batch)."""
    pipeline, chunks = job.get("pipeline", 1), job.get("chunks", 1)
    actions = order(device, pipeline, chunks, parts.microbatches)
    optimizer = graph.add(("gpu", device), parts.optimizer, "compute", device)
    before, pieces_done = None, [None, None]
    shared = parts.ranks > 1
    late = []
    for at, (is_forward, chunk, microbatch) in enumerate(actions):
        stage = chunk * pipeline + device
        is_last = not is_forward and all(a[0] or a[1] != chunk for a in actions[at + 1:])
        once = shared and parts.parameter > 0 and is_forward and microbatch == 0
        always = shared and parts.gather > 0
        reduced = shared and is_last
        pieces = parts.pieces if once or always or reduced else 1
        compute = parts.forward if is_forward else parts.backward
        if stage == pipeline * chunks - 1:
            compute += parts.head * (1 if is_forward else 2)
        link = parts.forward_link if is_forward else parts.backward_link
        for piece in range(pieces):
            task = graph.add(("gpu", device), compute / pieces, "compute", device, before)
            if piece == 0:
                first[is_forward, stage, microbatch] = task
            if always:
                graph.wait(task, graph.add(("data", device), parts.gather / pieces, "transfer", device, pieces_done[1]))
            elif once:
                graph.wait(task, graph.add(("data", device), parts.parameter / pieces, "transfer", device))
            pieces_done = [task, pieces_done[0]]
            before = task
            if round(link * 1e9) > 0:
                before = graph.add(("tensor", device), link / pieces, "transfer", device, task)
            if always and not is_forward:
                graph.wait(optimizer, graph.add(("data", device), parts.scatter / pieces, "transfer", device, before))
            elif reduced and job.get("gradients") == "late":
                late.append(parts.bucket / pieces)
            elif reduced:
                graph.wait(optimizer, graph.add(("data", device), parts.bucket / pieces, "transfer", device, before))
        last[is_forward, stage, microbatch] = before
    for time in late if parts.scatter == 0 else []:
        graph.wait(optimizer, graph.add(("data", device), time, "transfer", device, before))
    graph.wait(optimizer, before)
    return optimizer


def simulate(job):
    """Seconds of a step, and the shares of it that a device computes and waits for transfers, on average."""
    parts, graph = Parts(job), Graph()
    pipeline, chunks = job.get("pipeline", 1), job.get("chunks", 1)
    first, last = {}, {}
    optimizers = [add_device(graph, parts, job, device, first, last) for device in range(pipeline)]
    for stage in range(pipeline * chunks - 1):
        here, there = stage % pipeline, (stage + 1) % pipeline
        for m in range(parts.microbatches):
            for is_forward, source, target, by, to in ((True, stage, stage + 1, here, there),
                                                       (False, stage + 1, stage, there, here)):
                behind = last[is_forward, source, m]
                if here != there:
                    way = "next" if is_forward else "previous"
                    behind = graph.add((way, by), parts.stage, "transfer", to, behind)
                graph.wait(first[is_forward, target, m], behind)
    graph.add("copies", job.get("copy_s", 0), "host", None,
              graph.add("host", job.get("input_s", 0), "host", None))
    if job.get("gap_s", 0) > 0:
        graph.add("host", job["gap_s"], "host", None, *optimizers)
    begin, end = graph.run()
    compute = exposed = 0
    for device in range(pipeline):
        spans = sorted((begin[t], begin[t] + graph.time[t], graph.kind[t] == "compute")
                       for t in range(len(begin)) if graph.device[t] == device)
        busy, both = (covered([s for s in spans if s[2]]), covered(spans))
        compute += busy
        exposed += both - busy
    return end * 1e-9, compute / end / pipeline, exposed / end / pipeline


def covered(spans):
    total, until = 0, 0
    for begin, end, _ in spans:
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


# ---- a single GPU over the clock ----

def at(table, mhz):
    """A curve of data/gpu_models.json, linear between its points."""
    points = table["table"]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if mhz <= x1:
            return y0 + (y1 - y0) * (mhz - x0) / (x1 - x0)
    return points[-1][1]


def over_the_clock(job, board, clocks):
    """Seconds and joules of a step of one GPU without a host's gap at each of the clocks, which fall and are all that the
    board has from its highest on."""
    seconds, joules = [0.0] * len(clocks), [0.0] * len(clocks)
    plain, faster, free = Parts(job), Parts(job, faster=2), Parts(job, launched=0)
    top = board["sm"]["max"]
    limit = board["power_limit_W"]["default"] * board["power_limit_W"]["settle"]
    stream = board["kernels"]["stream"]

    def passes(parts):
        count = parts.microbatches
        return (count * (parts.forward + parts.head), count * (parts.backward + 2 * parts.head), parts.optimizer)
    for whole, quick, unlaunched, name in zip(passes(plain), passes(faster), passes(free),
                                              ("llm_fwd", "llm_bwd", "llm_fwd")):
        memory, fixed = 2 * (whole - quick), whole - unlaunched
        share = memory / (whole - fixed)
        kernel = board["kernels"][name]
        base = kernel["B"] + share * (stream["B"] - kernel["B"])
        slope = kernel["A"] + share * (stream["A"] - kernel["A"])
        slow = [share / at(board["bw"], mhz) + (1 - share) * top / mhz for mhz in clocks]
        watts = []
        for mhz, time in zip(clocks, slow):
            fed = (share + (1 - share) * top / mhz) / time
            watts.append(max(base + slope * mhz / top * at(board["v"], mhz) ** 2 * min(fed, 1),
                             at(board["active_idle_W"], mhz)))
        held = next(i for i, watt in enumerate(watts) if watt <= limit)
        for i, mhz in enumerate(clocks):
            real = max(i, held)
            busy = (whole - fixed) * slow[real] / slow[held]
            seconds[i] += busy + fixed
            joules[i] += busy * watts[real] + fixed * at(board["active_idle_W"], mhz)
    return seconds, joules
