# "make" or "make help" lists all targets. Go, make and git are enough for most; the race detector of
# the tests also needs a C compiler.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The version that programs print: the tag, or the last tag, the number of commits since and the
# commit.
VERSION  ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
# What "make build" builds: static binaries that do not contain paths of the machine that built
# them.
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/mehdiazizian/liqo-resource-broker/internal/version.linked=$(VERSION)"
# The tag of the images of "make images".
TAG      ?= dev
PUSH     ?= false
# FUZZTIME is how long "make fuzz" takes for each decoder, and SEED the seed of "make soak".
FUZZTIME ?= 10s
SEED     ?=

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ See it work

.PHONY: demo
demo: ## Boot four clusters on this machine and run the whole story, from request to running pods and back.
	go run ./cmd/playground demo

.PHONY: demo-kueue
demo-kueue: ## Run jobs of the real Kueue on local and then on borrowed nodes; the first time Kueue is built, which takes minutes.
	go run ./cmd/playground kueue --dir .playground-test/kueue

.PHONY: recording
recording: ## Run the demo and write docs/demo.svg, the animated image of its output in the README.
	go run ./cmd/playground demo --recording docs/demo.svg

.PHONY: playground
playground: ## Boot the same clusters and stay up; prints kubeconfigs and what to try.
	go run ./cmd/playground up

##@ Use it

.PHONY: install
install: ## Install the CRDs of broker and agent into the cluster of the current kubectl context.
	kubectl apply --server-side -f charts/broker/files/crds -f charts/agent/files/crds

.PHONY: run
run: ## Run the broker against the cluster of the current kubectl context; ARGS adds flags.
	go run ./cmd/broker $(ARGS)

.PHONY: build
build: ## Build bin/broker, bin/agent and the plugin bin/kubectl-broker.
	$(GO_BUILD) -o bin/broker ./cmd/broker
	$(GO_BUILD) -o bin/agent ./cmd/agent
	$(GO_BUILD) -o bin/kubectl-broker ./cmd/kubectl-broker

# Where "make install-plugin" installs: a folder in PATH.
BINDIR   ?= $(HOME)/.local/bin

.PHONY: install-plugin
install-plugin: ## Install the kubectl plugin and its completion in BINDIR, by default ~/.local/bin.
	$(GO_BUILD) -o bin/kubectl-broker ./cmd/kubectl-broker
	mkdir -p $(BINDIR)
	install bin/kubectl-broker hack/krew/kubectl_complete-broker $(BINDIR)

.PHONY: images
images: ## Build the images of broker and agent, with SBOMs, in dist/; BASE=scratch needs no registry, PUSH=true pushes to REPOSITORY.
	cd hack/images && go run . $(if $(BASE),-base=$(BASE)) $(if $(PLATFORM),-platform=$(PLATFORM)) $(if $(REPOSITORY),-repository=$(REPOSITORY)) \
	  -push=$(PUSH) -tag=$(TAG) -version="$(VERSION)" -revision="$$(git rev-parse HEAD)" -created="$$(git log -1 --format=%ct)" ./cmd/broker ./cmd/agent

.PHONY: plugin
plugin: ## Build archives of the kubectl plugin for every platform, and the manifest for Krew, in dist/; PLATFORMS="linux/amd64 ..." builds fewer.
	hack/plugin.sh "$(VERSION)"

# The container engine of "make docker": docker, podman or another with the same flags.
ENGINE ?= docker

.PHONY: docker
docker: ## Build the images of broker and agent from Dockerfile with a container engine (ENGINE=docker) and access to a registry.
	for program in broker agent; do \
	  $(ENGINE) build --target $$program --tag $(or $(REPOSITORY),ghcr.io/mehdiazizian/liqo-resource-broker)/$$program:$(TAG) \
	    --build-arg VERSION="$(VERSION)" --build-arg REVISION="$$(git rev-parse HEAD)" \
	    --build-arg CREATED="$$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)" .; \
	done

##@ Change it

.PHONY: manifests
manifests: ## Write CRDs and deepcopy code from the types under api/.
	./hack/manifests.sh

