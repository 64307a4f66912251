# The lab: a real Kubernetes API on this machine (docs/lab.md). Needs root. The first start builds
# its programs with Go.
#   make lab-up LAB=other LAB_FLAGS='--nodes 3 --dual-stack'

CARGO ?= cargo
LAB ?= default
LAB_FLAGS ?=
# Programs that cluster tests and tests of the chart run in addition to Kubernetes. Without
# cert-manager (a minute and a half of CPU time), conformance (one) or prometheus (one), the test
# that needs it reports that and passes.
LAB_PROGRAMS ?= k6 helm cert-manager conformance prometheus
LAB_RUN = $(CARGO) run --locked --quiet --package sluice-lab --
# Path of the pinned k6, once it is built. Evaluated by the shell and not by make, which would
# evaluate it before the first line of the recipe, and that line builds the program to call.
K6 = $$($(LAB_RUN) build k6 | sed 's/^[^:]*: //')/k6

.PHONY: lab-build lab-build-k6 lab-up lab-down lab-status lab-shell lab-test propagation

lab-build: ## build the lab's programs with Go, once
	$(LAB_RUN) build

lab-build-k6: # build the pinned k6 with Go, once
	$(LAB_RUN) build k6

lab-up: ## start a Kubernetes API on this machine
	$(CARGO) build --locked --package sluice
	$(LAB_RUN) up --name $(LAB) $(LAB_FLAGS)

lab-down: ## stop it and remove everything it created
	$(LAB_RUN) down --name $(LAB)

lab-status: ## list the running labs and their processes
	$(LAB_RUN) status

lab-shell: ## open a shell inside it, with KUBECONFIG set
	$(LAB_RUN) shell --name $(LAB)

lab-test: LAB_RUN = $(OUT)/debug/sluice-lab
lab-test: tools-test ## the cluster tests
	$(CARGO) build --locked --workspace --all-targets
	$(LAB_RUN) build
	$(LAB_RUN) build $(LAB_PROGRAMS)
	$(CARGO) test --locked --workspace --test cluster

# The profile quick is as fast as release within a few percent, and links in a fraction of the time.
propagation: lab-build ## measure how soon changes are served, and the cost of 5,000 Ingresses
	$(CARGO) build --locked --profile quick --package sluice --package sluice-lab --package sluice-loadtest --bins
	$(OUT)/quick/propagation
