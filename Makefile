# Three commands for people; meson does the work (build/).
#   make        builds
#   make test   installs what is missing, builds, runs the whole suite
#   make demo   installs what is missing, builds, shows the main job on an emulated node
#   make bench  measures

BUILD ?= build
MESON_FLAGS ?=

.PHONY: all test demo bench clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(MESON_FLAGS)

test:
	tools/install-deps
	$(MAKE) --no-print-directory all
	tools/test $(BUILD)

demo:
	tools/install-deps
	$(MAKE) --no-print-directory $(BUILD)/build.ninja
	ninja -C $(BUILD) demo-programs
	tools/demo $(BUILD)

bench:
	tools/install-deps
	$(MAKE) --no-print-directory all
	tools/bench $(BUILD)

clean:
	rm -rf $(BUILD)
