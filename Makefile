# Every verb sets up what it needs: Python 3.11+ and the usual package registry are all it asks for.
PYTHON ?= python3
# Another interpreter has its own environment, whatever path leads to it: make test PYTHON=python3.13
VENV := $(if $(filter file,$(origin PYTHON)),.venv,.make/$(shell $(PYTHON) -c 'import sys; print("python-%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
REWRITTEN := $(VENV)/.rewritten
DOCS := .make/docs
NPM := $(shell command -v npm)
NODE := web/node_modules/.ready
PAGE := src/outlast/http/page/index.html
CORES := $(shell nproc 2> /dev/null || echo 2)
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.DEFAULT_GOAL := help
.PHONY: help setup web browser demo check quick test faults release bench pages docs schema screenshots messages wheel lock clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Outlast needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src  # as an install would: many tests start programs, each of which would compile it again
	@touch $@

setup: $(READY)  ## Create the virtual environment with the locked dependencies

$(NODE): web/package.json web/package-lock.json
	@command -v npm > /dev/null || { echo "the page needs Node 20 or newer, with npm"; exit 1; }
	cd web && npm ci --silent
	@touch $@

$(PAGE): $(NODE) $(shell find web -type f -not -path '*/node_modules/*' -not -name .building)
	cd web && npm run --silent build -- --logLevel warn

web: $(PAGE)  ## Build the page into src/outlast/http/page/, if its sources are newer

HEADLESS := chromium-headless-shell
browser:  ## Install Chromium for the tests of the page: as root Debian's package without a user interface, which tests quickest
	@command -v $(HEADLESS) || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(HEADLESS) > /dev/null; } || \
	command -v chromium || command -v chromium-browser || command -v google-chrome

CHECKS := check-format check-lint check-types check-imports check-hosts $(if $(NPM),check-web)
.PHONY: $(CHECKS)
check: $(READY) $(if $(NPM),$(NODE))  ## Format, lint, types, import rules, no registry named; the same for the page
	@$(MAKE) --no-print-directory --jobs $(CORES) $(SYNC) $(CHECKS)
check-format:
	$(BIN)/ruff format --check .
check-lint:
	$(BIN)/ruff check .
check-types:
	$(BIN)/mypy
check-imports:
	$(BIN)/lint-imports --no-cache
check-hosts:
	$(BIN)/python tests/house/no_hosts.py
check-web:
	cd web && npm run --silent check

DEMO := .make/runtime
$(DEMO)/.ready: requirements/runtime.txt
	@$(PYTHON) -c 'import sys; sys.exit("Outlast needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv --clear $(DEMO)
	$(DEMO)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	@touch $@

demo: $(DEMO)/.ready  ## Kill a workflow half-way, start it again, and see what was recovered
	PYTHONPATH=src $(DEMO)/bin/python -m demo
	@$(if $(NPM),$(MAKE) --no-print-directory web && echo "The page is built; it is served by: make setup && $(BIN)/outlast dev examples/approval.py",echo "The web page needs Node 20; a wheel of Outlast carries it.")

# Power is cut only in play there, so that files may lie in memory, where there is room for them and for programs: no flush
# waits for a disk.
IN_MEMORY := $(shell grep -Es '^\S+ /dev/shm \S+ rw' /proc/mounts | grep -vq noexec && df -Pk /dev/shm | awk 'NR > 1 && $$4 > 4000000 { print $$6 }')
test: export TMPDIR := $(or $(IN_MEMORY),$(TMPDIR))
test: $(READY) $(REWRITTEN) $(if $(NPM),$(PAGE))  ## Run the test suite, in four processes: many tests wait for servers and processes
	$(if $(NPM),cd web && npm run --silent test,@echo "npm is not there: the page is not tested")
	$(BIN)/pytest -n 4 --dist worksteal

# The assertions of all test modules are rewritten once, not by each of the processes.
$(REWRITTEN): $(READY) $(shell find tests -name '*.py')
	@$(BIN)/pytest --collect-only -qq > /dev/null || true
	@touch $@

QUICK := tests/history tests/histories tests/lifecycle tests/properties/test_lineage.py tests/properties/test_histories.py
quick: $(READY)  ## Run the tests that start no engine, server or process, in seconds
	$(BIN)/pytest $(QUICK)

WHOLE := OUTLAST_TEST_WHOLE=1
faults: $(READY) $(PAGE)  ## Run every fault crossing and the soaks, with counts and times
	$(WHOLE) $(BIN)/pytest -n 4 --dist worksteal -m "not release" -rP tests/faults
	$(WHOLE) $(BIN)/pytest -n 4 --dist worksteal tests/contract tests/properties tests/values tests/branches tests/doctor tests/page/test_views.py
	$(BIN)/pytest -m "not release" -s tests/journeys
	$(BIN)/pytest -m soak -s --ignore tests/faults --ignore tests/journeys

DEPLOY := .make/deploy
$(DEPLOY)/.ready: requirements/deploy.txt
	$(PYTHON) -m venv --clear $(DEPLOY)
	$(DEPLOY)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/deploy.txt
	@touch $@

release: $(READY) $(PAGE) check-deploy  ## Run what only a release needs: the wheel, Pyright, deploy/, a server that crashes ten times
	$(BIN)/pytest -m release

.PHONY: check-deploy
check-deploy: $(READY) $(DEPLOY)/.ready
	$(DEPLOY)/bin/hadolint deploy/Dockerfile
	$(DEPLOY)/bin/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(DEPLOY)/bin/kubernetes-validate --strict deploy/kubernetes/outlast.yaml

bench: $(READY)  ## Measure, and write docs/benchmarks.md
	$(BIN)/python -m compileall -q src benchmarks
	PYTHONPATH=tests $(BIN)/python -m benchmarks

pages: $(READY)  ## Write docs/reference/errors.md from the table of error codes
	$(BIN)/python docs/pages.py

$(DOCS)/.ready: requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(DOCS)/.ready  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(DOCS)/bin/mkdocs build --quiet --strict

schema: $(READY)  ## Write the JSON Schema of the views and the OpenAPI document into docs/reference/, and the page's types
	$(BIN)/python -c 'import json; from outlast.views import json_schema; print(json.dumps(json_schema(), indent=2))' > docs/reference/views.schema.json
	$(BIN)/python -m outlast.http.openapi > docs/reference/openapi.json
	@$(if $(NPM),$(MAKE) --no-print-directory $(NODE) && cd web && npm run --silent types,echo "npm is not there: web/src/api/schema.d.ts was not renewed")

screenshots: $(READY) $(PAGE)  ## Write pictures of every view of the page into docs/images/
	PYTHONPATH=tests $(BIN)/python docs/screenshots.py

messages: $(READY)  ## Write all texts for users into docs/reference/messages.txt, for review
	$(BIN)/python docs/messages.py

wheel: $(READY) $(PAGE)  ## Build the wheel into dist/ with the locked tools
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

COMPILE := .make/lock/bin/pip-compile -q -U --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header
lock: requirements/dev.in requirements/docs.in requirements/deploy.in requirements/peer-dbos.in pyproject.toml  ## Renew the locked dependencies
	$(PYTHON) -m venv --clear .make/lock
	.make/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	$(COMPILE) -o requirements/runtime.txt pyproject.toml
	$(COMPILE) --allow-unsafe --extra postgres --extra server --extra telemetry --extra oidc --extra encryption -o requirements/dev.txt pyproject.toml requirements/dev.in
	$(COMPILE) --allow-unsafe -o requirements/docs.txt pyproject.toml requirements/docs.in
	$(COMPILE) --allow-unsafe -o requirements/deploy.txt requirements/deploy.in
	$(COMPILE) --no-strip-extras --allow-unsafe -o requirements/peer-dbos.txt requirements/peer-dbos.in

clean:  ## Remove what the other verbs made
	rm -rf $(VENV) .make dist site web/node_modules src/outlast/http/page .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
