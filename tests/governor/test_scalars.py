"""What `lull run --scalars` writes: an event file and lines of JSON that say the same, as docs/user/scalars.md lists it.

The event file is read here by hand, and by TensorBoard's own reader where that is installed.
Run as: test_scalars.py LULL JOB SOURCE [TEST...]. SPDX-License-Identifier: Apache-2.0"""
import contextlib
import glob
import importlib.util
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, JOB, SOURCE = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))


def crc32c(data):
    """By division of polynomials, bit by bit; 0x1EDC6F41 is the generator."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= int(f"{byte:08b}"[::-1], 2) << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x1EDC6F41 if crc >> 31 else crc << 1) & 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2) ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8]) and len(data) >= length + 16
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked(data[12:12 + length])
        yield data[12:12 + length]
        data = data[16 + length:]


def varint(data):
    value = shift = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, data[place + 1:]
    raise AssertionError("a number without an end")


def fields(data):
    """A message: each field's number with its values, in order."""
    found = {}
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            value, data = varint(data)
        elif key & 7 == 1:
            value, data = struct.unpack("<d", data[:8])[0], data[8:]
        else:
            assert key & 7 == 2, key
            length, data = varint(data)
            assert len(data) >= length
            value, data = data[:length], data[length:]
        found.setdefault(key >> 3, []).append(value)
    return found


