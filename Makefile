# Newcomers need only `make run` and `make test`; both print the programs that they install.
# The other targets are for developers.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always 2>/dev/null || echo dev)
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null)
BIN      := bin
TOOLS    := $(CURDIR)/.cache/bin
LINT     := $(TOOLS)/golangci-lint-v2.15.0
CODEGEN  := $(TOOLS)/oapi-codegen-v2.8.2
HELM     := $(TOOLS)/helm-v3.16.4
NFPM     := $(TOOLS)/nfpm-v2.41.0
APT      := DEBIAN_FRONTEND=noninteractive apt-get

# Tools and checks are compiled as the program is: their packages are compiled once, in CI too.
STATIC   := CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath"

# The linters of docs/openapi.json. The folder is named for their versions.
REDOCLY  := 1.34.5
SPECTRAL := 6.16.3
LINT_API := .cache/lint-api-$(REDOCLY)-$(SPECTRAL)

# Libraries of webhook providers, with which the tests verify. Node.js 18 runs these versions. The
# folder is named for them.
STRIPE    := 20.0.0
OCTOKIT   := 5.1.1
BOLT      := 4.7.2
LIBRARIES := .cache/libraries-$(STRIPE)-$(OCTOKIT)-$(BOLT)

# Checks the accessibility of pages in browser tests. The folder is named for the version.
AXE_VERSION := 4.14.1
AXE         := .cache/axe-core-$(AXE_VERSION)

# Checks the types in the JavaScript of the console and the portal. The folder is named for the version.
TYPESCRIPT := 7.0.2
LINT_JS    := .cache/lint-js-$(TYPESCRIPT)

NPM_INSTALL = npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error --prefix

# The race detector needs a C compiler.
RACE = $(shell command -v gcc >/dev/null 2>&1 && echo -race)

.PHONY: run demo test test-programs test-temporal bench bench-console soak build release image check check-programs chart chart-files lint lint-api lint-api-tools lint-js lint-js-tools screenshots vet fmt fuzz docs generate postgres compiler interpreters servers libraries chromium axe npm bare clean

run: postgres build ## start the gateway on a private PostgreSQL, with configs/demo.yaml applied
	exec env EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=$${EVENTHOOK_OUTBOUND_ALLOWED_CIDRS-127.0.0.0/8,::1/128} $(BIN)/eventhook serve --apply configs/demo.yaml --make-secrets

demo: postgres build ## demonstrate the gateway end to end, in seconds
	$(BIN)/eventhook demo

# The first build prints nothing for minutes and would look like a hang.
COMPILING = echo "compiling; the first time takes a few minutes"

# Without vet, which would read all dependencies: make vet, a part of make check, has its checks.
test: test-programs ## run every test
	@[ -e .cache/tested ] || { $(COMPILING); mkdir -p .cache; touch .cache/tested; }
	GO=$(GO) .ci/test $(RACE) -vet=off -timeout 40m ./...
	GO=$(GO) .ci/test $(RACE) -vet=off -tags temporal $(TAGGED)

# A module of its own, whose first compilation takes minutes. CI runs it if a change concerns Temporal.
test-temporal: postgres ## test the gateway against Temporal's own server
	@echo "compiling Temporal's server; the first time takes minutes"
	cd test/temporal && $(GO) test -vet=off -count=1 -timeout 20m ./...

test-programs: postgres compiler interpreters servers libraries chromium axe $(NFPM) ## install the programs that the tests use

# Parts of the program that it has only if it is built with a tag: temporal, the client of Temporal.
TAGS ?=

# The packages with code for the tags.
TAGGED := ./outbound ./outbound/temporal

# The program is static: it needs no C library, and runs on any Linux and in an empty image.
build:
	@[ -e $(BIN)/eventhook ] || $(COMPILING)
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -tags "$(TAGS)" -ldflags "-X main.version=$(VERSION) -X main.commit=$(COMMIT)" -o $(BIN)/eventhook ./cmd/eventhook