.PHONY: generate
generate: manifests ## Write everything that is generated: manifests, the REST server and client, READMEs of the charts, tables of flags.
	go generate ./...
	go tool -modfile=hack/tools/go.mod crd-ref-docs --source-path=api --config=hack/apidocs/config.yaml \
	  --templates-dir=hack/apidocs/templates --renderer=markdown --output-path=docs/api.md --log-level=error
	go tool -modfile=hack/helm-docs/go.mod helm-docs --chart-search-root=charts --log-level=warning
	go test ./internal/archtest -run 'TestFlagsAreDocumented|TestTermsAreDocumented' -update

.PHONY: tools
tools: ## Build what the tests run: etcd, Kubernetes, KWOK, cert-manager, Liqo and Helm; minutes the first time, then cached.
	go run -trimpath ./cmd/playground build

.PHONY: test
test: tools ## Run the tests that every change must pass: unit, integration, core scenarios and attacks on a playground; ten to fifteen minutes.
	hack/test.sh gate

.PHONY: test-unit
test-unit: ## Run the tests that start no program, and check the structure: a minute.
	hack/test.sh unit structure

.PHONY: test-all
test-all: tools ## Run every test but e2e, most with the race detector: more than an hour. SUITE="local attacks" runs some of its suites; hack/test.sh lists them.
	hack/test.sh $(or $(SUITE),all)

.PHONY: test-attacks
test-attacks: tools ## Attack a provider with the identities that Liqo issued to its consumers; ADVERSARY=10m keeps the random adversary at it, SEED repeats its operations.
	ADVERSARY=$(ADVERSARY) SEED=$(SEED) hack/test.sh attacks

.PHONY: soak
soak: tools ## Break the broker as often as docs/reliability.md says, and fuzz every decoder: hours. SEED repeats a run's faults.
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' ./internal/broker -broker.steps=10000000
	go test -count=1 -timeout 60m -run '^TestSimulation$$' ./internal/broker/ledger -ledger.steps=10000000
	LRB_SOAK=1 LRB_SEED=$(SEED) go test -count=1 -timeout 4h -v ./e2e/robustness
	LRB_SOAK=1 go test -count=1 -timeout 1h -v ./e2e/local -run 'TestCyclesLeaveNothing|TestConsumerGivesUpALostProvider|TestDeletedPeeringObjectsAreRestored'
	$(MAKE) --no-print-directory fuzz FUZZTIME=5m

.PHONY: fuzz
fuzz: ## Fuzz every decoder for FUZZTIME each; what is found stays in testdata.
	grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z]*' internal liqo | sed 's|/[^/]*_test.go:func | |' | while read -r folder target; do \
	  echo "$$folder $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$folder" || exit 1; \
	done

.PHONY: e2e
e2e: ## Run the end-to-end tests with real containers, on kind clusters or on those of E2E_KUBECONFIG; docs/testing.md says more.
	hack/e2e.sh $(ARGS)

.PHONY: e2e-down
e2e-down: ## Delete these clusters and put back what they changed on this machine; what was built stays.
	hack/kind/down.sh

.PHONY: images-verify
images-verify: ## Check that two checkouts of the last commit give the same images bit for bit, and that SBOMs list what programs consist of.
	cd hack/images && go vet ./... && go test ./...

.PHONY: bench
bench: tools ## Measure what docs/performance.md promises, on a quiet machine: about 20 minutes; STUDY names one of its studies, PAGE is a page to keep the table in.
	go run ./e2e/bench $(if $(STUDY),-run='^($(STUDY))$$') $(if $(PAGE),-page=$(PAGE))

.PHONY: bench-go
bench-go: ## Run all Go benchmarks.
	go test -run '^$$' -bench . -benchmem $$(go list ./internal/...)

.PHONY: lint
lint: ## Run golangci-lint by .golangci.yml; the first time it is built, which takes minutes.
	go tool -modfile=hack/lint/go.mod golangci-lint run

.PHONY: verify
verify: generate ## Check what a change must keep: generated files up to date, formatted, vetted, linted.
	@unformatted="$$(gofmt -l api charts cmd config controllers e2e hack internal liqo webhooks)"; \
	if [[ -n "$$unformatted" ]]; then echo "run gofmt -w on: $$unformatted"; exit 1; fi
	go vet -tags clusters ./...
	@$(MAKE) --no-print-directory lint
	@git diff --exit-code --stat || { echo "generated files differ from what is committed: commit the change above"; exit 1; }

.PHONY: clean
clean: ## Remove binaries, images and the playground's state; built tools stay in the user's cache folder.
	rm -rf bin dist .playground .playground-test
