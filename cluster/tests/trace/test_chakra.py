"""Chakra execution traces: random graphs, written here by hand as protocol buffers and as JSON,
come back as they are; damage is refused with its place.

Usage: test_chakra.py CHAKRA_PRINT
SPDX-License-Identifier: Apache-2.0"""
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PRINT = os.path.abspath(sys.argv[1])
del sys.argv[1:2]
NUMBERS = {"comm_size": "size_bytes", "tensor_size": "tensor_bytes", "num_ops": "operations", "comm_src": "source",
           "comm_dst": "target", "comm_tag": "tag"}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value % 2 ** 64)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def attribute(name, field, value):
    """The value's field says its type in the schema."""
    if isinstance(value, str):
        coded = data(field, value)
    elif field in (15, 17):  # zigzag
        coded = number(field, value * 2 if value >= 0 else -value * 2 - 1)
    elif field in (19, 23):
        coded = varint(field << 3 | 5) + struct.pack("<i", value)
    elif field in (21, 25):
        coded = varint(field << 3 | 1) + struct.pack("<q", value)
    else:
        coded = number(field, value)
    return data(10, data(1, name) + coded)


def message(node, draw):
    fields = [number(1, node["id"]), data(2, node["name"]), number(3, node["kind"]),
              number(6, draw.randrange(2 ** 60)), number(7, node["duration_ns"] // 1000),
              data(8, data(1, "[1, 2]") + data(3, "[]"))]
    for field, wanted in ((4, node["control"]), (5, node["wanted"])):
        if draw.random() < 0.5:
            fields.append(data(field, b"".join(varint(one) for one in wanted)))
        else:  # not packed
            fields.append(b"".join(number(field, one) for one in wanted))
    fields.append(attribute("is_cpu_op", 27, node["is_host"]))
    fields.append(attribute("seq_id", 9, -1))
    fields.append(data(10, data(1, "ratio") + varint(3 << 3 | 1) + struct.pack("<d", 0.5)))
    fields.append(varint(99 << 3 | 5) + b"abcd")  # of a later schema
    for name, key in NUMBERS.items():
        if node[key] >= 0:
            small = node[key] < 2 ** 31
            fields.append(attribute(name, draw.choice([9, 13, 17, 21, 25] + ([7, 11, 15, 23] if small else [])), node[key]))
    if node["collective"] < 10:
        fields.append(attribute("comm_type", 9, node["collective"]))
    if node["group"]:
        fields.append(attribute("pg_name", 29, node["group"]))
    draw.shuffle(fields)
    return b"".join(fields)


def stream(nodes, draw, metadata=data(1, "0.0.4")):
    return b"".join(varint(len(one)) + one for one in [metadata] + [message(node, draw) for node in nodes])


def document(nodes):
    graph = []
    for node in nodes:
        one = {"Id": node["id"], "Name": node["name"], "NodeType": node["kind"], "runtime": node["duration_ns"] // 1000,
               "ctrlDeps": node["control"], "data_deps": node["wanted"], "is_cpu_op": bool(node["is_host"]),
               "later": {"a": [1]}}
        one.update({name: node[key] for name, key in NUMBERS.items() if node[key] >= 0})
        if node["collective"] < 10:
            one["comm_type"] = node["collective"]
        if node["group"]:
            one["pg_name"] = node["group"]
        graph.append(one)
    return json.dumps({"workload_name": "x", "workload_graph": graph, "ngpus": 8}, indent=4).encode()


def draw_nodes(draw):
    ids = draw.sample(range(2 ** 62), draw.randrange(1, 60))
    nodes = []
    for place, one in enumerate(ids):
        kind = draw.randrange(1, 8)
        ahead = [draw.choice(ids[:place]) for _ in range(draw.randrange(5))] if place else []
        maybe = lambda most: draw.randrange(most) if kind > 3 and draw.random() < 0.5 else -1  # noqa: E731
        wanted = ahead + ([7] if draw.random() < 0.1 and 7 not in ids else [])
        node = {"id": one, "name": f"kernel_{place}", "group": draw.choice(["", "dp"]), "kind": kind,
                "is_host": draw.randrange(2), "duration_ns": 1000 * draw.randrange(10 ** 9),
                "collective": draw.randrange(10) if kind == 7 else 10, "wanted": wanted, "after": ahead,
                "control": draw.choices(ids, k=draw.randrange(3))}  # who called it: circles are fine
        node.update({key: maybe(2 ** 40) for key in NUMBERS.values()})
        node["communicates"] = int(kind > 4 and not node["is_host"])
        nodes.append(node)
    draw.shuffle(nodes)
    return nodes


def read(content):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "trace")
        with open(path, "wb") as file:
            file.write(content)
        done = subprocess.run([PRINT, path], capture_output=True, text=True, check=False, timeout=60)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return (lines[:-1], lines[-1], "") if done.returncode == 0 else (None, None, done.stderr)


