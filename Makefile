# Every target sets up $(VENV) by itself. Another Python: make test PYTHON=python3.12 VENV=.venv-3.12
PYTHON ?= python3
VENV ?= .venv
# One more than two cores: tests that wait for processes leave a core to the others, and each worker collects them all.
WORKERS ?= 3
# CONSTRAINTS=/dev/null resolves afresh, as the canary does.
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH ?= torch
RECOMPACT_TEST_MODEL ?= http://127.0.0.1:18150/v1
RECOMPACT_TEST_MODEL_ID ?= 1.5b

# Hundreds of processes import the package while it is tested: without bytecode each would compile it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check unit test-slow test-attack test-browser test-wheel test-harnesses test-formats test-containers test-agents test-llmlingua test-ray test-model test-benchmarks mutants \
	browser sandbox bench docs release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

demo: $(READY) ## run the whole method on the embedded world, without a key
	$(BIN)/recompact demo

# mypy takes one core for a minute, so the tests begin beside it.
test: $(READY) ## everything that has to pass before a change is merged: check and unit, side by side
	@$(MAKE) --no-print-directory --jobs 2 check unit

check: $(READY) ## ruff, mypy --strict and the order of the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.collected ## the tests, except those marked slow
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

# Collecting once leaves the compiled tests to all workers, each of which would compile all of them otherwise.
$(VENV)/.collected: $(READY)
	@$(BIN)/pytest --collect-only >/dev/null || true
	@touch $@

test-slow: $(READY) ## the tests marked slow, and every property with all of its examples
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m 'slow or hypothesis' --hypothesis-profile thorough

test-attack: $(READY) ## try to get in and to break things, at random by SEED: what docs/security.md promises, minutes
	RECOMPACT_ATTACK_SEED=$(SEED) $(BIN)/python tests/support/attacks.py

test-browser: $(READY) ## the pages in Chromium, which it installs where it may; without it they are skipped
	-@$(MAKE) --no-print-directory browser
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m browser

test-wheel: $(READY) ## build the wheel, install it into an empty environment, and use it: demo, view, audit, export
	RECOMPACT_TEST_WHEEL=1 $(BIN)/pytest tests/wheel

test-harnesses: $(READY) ## install harnesses into a scratch directory, import their prompts, and run eight of them
	RECOMPACT_TEST_HARNESSES=1 $(BIN)/pytest -s tests/harnesses

test-formats: $(READY) ## install the newest Inspect, Harbor and OpenTelemetry, and check that they and we read each other's files
	RECOMPACT_TEST_FORMATS=1 $(BIN)/pytest -s tests/harnesses/test_newest_formats.py

# Needs podman or docker, and Debian's busybox-static for an image: make test-containers CONTAINERS='podman --runtime runc'
CONTAINERS ?= podman
test-containers: $(READY) ## tasks of Harbor in containers of podman or docker
	RECOMPACT_TEST_CONTAINERS='$(CONTAINERS)' $(BIN)/pytest -m 'slow or not slow' tests/suites/workspace/test_containers.py

# torch is large, so it gets an environment of its own. A build without CUDA: TORCH='torch==VERSION+cpu'
test-llmlingua: ## install llmlingua and torch and run the LLMLingua-2 compressor on a tiny classifier
	test -d $(VENV)-llmlingua || $(PYTHON) -m venv $(VENV)-llmlingua
	$(VENV)-llmlingua/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' -e '.[llmlingua,server]' pytest hypothesis
	$(VENV)-llmlingua/bin/pytest tests/compressors/test_llmlingua2.py tests/compressors/test_llmlingua2_model.py

# Ray is large too, and its clusters take a while to start.
test-ray: ## install Ray and run environments on a cluster of three nodes on this machine, which are killed at times
	test -d $(VENV)-ray || $(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray,server]' pytest hypothesis
	$(VENV)-ray/bin/pytest -m 'slow or not slow' tests/environments/cluster

