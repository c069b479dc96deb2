#!/usr/bin/env python3
"""Recipes of packages, by the linters that are there: rpm, conda, EasyBuild, Spack, containers.

usage: test_recipes.py SOURCE    SPDX-License-Identifier: Apache-2.0
"""
import ast
import glob
import os
import re
import sys
import tempfile
import unittest

from release_tools import end, find, need, run

SOURCE = sys.argv.pop(1)
PACKAGING = os.path.join(SOURCE, "packaging")
SPEC = os.path.join(PACKAGING, "rpm/lull.spec")
EASYCONFIGS = glob.glob(os.path.join(PACKAGING, "easybuild/*.eb"))
EASYBUILD = """
import sys
from easybuild.tools.options import set_up_configuration
set_up_configuration(args=["--allow-use-as-root-and-accept-consequences"], silent=True)
from easybuild.framework.easyconfig.parser import EasyConfigParser
from easybuild.framework.easyconfig.style import check_easyconfigs_style
config = EasyConfigParser(sys.argv[1]).get_config_dict()
print(config["name"], config["version"], config["easyblock"])
sys.exit(check_easyconfigs_style(sys.argv[1:]))
"""


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r"version: '([\d.]+)'", read("meson.build"))[1]


class Recipes(unittest.TestCase):
    def test_versions(self):
        for path, pattern in {"packaging/rpm/lull.spec": r"^Version: +(\S+)", "packaging/spack/package.py": r'version\("([\d.]+)"',
                              "packaging/conda/recipe/recipe.yaml": r'version: "([\d.]+)"',
                              "packaging/helm/lull/Chart.yaml": r"^appVersion: (\S+)"}.items():
            self.assertEqual(re.search(pattern, read(path), re.M)[1], version(), path)
        for path in EASYCONFIGS:
            self.assertIn(f"/Lull-{version()}-", path)

    def test_dependencies(self):
        """Each recipe names each library that a build without tests requires."""
        files = ["meson.build", "examples/meson.build", *glob.glob("src/**/meson.build", root_dir=SOURCE, recursive=True)]
        text = "\n".join(read(path) for path in files)
        needed = set(re.findall(r"dependency\('(\w[\w-]*)'(?!.*required: false)", text)) - {"threads", "cmocka"}
        self.assertIn("openblas", needed)
        self.assertGreater(len(needed), 5)
        names = {"ncursesw": "ncurses", "sqlite3": "sqlite", "libzmq": "zeromq|libzmq", "ompi-c": "openmpi|\"mpi\""}
        for path in ("packaging/rpm/lull.spec", "packaging/spack/package.py", "packaging/conda/recipe/recipe.yaml",
                     os.path.relpath(EASYCONFIGS[0], SOURCE)):
            for name in needed:
                self.assertRegex(read(path), "(?i)" + names.get(name, name), f"{path} does not name {name}")

    def test_rpm(self):
        done = run(find(self, "rpmspec"), "-P", SPEC)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%files -n lulld", done.stdout)

    def test_rpmlint(self):
        done = run(find(self, "rpmlint"), "-r", os.path.join(PACKAGING, "rpm/lull.rpmlintrc"), SPEC)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(" 0 errors", done.stdout)

    def test_conda(self):
        need(self, "rattler_build")
        from rattler_build import Stage0Recipe, VariantConfig
        recipe = Stage0Recipe.from_yaml(read("packaging/conda/recipe/recipe.yaml"))
        (package,) = recipe.render(VariantConfig.from_yaml("c_compiler: [gcc]\nc_stdlib: [sysroot]\n"))
        self.assertIn(f"version='{version()}'", repr(package))

    def test_easybuild(self):
        need(self, "easybuild")
        need(self, "pycodestyle")
        path = os.pathsep.join(sys.path)
        for easyconfig in EASYCONFIGS:
            done = run(sys.executable, "-c", EASYBUILD, easyconfig, env={**os.environ, "PYTHONPATH": path})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"Lull {version()} MesonNinja", done.stdout)

    def test_spack(self):
        """Spack itself is neither in Debian nor on PyPI: only the syntax, and that each call is one of its directives."""
        tree = ast.parse(read("packaging/spack/package.py"))
        (package,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        self.assertEqual((package.name, package.bases[0].id), ("Lull", "MesonPackage"))
        calls = {node.value.func.id for node in package.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)}
        self.assertLessEqual(calls, {"license", "version", "variant", "depends_on", "requires"})


class Containers(unittest.TestCase):
    def instructions(self, path):
        """(instruction, text) of a Containerfile, with continued lines joined."""
        text = "\n".join(line for line in read(path).splitlines() if not line.startswith("#"))
        return [tuple(line.split(None, 1)) for line in text.replace("\\\n", " ").splitlines() if line.strip()]

    def test_containerfiles(self):
        paths = [os.path.relpath(path, SOURCE) for path in glob.glob(os.path.join(PACKAGING, "container/Containerfile.*"))]
        self.assertEqual(len(paths), 2)
        for path in paths:
            found = self.instructions(path)
            self.assertLessEqual({name for name, _ in found}, {"ARG", "FROM", "RUN", "COPY", "ENV", "CMD", "USER", "ENTRYPOINT"}, path)
            for name, text in found:
                if name == "RUN":
                    done = run("sh", "-n", "-c", text)
                    self.assertEqual(done.returncode, 0, f"{path}: {done.stderr}")

    def test_what_is_built_has_what_meson_requires(self):
        """The packages of both stages contain those that building the node needs (tools/install-deps)."""
        needed = set(re.search(r'demo_packages="(.*?)"', read("tools/install-deps"), re.S)[1].split())
        needed -= {"make", "openmpi-bin"}
        for path in ("packaging/container/Containerfile.node", "packaging/container/Containerfile.cluster"):
            text = " ".join(text for name, text in self.instructions(path) if name == "RUN")
            self.assertEqual(needed - set(text.split()), set(), path)

    def test_scripts(self):
        script = os.path.join(PACKAGING, "container/lulld-node")
        self.assertTrue(os.access(script, os.X_OK))
        done = run("sh", "-n", script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_builder(self):
        """The files as buildah reads them, without the base image that only a registry has."""
        buildah = find(self, "buildah")
        for name in ("node", "cluster"):
            with tempfile.TemporaryDirectory(prefix="lull-recipes-") as place:
                done = run(buildah, "--root", place + "/root", "--runroot", place + "/run", "--storage-driver", "vfs", "bud", "--isolation",
                           "chroot", "--pull-never", "-f", os.path.join(PACKAGING, "container/Containerfile." + name), SOURCE)
            self.assertRegex(done.stderr, "image not known", name)


if __name__ == "__main__":
    sys.exit(end(unittest.main(exit=False, verbosity=2)))
