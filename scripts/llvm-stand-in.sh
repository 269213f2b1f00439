#!/usr/bin/env bash
# Lets Debian's LLVM 22 stand in for the LLVM 23 bundle of CubeCL.
#
#   scripts/llvm-stand-in.sh && cargo test --features cpu
#
# Why: with the features `cpu` and `cuda`, CubeCL links LLVM. The build script of
# `tracel-llvm-bundler` downloads a prebuilt LLVM 23 for that, unless the mark
# `.tracel-llvm-installed` is in its folder; after that, all that the build asks is
# `bin/llvm-config` in the same folder. Where that download cannot be reached
# (offline builds, CI that sees only package registries), this script makes the
# folder, with the mark and an `llvm-config` that answers for Debian's LLVM 22,
# which has every symbol that the build links.
#
# If the download works for you, you do not need this script. It leaves a genuine
# bundle alone. Running it again changes nothing, so nothing is rebuilt.
#
# To undo it, remove the folder that the script prints:
#
#   rm -r "${XDG_DATA_HOME:-$HOME/.local/share}/tracel/tracel-llvm-23.1.0-4"
#   cargo clean -p tracel-llvm-bundler -p cubecl-llvm
set -euo pipefail

readonly bundle_version=23.1.0-4
readonly llvm_major=22
readonly llvm_config=/usr/lib/llvm-$llvm_major/bin/llvm-config
readonly signature='# Written by scripts/llvm-stand-in.sh of snack-burn.'
readonly packages=("llvm-$llvm_major-dev" "libpolly-$llvm_major-dev" libzstd-dev zlib1g-dev g++)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

fail() {
    echo "llvm-stand-in: $*" >&2
    exit 1
}

# A newer CubeCL asks for a newer bundle: better to stop here than in its download.
check_locked_version() {
    local lock=$here/../Cargo.lock locked
    [[ -f $lock ]] || return 0
    locked=$(awk '$0 == "name = \"tracel-llvm-bundler\"" { getline; gsub(/"/, ""); print $3 }' "$lock")
    if [[ -n $locked && $locked != "$bundle_version" ]]; then
        fail "Cargo.lock has tracel-llvm-bundler $locked, this script stands in for $bundle_version"
    fi
}

# The bundler's choice: XDG_DATA_HOME counts only where it is absolute.
bundle_folder() {
    local base=${XDG_DATA_HOME:-}
    if [[ $base != /* ]]; then
        base=${HOME:?}/.local/share
    fi
    echo "$base/tracel/tracel-llvm-$bundle_version"
}

# Debian's answer to `--system-libs` holds the absolute path of libz3, which the
# bundler would turn into `-llibz3`. The archives that get linked need neither that
# nor libxml2.
wrapper() {
    cat <<EOF
#!/bin/sh
$signature
for argument; do
    if [ "\$argument" = --system-libs ]; then
        echo "-lrt -ldl -lm -lz -lzstd"
        exit 0
    fi
done
exec $llvm_config "\$@"
EOF
}

# Asks what the build scripts ask, and looks for every library in the answers.
check_answers() {
    local config=$1/bin/llvm-config includes libraries folder name found
    includes=$("$config" --link-static --includedir)
    [[ -f $includes/llvm-c/Target.h ]] || fail "no LLVM headers in $includes"
    folder=$("$config" --link-static --libdir)
    libraries=$("$config" --link-static --libs)
    for name in $libraries; do
        [[ -f $folder/lib${name#-l}.a ]] || fail "no lib${name#-l}.a in $folder"
    done
    libraries=$("$config" --link-static --system-libs)
    for name in $libraries; do
        found=$(c++ -print-file-name="lib${name#-l}.so")
        [[ $found == /* ]] || found=$(c++ -print-file-name="lib${name#-l}.a")
        [[ $found == /* ]] || fail "the linker finds no ${name#-l}"
    done
}

[[ $(uname -s) == Linux ]] || fail "only for Linux; elsewhere CubeCL's own download is needed"
check_locked_version

bundle=$(bundle_folder)
config=$bundle/bin/llvm-config
mark=$bundle/.tracel-llvm-installed

if [[ -e $config || -e $mark ]] && ! grep -qsxF "$signature" "$config"; then
    if [[ -e $mark && -x $config ]]; then
        echo "llvm-stand-in: left alone: $bundle holds a bundle that this script did not make"
        exit 0
    fi
    fail "$bundle holds part of a bundle that this script did not make; remove it first"
fi

"$here/apt-install.sh" "${packages[@]}"
[[ -x $llvm_config ]] || fail "no $llvm_config"

# Files are written only where they differ: a newer mark would rebuild LLVM's crates.
mkdir -p "$bundle/bin"
if ! cmp --silent "$config" <(wrapper); then
    wrapper >"$config.new"
    chmod 755 "$config.new"
    mv "$config.new" "$config"
    echo "llvm-stand-in: wrote $config"
fi
check_answers "$bundle"
[[ -e $mark ]] || : >"$mark"
echo "llvm-stand-in: LLVM $("$config" --version) stands in for $bundle_version in $bundle"
