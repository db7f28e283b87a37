#!/bin/sh
# Starts N workers (default 2) of the pool "objects", each with JOB_PREFETCH slots; Ctrl-C ends them.
# Usage: JOB_PREFETCH=10 examples/job_api/workers.sh [N]     ETCD: host:port of etcd, MONGODB: URI of the log store (that of `make run`)
# ETCD_PASSWORD: the file with the password of etcd's user root; by default that of `make run`, where there is one
set -eu
n=${1:-2}
password=${ETCD_PASSWORD:-./data/etcd-password}
[ -r "$password" ] || password=
workers=
# A worker that is asked twice hurries, and ends what runs: so each is asked once. Ctrl-C asks them by itself.
trap : INT
trap 'kill $workers || :' TERM
while [ "$n" -gt 0 ]; do
    "${ETCRON:-.venv/bin/etcron}" worker --worker-name "objects-$n" --labels pool=objects --slots "${JOB_PREFETCH:-10}" \
        --data-dir "${DATA:-./data}/objects-$n" --etcd-endpoints "${ETCD:-127.0.0.1:23790}" \
        ${password:+--etcd-user root --etcd-password-file "$password"} \
        --mongodb-uri "${MONGODB:-mongodb://$(printf %s "$PWD/data/run/logs.sock" | sed 's,/,%2F,g')}" &
    workers="$workers $!"
    n=$((n - 1))
done
until wait; do :; done # a signal ends a wait, not the workers