class Graphs(unittest.TestCase):
    def check(self, nodes, content):
        got, graph, error = read(content)
        self.assertEqual(error, "")
        self.assertEqual(got, [{key: value for key, value in node.items() if key not in ("wanted", "control")} for node in nodes])
        edges = sum(len(node["after"]) for node in nodes)
        self.assertEqual((graph["count"], graph["dependencies"]), (len(nodes), edges))
        self.assertEqual(graph["missing"], sum(len(node["wanted"]) for node in nodes) - edges)
        self.assertEqual(graph["control"], sum(len(node["control"]) for node in nodes))
        seen = set()
        for place in graph["order"]:
            self.assertTrue(set(nodes[place]["after"]) <= seen)
            seen.add(nodes[place]["id"])
        self.assertEqual(len(seen), len(nodes))

    def test_random(self):
        for seed in range(12):
            draw = random.Random(seed)
            nodes = draw_nodes(draw)
            for content in (stream(nodes, draw), document(nodes)):
                self.check(nodes, gzip.compress(content) if seed % 3 == 0 else content)

    def test_long_names_and_metadata(self):
        """A first length that is an opening brace, too; names beyond what is kept; a large message."""
        draw = random.Random(1)
        nodes = draw_nodes(draw)
        for text in ("x" * 121, " " * 121):
            self.assertEqual(stream(nodes, draw, data(1, text))[0], ord("{"))
            self.check(nodes, stream(nodes, draw, data(1, text)))
        nodes[0]["name"] = "n" * 300000
        got, _, error = read(stream(nodes, draw))
        self.assertEqual((error, got[0]["name"]), ("", "n" * 255))


class Damaged(unittest.TestCase):
    NODE = {"id": 5, "name": "a", "group": "", "kind": 4, "is_host": 0, "duration_ns": 1000, "collective": 10,
            "wanted": [], "after": [], "control": [5], **{key: -1 for key in NUMBERS.values()}}

    def refused(self, content, *words):
        _, _, error = read(content)
        for word in words:
            self.assertIn(word, error)

    def node(self, **changes):
        return {**self.NODE, **changes}

    def test_stream(self):
        draw = random.Random(3)
        head = varint(7) + data(1, "0.0.4")
        whole = stream([self.NODE], draw)
        self.refused(b"", "is empty")
        self.refused(head, "has no nodes")
        for cut in range(1, len(whole)):
            if cut != len(head):
                self.refused(whole[:cut], "byte", "ends within")
        self.refused(b"\xff" * 40, "byte 0", "64 MiB")
        self.refused(b"plain text that is long enough to be taken for a message of this and that length: " * 3, "byte 0")
        self.refused(head + varint(3) + b"\x0b\x0b\x0b", "byte 8", "not a protocol buffer")  # groups
        self.refused(head + varint(2) + number(3, 8), "byte 8", "unknown type")
        self.refused(head + varint(11) + number(7, 2 ** 63), "byte 8", "30 years")
        self.refused(head + varint(4) + data(5, b"\xff\xff"), "byte 8", "dependencies")
        self.refused(head + varint(4) + data(10, b"\xff\xff"), "byte 8", "attribute")
        bad = attribute("comm_size", 9, -5)
        self.refused(head + varint(len(bad)) + bad, "byte 8", "below 0")

    def test_graph(self):
        draw = random.Random(4)
        for write in (lambda nodes: stream(nodes, draw), document):
            self.refused(write([self.NODE, self.NODE]), "two nodes have the id 5")
            self.refused(write([self.node(wanted=[5])]), "node 5 (a)", "circle")
            circle = [self.node(id=one, wanted=[(one + 1) % 3]) for one in range(3)] + [self.node(id=9)]
            self.refused(write(circle), "circle")

    def test_document(self):
        for text, words in (("{}", ["workload_graph"]), ('{"nodes": []}', ["workload_graph", "converted"]),
                            ('{"workload_graph": 3}', ["byte"]), ('{"workload_graph": [3]}', ["byte"]),
                            ('{"workload_graph": [{"Id": 3}]}', ["byte", "NodeType"]),
                            ('{"workload_graph": [{"Id": -3}]}', ["byte"]), ('{"workload_graph": [{"NodeType": 9}]}', ["byte"]),
                            ('{"workload_graph": [{"data_deps": ["a"]}]}', ["byte", "id of a node"]),
                            ('{"workload_graph": [', ["byte"])):
            self.refused(text.encode(), *words)


if __name__ == "__main__":
    unittest.main()
