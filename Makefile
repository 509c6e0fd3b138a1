# Two commands do everything: `make serve` and `make test`. Both prepare .venv first (deploy/setup.sh).
# `make audit` asks the advisory databases, and fails where it cannot.
VENV ?= .venv
ARGS ?=
export PYTHON ?= python3

.PHONY: serve clients test lint audit clean
serve: $(VENV)/.ready-serve
	$(VENV)/bin/kingfisher serve $(ARGS)

# Node comes with the environment (a wheel), so its folder goes first in the path of everything that is tested.
test: export PATH := $(abspath $(VENV))/bin:$(PATH)
test: $(VENV)/.ready-test lint
	cd clients/js && npm ci --silent && npm test --silent
	$(VENV)/bin/python -m pytest $(ARGS)

# Other people's clients against a real server: installed once (1.3 GB), kept in KINGFISHER_CLIENTS_DIR.
clients: export PATH := $(abspath $(VENV))/bin:$(PATH)
clients: $(VENV)/.ready-test
	timeout 1200 $(VENV)/bin/python -m pytest -m clients tests/clients $(ARGS)

lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

$(VENV)/.ready-serve $(VENV)/.ready-test: pyproject.toml deploy/setup.sh
	deploy/setup.sh $(VENV) $(patsubst .ready-%,%,$(notdir $@))

audit: $(VENV)/.ready-test
	$(VENV)/bin/pip install --quiet "pip-audit>=2.10"
	$(VENV)/bin/pip-audit --local --skip-editable --strict
	cd clients/js && npm audit

clean:
	rm -rf $(VENV) build *.egg-info