# Rows in the large databases of the benchmarks, whose own defaults are small.
bench: export BENCH_EVENTS ?= 1000000
bench: export BENCH_EXECUTIONS ?= 1000000
bench: export BENCH_SETTLED ?= 1000000
bench: export BENCH_DUE ?= 1000000
bench: export BENCH_SOURCES ?= 10000
bench: export BENCH_MISSED ?= 100000
bench: export BENCH_ORDERED ?= 100000
# Messages of one measurement to a broker.
bench: BENCH_MESSAGES ?= 10000
bench: build ## measure the gateway against its limits; see bench/README.md
	$(GO) build -o $(BIN)/bench ./bench
	$(BIN)/bench
	$(GO) test -run '^TestTwoInstancesRecoverEachDeliveryOfADayOnce$$' -v -count=1 -timeout 1h ./internal/pg
	$(GO) test -run '^$$' -bench '^Benchmark(Apply|ClaimDeliveries|Lists|Work)$$' -benchtime 5x -timeout 2h ./internal/pg ./internal/api
	$(GO) test -run '^$$' -bench '^BenchmarkClaimWork$$' -benchtime 2000x ./internal/pg
	BENCH_CLOSED=10000 $(GO) test -count=1 -run '^TestClosingEndsOpenWorkInBatches$$' ./internal/pg
	$(GO) test -run '^TestASearchThatFindsNothingSaysHowFarItCame$$' -v -count=1 -timeout 1h ./cmd/eventhook
	$(GO) test -run '^TestOrderHoldsOverInstancesWhoseClocksDiffer$$' -v -count=1 -timeout 1h ./internal/pg
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 200ms ./verify ./ingest ./route ./outbound ./outbound/match ./outbound/send
	$(GO) test -run '^$$' -bench . -benchtime $(BENCH_MESSAGES)x ./outbound/brokers

bench-console: export BENCH_EVENTS ?= 1000000
bench-console: postgres chromium ## measure the lists of the console in a browser; see docs/console.md
	$(GO) test -run '^$$' -bench '^BenchmarkConsole$$' -benchtime 20x -timeout 1h ./internal/console/consolebudgets

RELEASE := $(BIN)/release$(addprefix -,$(TAGS))
release: $(NFPM) ## build archives, packages, checksums and bills of materials of all platforms
	@rm -rf $(RELEASE) # SHA256SUMS lists every file in it
	GO=$(GO) NFPM=$(NFPM) VERSION=$(VERSION) COMMIT=$(COMMIT) TAGS=$(TAGS) scripts/release $(RELEASE)

image: ## build the container image eventhook
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg TAGS=$(TAGS) -t eventhook$(addprefix -,$(TAGS)) .

# The tests of packages use nfpm.
$(NFPM):
	@echo "installing nfpm into .cache/bin"
	$(STATIC) GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.41.0
	@mv $(TOOLS)/nfpm $(NFPM)

FOR     ?= 30m
RATE    ?= 100
SETTLED ?= 0
soak: postgres build ## run gateways with faults for FOR at RATE webhooks/s, with SETTLED rows; see bench/README.md
	$(GO) build -o $(BIN)/bench ./bench
	$(BIN)/bench -soak $(FOR) -rate $(RATE) -settled $(SETTLED) -report $(BIN)/soak

# In the order of CI. .ci/run skips a check that cannot be installed.
CHECKS := test lint vet chart lint-api lint-js demo
SKIP   :=
check: $(filter-out $(SKIP),$(CHECKS)) ## run the checks of CI

# helm takes minutes to compile, so its test runs here and not in `make test`.
chart: $(HELM) ## lint and render the Helm chart, and compare it with its golden files
	HELM=$(HELM) $(STATIC) $(GO) test -vet=off -count=1 ./deploy/helm

