# SPDX-License-Identifier: Apache-2.0
"""Where tools/install-deps has put the linters of packages, and how a test skips without them."""
import importlib.util
import os
import shutil
import subprocess
import sys

HOME = os.environ.get("LULL_RELEASE") or os.path.expanduser("~/.cache/lull/release")
sys.path.append(os.path.join(HOME, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages"))


def find(case, name):
    """The path of a program; skips the case without it."""
    path = shutil.which(name, path=os.path.join(HOME, "bin") + os.pathsep + os.environ["PATH"])
    if path is None:
        case.skipTest(f"{name} is not installed (tools/install-deps)")
    return path


def need(case, module):
    """Skips the case without a module of Python."""
    if importlib.util.find_spec(module) is None:
        case.skipTest(f"Python's {module} is not installed (tools/install-deps)")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def end(program):
    """The status of a test: 77 where every case was skipped; the reasons are printed."""
    skipped = program.result.skipped
    for case, reason in skipped:
        print(f"skipped: {case.id().split('.')[-1]}: {reason}")
    if not program.result.wasSuccessful():
        return 1
    return 77 if skipped and len(skipped) == program.result.testsRun else 0


def count(result):
    """Appends what passed, failed and was skipped to the file that LULL_TEST_COUNTS names, for .ci/run."""
    if "LULL_TEST_COUNTS" not in os.environ:
        return
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    with open(os.environ["LULL_TEST_COUNTS"], "a", encoding="ascii") as counts:
        print(result.testsRun - failed - skipped, failed, skipped, file=counts)
