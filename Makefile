# Bare `make` lists what can be done. Everything that a target needs, it installs by itself.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

CARGO ?= cargo
ARGS ?=

# The binary of a profile, wherever cargo was told to put it.
target = $(shell $(CARGO) metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/$(1)/gitops-reverser

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## Build the release binary: target/release/gitops-reverser
	$(CARGO) build --release -p gitops-reverser
	@ln -sf gitops-reverser target/release/kubectl-reverser 2>/dev/null || true

.PHONY: test
test: setup ## Run all tests and the demo, against a real Kubernetes API server and real Git servers
	@hack/test.sh $(ARGS)
	@if [ -z '$(ARGS)' ]; then $(MAKE) demo ARGS=--once; fi

.PHONY: test-unit
test-unit: ## Run the tests that need no server, in seconds
	$(CARGO) test --workspace --lib --bins $(ARGS)

.PHONY: test-e2e
test-e2e: setup ## Run only the tests of the whole, against a real control plane
	$(CARGO) test -p gitops-reverser --test e2e $(ARGS)

.PHONY: test-otlp
test-otlp: control-plane ## Run the tests of the binary that sends traces: the feature otlp, off by default
	$(CARGO) test -p gitops-reverser --features otlp --test traces $(ARGS)

.PHONY: lint
lint: ## Check format, lints, scripts and licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p gitops-reverser --features otlp --bins --test traces -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck hack/*.sh hack/*/*.sh image/rootfs.sh image/ssh .ci/run; \
	else echo 'shellcheck is not installed: scripts are not checked'; fi
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --offline check licenses bans sources; \
	else echo 'cargo-deny is not installed: licences are not checked (cargo install cargo-deny)'; fi

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: crds
crds: ## Write the definitions of the four kinds to config/crd/bases
	REVERSER_BLESS=1 $(CARGO) test -q -p reverser-api --lib committed

.PHONY: docs
docs: crds ## Write what is made from the code: reference pages, manifests, the chart's table
	REVERSER_BLESS=1 $(CARGO) test -q -p reverser-core --test core reference
	REVERSER_BLESS=1 $(CARGO) test -q -p gitops-reverser --lib reference
	@hack/control-plane/build.sh kubectl helm
	REVERSER_BLESS=1 $(CARGO) test -q -p gitops-reverser --test install made_from
	REVERSER_BLESS=1 $(CARGO) test -q -p gitops-reverser --test install described_in_the_table

.PHONY: dist
dist: build ## Build what is released into dist/: binary, chart, install.yaml, checksums
	@hack/dist.sh

.PHONY: image
image: ## Build the container image: IMAGE=registry/gitops-reverser
	docker build --build-arg VERSION=$$(hack/version.sh) --build-arg REVISION=$$(git rev-parse HEAD) \
	  --build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) --tag $${IMAGE:-gitops-reverser}:$$(hack/version.sh) .

.PHONY: golden
golden: setup ## Record the golden cases again from a real API server
	REVERSER_RECORD=1 $(CARGO) test -p gitops-reverser --test e2e record

# The control plane and the operator are built beside each other. The story needs no controller-manager.
.PHONY: demo
demo: ## Show it at work on a real control plane: who changed what, and what Git has of it
	@echo 'building the demo: about ten minutes the first time on two cores, seconds later'
	@hack/control-plane/build.sh etcd kube-apiserver kubectl & plane=$$!; \
	$(CARGO) build --profile demo -p gitops-reverser -p reverser-testkit --bins || { kill $$plane; exit 1; }; \
	wait $$plane
	@'$(call target,demo)' demo $(ARGS)

.PHONY: bench
bench: setup ## Measure, each figure beside its floor from the same run
	$(CARGO) bench --workspace --benches $(ARGS)

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl from source
	@hack/control-plane/build.sh

.PHONY: setup
setup: control-plane ## Install what the tests need beside Rust, Go, git and python3
	@hack/control-plane/build.sh helm kubeconform
	@hack/setup-python.sh >/dev/null
	@hack/setup-git-servers.sh
	@hack/setup-redis.sh
	@hack/setup-faketime.sh