# pi needs a newer Node than many systems have: the package `node` brings one.
AGENTS ?= .agents
test-agents: $(READY) ## install Codex, Claude Code, Gemini CLI, Goose, OpenCode, pi, mini-swe-agent and deepagents; play with them behind the gateway
	mkdir -p $(AGENTS)/npm
	test -d $(AGENTS)/mini || { $(PYTHON) -m venv $(AGENTS)/mini && \
		$(AGENTS)/mini/bin/python -m pip install --quiet --disable-pip-version-check mini-swe-agent==2.4.6 mcp; }
	test -d $(AGENTS)/deepagents || { $(PYTHON) -m venv $(AGENTS)/deepagents && \
		$(AGENTS)/deepagents/bin/python -m pip install --quiet --disable-pip-version-check \
			deepagents==0.7.32 langchain-openai==1.7.3 pytest hypothesis -e .; }
	npm install --silent --no-audit --no-fund --prefix $(AGENTS)/npm node@24.9.0 @openai/codex@0.169.0 \
		opencode-ai@1.18.33 @anthropic-ai/claude-code@2.1.327 @earendil-works/pi-coding-agent@0.87.1 \
		@google/gemini-cli@0.61.0 @aaif/goose@0.20.1
	$(AGENTS)/deepagents/bin/python -m pytest -rs tests/integrations/test_langchain_loop.py
	RECOMPACT_TEST_AGENTS=$(AGENTS) $(BIN)/pytest -s tests/real_agents

test-model: $(READY) ## a real model behind a server: see docs/local-models.md
	RECOMPACT_TEST_MODEL=$(RECOMPACT_TEST_MODEL) RECOMPACT_TEST_MODEL_ID=$(RECOMPACT_TEST_MODEL_ID) $(BIN)/pytest -s tests/real_model

SAMPLE ?= 150
SEED ?= 1
mutants: $(READY) ## would the tests notice? SAMPLE small changes to the code, drawn with SEED: see CONTRIBUTING.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,mutants]'
	$(BIN)/python benchmarks/mutants.py --sample $(SAMPLE) --seed $(SEED) --workers $(WORKERS)

# AppWorld's task data are not needed: its tests make their own. TAU2_CHECKOUT is for where there is no network.
BENCHMARKS := $(abspath $(VENV)-benchmarks)
test-benchmarks: $(READY) ## install AppWorld and tau2-bench into $(VENV)-benchmarks and run their tests
	-RECOMPACT_HOME=$(BENCHMARKS) $(BIN)/recompact setup appworld
	-RECOMPACT_HOME=$(BENCHMARKS) $(BIN)/recompact setup tau2-retail $(if $(TAU2_CHECKOUT),--from $(TAU2_CHECKOUT)) \
		$(if $(TAU2_PYTHON),--python $(TAU2_PYTHON))
	RECOMPACT_APPWORLD_PYTHON=$(BENCHMARKS)/appworld/venv/bin/python \
	RECOMPACT_TAU2_PYTHON=$(BENCHMARKS)/tau2-retail/venv/bin/python \
		$(BIN)/pytest -rs tests/suites/appworld tests/suites/tau2

browser: ## install Chromium from Debian for the tests of the report, which are skipped without it
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then \
		echo "chromium and chromedriver are there."; \
	else \
		as=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$as apt-get update -qq && \
		$$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium chromium-driver fonts-dejavu-core; \
	fi

sandbox: ## install bubblewrap, in which hosts and shells are shut in; without it they have your rights
	@if command -v bwrap >/dev/null; then \
		echo "bubblewrap is there."; \
	else \
		as=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$as apt-get update -qq && \
		$$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap; \
	fi

# inspect-ai is only a yardstick, so it gets an environment of its own.
bench: $(READY) ## measure the engine beside inspect-ai
	test -d $(VENV)-bench || $(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check -e . inspect-ai==0.3.285
	$(VENV)-bench/bin/python benchmarks/engine.py

# The site's tools are many, so they get an environment of their own.
docs: $(VENV)-docs/.ready ## build the site into build/site; a dead link or an undocumented public name fails it
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

$(VENV)-docs/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Nothing is uploaded: the workflow `release` does that for a tag, with a bill of materials and attestations.
release: $(READY) ## build sdist and wheel into dist/ and check them: metadata, an empty environment, demo, audit, export
	test -d $(VENV)-release || $(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(VENV)-release/bin/python -m build --outdir dist
	$(VENV)-release/bin/twine check --strict dist/*
	RECOMPACT_TEST_WHEEL=$$(ls dist/recompact-*.whl) $(BIN)/pytest tests/wheel
	@ls -l dist

clean: ## remove the virtual environments
	rm -rf $(VENV) $(VENV)-docs $(VENV)-release $(VENV)-bench $(VENV)-llmlingua $(VENV)-ray $(VENV)-benchmarks
