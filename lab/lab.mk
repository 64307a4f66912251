# The lab: a real Kubernetes API on this machine (docs/lab.md). Needs root; the first start builds its programs with Go.
#   make lab-up LAB=other LAB_FLAGS='--nodes 3 --dual-stack'

LAB ?= default
LAB_FLAGS ?=
LAB_RUN = cargo run --quiet --package sluice-lab --

.PHONY: lab-build lab-up lab-down lab-status lab-shell lab-test

lab-build:
	$(LAB_RUN) build

lab-up:
	cargo build --package sluice
	$(LAB_RUN) up --name $(LAB) $(LAB_FLAGS)

lab-down:
	$(LAB_RUN) down --name $(LAB)

lab-status:
	$(LAB_RUN) status

lab-shell:
	$(LAB_RUN) shell --name $(LAB)

# Says what to install when Go or root is missing, and fails. A lab is a whole cluster: few tests at a time.
lab-test:
	$(LAB_RUN) build
	cargo build --package sluice
	cargo test --package sluice-lab
