# Thin over the presets of CMakePresets.json: installs what is missing, configures, builds, runs.
#   make run | run-web | test | build | install | check | format | clean
PROMPT ?= What is a violin?
JOBS   ?= $(shell nproc)
# The model and golden tests run in seconds; a test that hangs should not hold a machine for hours.
CTEST  := ctest --output-on-failure --timeout 1800 -j $(JOBS)
# What sanitizers and the second compiler run: all but the goldens from every source, and the models of tests/data only.
QUICK  := env -u SLUICE_REFERENCE_MODELS $(CTEST) -LE slow

# The programs that tests/peer/check.sh runs.
PEER   := sluice peer_vocabularies peer_tokens peer_blocks peer_greedy peer_render

# Paths in the compiler cache are relative to the clone, so that another clone finds what this one compiled.
export CCACHE_BASEDIR   := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.DEFAULT_GOAL := build
.PHONY: run run-web test test-webgpu test-chromium test-web web wasm-module screenshots build install check deps test-deps check-deps \
        format clean \
        check-format check-includes check-tidy check-peer check-asan check-tsan check-gcc check-fuzz check-wasm check-neon

run: build
	build/release/sluice run demo "$(PROMPT)"

# The page with the demo model, at http://localhost:$(PORT)/.
PORT ?= 8080
run-web: web
	@tools/with_node.sh node web/serve.mjs --port $(PORT)

# The page and the package, into web/dist.
web: wasm-module
	tools/with_node.sh tools/build_web.sh

wasm-module: deps
	@tools/install_packages.sh wasm
	cmake --preset wasm
	cmake --build build/wasm --target sluice_module -j $(JOBS)

build: deps
	cmake --preset release
	cmake --build build/release --target sluice -j $(JOBS)
	@tools/fetch_dawn.sh build

# PREFIX is where it will live, DESTDIR what stands before that while packaging. Builds nothing, so that it may run as
# another user than make build did.
PREFIX ?= /usr/local
install:
	@test -x build/release/sluice || { echo "install: no build/release/sluice: make build first" >&2; exit 1; }
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

test: test-deps
	cmake --preset release
	cmake --build build/release -j $(JOBS)
	$(CTEST) --test-dir build/release
	@tools/goldens_not_run.sh build/release
	@$(MAKE) --no-print-directory test-web
	@tools/fetch_node_webgpu.sh build
	tools/check_chromium.sh build/wasm build gemma4_dense gemma4_moe:short17 qwen3_5_moe deepseek_v3

# All of the WebGPU device's tests, and the one-answer list for all families: an hour where there is no GPU.
test-webgpu: test-deps
	cmake --preset release
	cmake --build build/release -j $(JOBS)
	build/release/webgpu_test
	LP_NATIVE_VECTOR_WIDTH=128 GALLIVM_PERF=nopt build/release/one_answer_test --gtest_filter='*/webgpu*'

# All small models' goldens in Chromium, on WebGPU; `make test` has one of each family.
test-chromium: test-deps wasm-module
	@tools/fetch_node_webgpu.sh build
	tools/check_chromium.sh build/wasm build

# The page in Chromium, as a user drives it; says so where npm's registry cannot be reached.
test-web: test-deps wasm-module
	tests/web/run.sh

# The pictures that README.md and docs/ show, by the same tests.
screenshots: test-deps wasm-module
	SCREENSHOTS=docs/images tests/web/run.sh

check: check-format check-includes check-tidy check-peer check-gcc check-asan check-tsan check-fuzz check-wasm check-neon
	@echo "check: all of it holds"

check-format: check-deps
	tools/format.sh --check

check-includes: check-deps
	tools/check_includes.py

check-tidy: check-deps
	cmake --preset release
	tools/tidy.py build/release $(JOBS)

# Beside llama.cpp, where npm can fetch it; says so where not.
check-peer: check-deps
	cmake --preset release
	cmake --build build/release -j $(JOBS) --target $(PEER)
	tests/peer/check.sh build/release

# The other compiler of the two that must take the sources; its answers are held to the same tests.
check-gcc: check-deps
	cmake --preset gcc
	cmake --build build/gcc -j $(JOBS)
	$(QUICK) --test-dir build/gcc

check-asan: check-deps
	cmake --preset asan
	cmake --build build/asan -j $(JOBS)
	$(QUICK) --test-dir build/asan

# Only what runs on several threads: the pool, the CPU device, the engine.
check-tsan: check-deps
	cmake --preset tsan
	cmake --build build/tsan -j $(JOBS) --target base_test device_test engine_test one_answer_test
	$(QUICK) --test-dir build/tsan -R '^(base|device|device_rest|engine|one_answer)$$'

check-fuzz: check-deps
	cmake --preset asan
	cmake --build build/asan -j $(JOBS)
	tools/fuzz.sh build/asan 30

# src/ less files, threads and sockets as a page loads it, and the goldens there.
check-wasm: check-deps
	cmake --preset wasm
	cmake --build build/wasm -j $(JOBS)
	@tools/fetch_node_webgpu.sh build
	@tools/fetch_webgpu.sh build
	tools/check_wasm.sh build/wasm build

# The kernels for Arm, under an emulator.
check-neon: check-deps
	tools/check_neon.sh $(JOBS)

deps:
	@tools/install_packages.sh build

# What the tests of the WebGPU device run on, too.
test-deps:
	@tools/install_packages.sh build test
	@tools/fetch_webgpu.sh build

check-deps:
	@tools/install_packages.sh build check

format: check-deps
	tools/format.sh

clean:
	rm -rf build
