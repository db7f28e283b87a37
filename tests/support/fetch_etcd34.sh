#!/bin/sh
# Puts Debian's etcd 3.4 under DEST (DEST/etcd and DEST/usr/bin/etcd), for the tests that run on both versions.
# Needs no root where apt has its lists. Does nothing where it is there already. Fails with one line and status 1.
set -u

if [ $# -ne 1 ]; then
    echo "usage: $0 DEST" >&2
    exit 2
fi
dest=$1
work=

give_up() {
    echo "etcd 3.4: $1" >&2
    exit 1
}
clean_up() {
    [ -z "$work" ] || rm -rf "$work"
}
trap clean_up EXIT

[ -x "$dest/usr/bin/etcd" ] && [ -x "$dest/etcd" ] && exit 0
command -v apt-get >/dev/null 2>&1 || give_up "no apt-get here; put the binary at $dest/usr/bin/etcd yourself"
command -v dpkg-deb >/dev/null 2>&1 || give_up "no dpkg-deb here; put the binary at $dest/usr/bin/etcd yourself"

work=$(mktemp -d) || give_up "no temporary directory"
download() {
    (cd "$work" && apt-get -qq download etcd-server >/dev/null 2>&1)
}
if ! download; then
    # Without lists apt knows no package; only root can fetch them.
    [ "$(id -u)" -eq 0 ] || give_up "apt cannot download etcd-server; run 'apt-get update' as root and try again"
    apt-get -qq update >/dev/null 2>&1 || give_up "apt-get update failed; is this machine online?"
    download || give_up "apt cannot download etcd-server here"
fi

dpkg-deb -x "$work"/etcd-server_*.deb "$work/tree" || give_up "the package cannot be unpacked"
"$work/tree/usr/bin/etcd" --version 2>/dev/null | grep -q '^etcd Version: 3\.4\.' ||
    give_up "this distribution's etcd-server is not 3.4; the tests on 3.4 are skipped"
mkdir -p "$dest/usr/bin" && cp "$work/tree/usr/bin/etcd" "$dest/usr/bin/etcd.new" &&
    mv "$dest/usr/bin/etcd.new" "$dest/usr/bin/etcd" && ln -sf usr/bin/etcd "$dest/etcd" ||
    give_up "$dest cannot be written"
