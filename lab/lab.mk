# The lab: a real Kubernetes API on this machine (docs/lab.md). Needs root; the first start builds its programs with Go.
#   make lab-up LAB=other LAB_FLAGS='--nodes 3 --dual-stack'

CARGO ?= cargo
LAB ?= default
LAB_FLAGS ?=
# What cluster tests run beside Kubernetes. Without cert-manager (three minutes of CPU) or conformance (two), its test says so and passes.
LAB_PROGRAMS ?= k6 helm cert-manager conformance
LAB_RUN = $(CARGO) run --locked --quiet --package sluice-lab --
# Where the pinned k6 is, once it is built. For the shell and not for make to find out: make would ask before the first
# line of the recipe, which builds the program that is asked.
K6 = $$($(LAB_RUN) build k6 | sed 's/^[^:]*: //')/k6

.PHONY: lab-build lab-build-k6 lab-up lab-down lab-status lab-shell lab-test propagation

lab-build: ## the lab's programs, with Go, once
	$(LAB_RUN) build

lab-build-k6: # the pinned k6, with Go, once
	$(LAB_RUN) build k6

lab-up: ## a Kubernetes API on this machine
	$(CARGO) build --locked --package sluice
	$(LAB_RUN) up --name $(LAB) $(LAB_FLAGS)

lab-down: ## end it and leave nothing behind
	$(LAB_RUN) down --name $(LAB)

lab-status: ## what runs in which lab
	$(LAB_RUN) status

lab-shell: ## a shell inside it, with KUBECONFIG set
	$(LAB_RUN) shell --name $(LAB)

lab-test: LAB_RUN = $(OUT)/debug/sluice-lab
lab-test: tools-test ## the cluster tests
	$(CARGO) build --locked --workspace --all-targets
	$(LAB_RUN) build
	$(LAB_RUN) build $(LAB_PROGRAMS)
	$(CARGO) test --locked --workspace --test cluster

# As fast as release within a few percent, and linked in a fraction of the time.
propagation: lab-build ## how soon a cluster's changes are served, and what 5,000 Ingresses cost
	$(CARGO) build --locked --profile quick --package sluice --package sluice-lab --package sluice-loadtest --bins
	$(OUT)/quick/propagation