# The chart's folder has all its files, so that a copy of it can be installed.
CHART_FILES := deploy/helm/eventhook/files
chart-files: ## copy the alerts and the dashboards into the Helm chart
	rm -rf $(CHART_FILES)
	mkdir -p $(CHART_FILES)/dashboards
	cp deploy/prometheus/rules.yaml $(CHART_FILES)/
	cp deploy/grafana/dashboards/*.json $(CHART_FILES)/dashboards/

$(HELM):
	@echo "installing helm into .cache/bin; compiling it takes a few minutes"
	$(STATIC) GOBIN=$(TOOLS) $(GO) install helm.sh/helm/v3/cmd/helm@v3.16.4
	@mv $(TOOLS)/helm $(HELM)

vet:
	$(STATIC) $(GO) vet ./...
	$(STATIC) $(GO) vet -tags temporal $(TAGGED)

check-programs: $(LINT) $(HELM) ## install the programs that the other checks use

lint: $(LINT)
	$(STATIC) $(LINT) run ./...
	$(STATIC) $(LINT) run --build-tags temporal $(TAGGED)

$(LINT):
	@echo "installing golangci-lint into .cache/bin"
	$(STATIC) GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	@mv $(TOOLS)/golangci-lint $(LINT)

lint-api-tools: $(LINT_API)

lint-api: $(LINT_API) ## check docs/openapi.json with redocly and spectral
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
		$(LINT_API)/node_modules/.bin/redocly lint --config .ci/redocly.yaml docs/openapi.json
	$(LINT_API)/node_modules/.bin/spectral lint --ruleset .ci/spectral.yaml --fail-severity=hint docs/openapi.json

# npm installs into a temporary folder, which is then renamed, so that an interrupted
# installation is repeated.
$(LINT_API): | npm
	@echo "installing redocly $(REDOCLY) and spectral $(SPECTRAL) with npm into .cache"
	@rm -rf $@.new
	@$(NPM_INSTALL) $@.new \
		@redocly/cli@$(REDOCLY) @stoplight/spectral-cli@$(SPECTRAL)
	@mv $@.new $@

lint-js-tools: $(LINT_JS)

lint-js: $(LINT_JS) ## check the types in the JavaScript of the console and the portal
	$(LINT_JS)/node_modules/.bin/tsc --project internal/web/tsconfig.json

$(LINT_JS): | npm
	@echo "installing typescript $(TYPESCRIPT) with npm into .cache"
	@rm -rf $@.new
	@$(NPM_INSTALL) $@.new typescript@$(TYPESCRIPT)
	@mv $@.new $@

screenshots: chromium axe postgres ## write the screenshots of docs/images with the browser tests
	UPDATE_SCREENSHOTS=1 CI=true $(GO) test -vet=off -count=1 -run Screenshot ./internal/browsertest/... ./internal/console/... ./internal/portal/...

fmt:
	gofmt -w .

docs: build ## write the pages that are generated from the code
	$(BIN)/eventhook providers -o markdown >docs/providers.md
	$(GO) run ./internal/docs/metrics >$(BIN)/metrics.md
	mv $(BIN)/metrics.md docs/metrics.md

# The sources of the generated client, in the order in which its test reads them.
CLIENT_FROM = docs/openapi.json client/oapi-codegen.yaml client/overlay.yaml client/methods.tmpl

generate: $(CODEGEN) ## write the OpenAPI document and the Go client that is generated from it
	@mkdir -p $(BIN)
	$(GO) run ./internal/docs/openapi >$(BIN)/openapi.json
	mv $(BIN)/openapi.json docs/openapi.json
	$(CODEGEN) -config client/oapi-codegen.yaml docs/openapi.json
	@printf '\n// generatedFrom is the SHA-256 of the sources of this file.\nconst generatedFrom = "%s"\n' \
		"$$(cat $(CLIENT_FROM) | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-64)" >>client/client.gen.go

$(CODEGEN):
	@echo "installing oapi-codegen into .cache/bin"
	$(STATIC) GOBIN=$(TOOLS) $(GO) install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
	@mv $(TOOLS)/oapi-codegen $(CODEGEN)

FUZZTIME ?= 10s
fuzz: ## run each fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

# The gateway and the tests need PostgreSQL's programs (initdb, postgres), not a running
# server. Without them, a gateway downloads a build into its data folder. For root on a
# system with apt, make installs the system's packages instead, which are signed and
# updated. If the installation fails, the gateway still tries the download.
DATABASE_VARIABLE = DATABASE_URL
test test-programs: DATABASE_VARIABLE = EVENTHOOK_TEST_DATABASE_URL
POSTGRES_HINT = install it (Debian: sudo apt-get install postgresql), or set $(DATABASE_VARIABLE)
run demo: POSTGRES_HINT = the gateway will download it; or install it (Debian: sudo apt-get install postgresql), or set DATABASE_URL

postgres:
	@if [ -n "$$$(DATABASE_VARIABLE)" ] || command -v postgres >/dev/null 2>&1 || \
		ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || ls data/postgresql-*/bin/postgres >/dev/null 2>&1; then \
		:; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing PostgreSQL's programs (no server is started)"; \
		mkdir -p /etc/postgresql-common; \
		[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf; \
		{ $(APT) update -q && $(APT) install -y -q --no-install-recommends postgresql; } || \
			echo "PostgreSQL could not be installed: $(POSTGRES_HINT)"; \
	else \
		echo "no PostgreSQL found: $(POSTGRES_HINT)"; \
	fi

