"""What goes wrong with a probe inside a program, by the numbers of the fault list: the program does not notice.

usage: test_probe_faults.py LULL GLOO_STUB PROBE... [-- TEST...]. SPDX-License-Identifier: Apache-2.0"""
import os
import struct
import subprocess
import sys
import tempfile
import unittest

LULL, STUB, *PROBES = (os.path.abspath(path) for path in sys.argv[1:])
del sys.argv[1:]

BARRIER = "_ZN4gloo7barrierERNS_14BarrierOptionsE"
CALL_GLOO = f"""
import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path, mode=0)
ctypes.CDLL(None)["{BARRIER}"](ctypes.create_string_buffer(64))
"""
CALL_LULL = """
import ctypes, sys
lull = ctypes.CDLL(sys.argv[1])
lull.lull_section_begin(b"x")
lull.lull_step()
lull.lull_section_end(b"x")
lull.lull_window_end(lull.lull_window_begin(b"w"), None)
sys.exit(7)
"""
CALL_FORTRAN = """
import ctypes, sys
mpi = ctypes.CDLL(None)
for name, arguments in (("init", 1), ("barrier", 2), ("allreduce", 7), ("sendrecv", 13), ("finalize", 1)):
    words = [ctypes.c_int(0) for _ in range(arguments)]
    mpi["mpi_" + name + "_"](*(ctypes.byref(word) for word in words))
    if words[-1].value == 0:
        sys.exit(name + " has not failed")
"""


def probe(name):
    return next((path for path in PROBES if name in os.path.basename(path)), None)


class Probes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def run_with(self, command, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LULL_")}
        return subprocess.run(command, env=dict(environment, **variables), capture_output=True, text=True, timeout=60,
                              check=False)

    def segments(self):
        """What LULL_JOB may name, a segment of another version among it."""
        garbage = os.path.join(self.directory, "garbage")
        with open(garbage, "wb") as file:
            file.write(b"garbage")
        other = os.path.join(self.directory, "other")
        done = self.run_with([LULL, "emulate", "1xA100", "--", LULL, "run", "--no-daemon", "--quiet", "--", "sh", "-c",
                              f'cp --sparse=always "$LULL_JOB" {other}'], LULL_RUNTIME_DIR=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(other, "r+b") as file:
            file.seek(8)
            version = struct.unpack("<I", file.read(4))[0]
            file.seek(8)
            file.write(struct.pack("<I", version + 1))
        return ["", garbage, other, "/nowhere", "/dev/null", self.directory]

    def test_f35_a_probe_is_silent_where_it_can_do_nothing(self):
        for job in [None] + self.segments():
            variables = {} if job is None else {"LULL_JOB": job}
            for path in PROBES:
                for variable in ("LD_PRELOAD", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"):
                    done = self.run_with(["sh", "-c", "exit 7"], **{variable: path}, **variables)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "", ""), (path, job))
            done = self.run_with([sys.executable, "-c", CALL_LULL, probe("liblull.so")], **variables)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "", ""), job)
            done = self.run_with(["sh", "-c", "exit 7"], LD_PRELOAD=":".join(PROBES), **variables)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "", ""), job)

    @unittest.skipIf(STUB.endswith("none"), "no C++ compiler")
    def test_f51_gloo_under_another_name(self):
        mangled = os.path.join(self.directory, "libmangled.so")
        with open(STUB, "rb") as file:
            library = file.read()
        self.assertIn(b"libgloo.so.0", library)
        with open(mangled, "wb") as file:
            file.write(library.replace(b"libgloo.so.0", b"libbarr.so.0"))
        done = self.run_with([sys.executable, "-c", CALL_GLOO, mangled], LD_PRELOAD=probe("gloo"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ran barrier\n", ""))

    def test_f51_gloo_that_is_not_there(self):
        done = self.run_with([sys.executable, "-c", CALL_GLOO], LD_PRELOAD=probe("gloo"))
        # As the dynamic linker has it, which would have found nothing either.
        self.assertEqual((done.returncode, done.stderr), (127, f"symbol lookup error: undefined symbol: {BARRIER}\n"))

    @unittest.skipIf(probe("openmpi") is None, "no Open MPI")
    def test_f51_fortran_without_mpi(self):
        done = self.run_with([sys.executable, "-c", CALL_FORTRAN], LD_PRELOAD=probe("openmpi"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
