#!/bin/sh
# etcd-roles.sh [PREFIX]: prints the etcdctl commands that make the roles etcron-manager and etcron-worker for this keyPrefix.
# Look at them, then pipe them into sh. They may be run again: a role that is there keeps what it has.
prefix=${1:-/etcron}
prefix=${prefix%/}

grant() { echo "etcdctl role grant-permission $1 $2 --prefix=true $prefix$3"; }

echo "etcdctl role add etcron-manager"
grant etcron-manager readwrite /
grant etcron-manager readwrite -auth/
echo "etcdctl role add etcron-worker"
for keys in jobs/ drains/ rules/ tails/; do
    grant etcron-worker read "/$keys"
done
for keys in marks/ runs/ locks/ requests/ kills/ giveups/ workers/ beats/ roster/ dedupe/ clocks leader/steward seen/; do
    grant etcron-worker readwrite "/$keys"
done
