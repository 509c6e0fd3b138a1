# Two commands do everything: `make serve` and `make test`. Both prepare .venv first (deploy/setup.sh).
VENV ?= .venv
ARGS ?=
export PYTHON ?= python3

.PHONY: serve test lint clean
serve: $(VENV)/.ready-serve
	$(VENV)/bin/kingfisher serve $(ARGS)

test: $(VENV)/.ready-test lint
	$(VENV)/bin/python -m pytest $(ARGS)
	cd clients/js && PATH="$(abspath $(VENV))/bin:$$PATH" npm ci --silent && PATH="$(abspath $(VENV))/bin:$$PATH" npm test --silent

lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

$(VENV)/.ready-serve $(VENV)/.ready-test: pyproject.toml deploy/setup.sh
	deploy/setup.sh $(VENV) $(patsubst .ready-%,%,$(notdir $@))

clean:
	rm -rf $(VENV) build *.egg-info
