#!/bin/bash
# Makes a stand-in for docker.io/library/node:24-bookworm-slim in an image store of its own: Debian bookworm by
# debootstrap, this project's Node 24, this machine's npm, user node (1000). Only this stand-in gets the machine's CA
# file, so that npm works behind a registry mirror. Overlays share its files; where this machine mounts none, each
# layer is a copy.
#
# usage: build-base.sh NODE_BINARY NPM_FOLDER CACHE_FOLDER    prints the driver of the store and its folder; an earlier
# one of the same content is used again
set -euo pipefail

node=$1 npm=$2 cache=$3
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
ca=/etc/ssl/certs/ca-certificates.crt

for file in "$node" "$npm/bin/npm-cli.js" "$ca"; do
  [ -e "$file" ] || { echo "build-base.sh: missing $file" >&2; exit 1; }
done

mkdir -p "$cache"
# Two runs at once make it once.
exec 9>"$cache/lock"
flock 9

# What a run that was killed has left.
umount "$cache"/base-work.*/merged 2>/dev/null || true
rm -rf "$cache"/base-work.*

work=$(mktemp -d "$cache/base-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{lower,upper,work,merged}
driver=vfs
if mount -t overlay overlay -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" "$work/merged" 2>/dev/null; then
  umount "$work/merged"
  driver=overlay
fi

key=$(cat "$0" "$node" "$npm/package.json" "$ca" | sha256sum | cut -c1-16)
store=$cache/store-$driver-$key
if [ -e "$store" ]; then touch "$store"; echo "$driver $store"; exit 0; fi
# One that another run may still read stays.
find "$cache" -maxdepth 1 \( -name 'store-*' -o -name 'base-*.tar' \) -mmin +60 -exec rm -rf {} +

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

mkdir "$work/context"
tar -C "$root" -cf "$work/context/base.tar" .
rm -rf "$root"
cat >"$work/context/Dockerfile" <<'END'
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
CMD ["node"]
END
buildah --root "$work/store" --runroot "$work/run" --storage-driver "$driver" bud --format docker --pull=never \
  -t docker.io/library/node:24-bookworm-slim "$work/context" >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; exit 1; }
mv "$work/store" "$store"
echo "$driver $store"
