# Commands for people; meson does the work (build/).
#   make                   builds
#   make test              installs what is missing, builds, runs the suite
#   make test-thorough     runs the tests that compute longest
#   make test-sanitizers   runs the same code under clang's and gcc's sanitizers
#   make faults            runs the tests of what can go wrong, and says what became of each fault
#   make check-tidy        holds src/ against .clang-tidy, where clang-tidy 14 is installed
#   make demo              installs what is missing, builds, shows the main job on an emulated node
#   make bench             measures
#   make experiment        runs Lull's policies on a real Slurm cluster of emulated GPUs beside the simulator (half an hour)
#   make sbom              writes the list of what Lull is made of (SPDX 2.3), build/lull.spdx.json
#   make wheel             builds the Python wheel for glibc 2.28 or newer in dist/, and tries it in an empty environment
#   make deb               builds Debian packages in dist/, and tries them in a fresh root
#   make images            builds the container images with buildah, and runs a command in each
#   make reproducible      builds the Debian packages twice, which must give the same files
#   make fresh-machine     runs the README's commands on fresh machines, as root and as an ordinary user
#   make fresh-quick       runs those that install on such a machine (7 minutes of CPU time)
#   make docs              builds the documentation site, build/site/index.html
#   make release           builds what is installed, without tests, in build-release/
#   make install           installs it; DESTDIR= and MESON_FLAGS=--prefix=... as for other packages
#   make uninstall         removes what the last make install has installed
#   make figures           makes the pictures of docs/ (ten minutes); tools/figures/make says what each needs

BUILD ?= build
MESON_FLAGS ?=

.PHONY: all configure test test-thorough test-sanitizers faults check-tidy demo bench experiment sbom wheel deb images reproducible fresh-quick fresh-machine release install uninstall figures docs clean

all: configure
	ninja -C $(BUILD)

# Also looks up again what was missing, where packages have come since.
configure:
	tools/configure $(BUILD) $(MESON_FLAGS)

test:
	tools/install-deps
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	tools/test --build $(BUILD)

test-thorough:
	tools/install-deps
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	tools/test --build $(BUILD) thorough

test-sanitizers:
	tools/install-deps
	tools/test --build $(BUILD) address thread

faults:
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	tools/faults $(BUILD)

# 77: there is no clang-tidy, as the check has said.
check-tidy: all
	tools/check-tidy $(BUILD) || [ $$? -eq 77 ]

# Without the tests nothing has to be there that only they need.
demo:
	tools/install-deps demo
	tools/configure $(BUILD) -Dtests=false $(MESON_FLAGS)
	ninja -C $(BUILD) demo-programs
	tools/demo $(BUILD)

bench:
	tools/install-deps
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	tools/bench $(BUILD)

# 77: there is no Slurm, or not the tools for it, as the experiment has said.
experiment:
	tools/install-deps
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	cluster/bench/experiment.py $(BUILD) tools/slurm-cluster || [ $$? -eq 77 ]

sbom: all
	tools/sbom $(BUILD) >$(BUILD)/lull.spdx.json

# Needs what packaging/debian/control names; the test of the packages needs mmdebstrap and root.
deb:
	tools/make-deb dist
	python3 tests/packaging/test_deb.py tools/fresh-machine dist

# 77: there is no buildah, no root could be made, or no mirror answers, as it has said.
images:
	tools/make-images || [ $$? -eq 77 ]

reproducible:
	tools/check-reproducible

# 77: there is no mmdebstrap or no mirror, as it has said.
fresh-quick:
	tools/fresh-machine --ccache --user --quick || [ $$? -eq 77 ]

fresh-machine:
	tools/fresh-machine --ccache
	tools/fresh-machine --ccache --user

# Needs only what tools/make-wheel names.
wheel:
	python3 tests/packaging/test_wheel.py "$$(tools/make-wheel --output dist | tail -n 1)"

figures:
	tools/configure $(BUILD) --tests $(MESON_FLAGS)
	ninja -C $(BUILD)
	tools/figures/make $(BUILD)

# 77: its packages cannot be installed, as it has said.
docs: all
	tools/make-site $(BUILD) || [ $$? -eq 77 ]

release:
	tools/configure $(BUILD)-release --buildtype=release -Dtests=false $(MESON_FLAGS)
	ninja -C $(BUILD)-release

install: release
	meson install -C $(BUILD)-release --no-rebuild

uninstall:
	ninja -C $(BUILD)-release uninstall

clean:
	rm -rf $(BUILD) $(BUILD)-release
