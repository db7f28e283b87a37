#!/bin/sh
# Starts N workers (default 2) of the pool "objects", each with JOB_PREFETCH slots; Ctrl-C ends them.
# Usage: JOB_PREFETCH=10 examples/job_api/workers.sh [N]
# CONFIG: a worker's configuration, which says where the servers are; by default that of `make run`'s first worker
# DATA: where these workers keep their data
set -eu
n=${1:-2}
config=${CONFIG:-./data/config/worker-1.json}
if [ ! -r "$config" ]; then
    echo "$config cannot be read: start etcron first (make run), or set CONFIG to a worker's configuration" >&2
    exit 2
fi
workers=
# A worker that is asked twice hurries, and ends what runs: so each is asked once. Ctrl-C asks them by itself.
trap : INT
trap 'kill $workers || :' TERM
while [ "$n" -gt 0 ]; do
    "${ETCRON:-.venv/bin/etcron}" start worker --config "$config" --worker-name "objects-$n" --labels pool=objects \
        --slots "${JOB_PREFETCH:-10}" --data-dir "${DATA:-./data}/objects-$n" &
    workers="$workers $!"
    n=$((n - 1))
done
until wait; do :; done # a signal ends a wait, not the workers
