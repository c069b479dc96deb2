# SPDX-License-Identifier: Apache-2.0
from spack.package import *


class Lull(MesonPackage):
    """Power manager for GPUs in distributed deep learning: lowers clocks where a job does not need them."""

    # Placeholders: nothing is published yet.
    homepage = "https://example.org/lull"
    git = "https://example.org/lull.git"

    license("Apache-2.0")

    version("0.1.0", tag="v0.1.0")
    version("main", branch="main")

    variant("cluster", default=False, description="Simulated clusters and power budgets")
    variant("lab", default=False, description="Sweeps, models of kernels, reproduced results")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("mpi", type="build")
    depends_on("jansson")
    depends_on("libcap-ng")
    depends_on("libmicrohttpd@0.9.71:")
    depends_on("libseccomp@2.5:")
    depends_on("libuv")
    depends_on("libzmq")
    depends_on("ncurses+termlib")
    depends_on("sqlite@3.35:")
    depends_on("zlib-api")
    depends_on("openblas")

    requires("platform=linux")

    def meson_args(self):
        return [
            "-Dtests=false",
            f"-Dcluster={str('+cluster' in self.spec).lower()}",
            f"-Dlab={str('+lab' in self.spec or '+cluster' in self.spec).lower()}",
        ]
