# Thin over the presets of CMakePresets.json: installs what is missing, configures, builds, runs.
#   make run | run-web | train-demo | test | build | install | check | check-long | format | clean
# make test and make check are for each change; make check-long is for a release. tools/stages.sh prints what each stage took.
PROMPT ?= What is a violin?
JOBS   ?= $(shell nproc)
# The model and golden tests run in seconds; a test that hangs should not hold a machine for hours.
CTEST  := ctest --output-on-failure --timeout 1800 -j $(JOBS)
# What sanitizers run: all but the goldens from every source, and the models of tests/data only.
QUICK  := env -u SLUICE_REFERENCE_MODELS $(CTEST) -LE slow
TIMED  := tools/timed.sh
# check-tidy reads the sources that this many of the last commits touched. A change often comes as many commits.
TOUCHED ?= 25
MAKE_  := $(MAKE) --no-print-directory

# Paths in the compiler cache are relative to the clone, so that another clone finds what this one compiled.
export CCACHE_BASEDIR   := $(CURDIR)
export CCACHE_NOHASHDIR := 1

# Longest first, so that no stage is left alone at the end. The page's stage leaves processors idle, which the first uses.
CHECKS := asan page tidy peer includes format

.DEFAULT_GOAL := build
.PHONY: help run run-web train-demo test test-programs test-clients test-levels test-webgpu test-chromium test-web web wasm-module screenshots build install check check-long deps \
        test-deps check-deps neon-deps format clean check-neon check-tidy-long check-levels-long check-tsan-long check-fuzz-long check-faults-long check-peer-media check-wasm $(addprefix check-,$(CHECKS))

# What follows "##" behind a target is its line here.
help:
	@echo "make TARGET [PROMPT=...] [JOBS=N]:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## builds, then answers PROMPT with the built-in demo model
	build/release/sluice run demo "$(PROMPT)"

train-demo: build ## teaches the demo model made-up words, and asks it before and after
	@tools/train_demo.sh build/release/sluice build/train-demo

# The page with the demo model, at http://localhost:$(PORT)/.
PORT ?= 8080
run-web: web ## builds the page, then serves it at http://localhost:8080/
	@tools/with_node.sh node web/serve.mjs --port $(PORT)

# The page and the package, into web/dist.
web: wasm-module ## builds the page and the package, into web/dist
	@echo "web: bundles the page"
	tools/with_node.sh tools/build_web.sh

wasm-module: deps
	@echo "wasm-module: compiles the page's module; the first time this takes some minutes"
	@tools/install_packages.sh wasm
	cmake --preset wasm
	cmake --build build/wasm --target sluice_module sluice_threads_module -j $(JOBS)

build: deps ## builds build/release/sluice (the default)
	cmake --preset release
	cmake --build build/release --target sluice -j $(JOBS)
	@tools/fetch_dawn.sh build

# PREFIX is where it will live, DESTDIR what stands before that while packaging. Builds nothing, so that it may run as
# another user than make build did.
PREFIX ?= /usr/local
install: ## installs what make build made (PREFIX=, DESTDIR=)
	@test -x build/release/sluice || { echo "install: no build/release/sluice: make build first" >&2; exit 1; }
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

test: test-deps ## builds, then runs all tests of a change
	+@$(TIMED) "test: build" $(MAKE_) test-programs
	@$(TIMED) "test: run" $(CTEST) --test-dir build/release
	@tools/tests_not_run.sh build/release
	+@$(TIMED) "test: clients of the server" $(MAKE_) test-clients
	@tools/stages.sh

test-programs: test-deps
	cmake --preset release
	cmake --build build/release -j $(JOBS) --target sluice tests

# The server with the npm packages that other programs use, and with clients that misbehave; says so where npm's registry
# cannot be reached.
test-clients: test-programs
	tests/serve/clients/run.sh build/release/sluice
	tests/serve/faults/run.sh build/release/sluice 300 1

# All cases of all devices but WebGPU; all goldens, also the full set and all formats, at every SIMD level of this machine:
# ten minutes.
test-levels: test-programs
	build/release/device_test
	SLUICE_EVERY_LEVEL=1 build/release/app_test --gtest_filter='Goldens*'

# All of the WebGPU device's tests, and the one-answer list for all families: an hour where there is no GPU.
test-webgpu: test-programs
	build/release/webgpu_test
	LP_NATIVE_VECTOR_WIDTH=128 GALLIVM_PERF=nopt build/release/one_answer_test --gtest_filter='*/webgpu*'

# The small models' goldens in Chromium, on WebGPU; `make check` has a case of each family.
MODELS ?=
test-chromium: test-deps wasm-module
	@tools/fetch_node_webgpu.sh build
	tools/check_chromium.sh build/wasm build $(MODELS)

# The page in Chromium, as a user drives it; says so where npm's registry cannot be reached.
test-web: test-deps wasm-module build
	tests/web/run.sh

# The pictures that README.md and docs/ show, by the same tests.
screenshots: test-deps wasm-module
	SCREENSHOTS=docs/images tests/web/run.sh

# Two stages at a time: while one links or waits, the other computes.
check: check-deps ## the page in Chromium, formatting, tidy, second compiler, sanitizers, wasm, llama.cpp beside it
	+@$(MAKE_) -j 2 --output-sync=target $(addprefix timed-check-,$(CHECKS))
	@tools/stages.sh
	@echo "check: all of it holds"

timed-check-peer: timed-check-page  # both use build/release

