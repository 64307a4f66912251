# The commands of the project. All honour CARGO_TARGET_DIR; without it, binaries are in target/.

SHELL := /bin/bash
CARGO ?= cargo
OUT := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help build run test fmt fmt-check lint docs deny loadtest k6 tools tools-go tools-test endurance bench bench-short bench-guard \
  fuzz bench-guard-build bench-docs bench-build profile chart-test alerts-test manifests image-root image-lint check sbom scripts-test waf-agent waf-agent-test waf-agent-image-root

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Lists all missing tools and how to install them.
tools:
	@missing=0; \
	need() { command -v "$$1" > /dev/null || { echo "missing: $$1, $$2; install it with: $$3"; missing=1; }; }; \
	need $(CARGO) "the Rust build tool" "curl -sSf https://sh.rustup.rs | sh"; \
	need cc "a C compiler, for the TLS and compression libraries" "apt-get install gcc, dnf install gcc, or xcode-select --install"; \
	need cmake "for the compression libraries" "apt-get install cmake, dnf install cmake, or brew install cmake"; \
	need curl "to ask a running gateway" "apt-get install curl, dnf install curl, or brew install curl"; \
	exit $$missing

# Go builds the lab's programs and k6, once, and the firewall's agent.
tools-go: tools
	@command -v go > /dev/null || { echo "missing: go, 1.26.7 or newer, to build k6, Kubernetes' programs and the firewall's agent with; install it from https://go.dev/dl/"; exit 1; }

# Cluster tests also need network namespaces.
tools-test: tools-go
	@missing=0; \
	need() { command -v "$$1" > /dev/null || { echo "missing: $$1, $$2; install it with: $$3"; missing=1; }; }; \
	need ip "to make network namespaces" "apt-get install iproute2, or dnf install iproute"; \
	need nsenter "to start programs in them" "apt-get install util-linux, or dnf install util-linux"; \
	need unshare "to run containers' programs" "apt-get install util-linux, or dnf install util-linux"; \
	need setpriv "to run them as other users" "apt-get install util-linux, or dnf install util-linux"; \
	[[ $$(id -u) == 0 ]] || { echo 'missing: root, to make network namespaces; run it as: sudo -E env "PATH=$$PATH" make test'; missing=1; }; \
	exit $$missing

# Builds of the program use the profile in loadtest/profile (docs/profile.md); PROFILE=none builds
# without.
WITH_PROFILE = loadtest/with-profile

build: tools ## the release binary, target/release/sluice
	$(WITH_PROFILE) $(CARGO) build --locked --release -p sluice --bin sluice

# Needs llvm-profdata and the load generators of the benchmark (docs/profile.md).
profile: tools ## train the profile that builds of the program use; before a release
	loadtest/train

IMAGE_PROGRAM ?= $(OUT)/release/sluice
# Depends only on the lock file, so it is rebuilt only when that file changes.
SBOM = $(OUT)/sbom/sluice.cdx.json

$(OUT)/release/sluice: build

image-root: $(IMAGE_PROGRAM) $(SBOM) ## the content of the image as a folder: target/image
	image/root $(IMAGE_PROGRAM) $(OUT)/image $(SBOM)

# The settings of the lab's programs (lab/src/programs.rs): with others, Go compiles the packages
# that both use a second time.
AGENT_GO = CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false' go

waf-agent: tools-go ## the agent of the web application firewall: target/waf-agent (docs/waf-agent.md)
	cd waf-agent && $(AGENT_GO) build -o $(abspath $(OUT))/waf-agent .

waf-agent-test: tools-go ## test the agent
	cd waf-agent && test -z "$$(gofmt -l .)" && $(AGENT_GO) vet ./... && $(AGENT_GO) test ./...

waf-agent-image-root: tools-go ## the content of the agent's image as a folder: target/waf-agent-image
	image/waf-agent-root $(OUT)/waf-agent-image

$(SBOM): Cargo.lock
	.ci/sbom $@

sbom: $(SBOM) ## the software bill of materials, CycloneDX in JSON: target/sbom/sluice.cdx.json

scripts-test: # tests of the scripts of CI and of the image
	.ci/scripts-test

image-lint: ## lint the Containerfile with hadolint
	.ci/image-lint

# The profile quick is fast enough for evaluation, and builds in half the time of a release.
run: tools ## build, and serve examples/quickstart with demo backends
	$(WITH_PROFILE) $(CARGO) build --locked --profile quick -p sluice --bin sluice -p sluice-loadtest --bin demo-backend
	examples/run $(OUT)/quick

# End-to-end tests wait more than they compute, so they use more threads than there are cores.
E2E = RUST_TEST_THREADS=6 $(CARGO) test --locked --workspace --test e2e
# All modules run again with Pingora's engine, except those whose requests reach no engine
# (.ci/scripts-test).
PROXY = SLUICE_DRIVER=proxy
WITHOUT_ENGINE = e2e_admission e2e_check e2e_flags e2e_installations e2e_responses e2e_snapshot
E2E_PROXY = $(PROXY) $(E2E) -- $(WITHOUT_ENGINE:%=--skip %::)

# Tests that fail only beside other suites are named at the end (.ci/retry-failed).
RETRY = .ci/retry-failed env

