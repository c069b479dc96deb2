#!/usr/bin/env python3
"""Boards and topology of the emulated node: NVML shows the identity that data/gpu_models.json states; levels, NVLinks, P2P
status, memory nodes and processors of each server agree with each other and with CUDA; and CUDA shows the GPUs that the
environment selects. Usage: test_boards.py gpu_models.json LULL
SPDX-License-Identifier: Apache-2.0"""
import ctypes
import json
import os
import subprocess
import sys
import unittest

NOT_SUPPORTED, NO_DEVICE = 3, 100
GPU, SWITCH = 0, 2
READ, WRITE, NVLINK, ATOMICS = range(4)
OK, NO_CHIPSET, UNSUPPORTED = 0, 1, 5
INTERNAL, SINGLE, MULTIPLE, BRIDGE, NODE, SYSTEM = range(0, 60, 10)
HIDDEN = "FFFFFFF:FFFF:FF.0"
SERVERS = ("8xV100", "3xV100", "8xA100", "16xH100", "8xB200", "4xGB200", "8xGB200", "2xGH200", "5xL40S", "64xL4", "2xRTX3090", "4xRTXA5000",
           "8xH800", "A40,H100,A40,H100,V100,V100", "MI300X,2xA100")


class Pci(ctypes.Structure):
    _fields_ = [("legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint), ("device", ctypes.c_uint),
                ("device_id", ctypes.c_uint), ("subsystem", ctypes.c_uint), ("text", ctypes.c_char * 32)]


class Nvml:
    """The handles of a node's GPUs, and calls by name that return a value; None: not supported."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.library.nvmlInit_v2() == 0
        count = ctypes.c_uint()
        assert self.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        self.gpus = [ctypes.c_void_p() for _ in range(count.value)]
        for index, gpu in enumerate(self.gpus):
            assert self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(gpu)) == 0

    def call(self, name, *arguments):
        code = getattr(self.library, "nvmlDevice" + name)(*arguments)
        assert code in (0, NOT_SUPPORTED), (name, code)
        return code == 0

    def number(self, name, *arguments, kind=ctypes.c_int):
        value = kind()
        return value.value if self.call(name, *arguments, ctypes.byref(value)) else None

    def text(self, name, gpu, *arguments):
        value = ctypes.create_string_buffer(96)
        return value.value.decode() if self.call(name, gpu, *arguments, value, 96) else None

    def pci(self, name, *arguments):
        value = Pci()
        return value if self.call(name, *arguments, ctypes.byref(value)) else None

    def memory(self, name, gpu):
        value = (ctypes.c_ulonglong * 3)()
        return [part >> 20 for part in value] if self.call(name, gpu, value) else None

    def mask(self, name, gpu, *scope):
        words = (ctypes.c_ulong * 16)()
        assert self.call(name, gpu, 16, words, *scope)
        return {bit for bit in range(1024) if words[bit // 64] >> bit % 64 & 1}

    def near(self, gpu, level):
        """The positions of the GPUs at a level."""
        count, found = ctypes.c_uint(len(self.gpus)), (ctypes.c_void_p * len(self.gpus))()
        assert self.call("GetTopologyNearestGpus", gpu, level, ctypes.byref(count), found)
        handles = [one.value for one in self.gpus]
        return {handles.index(one) for one in found[:count.value]}


class Cuda:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.code = self.library.cuInit(0)
        count = ctypes.c_int()
        self.library.cuDeviceGetCount(ctypes.byref(count))
        self.devices = range(count.value)

    def address(self, device):
        text = ctypes.create_string_buffer(32)
        assert self.library.cuDeviceGetPCIBusId(text, 32, device) == 0
        return text.value.decode()

    def uuid(self, device):
        raw = ctypes.create_string_buffer(16)
        assert self.library.cuDeviceGetUuid_v2(raw, device) == 0
        text = raw.raw.hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def attribute(self, number, device):
        value = ctypes.c_int()
        assert self.library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        return value.value

    def can_access(self, device, peer):
        value = ctypes.c_int()
        assert self.library.cuDeviceCanAccessPeer(ctypes.byref(value), device, peer) == 0
        return value.value

    def memory(self):
        values = (ctypes.c_size_t * 2)()
        size = ctypes.sizeof(ctypes.c_size_t)
        code = self.library.cuMemGetInfo_v2(values, ctypes.byref(values, size))
        return code, values[0] >> 20, values[1] >> 20


# ---- inside a node: prints what the libraries answer ----


def describe_board(nvml, cuda, at):
    gpu = nvml.gpus[at]
    pci = nvml.pci("GetPciInfo_v3", gpu)
    return {
        "product": nvml.text("GetName", gpu),
        "pci_device": f"{pci.device_id >> 16:04x}",
        "pci_subsystem": f"{pci.subsystem:08x}",
        "vbios": nvml.text("GetVbiosVersion", gpu),
        "part": nvml.text("GetBoardPartNumber", gpu),
        "serial": nvml.text("GetSerial", gpu) is not None,
        "ecc": nvml.number("GetDefaultEccMode", gpu) is not None,
        "inforom": [nvml.text("GetInforomImageVersion", gpu), nvml.text("GetInforomVersion", gpu, 0),
                    nvml.text("GetInforomVersion", gpu, 1)],
        "bar1_mib": (nvml.memory("GetBAR1MemoryInfo", gpu) or [0])[0],
        "pcie_lanes": nvml.number("GetMaxPcieLinkWidth", gpu),
        "memory_mib": nvml.memory("GetMemoryInfo", gpu)[0],
        "reserved_mib": nvml.memory("GetMemoryInfo", gpu)[2],
        "fan": nvml.number("GetFanSpeed", gpu) is not None,
        "brand": nvml.number("GetBrand", gpu),
        "architecture": nvml.number("GetArchitecture", gpu),
        "cores": nvml.number("GetNumGpuCores", gpu),
        "nvlinks": nvml_links(nvml, gpu),
        "sms": cuda.attribute(16, at),
        "compute": [cuda.attribute(75, at), cuda.attribute(76, at)],
        "bus_bits": cuda.attribute(37, at),
        "application_clock": nvml.number("GetApplicationsClock", gpu, 0) is not None,
    }


def nvml_links(nvml, gpu):
    """The number of links: one beyond the last is an invalid argument."""
    state, link = ctypes.c_int(), 0
    while nvml.library.nvmlDeviceGetNvLinkState(gpu, link, ctypes.byref(state)) == 0:
        link += 1
    return link


def describe_links(nvml, gpu):
    links = []
    for link in range(nvml_links(nvml, gpu)):
        remote = nvml.pci("GetNvLinkRemotePciInfo_v2", gpu, link)
        links.append({"state": nvml.number("GetNvLinkState", gpu, link), "type": nvml.number("GetNvLinkRemoteDeviceType", gpu, link),
                      "remote": remote and remote.text.decode()})
    return links


def describe_place(nvml, cuda, at):
    gpu = nvml.gpus[at]
    others = [other for other in nvml.gpus if other is not gpu]
    return {
        "address": nvml.pci("GetPciInfo_v3", gpu).text.decode(),
        "serial": nvml.text("GetSerial", gpu),
        "uuid": nvml.text("GetUUID", gpu),
        "module": nvml.number("GetModuleId", gpu),
        "numa_id": nvml.number("GetNumaNodeId", gpu),
        "links": describe_links(nvml, gpu),
        "levels": [nvml.number("GetTopologyCommonAncestor", gpu, other) for other in nvml.gpus],
        "near": {level: sorted(nvml.near(gpu, level)) for level in range(SINGLE, 60, 10)},
        "p2p": [[None if other is gpu else nvml.number("GetP2PStatus", gpu, other, index) for other in nvml.gpus] for index in range(4)],
        "cpus": [sorted(nvml.mask("GetCpuAffinityWithinScope", gpu, scope)) for scope in (0, 1)],
        "nodes": [sorted(nvml.mask("GetMemoryAffinity", gpu, scope)) for scope in (0, 1)],
        "cuda": [cuda.address(at), cuda.uuid(at), cuda.attribute(50, at), cuda.attribute(33, at)],
        "peers": [cuda.can_access(at, peer) for peer in cuda.devices] if others else [],
    }


def allocate(nvml, cuda):
    """Memory as CUDA and NVML report it, before and after an allocation of 100 MiB and its release."""
    context, address, seen = ctypes.c_void_p(), ctypes.c_uint64(), [[cuda.memory()[0]]]
    assert cuda.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    seen.append([*cuda.memory(), *nvml.memory("GetMemoryInfo", nvml.gpus[0])])
    assert cuda.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(100 << 20)) == 0
    seen.append([*cuda.memory(), *nvml.memory("GetMemoryInfo", nvml.gpus[0])])
    assert cuda.library.cuMemFree_v2(address) == 0
    seen.append([*cuda.memory(), *nvml.memory("GetMemoryInfo", nvml.gpus[0])])
    code = cuda.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 50))
    return [*seen, code]


def inside(what):
    cuda = Cuda()
    if what == "visible":
        answer = [cuda.code, [cuda.uuid(device) for device in cuda.devices]]
    else:
        nvml = Nvml()
        answer = {"boards": lambda: [describe_board(nvml, cuda, at) for at in range(len(nvml.gpus))],
                  "places": lambda: [describe_place(nvml, cuda, at) for at in range(len(nvml.gpus))],
                  "memory": lambda: allocate(nvml, cuda)}[what]()
    print(json.dumps(answer))


# ---- outside ----


def ask(node, what, **variables):
    variables.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    environment = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
    done = subprocess.run([LULL, "emulate", "--seed", "0", node, "--", sys.executable, os.path.abspath(__file__), "inside", what],
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Boards(unittest.TestCase):
    def test_identity(self):
        with open(MODELS, encoding="utf-8") as file:
            table = json.load(file)
        known = {name: {"pcie_lanes": 16, **model["identity"]} for group in ("gpus", "boards") for name, model in table[group].items()
                 if name != "_about" and "vbios" in model["identity"]}
        self.assertGreater(len(known), 15)
        for (name, stated), shown in zip(known.items(), ask(",".join(known), "boards")):
            with self.subTest(name):
                geforce = stated["brand"] == 5
                self.assertEqual(shown.pop("application_clock"), not geforce)
                self.assertEqual(shown, {key: stated[key] for key in shown})

    def test_memory(self):
        before, opened, allocated, freed, refused = ask("A100-SXM4-40GB", "memory")
        self.assertEqual(before, [201]) # no context
        code, free, total, nvml_total, nvml_free, nvml_used = opened
        self.assertEqual((code, total, free), (0, nvml_total - 518, nvml_free))
        self.assertEqual(nvml_used, nvml_total - nvml_free)
        self.assertEqual([allocated[1], allocated[4]], [free - 100] * 2)
        self.assertEqual(freed, opened)
        self.assertEqual(refused, 2)


class Topology(unittest.TestCase):
    def check(self, places):
        count = range(len(places))
        addresses = [place["address"] for place in places]
        self.assertEqual(addresses, sorted(set(addresses)))
        for a in count:
            one = places[a]
            self.assertEqual(one["cuda"][0].upper(), one["address"][4:])
            self.assertEqual([f"{one['cuda'][2]:08X}", f"{one['cuda'][3]:02X}"], one["address"].split(":")[:2])
            self.assertEqual(one["cuda"][1], one["uuid"])
            self.assertEqual(one["levels"][a], INTERNAL)
            self.assertTrue(one["cpus"][0] and set(one["cpus"][0]) <= set(one["cpus"][1]))
            self.assertTrue(len(one["nodes"][0]) == 1 and set(one["nodes"][0]) <= set(one["nodes"][1]))
            for level, near in one["near"].items():
                self.assertEqual(near, [b for b in count if b != a and one["levels"][b] == int(level)])
            for b in count:
                if b != a:
                    self.check_pair(places, a, b)

    def check_pair(self, places, a, b):
        one, other = places[a], places[b]
        self.assertEqual(one["levels"][b], other["levels"][a])
        self.assertEqual(one["levels"][b] == SYSTEM, one["nodes"][0] != other["nodes"][0])
        if one["levels"][b] < SYSTEM:
            self.assertEqual(one["cpus"], other["cpus"])
        for status in one["p2p"]:
            self.assertIn(status[b], (OK, NO_CHIPSET, UNSUPPORTED))
        for index in range(4):
            self.assertEqual(one["p2p"][index][b], other["p2p"][index][a])
        links = self.count_links(one, other)
        self.assertEqual(links, self.count_links(other, one))
        if all(link["type"] != SWITCH for link in one["links"]):
            self.assertEqual(one["p2p"][NVLINK][b] == OK, links > 0)
        self.assertEqual(one["p2p"][ATOMICS][b], one["p2p"][NVLINK][b])
        self.assertEqual(one["peers"][b], one["p2p"][READ][b] == OK)
        self.assertLessEqual(one["p2p"][NVLINK][b] == OK, one["p2p"][READ][b] == OK)

    @staticmethod
    def count_links(one, other):
        return sum(link["remote"] == other["address"] for link in one["links"])

    def test_servers_agree_with_themselves(self):
        for node in SERVERS:
            with self.subTest(node):
                self.check(ask(node, "places"))

    def test_switches(self):
        for node, links, switches in (("8xA100", 12, 6), ("2xH100", 18, 4), ("8xH800", 8, 2), ("8xB200", 18, 1), ("4xGB200", 18, 1)):
            with self.subTest(node):
                places = ask(node, "places")
                for place in places:
                    self.assertEqual([(link["state"], link["type"]) for link in place["links"]], [(1, SWITCH)] * links)
                    self.assertEqual(len({link["remote"] for link in place["links"]}), switches)
                    self.assertTrue(set(place["p2p"][NVLINK]) <= {OK, None})
                if node in ("8xB200", "4xGB200"):
                    self.assertEqual(places[0]["links"][0]["remote"], HIDDEN)

    def test_mesh(self):
        """A V100 has six links, to four of the seven others; those to absent GPUs are down."""
        places = ask("8xV100", "places")
        for place in places:
            counts = [self.count_links(place, other) for other in places]
            self.assertEqual(sorted(counts), [0, 0, 0, 0, 1, 1, 2, 2])
        first, second = ask("2xV100", "places")
        self.assertEqual([link["state"] for link in first["links"]], [1, 0, 0, 0, 0, 0])
        self.assertEqual(first["links"][0], {"state": 1, "type": GPU, "remote": second["address"]})
        self.assertEqual(first["links"][1], {"state": 0, "type": None, "remote": None})

    def test_boards_without_nvlink(self):
        for node, status in (("4xL40S", OK), ("2xRTX3090", NO_CHIPSET)):
            first = ask(node, "places")[0]
            self.assertEqual(first["links"], [])
            self.assertEqual([first["p2p"][index][1] for index in range(4)], [status, status, UNSUPPORTED, UNSUPPORTED])
        self.assertEqual(ask("4xL40S", "places")[0]["levels"], [INTERNAL, SINGLE, NODE, NODE])
        self.assertEqual(ask("2xRTX3090", "places")[0]["levels"], [INTERNAL, BRIDGE])

    def test_grace_blackwell(self):
        """Pairs share a board; each GPU's memory is a NUMA node of the host and has a PCI domain."""
        places = ask("4xGB200", "places")
        self.assertEqual([place["numa_id"] for place in places], [2, 10, 18, 26])
        self.assertEqual([place["serial"] == places[0]["serial"] for place in places], [True, True, False, False])
        self.assertEqual([place["address"] for place in places], [f"{domain:08X}:01:00.0" for domain in (8, 9, 0x18, 0x19)])
        self.assertEqual(sorted(place["module"] for place in places), [1, 2, 3, 4])
        self.assertEqual({place["numa_id"] for place in ask("8xH100", "places")}, {None})

    def test_grace_hopper(self):
        """Each module is a server of its own, without NVLinks between GPUs."""
        places = ask("2xGH200", "places")
        self.assertEqual([place["numa_id"] for place in places], [1, 35])
        self.assertEqual([place["levels"] for place in places], [[INTERNAL, SYSTEM], [SYSTEM, INTERNAL]])
        self.assertEqual([place["links"] for place in places], [[], []])


class Visible(unittest.TestCase):
    def test_cases(self):
        node = "A40,MI300X,H100-SXM5,A40" # NVML's GPUs 0, 1 and 2; the second one is the fastest
        code, uuids = ask(node, "visible", CUDA_VISIBLE_DEVICES=None)
        self.assertEqual((code, len(uuids)), (0, 3))
        by_bus = {
            None: [0, 1, 2], "": [], "1": [1], "2,0": [2, 0], " 1": [1], "0,1,-1,2": [0, 1], "3": [], "0,9,1": [0], "0,0": [],
            "1x,2": [1, 2], "NoDevFiles": [], uuids[1]: [1], f"{uuids[2]},{uuids[0][:12]}": [2, 0], "GPU-": [], f"{uuids[0]},1": [0],
            f"0,{uuids[1]}": [0], f"{uuids[0]},{uuids[0][:13]}": [], "MIG-8f6d1b2a-1111-2222-3333-444455556666": [], "GPU-none": [],
        }
        for visible, wanted in by_bus.items():
            with self.subTest(visible):
                code, shown = ask(node, "visible", CUDA_VISIBLE_DEVICES=visible)
                self.assertEqual(code, 0 if wanted else NO_DEVICE)
                self.assertEqual(shown, [uuids[at] for at in wanted])
        for order in (None, "FASTEST_FIRST"):
            self.assertEqual(ask(node, "visible", CUDA_VISIBLE_DEVICES=None, CUDA_DEVICE_ORDER=order)[1],
                             [uuids[at] for at in (1, 0, 2)])
            self.assertEqual(ask(node, "visible", CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER=order)[1], [uuids[0]])


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        inside(sys.argv[2])
    else:
        MODELS, LULL = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
        unittest.main(verbosity=2)