timed-%:
	@echo "$*:"
	+@$(TIMED) "$*" $(MAKE_) $*

# What takes long, before a release: docs/testing.md lists it.
check-long: check-deps ## what takes long, before a release
	+@$(TIMED) "test-levels" $(MAKE_) test-levels
	+@$(TIMED) "test-webgpu" $(MAKE_) test-webgpu
	+@$(TIMED) "test-chromium" $(MAKE_) test-chromium
	+@$(TIMED) "check-neon" $(MAKE_) check-neon
	+@$(TIMED) "check-tidy-long" $(MAKE_) check-tidy-long
	+@$(TIMED) "check-levels-long" $(MAKE_) check-levels-long
	+@$(TIMED) "check-tsan-long" $(MAKE_) check-tsan-long
	+@$(TIMED) "check-fuzz-long" $(MAKE_) check-fuzz-long
	+@$(TIMED) "check-faults-long" $(MAKE_) check-faults-long
	@tools/stages.sh

check-format: check-deps
	tools/format.sh --check

check-includes: check-deps
	tools/check_includes.py

# What the last TOUCHED commits touched, by clang-tidy and by g++; check-tidy-long and check-levels-long have all of src/.
check-tidy: check-deps
	cmake --preset tidy
	tools/tidy.py build/tidy $(JOBS) $(TOUCHED)
	tools/second_compiler.py build/tidy $(JOBS) $(TOUCHED)

check-tidy-long: check-deps
	cmake --preset tidy
	tools/tidy.py build/tidy $(JOBS)

# Beside llama.cpp, where npm can fetch it; says so where not. Benchmarks are built here, too.
check-peer: check-deps
	cmake --preset release
	cmake --build build/release -j $(JOBS)
	tests/peer/check.sh build/release

# Answers about pictures and sounds beside llama.cpp's mtmd, which this compiles: two minutes, and the reference models.
check-peer-media: check-peer
	cmake -S tests/peer/mtmd -B build/peer/mtmd -G Ninja -DPEER=$(CURDIR)/build/peer
	cmake --build build/peer/mtmd
	tests/peer/mtmd/compare.py build/peer build/release "$${SLUICE_REFERENCE_MODELS:?want the folder of the reference models}"

check-asan: check-deps
	cmake --preset asan
	cmake --build build/asan -j $(JOBS) --target quick_tests
	$(QUICK) --test-dir build/asan

# All that runs on several threads.
check-tsan-long: check-deps
	cmake --preset tsan
	cmake --build build/tsan -j $(JOBS) --target base_test device_test engine_test one_answer_test serve_test
	env -u SLUICE_REFERENCE_MODELS $(CTEST) --test-dir build/tsan -R '^(base|device|engine|one_answer|serve)_[0-9]'

# What `make check` leaves out beneath AddressSanitizer: the program's commands, the CPU's instruction sets beyond AVX2, the
# one-answer list, what WebGPU emits, tests of minutes. All of the program, and the numbers of devices, by g++.
check-levels-long: check-deps
	cmake --preset asan-long
	cmake --build build/asan-long -j $(JOBS) --target sluice device_test text_test model_test one_answer_test webgpu_emission_test app_test engine_test train_test
	env -u SLUICE_REFERENCE_MODELS $(CTEST) --test-dir build/asan-long -R '^(device|text|model|one_answer|webgpu_emission|app|engine|train)_[0-9]'
	cmake --preset gcc
	cmake --build build/gcc -j $(JOBS) --target sluice device_test format_test graph_test
	$(QUICK) --test-dir build/gcc -R '^(device|format|graph)_'

check-fuzz-long: check-deps
	cmake --preset fuzz
	cmake --build build/fuzz -j $(JOBS)
	tools/fuzz.sh build/fuzz 3600

# The server under 10,000 clients that misbehave, with either sanitizer. Each run prints its seed.
check-faults-long: check-deps
	cmake --preset asan
	cmake --build build/asan -j $(JOBS) --target sluice
	tests/serve/faults/run.sh build/asan/sluice 10000
	cmake --preset tsan
	cmake --build build/tsan -j $(JOBS) --target sluice
	tests/serve/faults/run.sh build/tsan/sluice 10000

# One behind the other, because all of it uses build/wasm.
check-page: check-deps
	+@$(TIMED) "check-page: module" $(MAKE_) check-wasm
	+@$(TIMED) "check-page: page" $(MAKE_) test-web
	+@$(TIMED) "check-page: Chromium on WebGPU" $(MAKE_) test-chromium MODELS="gemma4_dense:short17,image gemma4_moe:short17 qwen3_5_moe:short17 deepseek_v3:short17"

# src/ less files, threads and sockets as a page loads it, and the goldens there.
check-wasm: check-deps
	cmake --preset wasm
	cmake --build build/wasm -j $(JOBS)
	@tools/fetch_node_webgpu.sh build
	@tools/fetch_webgpu.sh build
	tools/check_wasm.sh build/wasm build

# The kernels for Arm, under an emulator.
check-neon: neon-deps
	tools/check_neon.sh $(JOBS)

deps:
	@tools/install_packages.sh build

# What the tests of the WebGPU device run on, too.
test-deps:
	@tools/install_packages.sh build test
	@tools/fetch_webgpu.sh build

check-deps:
	@tools/install_packages.sh build check

neon-deps:
	@tools/install_packages.sh build neon

format: check-deps ## formats the sources
	tools/format.sh

clean: ## removes build/
	rm -rf build
