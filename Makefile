# SPDX-License-Identifier: Apache-2.0
# The front door. `make run` measures this machine and writes the report; `make test` checks
# everything. Each does all of its own set-up and can be repeated.

SHELL := /bin/bash
BUILD ?= build
PYTHON := .venv/bin/python
COMPILER := ccache g++
# What is compiled in one checkout serves the next: the folder is no part of the key.
export CCACHE_NOHASHDIR := 1

.PHONY: help run papers test test-all setup build lint check-deps test-cpp test-asan test-asan-switch test-tsan test-tsan-switch test-py format clean \
  test-aarch64 conformance-openflow fuzz plugins test-plugins cluster test-cluster lab image

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make run          set up, build, measure Headrace, OVS-DPDK and the Linux bridge, write the report
run: build
	.venv/bin/headrace run

## make papers       every experiment of the papers at reduced size (about an hour), and a page for each paper
papers: build
	.venv/bin/headrace bench run icpe18 kawashima luizelli hong unify vsperf --results results/papers.sqlite
	.venv/bin/headrace report --paper all --results results/papers.sqlite

## make test         set up, build, run every check and test
test: lint check-deps test-asan test-py

## make test-all     make test, the C++ tests as released, the tests that take minutes, all papers at reduced size, then one build measured twice (A/A): at most 5 % of the rows may differ
test-all: test test-cpp papers
	@bash setup/lab.sh
	$(PYTHON) -m pytest -m full
	.venv/bin/headrace bench same-build port-to-port --minutes 4 --quick --results results/same-build.sqlite

## make setup        system packages, Python environment, hugepages (each only if missing)
setup:
	@bash setup/prepare.sh

## make build        the C++ programs into build/ (not their tests) and the headrace command into .venv/bin
build: setup
	@[ -f $(BUILD)/build.ninja ] || CXX='$(COMPILER)' meson setup $(BUILD)
	@ninja -C $(BUILD) programs

## make lint         formatters, linters, types
lint: setup
	$(PYTHON) -m ruff check headrace tests setup
	$(PYTHON) -m ruff format --check headrace tests setup
	$(PYTHON) -m mypy
	find dataplane -name '*.h' -o -name '*.cc' | xargs clang-format-14 --dry-run --Werror

## make check-deps   the one-way dependencies between the modules, SPDX lines, paths and words in pages
check-deps: setup
	$(PYTHON) setup/check_tree.py

# `meson test` builds the tests that it runs.
test-cpp: build
	meson test -C $(BUILD) --suite headrace --print-errorlogs

build-asan/build.ninja: | setup
	CXX='$(COMPILER)' meson setup build-asan --buildtype=custom \
	    -Doptimization=1 -Ddebug=false -Dcpp_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false

## make test-asan    the C++ tests under AddressSanitizer and UBSan
test-asan: build-asan/build.ninja
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 meson test -C build-asan --suite headrace --print-errorlogs --timeout-multiplier 3

## make test-asan-switch   tests/switch against programs built with ASan and UBSan (about 10 min)
test-asan-switch: build build-asan/build.ninja
	@meson compile -C build-asan headrace-switch headrace-vnf headrace-traffic
	HEADRACE_BUILD=$(CURDIR)/build-asan/dataplane/apps LSAN_OPTIONS=suppressions=$(CURDIR)/setup/lsan.supp UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    $(PYTHON) -m pytest tests/switch

build-tsan/build.ninja: | setup
	CXX='$(COMPILER)' meson setup build-tsan --buildtype=custom -Doptimization=1 -Ddebug=false \
	    -Dcpp_args='-g1 -DRTE_USE_C11_MEM_MODEL -Wno-tsan -Wno-maybe-uninitialized' -Db_sanitize=thread -Db_lundef=false

## make test-tsan    the tests of workers and queues under ThreadSanitizer
test-tsan: build-tsan/build.ninja
	TSAN_OPTIONS=suppressions=$(CURDIR)/setup/tsan.supp:halt_on_error=0 meson test -C build-tsan \
	    handover ownership port_queues qsbr queue_assignment tx_queues vhost_messages vhost_packed_rings worker \
	    --print-errorlogs --timeout-multiplier 4

## make test-tsan-switch   tests/switch against programs built with ThreadSanitizer (about 20 min)
test-tsan-switch: build build-tsan/build.ninja
	@meson compile -C build-tsan headrace-switch headrace-vnf headrace-traffic
	HEADRACE_BUILD=$(CURDIR)/build-tsan/dataplane/apps \
	    TSAN_OPTIONS=suppressions=$(CURDIR)/setup/tsan.supp:halt_on_error=1 $(PYTHON) -m pytest tests/switch

## make test-aarch64 the C++ programs and tests, and the plugins, cross-compiled for 64-bit ARM; the tests run by qemu-aarch64 (user mode)
test-aarch64: setup
	@bash setup/aarch64.sh test

## make fuzz         libFuzzer over the parsers, codecs and the compiler (FUZZ_SECONDS=60 each)
fuzz: setup
	@bash setup/fuzz.sh

# What shares two cores with polling processes can miss a deadline that it keeps otherwise. Up to six
# tests get a second try; the summary lists each with what failed at the first, so none goes unseen.
test-py: build
	$(PYTHON) -m pytest -raR --reruns 1 --max-suite-reruns 6 --rerun-show-tracebacks

## make conformance-openflow   os-ken's 991 OpenFlow 1.3 tests, Headrace as target (about 35 min;
##                   ARGS=--subset: two minutes; ARGS='--target ovs': Open vSwitch instead)
conformance-openflow: build
	$(PYTHON) -m tests.conformance_openflow.run $(ARGS)

## make plugins      the CNI plugin and the device plugin for Kubernetes (Go) into build-plugins/
plugins: setup
	@bash setup/plugins.sh

## make test-plugins the plugins' own tests, and the CNI specification's cases on a node
test-plugins: build plugins
	cd plugins && CGO_ENABLED=0 GOTOOLCHAIN=local $$(bash ../setup/go.sh) test -mod=readonly ./...
	$(PYTHON) -m pytest -m 'full or not full' tests/plugins

## make cluster      etcd and Kubernetes' control plane from their Go modules, kept outside the checkout (half an hour)
cluster: setup
	@bash setup/cluster.sh

## make test-cluster three nodes under that control plane: a chain of VNFs, a killed node, 100 graphs, pods
test-cluster: build plugins cluster
	$(PYTHON) -m pytest -s -m 'full or not full' tests/kubernetes

## make lab RUN='COMMAND' a command in the lab guest: Debian's kernel (Open vSwitch's datapath, vhost-net, vfio) under TCG, on this machine's files
lab: build
	@bash setup/lab.sh
	$(PYTHON) -m tests.guest.lab -- $(RUN)

## make image        the OCI image of a node into build-image/headrace.tar, and its tests
image: build plugins
	$(PYTHON) setup/image.py
	$(PYTHON) -m pytest -m 'full or not full' tests/kubernetes/test_image.py

## make format       formatters and the linters' own repairs
format: setup
	$(PYTHON) -m ruff check --fix headrace tests setup
	$(PYTHON) -m ruff format headrace tests setup
	find dataplane -name '*.h' -o -name '*.cc' | xargs clang-format-14 -i

## make clean        removes what was built; the Python environment stays (rm -rf .venv .guest .lab removes it)
clean:
	rm -rf build build-asan build-tsan build-aarch64 build-fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find headrace tests setup -name __pycache__ -prune -exec rm -rf {} +
