#!/bin/bash
# Makes a stand-in for docker.io/library/node:24-bookworm-slim as a tar of its root file system: Debian bookworm by
# debootstrap, this project's Node 24, this machine's npm, user node (1000). Only this stand-in gets the machine's CA
# file, so that npm works behind a registry mirror.
#
# usage: build-base.sh NODE_BINARY NPM_FOLDER CACHE_FOLDER    prints the tar's path; an earlier one is used again
set -euo pipefail

node=$1 npm=$2 cache=$3
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
ca=/etc/ssl/certs/ca-certificates.crt

for file in "$node" "$npm/bin/npm-cli.js" "$ca"; do
  [ -e "$file" ] || { echo "build-base.sh: missing $file" >&2; exit 1; }
done

key=$(sha256sum "$0" "$node" "$npm/package.json" "$ca" | sha256sum | cut -c1-16)
tar=$cache/base-$key.tar
mkdir -p "$cache"
# Two runs at once make it once.
exec 9>"$cache/lock"
flock 9
if [ -e "$tar" ]; then echo "$tar"; exit 0; fi
rm -rf "$cache"/base-*

work=$(mktemp -d "$cache/base-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
if ! debootstrap --variant=minbase bookworm "$root" "$mirror" >"$work/log" 2>&1; then
  echo "build-base.sh: debootstrap from $mirror failed:" >&2
  tail -5 "$work/log" >&2
  exit 1
fi
rm -rf "$root"/usr/share/{doc,man,locale,info} "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*

install -D -m 755 "$node" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules"
cp -r "$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
install -D -m 644 "$ca" "$root$ca"
chroot "$root" groupadd --gid 1000 node
chroot "$root" useradd --uid 1000 --gid node --shell /bin/bash --create-home node

tar -C "$root" -cf "$work/base.tar" .
mv "$work/base.tar" "$tar"
echo "$tar"
