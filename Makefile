# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
TOOL      := $(GO) tool -modfile=tools/go.mod
# All modules. Those of a release come first, each behind those that it requires.
PUBLISHED := . config redisstore/rueidisstore redisstore/goredis grpclimit metrics adapters server
MODULES   := $(PUBLISHED) tests examples bench tools deploy server/internal/page/browser server/internal/front/rls/oracle
# The module that sends one request after the other: the race detector would find nothing.
ORACLE    := $(filter %/oracle,$(MODULES))
# Modules tested two at a time, beside the root and the server: most of them wait for servers.
PARTS     := $(filter-out . server bench tools deploy $(ORACLE),$(MODULES))
FUZZTIME  ?= 20s
BENCH     ?= .
SPECSTEPS ?= 10000000
# How many packages are tested at once: most wait for servers, or for time to pass.
AT_ONCE   := $(shell echo $$(($$(nproc) + 1)))
LISTEN    ?= 127.0.0.1:8080
ADMIN     ?= 127.0.0.1:9090

# The race detector, where there is a C compiler.
RACE      := $(shell command -v "$$($(GO) env CC)" >/dev/null && echo -race)
# make check sets it: the linter runs go vet's analyzers, and more, over tests too.
NOVET     :=
# The compiler collects garbage seldom, which saves a fifth of its time. Its results are the same.
export GOFLAGS := $(shell $(GO) env GOFLAGS) '-toolexec=env GOGC=400'

# Packages that only compute, or start programs that are built already: each runs once,
# without the race detector. All others run once, with it.
PLAIN := algo|internal/spec
# Long tests of the root's packages that compute on one goroutine, or run a suite again that also
# runs with the race detector: with it they would take up to ten times as long.
SERIAL_IN := ./memstore ./redisstore ./remote
SERIAL := TestChangedWindowsEqualModel|TestEqualsModel|TestFloodBeforeDenial|TestFloodForgetsNoDeniedKey|TestFloodFreesNoLockedKey|$(\
	)TestFloodWearsOutNoLimitWithoutAKey|TestRestingKeysKeepTheirSlots|TestRestoreForgetsNothing|TestStateBudget|$(\
	)TestConformanceAtSetInstants|TestFlatTakesOfLogsEqualAlgo|TestScriptsEqualAlgo|TestSpecification|TestEfficiency
# Packages of the root and of the server whose tests start servers, or sluice itself, and wait for
# them, or that test tests, or all decisions.
SLOW  := cmd/sluice|faults|tests/docs|internal/deploy|internal/gateway/attack|internal/nginx|internal/redistest|redisstore|internal/serve|internal/spec|storetest

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## limit the sample app: 10 requests a minute for each userId, on http://127.0.0.1:8080/?userId=u1
	@$(GO) -C server build -o ../bin/sluice ./cmd/sluice
	@bin/sluice serve --listen $(LISTEN) --admin $(ADMIN) --limit "10/min sliding-log" --by query.userId

.PHONY: quick
quick: ## run short tests, for while you write: no race detector, real servers or specification, a minute at most
	@set -x; for module in . config grpclimit metrics server tests; do \
		$(GO) -C "$$module" test -short $$($(GO) -C "$$module" list ./... | grep -vE '/($(SLOW))$$'); done

# All groups run behind a fault, too, so that all faults are seen at once.
.PHONY: test
test: ## run every test once, most with the race detector; installs what is missing
	@.ci/packages
	@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target test-server test-library test-plain test-parts

.PHONY: test-library
test-library:
	@$(if $(RACE),,echo "no C compiler: testing without the race detector" >&2)
	$(GO) test $(RACE) $(NOVET) -p $(AT_ONCE) -shuffle=on -timeout 20m -skip '^($(SERIAL))$$' $$($(GO) list ./... | grep -vE '/($(PLAIN))$$')

.PHONY: test-server
test-server:
	$(GO) -C server test $(RACE) $(NOVET) -p $(AT_ONCE) -shuffle=on -timeout 20m ./...

.PHONY: test-plain
test-plain:
	GOGC=400 nice -n 10 $(GO) test $(NOVET) -p 2 -shuffle=on -timeout 20m $$($(GO) list ./... | grep -E '/($(PLAIN))$$')
	GOGC=400 nice -n 10 $(GO) test $(NOVET) -p 1 -shuffle=on -timeout 20m -run '^($(SERIAL))$$' $(SERIAL_IN)

