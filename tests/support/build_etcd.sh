#!/bin/sh
# Puts the etcd versions that count, but for Debian 12's, under DEST: Debian 13's 3.5 (DEST/etcd-3.5/etcd), 3.6 and
# 3.7 at their newest, built from their Go modules (DEST/etcd-3.6/etcd, DEST/etcd-3.7/etcd; a few minutes). One that is
# there stays as it is. Needs no root: apt works in directories of its own. What cannot be had is told in a line each;
# then the status is 1, and the tests on that version are skipped.
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

debian_13() {
    for program in apt-get dpkg-deb; do
        command -v "$program" >/dev/null || { failed 3.5 "no $program here"; return; }
    done
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keyring" ] || { failed 3.5 "no $keyring here (Debian's package debian-archive-keyring)"; return; }
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/parts"
    echo "deb [signed-by=$keyring] http://deb.debian.org/debian trixie main" >"$work/apt/sources.list"
    : >"$work/apt/status"
    cat >"$work/apt/apt.conf" <<CONF
Dir::State "$work/apt";
Dir::State::Lists "$work/apt/lists";
Dir::State::Status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "$work/apt/parts";
Acquire::Languages "none";
CONF
    (cd "$work" && APT_CONFIG="$work/apt/apt.conf" && export APT_CONFIG &&
        apt-get -qq update && apt-get -qq download etcd-server) >"$work/apt.log" 2>&1 || {
        failed 3.5 "apt cannot download Debian 13's etcd-server: $(tail -1 "$work/apt.log")"
        return
    }
    dpkg-deb -x "$work"/etcd-server_*.deb "$work/tree" && put 3.5 "$work/tree/usr/bin/etcd"
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

[ -x "$dest/etcd-3.5/etcd" ] || debian_13
for series in 3.6 3.7; do
    [ -x "$dest/etcd-$series/etcd" ] || (from_module "$series"; exit "$status") || status=1
done
exit "$status"