compiler:
	@if command -v gcc >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing gcc for the race detector"; $(APT) update -q && $(APT) install -y -q gcc libc6-dev; \
	else \
		echo "no gcc: the tests run without the race detector"; \
	fi

# The tests run the programs in Python and JavaScript of docs/workers.md and
# docs/receiving.md.
interpreters:
	@if command -v python3 >/dev/null 2>&1 && command -v node >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing python3 and nodejs for the programs of docs/"; \
		$(APT) update -q && $(APT) install -y -q --no-install-recommends python3 nodejs; \
	else \
		echo "no python3 or no node: the programs of docs/ are not tested (Debian: sudo apt-get install python3 nodejs)"; \
	fi

# Programs of other projects that the tests start: PROGRAM=PACKAGE.
SERVERS = promtool=prometheus pgbouncer=pgbouncer nginx=nginx-light caddy=caddy systemd-analyze=systemd rpm=rpm rabbitmq-server=rabbitmq-server redis-server=redis-server

# In runlevel 1, Debian's packages do not start their services.
servers:
	@missing=; for server in $(SERVERS); do \
		command -v $${server%=*} >/dev/null 2>&1 || [ -x /usr/sbin/$${server%=*} ] || missing="$$missing $${server#*=}"; \
	done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing programs for the tests, without starting them:$$missing"; \
		$(APT) update -q && RUNLEVEL=1 $(APT) install -y -q --no-install-recommends $$missing; \
	else \
		echo "the tests of some programs are skipped (Debian: sudo apt-get install$$missing)"; \
	fi

# npm itself is a large installation, which `make lint-api-tools` does.
libraries: | interpreters
	@if [ -e $(LIBRARIES) ]; then :; \
	elif command -v npm >/dev/null 2>&1; then \
		echo "installing libraries of webhook providers with npm into .cache"; \
		rm -rf $(LIBRARIES).new; \
		$(NPM_INSTALL) $(LIBRARIES).new \
			stripe@$(STRIPE) @octokit/webhooks-methods@$(OCTOKIT) @slack/bolt@$(BOLT) && \
			mv $(LIBRARIES).new $(LIBRARIES) || \
			echo "npm could not install them: their tests are skipped or, in CI, fail"; \
	else \
		echo "no npm: the tests of the libraries of webhook providers are skipped (Debian: sudo apt-get install npm)"; \
	fi

# The browser tests run the pages of the console and the portal in it.
chromium:
	@if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
		command -v google-chrome >/dev/null 2>&1 || command -v google-chrome-stable >/dev/null 2>&1; then \
		:; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing Chromium for the tests of the console and the portal"; \
		$(APT) update -q && $(APT) install -y -q --no-install-recommends chromium fonts-liberation; \
	else \
		echo "no Chromium: the tests of the console and the portal are skipped (Debian: sudo apt-get install chromium)"; \
	fi

axe: | interpreters
	@if [ -e $(AXE) ]; then :; \
	elif command -v npm >/dev/null 2>&1; then \
		echo "installing axe-core $(AXE_VERSION) with npm into .cache"; \
		rm -rf $(AXE).new; \
		$(NPM_INSTALL) $(AXE).new axe-core@$(AXE_VERSION) && mv $(AXE).new $(AXE) || \
			echo "npm could not install it: the checks of accessibility are skipped or, in CI, fail"; \
	else \
		echo "no npm: the checks of accessibility are skipped (Debian: sudo apt-get install npm)"; \
	fi

npm:
	@if command -v npm >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing nodejs and npm for the linters"; \
		$(APT) update -q && $(APT) install -y -q --no-install-recommends nodejs npm; \
	else \
		echo "no npm: install it for the linters (Debian: sudo apt-get install nodejs npm)"; exit 1; \
	fi

bare: ## run `make run` and `make test` in a bare Debian; needs root, apt and about 6 GB
	scripts/bare

clean:
	rm -rf $(BIN) .cache