.PHONY: test-parts
test-parts:
	@set -x; printf '%s\n' $(PARTS) | xargs -P 2 -I '{}' $(GO) -C '{}' test $(RACE) $(NOVET) -shuffle=on -timeout 20m ./...
	$(if $(NOVET),,$(GO) -C bench vet ./...)
	$(GO) -C bench build ./...
	$(GO) -C bench test $(NOVET) ./alike ./cmd/... ./report
	$(GO) -C $(ORACLE) test $(NOVET) ./...
	$(GO) -C tools test ./...
	$(GO) -C deploy test $(NOVET) -count=1 ./...

# What a release needs beside make check: tests, and steps of tests, that make check leaves
# out. Without the race detector: make check has it where goroutines share something.
.PHONY: long
long: ## run every test with its full number of steps, without the race detector: half an hour; a release needs it beside make check
	@.ci/packages
	@failed=0; set -x; export SLUICE_LONG=1; \
	for module in $(filter-out tools,$(MODULES)); do GOGC=400 $(GO) -C "$$module" test -shuffle=on -p $(AT_ONCE) -timeout 60m ./... || failed=1; done; \
	exit $$failed

# Without the race detector, as nothing is shared at the same time. What it allocates is
# small and dies at once, so the collector may wait.
.PHONY: spec
spec: ## check SPECSTEPS (10 million) decisions against the specification: every short sequence, and random ones
	SLUICE_SPEC_STEPS=$(SPECSTEPS) GOGC=800 $(GO) test -v -timeout 60m -run '^Test(Exhaustive|BreadthFirst|Random)$$' ./internal/spec | grep -v -e '^=== ' -e '^    --- PASS'

# The linter takes what the tests leave of the cores.
.PHONY: check
check: ## what a change must pass: lint and test, in seven minutes
	@.ci/packages
	@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target NOVET=-vet=off lint test-server test-library test-plain test-parts

# Where the product runs, besides the machine of those who write it: 32 bits, another
# order of memory, other systems.
PLATFORMS := linux/386 linux/arm64 darwin/arm64 windows/amd64

.PHONY: platforms
platforms: ## compile and vet everything for PLATFORMS, and decide on 32 bits
	@for at in $(PLATFORMS); do for module in $(PUBLISHED) tests examples; do (set -x; GOOS=$${at%/*} GOARCH=$${at#*/} CGO_ENABLED=0 $(GO) -C "$$module" vet ./...); done; done
	GOARCH=386 CGO_ENABLED=0 $(GO) test -short . ./algo ./memstore ./remote ./policy ./httplimit
	GOARCH=386 CGO_ENABLED=0 $(GO) -C tests test -short ./httplimit ./memstore ./structured

.PHONY: api
api: ## write docs/api.txt, which lists all that is exported
	$(GO) -C tests test ./api -run TestFile -update

# The linter reads what the compiler writes: with the race detector where the tests
# have it, so that both need one compilation. By the time that it comes to those
# packages the tests of make check have compiled them. It collects garbage seldom, up to 2.5 GB,
# which saves a quarter of its time.
.PHONY: lint
lint: ## check style, layers and formatting
	@renice -n 19 $$$$ >/dev/null; linter="$$($(TOOL) -n golangci-lint)"; flags="$$($(GO) env GOFLAGS)"; \
	failed=0; lint() { (set -x; cd "$$1"; GOGC=400 GOMEMLIMIT=2500MiB GOFLAGS="$$flags $$2" "$$linter" run --allow-parallel-runners ./...) || failed=1; }; \
	for module in bench deploy $(ORACLE); do lint "$$module" ""; done; \
	for module in $(filter-out bench deploy tools $(ORACLE),$(MODULES)); do lint "$$module" "$(RACE)"; done; exit $$failed

.PHONY: fmt
fmt: ## format all Go code
	@for module in $(filter-out tools,$(MODULES)); do (set -x; cd "$$module"; $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint fmt ./...); done

