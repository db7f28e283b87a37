# Every target works on a fresh Debian with python3 (3.11 or newer) and make; it sets up ./.venv by itself.
# PYTHON=python3.12 chooses another interpreter; pip's own configuration is used as it is.

VENV := .venv/bin
ETCD34 := .tools/etcd-3.4
DATA_DIR ?= ./data
TESTS ?=

.DEFAULT_GOAL := help
.PHONY: run test lint bench wheel clean help venv-run venv-test etcd34

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: venv-run ## start everything on this machine, with a few example jobs (data in ./data)
	@exec $(VENV)/etcron up --example --data-dir $(DATA_DIR)

test: venv-test etcd34 ## run the tests (TESTS="tests/unit -k cron" runs some of them)
	$(VENV)/python -m pytest $(TESTS)

lint: venv-test ## style, types and the direction of imports
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

bench: venv-test ## run the benchmarks; results go to bench/results/
	$(VENV)/python -m bench

wheel: venv-test ## build dist/etcron-*.whl
	@# The browser assets (webroot/static/vendor) are built here, before the wheel, once the console exists.
	rm -rf build dist
	$(VENV)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean: ## remove what setting up, building and testing left (not ./data)
	rm -rf .venv .tools build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv-run:
	@.ci/venv embedded

venv-test:
	@.ci/venv embedded,test

# Debian's etcd 3.4, next to the wheel's 3.5. Without it (offline, not Debian) the tests on 3.4 are skipped, and say so.
etcd34:
	@[ -x $(ETCD34)/etcd ] || sh tests/support/fetch_etcd34.sh $(ETCD34) || \
	    echo "etcd 3.4 could not be fetched into $(ETCD34): the tests that need it are skipped"
