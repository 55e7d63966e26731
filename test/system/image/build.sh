#!/bin/bash
# Builds the project's Dockerfile without an engine: buildah, on the stand-in base of build-base.sh. Everything lies in
# STORAGE, which the caller removes.
#
# usage: build.sh BASE_TAR STORAGE TAG    prints what buildah prints
set -euo pipefail

base=$1 storage=$2 tag=$3
project=$(cd "$(dirname "$0")/../../.." && pwd)
buildah() { command buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$@"; }

mkdir -p "$storage/context"
ln -f "$base" "$storage/context/base.tar" 2>/dev/null || cp "$base" "$storage/context/base.tar"
cat >"$storage/context/Dockerfile" <<'END'
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
CMD ["node"]
END
buildah bud --format docker --pull=never -t docker.io/library/node:24-bookworm-slim "$storage/context"
rm -r "$storage/context"
buildah bud --format docker --isolation chroot --pull=never -t "$tag" "$project"
