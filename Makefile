# What people type. Everything honours CARGO_TARGET_DIR; without it, binaries are in target/.

SHELL := /bin/bash
CARGO ?= cargo
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help build run test fmt fmt-check lint docs deny loadtest tools bench bench-short bench-guard bench-docs bench-build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Says exactly what is missing and how to get it, once for all of it.
tools:
	@missing=0; \
	need() { command -v "$$1" > /dev/null || { echo "missing: $$1, $$2; install it with: $$3"; missing=1; }; }; \
	need $(CARGO) "the Rust build tool" "curl -sSf https://sh.rustup.rs | sh"; \
	need cc "a C compiler, for the TLS and compression libraries" "apt-get install gcc, dnf install gcc, or xcode-select --install"; \
	need cmake "for the compression libraries" "apt-get install cmake, dnf install cmake, or brew install cmake"; \
	need curl "to ask a running gateway" "apt-get install curl, dnf install curl, or brew install curl"; \
	exit $$missing

build: tools ## the release binary, target/release/sluice
	$(CARGO) build --locked --release -p sluice --bin sluice

# Optimised enough to be judged, and built in half the time of a release.
run: tools ## build, and serve examples/quickstart with demo backends
	$(CARGO) build --locked --profile quick -p sluice --bin sluice -p sluice-loadtest --bin demo-backend
	examples/run $(TARGET)/quick

test: tools ## every suite: unit, property, end to end, and a short run of churn
	$(CARGO) test --locked --workspace --exclude sluice-lab
	$(CARGO) build --locked -p sluice --bin sluice -p sluice-loadtest --bin churn
	$(TARGET)/debug/churn --short --sluice $(TARGET)/debug/sluice

fmt: tools ## format everything
	$(CARGO) fmt --all

fmt-check: tools ## fail when something is not formatted
	$(CARGO) fmt --all --check

lint: tools ## clippy, with warnings as errors
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: tools ## the API documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

deny: tools ## licences, banned crates, sources and advisories of dependencies
	.ci/deny

loadtest: build ## churn, scale, idle and overload against the release binary
	$(CARGO) build --locked --release -p sluice-loadtest --bin churn --bin scale --bin idle --bin overload \
	  --bin bench-origin
	$(TARGET)/release/churn
	$(TARGET)/release/scale
	$(TARGET)/release/idle
	$(TARGET)/release/overload

# The profile that the benchmark is built with; `quick` builds faster and measures nearly the same.
BENCH_PROFILE ?= release
BENCH = $(TARGET)/$(BENCH_PROFILE)/bench

BENCH_BUILD = $(CARGO) build --locked -p sluice --bin sluice -p sluice-loadtest --bin bench --bin bench-origin \
	--bin vanilla-pingora

bench-build: tools
	$(BENCH_BUILD) --profile $(BENCH_PROFILE) --bin tuned-pingora

bench: bench-build ## side by side with nginx, HAProxy, Envoy and Pingora (docs/benchmarks.md)
	$(BENCH) $(BENCH_FLAGS)

bench-short: bench-build ## three rungs of it in two minutes
	$(BENCH) --label short --rungs h1,h1-close,tls-h1 --rounds 2 --seconds 2 $(BENCH_FLAGS)

bench-docs: bench-build ## the same as bench, and write the figures into docs/
	$(BENCH) --write-docs docs $(BENCH_FLAGS)

# Wide, so that it fails for what is plainly wrong and not for a machine's mood.
GUARD_LIMIT ?= 1.5

bench-guard: tools ## fail when a request costs far more than plain Pingora's
	$(BENCH_BUILD) --profile quick
	$(TARGET)/quick/bench --label guard --peers vanilla --rungs h1,h1-10k,h1-close --rounds 3 --seconds 2 \
	  --guard $(GUARD_LIMIT)

include lab/lab.mk