def read_events(path):
    """[(time, step, {tag: value})], and {tag: description}."""
    with open(path, "rb") as file:
        first, *events = [fields(record) for record in records(file.read())]
    assert first[3] == [b"brain.Event:2"] and 5 not in first
    rows, helps = [], {}
    for event in events:
        values = {}
        for value in (fields(value) for value in fields(event[5][0])[1]):
            tag = value[1][0].decode()
            tensor = fields(value[8][0])
            assert tensor[1] == [1] and tensor[2] == [b""], tensor
            values[tag] = struct.unpack("<f", tensor[5][0])[0]
            if 9 in value:
                metadata = fields(value[9][0])
                assert tag not in helps and fields(metadata[1][0])[1] == [b"scalars"] and metadata[4] == [1]
                helps[tag] = metadata[3][0].decode()
            assert tag in helps
        rows.append((event[1][0], event[2][0], values))
    return rows, helps


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(holder.cleanup)
        self.directory = holder.name
        self.scalars = os.path.join(self.directory, "scalars")

    def run_job(self, *options, node="2xA100", iterations=60, status=0):
        job = f'"$0" 0 {iterations} 30 60 0 & "$0" 1 {iterations} 30 60 0 & wait'
        done = subprocess.run([LULL, "emulate", "--seed", "1", node, "--", LULL, "run", "--no-daemon", "--report",
                               os.path.join(self.directory, "report"), "--scalars", self.scalars, *options, "--", "sh", "-c", job, JOB],
                              env=dict(os.environ, LULL_RUNTIME_DIR=self.directory), capture_output=True, text=True, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def lines(self, folder=""):
        with open(os.path.join(self.scalars, folder, "scalars.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def events(self, folder=""):
        (path,) = glob.glob(os.path.join(self.scalars, folder, "events.out.tfevents.*"))
        return path, *read_events(path)


class Scalars(Case):
    def test_both_files_say_the_same(self):
        self.run_job()
        lines = self.lines()
        path, rows, helps = self.events()
        self.assertGreater(len(lines), 4)
        known = [{name: value for name, value in line.items() if "/" in name and value is not None} for line in lines]
        # A row of which nothing is known is no event.
        self.assertEqual([(step, set(values)) for _, step, values in rows],
                         [(line["step"], set(row)) for line, row in zip(lines, known) if row])
        for (time_s, step, values), line in zip(rows, [line for line, row in zip(lines, known) if row]):
            self.assertAlmostEqual(time_s, line["time_unix_s"], delta=1e-3)
            for name, value in values.items():
                self.assertTrue(math.isclose(value, line[name], rel_tol=1e-6), (name, value, line[name]))
        self.check_table(lines, helps)
        self.check_figures(lines)
        self.check_examples(known)
        self.check_reader(path, rows)

    def check_examples(self, known):
        """The programs of the document, with what stands for W&B and MLflow, log each row."""
        with open(os.path.join(SOURCE, "docs", "user", "scalars.md"), encoding="utf-8") as file:
            programs = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertEqual(len(programs), 2)
        logged = []

        def log(row, step=None):
            logged.append(row)
            if len(logged) % len(known) == 0:
                raise EOFError

        wandb = types.SimpleNamespace(init=lambda **_: None, define_metric=lambda *_, **__: None, log=log)
        mlflow = types.SimpleNamespace(start_run=contextlib.nullcontext, log_metrics=log)
        names = {}
        with unittest.mock.patch.dict(sys.modules, wandb=wandb, mlflow=mlflow):
            for program in programs:
                with self.assertRaises(EOFError):
                    exec(program.replace("runs/lull", self.scalars), names)
        self.assertEqual(logged, known + known)

    def check_table(self, lines, helps):
        """The document lists what there is, in the same words."""
        with open(os.path.join(SOURCE, "docs", "user", "scalars.md"), encoding="utf-8") as file:
            table = dict(re.findall(r"^\| `(lull/\S+)` \|[^|]*\| (.*) \|$", file.read(), re.M))
        names = [name for name in lines[0] if "/" in name]
        self.assertEqual({re.sub(r"gpu\d+", "gpuN", name) for name in names}, set(table))
        self.assertEqual(len(names), 5 + 2 * 4)
        for name, text in helps.items():
            self.assertEqual(text, table[re.sub(r"gpu\d+", "gpuN", name)])

    def check_figures(self, lines):
        last = lines[-1]
        with open(os.path.join(self.directory, "report", "report.json"), encoding="utf-8") as file:
            run = json.load(file)["energy"]["run"]
        energies = [line["lull/energy_j"] for line in lines if line["lull/energy_j"] is not None]
        self.assertEqual(energies, sorted(energies))
        # The first reading with a rank comes a little after the command's start.
        self.assertAlmostEqual(last["lull/energy_j"], run["energy_j"], delta=0.25 * run["energy_j"])
        for name in ("power_w", "energy_j"):
            self.assertAlmostEqual(last[f"lull/{name}"], last[f"lull/gpu0/{name}"] + last[f"lull/gpu1/{name}"], delta=1e-3)
        self.assertEqual([line["step"] for line in lines], sorted(line["step"] for line in lines))
        self.assertEqual(last["step"], last["lull/iterations"])
        lengths = [line["lull/iteration_ms"] for line in lines if line["lull/iteration_ms"] is not None]
        self.assertGreater(len(lengths), 1)
        self.assertGreater(min(lengths), 80.0)

    def check_reader(self, path, rows):
        host.find_packages()
        if importlib.util.find_spec("tensorboard") is None:
            print("skipped: no tensorboard: see tools/install-deps", flush=True)
            return
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        accumulator = EventAccumulator(path, size_guidance={"tensors": 0})
        accumulator.Reload()
        self.assertEqual(set(accumulator.Tags()["tensors"]), {tag for _, _, values in rows for tag in values})
        for tag in accumulator.Tags()["tensors"]:
            self.assertEqual([(event.step, event.tensor_proto.float_val[0]) for event in accumulator.Tensors(tag)],
                             [(step, values[tag]) for _, step, values in rows if tag in values])
            metadata = accumulator.SummaryMetadata(tag)
            self.assertEqual((metadata.plugin_data.plugin_name, metadata.display_name), ("scalars", tag))

    def test_a_full_disk_costs_the_file(self):
        """The lines go to a disk that is full: said once; the job, the report and the event file are whole."""
        os.mkdir(self.scalars)
        os.symlink("/dev/full", os.path.join(self.scalars, "scalars.jsonl"))
        said = self.run_job(iterations=40)
        self.assertEqual(said.count("scalars.jsonl: No space left on device; the job runs on"), 1, said)
        self.assertGreater(len(self.events()[1]), 2)
        self.assertTrue(os.path.exists(os.path.join(self.directory, "report", "report.json")))

    def test_runs_that_are_compared_have_folders(self):
        self.run_job("--compare", iterations=20)
        for folder in ("run-1-unmanaged", "run-2-managed"):
            self.assertGreater(len(self.lines(folder)), 0)
            self.assertGreater(len(self.events(folder)[1]), 0)

    def test_no_folder(self):
        self.scalars = "/proc/nowhere"
        said = self.run_job(status=2)
        self.assertIn("--scalars: /proc/nowhere", said)
        self.assertIn("use another directory", said)


class Checksum(unittest.TestCase):
    def test_known_values(self):
        """Of RFC 3720, B.4, and of the digits."""
        self.assertEqual(crc32c(b"\0" * 32), 0x8A9136AA)
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)


if __name__ == "__main__":
    unittest.main(verbosity=2)