# Each module runs against the packages of all, whose paths begin alike.
.PHONY: cover
cover: ## say how much of the code the tests of all packages run, as a whole; takes as long as the tests do
	@.ci/packages
	@profile=$$(mktemp); trap 'rm -f "$$profile"*' EXIT; failed=0; echo "mode: set" > "$$profile"; \
	for module in $(filter-out tools bench deploy examples,$(MODULES)); do \
		$(GO) -C "$$module" test -timeout 20m -coverpkg=github.com/sluicegate/sluice/... -coverprofile="$$profile.part" ./... | grep -v 'no test files' || failed=1; \
		sed 1d "$$profile.part" >> "$$profile"; done; \
	awk -F '[ :,.]' '/^mode/ { next } { block = $$0; sub(/ [0-9]+$$/, "", block); split($$0, f, " "); n[block] = f[2]; if (f[3] > 0) run[block] = 1 } \
		END { for (b in n) { all += n[b]; if (b in run) covered += n[b] }; printf "%.1f %% of %d statements\n", 100 * covered / all, all }' "$$profile"; exit $$failed

.PHONY: lines
lines: ## count the lines of code: product, test kits and tests of every package
	@$(GO) -C tools run ./lines ..

.PHONY: texts
texts: ## list the texts that users read: those of the program and of its page
	@$(GO) -C tools run ./texts ..

.PHONY: pictures
pictures: ## draw docs/img anew: the algorithms, and the page after eight minutes of traffic
	@.ci/packages
	$(GO) run ./docs/draw docs/img
	$(GO) -C server build -o ../bin/sluice ./cmd/sluice
	$(GO) -C server/internal/page/browser run ./pictures "$(CURDIR)/bin/sluice" "$(CURDIR)/docs/img"

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME (20s)
	@for module in $(PUBLISHED) tests; do for package in $$($(GO) -C "$$module" list ./...); do \
		for target in $$($(GO) -C "$$module" test -list '^Fuzz' "$$package" | sed -n '/^Fuzz/p'); do \
			echo "$$package $$target"; \
			$(GO) -C "$$module" test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$$package"; \
		done; \
	done; done

.PHONY: bench
bench: ## run the benchmarks that match BENCH (all); bench/README.md explains how to compare
	@set -x; for module in . config grpclimit metrics server tests; do $(GO) -C "$$module" test -run '^$$' -bench '$(BENCH)' -benchmem ./...; done

# No engine and no other image is needed to build it.
IMAGE     ?= ghcr.io/sluicegate/sluice
VERSION   ?= devel

.PHONY: image
image: ## build the container image IMAGE:VERSION (ghcr.io/sluicegate/sluice:devel) for this machine's kind: bin/image.tar, loaded if docker or podman runs
	@CGO_ENABLED=0 GOOS=linux $(GO) -C server build -trimpath -ldflags '-s -w' -o ../bin/linux/sluice ./cmd/sluice
	@$(GO) -C tools run ./release -image "$(CURDIR)/bin/image.tar" "$(IMAGE):$(VERSION)" "$(VERSION)" "$$($(GO) env GOARCH)" "$(CURDIR)/bin/linux/sluice"
	@for engine in docker podman; do \
		if "$$engine" info >/dev/null 2>&1; then "$$engine" load --input bin/image.tar; exit; fi; done; \
	echo "bin/image.tar has $(IMAGE):$(VERSION); load it where an engine runs: docker load --input bin/image.tar"

.PHONY: release-check
release-check: ## make all of a release in dist/, build programs of users against its modules, and start it; publishes nothing
	@.ci/packages
	@$(GO) -C tools run ./release "$(CURDIR)" "$(if $(filter devel,$(VERSION)),v0.0.0-check,$(VERSION))"

.PHONY: release
release: ## release-check, then bring commits and tags of VERSION (v1.2.3) into this repository, and print the command that pushes them
	@.ci/packages
	@$(GO) -C tools run ./release -publish "$(CURDIR)" "$(VERSION)"

.PHONY: vuln
vuln: ## look for known vulnerabilities in what is compiled (asks vuln.go.dev)
	@scanner="$$($(TOOL) -n govulncheck)"; for module in $(PUBLISHED); do (set -x; cd "$$module"; "$$scanner" ./...); done

.PHONY: tidy
tidy: ## tidy every module
	@for module in $(MODULES); do (set -x; $(GO) -C "$$module" mod tidy); done

.PHONY: deps
deps: ## fetch what tests and tools need, for work without a network
	@.ci/packages
	@for module in $(MODULES); do (set -x; $(GO) -C "$$module" mod download); done
