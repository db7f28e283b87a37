#!/bin/sh
# fetch_etcd.sh DEST SERIES...: puts the first of these etcds that Debian has for this machine into DEST/etcd-SERIES/etcd;
# one that is there stays as it is. 3.5 is Debian 13's, 3.4 Debian 12's. What is fetched is signed by Debian; nothing is
# installed, and root is not needed: apt works in directories of its own. Else a line for each, and status 1.
set -u

if [ $# -lt 2 ]; then
    echo "usage: $0 DEST SERIES..." >&2
    exit 2
fi
umask 022
mkdir -p "$1" && dest=$(cd "$1" && pwd) || exit 1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# What a machine's own settings allow in exception is not allowed here.
apt() {
    apt-get -qq -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false \
        -o Acquire::AllowDowngradeToInsecureRepositories=false -o APT::Update::Error-Mode=any \
        -o Acquire::Retries=0 -o Acquire::Languages=none "$@"
}

# own NAME SETTING...: the settings of an apt with lists of its own.
own() {
    mkdir -p "$work/$1/lists/partial" "$work/$1/cache/archives/partial" "$work/$1/parts"
    : >"$work/$1/status"
    APT_CONFIG=$work/$1/apt.conf
    export APT_CONFIG
    cat >"$APT_CONFIG" <<CONF
Dir::State "$work/$1";
Dir::State::Lists "$work/$1/lists";
Dir::State::Status "$work/$1/status";
Dir::Cache "$work/$1/cache";
CONF
}

# The first complaint of what went wrong.
why() {
    grep -m1 '^E: ' "$work/log" || tail -1 "$work/log"
}

# Whose keys Debian signs with: the machine's own, else (on Ubuntu) those of a package that its own archive vouches for.
find_keyring() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ ! -r "$keyring" ] || return 0
    cd "$work" || return
    apt download debian-archive-keyring || { own machine && apt update && apt download debian-archive-keyring; } || return
    dpkg-deb -x debian-archive-keyring_*.deb keys && keyring=$work/keys$keyring && [ -r "$keyring" ]
}

# from_debian SERIES RELEASE: only what runs here, and is what it is taken for, gets its place.
from_debian() {
    own "$2" || return
    echo "Dir::Etc::SourceList \"$work/$2/sources.list\"; Dir::Etc::SourceParts \"$work/$2/parts\";" >>"$APT_CONFIG"
    echo "deb [signed-by=$keyring target=Packages] http://deb.debian.org/debian $2 main" >"$work/$2/sources.list"
    cd "$work/$2" && apt update && apt download etcd-server && dpkg-deb -x etcd-server_*.deb tree || return
    tree/usr/bin/etcd --version | grep "^etcd Version: $1\." || { echo "the program does not run here"; return 1; }
    mkdir -p "$dest/etcd-$1" && cp tree/usr/bin/etcd "$dest/etcd-$1/etcd.$$" &&
        mv "$dest/etcd-$1/etcd.$$" "$dest/etcd-$1/etcd"
}

for series in "$@"; do
    [ ! -x "$dest/etcd-$series/etcd" ] || exit 0
done
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || { echo "etcd: no $program here to fetch Debian's with" >&2; exit 1; }
done
(find_keyring && echo "$keyring" >"$work/keyring") >"$work/log" 2>&1 ||
    { echo "etcd: Debian's keys cannot be had: $(why)" >&2; exit 1; }
keyring=$(cat "$work/keyring")
for series in "$@"; do
    case $series in 3.5) release=trixie ;; *) release=bookworm ;; esac
    (from_debian "$series" "$release") >"$work/log" 2>&1 && exit 0
    echo "etcd $series: Debian's cannot be had: $(why)" >&2
done
exit 1