# There is one build for all suites: with another selection of packages, cargo would rebuild most
# dependencies. Each suite is in exactly one lane (.ci/scripts-test). The lab's programs are built
# while other suites run.
test: LAB_RUN = $(OUT)/debug/sluice-lab
test: tools-test ## every suite: unit, property, end to end, cluster, and short runs of churn and k6; as root
	$(CARGO) build --locked --workspace --all-targets
	.ci/lanes \
	  units '$(RETRY) $(CARGO) test --locked --workspace --lib --bins --test documentation --test translation --test kubernetes && \
	    $(CARGO) test --locked --workspace --doc' \
	  e2e '$(RETRY) $(E2E)' \
	  e2e-proxy '$(RETRY) $(E2E_PROXY) && $(RETRY) $(PROXY) $(CARGO) test --locked --workspace --lib -- workers::' \
	  cluster 'nice $(LAB_RUN) build && nice $(LAB_RUN) build $(LAB_PROGRAMS) && \
	    $(RETRY) $(CARGO) test --locked --workspace --test chart --test cluster'
	$(MAKE) waf-agent-test
	$(OUT)/debug/churn --short --sluice $(OUT)/debug/sluice
	$(OUT)/debug/k6-suite --short --sluice $(OUT)/debug/sluice --k6 "$(K6)"

# Needs neither root nor Go. Tests of programs that this machine lacks report that and pass.
check: tools fmt-check lint scripts-test ## formatting, lints, and every test that needs neither root nor Go
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked --workspace --lib --bins
	$(CARGO) test --locked --workspace --test documentation --test translation --test kubernetes
	$(E2E)
	$(E2E_PROXY)

manifests: tools-go ## render the manifests in examples/cluster, and what else is generated from the chart's values
	$(CARGO) run --locked -p sluice-lab --bin sluice-lab -- build helm
	WRITE_DOCS=1 $(CARGO) test --locked -p sluice-lab --test chart -- generated::

# The tests also pass the chart's arguments to the binary, so it is built too.
chart-test: tools-go ## test the Helm chart with Helm, without a cluster
	$(CARGO) build --locked --workspace --all-targets
	$(OUT)/debug/sluice-lab build helm
	$(CARGO) test --locked --workspace --test chart

alerts-test: tools-go ## test the chart's alerts with promtool, without the other suites
	$(CARGO) build --locked --workspace --all-targets
	$(OUT)/debug/sluice-lab build helm prometheus
	$(CARGO) test --locked --workspace --test chart -- rules:: objectives:: dashboards:: --nocapture

fmt: tools ## format everything
	$(CARGO) fmt --all

fmt-check: tools ## fail if a file is not formatted
	$(CARGO) fmt --all --check

lint: tools ## clippy, with warnings as errors
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: tools ## the API documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

deny: tools ## licences, banned crates, sources and advisories of dependencies
	.ci/deny

loadtest: tools-go build lab-build-k6 ## churn, scale, idle, overload and the k6 scripts against the release binary
	$(CARGO) build --locked --release -p sluice-loadtest --bins
	$(OUT)/release/churn
	$(OUT)/release/scale
	$(OUT)/release/idle
	$(OUT)/release/overload
	$(OUT)/release/k6-suite --k6 "$(K6)"

# FUZZ_SECONDS changes the time per target, FUZZ_TARGETS selects some.
fuzz: tools ## run each fuzz target for a minute (CONTRIBUTING.md)
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) .ci/fuzz $(FUZZ_TARGETS)

endurance: tools build ## twenty minutes of steady load during changes, hostile clients and a replaced gateway
	$(CARGO) build --locked --release -p sluice-loadtest --bin endurance
	$(OUT)/release/endurance $(ENDURANCE_FLAGS)

# docs/loadtest.md describes the scripts and their settings.
#   make k6 SCRIPT=steady                                              starts a gateway
#   make k6 SCRIPT=tls TARGET=https://203.0.113.10 K6_FLAGS='--host shop.example --set RATE=100'
k6: tools-go lab-build-k6 ## run one k6 script, against a new gateway or TARGET
	$(CARGO) build --locked --profile quick -p sluice-loadtest --bin k6-suite $(if $(TARGET),,-p sluice --bin sluice)
	$(OUT)/quick/k6-suite $(SCRIPT) $(if $(TARGET),--target $(TARGET)) $(K6_FLAGS) --k6 "$(K6)"

# The build profile of the benchmark; `quick` builds faster and measures nearly the same.
BENCH_PROFILE ?= release
BENCH = $(OUT)/$(BENCH_PROFILE)/bench

BENCH_PROGRAMS = -p sluice-loadtest --bin bench --bin bench-origin --bin vanilla-pingora

bench-build: tools
	$(WITH_PROFILE) $(CARGO) build --locked --profile $(BENCH_PROFILE) -p sluice --bin sluice
	$(CARGO) build --locked --profile $(BENCH_PROFILE) $(BENCH_PROGRAMS) --bin tuned-pingora

bench: bench-build ## benchmark beside nginx, HAProxy, Envoy and Pingora (docs/benchmarks.md)
	$(BENCH) $(BENCH_FLAGS)

bench-short: bench-build ## three scenarios of the benchmark in two minutes
	$(BENCH) --label short --scenarios h1,h1-close,tls-h1 --rounds 2 --seconds 2 $(BENCH_FLAGS)

bench-docs: bench-build ## run the benchmark and write the figures into docs/
	$(BENCH) --write-docs docs $(BENCH_FLAGS)

# Relative to plain Pingora, a small request costs 0.4 to 0.6, and one with a connection of its own
# 0.5 to 0.7: most of it is the kernel's, whose share depends on the machine. The remainder is a
# margin.
GUARD_LIMIT ?= 0.85

bench-guard: bench-guard-build ## fail if a request costs more than 0.85 of one through plain Pingora
	$(OUT)/guard/bench --label guard --peers vanilla --scenarios h1,h1-10k,h1-close --rounds 5 --seconds 2 --guard $(GUARD_LIMIT)

# Both without a profile, which Pingora has none of.
bench-guard-build: tools
	$(CARGO) build --locked --profile guard -p sluice --bin sluice $(BENCH_PROGRAMS)

include lab/lab.mk
