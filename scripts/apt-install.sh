#!/usr/bin/env bash
# Installs the Debian packages named as arguments, where any is missing.
#
#   scripts/apt-install.sh PACKAGE...
#
# Does nothing when all of them are there. Needs root to install; run as anyone
# else it prints the command to run and exits with 1.
set -euo pipefail

if (($# == 0)); then
    echo "usage: $0 PACKAGE..." >&2
    exit 2
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "$0: not a Debian system; install the counterparts of: $*" >&2
    exit 1
fi

missing=()
for package in "$@"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null || true)
    # A package of several architectures answers with several lines.
    if ! grep -qx installed <<<"$status"; then
        missing+=("$package")
    fi
done

if ((${#missing[@]} == 0)); then
    exit 0
fi

if ((EUID != 0)); then
    echo "$0: missing packages; as root, run:" >&2
    echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" </dev/null
