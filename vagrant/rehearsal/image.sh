#!/bin/sh
# Make the image of the machines as vagrant/docker/Dockerfile does, but from the Debian archive
# that this machine's apt is set up with and nothing else: image.sh TARGET.tar
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$1

# In memory: unpacking waits for nothing but the archive.
scratch=$(mktemp -d "${TMPDIR:-/dev/shm}/kraftwreck-image.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT HUP

TMPDIR=$scratch "$here/debian.sh" "" bookworm "$scratch/image.tar"
mv "$scratch/image.tar" "$target"
