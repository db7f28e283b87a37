#!/bin/sh
# Puts the etcd versions that count and that Debian does not have under DEST: 3.6 and 3.7 at their newest, built from
# their Go modules (DEST/etcd-3.6/etcd, DEST/etcd-3.7/etcd; a few minutes). One that is there stays as it is. Needs no
# root. What cannot be had is told in a line each; then the status is 1, and the tests on that version are skipped.
set -u

if [ $# -ne 1 ]; then
    echo "usage: $0 DEST" >&2
    exit 2
fi
mkdir -p "$1" && dest=$(cd "$1" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0

failed() {
    echo "etcd $1: $2" >&2
    status=1
}

# put SERIES FILE: only what runs here, and is what it is taken for, gets its place.
put() {
    "$2" --version 2>/dev/null | grep -q "^etcd Version: $1\." || { failed "$1" "the program does not run here"; return; }
    mkdir -p "$dest/etcd-$1" && cp "$2" "$dest/etcd-$1/etcd.new" && mv "$dest/etcd-$1/etcd.new" "$dest/etcd-$1/etcd" || {
        failed "$1" "$dest/etcd-$1 cannot be written"
        return
    }
    "$dest/etcd-$1/etcd" --version | head -1
}

from_module() {
    command -v go >/dev/null || { failed "$1" "no go here to build it with"; return; }
    mkdir -p "$work/$1" && cd "$work/$1" || return
    cat >main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
GO
    CGO_ENABLED=0 && GOFLAGS=-buildvcs=false && export CGO_ENABLED GOFLAGS
    { go mod init etcd && go get "go.etcd.io/etcd/server/v3/etcdmain@v$1" && go build -o etcd .; } >build.log 2>&1 || {
        failed "$1" "it cannot be built: $(tail -1 build.log)"
        return
    }
    put "$1" "$work/$1/etcd"
}

for series in 3.6 3.7; do
    [ -x "$dest/etcd-$series/etcd" ] || (from_module "$series"; exit "$status") || status=1
done
exit "$status"
