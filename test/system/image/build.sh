#!/bin/bash
# Builds the project's Dockerfile without an engine: buildah, on the stand-in base of build-base.sh, whose store is only
# read. What it writes lies in STORAGE, which the caller removes.
#
# usage: build.sh DRIVER BASE_STORE STORAGE TAG    prints what buildah prints
set -euo pipefail

driver=$1 base=$2 storage=$3 tag=$4
project=$(cd "$(dirname "$0")/../../.." && pwd)
buildah --root "$storage/root" --runroot "$storage/run" --storage-driver "$driver" \
  --storage-opt "$driver.imagestore=$base" bud --format docker --isolation chroot --pull=never -t "$tag" "$project"
