"""A job on the GPUs of an emulated node, for tests of clients. SPDX-License-Identifier: Apache-2.0"""
import contextlib
import subprocess


@contextlib.contextmanager
def running(lull, ranks, preset="bert-ddp"):
    """Trains or serves a language model until the block ends, with one rank on each of the first GPUs."""
    process = subprocess.Popen([lull, "play", "--preset", preset, "--ranks", str(ranks), "--iterations", "1000000"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
