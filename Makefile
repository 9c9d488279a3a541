# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RECOMPACT_TEST_MODEL ?= http://127.0.0.1:18150/v1
RECOMPACT_TEST_MODEL_ID ?= 1.5b

.PHONY: demo test check unit browser sandbox test-model test-harnesses bench clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/recompact demo

test: check unit

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2

# The report is looked at in a real browser. Without one those tests are skipped, with this as their reason.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then \
		echo "chromium and chromedriver are there."; \
	else \
		as=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$as apt-get update -qq && \
		$$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium chromium-driver fonts-dejavu-core; \
	fi

# The shell of OfficeBench runs in bubblewrap. Without it those tests are skipped, with this as their reason.
sandbox:
	@if command -v bwrap >/dev/null; then \
		echo "bubblewrap is there."; \
	else \
		as=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$as apt-get update -qq && \
		$$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap; \
	fi

# Needs a server with a real model; see docs/local-models.md.
test-model: $(READY)
	RECOMPACT_TEST_MODEL=$(RECOMPACT_TEST_MODEL) RECOMPACT_TEST_MODEL_ID=$(RECOMPACT_TEST_MODEL_ID) $(BIN)/pytest -s tests/real_model

# Installs OpenClaw, pi and Hermes from their package indexes into a scratch directory and imports their prompts.
test-harnesses: $(READY)
	RECOMPACT_TEST_HARNESSES=1 $(BIN)/pytest -s tests/test_harness_prompts.py

# The engine beside inspect-ai, which is only a yardstick and gets an environment of its own.
bench: $(READY)
	test -d $(VENV)-bench || $(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check -e . inspect-ai==0.3.285
	$(VENV)-bench/bin/python benchmarks/engine.py

clean:
	rm -rf $(VENV) $(VENV)-bench
