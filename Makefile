# What people type. Everything honours CARGO_TARGET_DIR; without it, binaries are in target/.

SHELL := /bin/bash
CARGO ?= cargo
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help build run test fmt fmt-check lint docs deny loadtest tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

# What goes through a driver is tested with both: first with what runs by default, then with the proxy.
test: tools ## every suite: unit, property, end to end, and a short run of churn
	$(CARGO) test --locked --workspace --exclude sluice-lab
	SLUICE_DRIVER=proxy $(CARGO) test --locked -p sluice-gateway --lib worker::
	SLUICE_DRIVER=proxy $(CARGO) test --locked -p sluice --test e2e
	$(CARGO) build --locked -p sluice -p sluice-loadtest --bins
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

loadtest: build ## churn, scale and idle against the release binary
	$(CARGO) build --locked --release -p sluice-loadtest --bins
	$(TARGET)/release/churn
	$(TARGET)/release/scale
	$(TARGET)/release/idle

include lab/lab.mk
