#!/usr/bin/env bash
# Runs a command that sees Mesa's software Vulkan device (lavapipe) and no other.
#
#   scripts/software-vulkan.sh cargo test --no-default-features --features wgpu,flex,fusion,autotune,train
#
# It tests the `wgpu` kernels on a machine without a GPU, and gives the same device
# on a machine with one. Installs Mesa's driver where it is missing (Debian, as root).
#
# The feature `vulkan` (SPIR-V) is not for this driver: creating a pipeline crashes
# inside lavapipe 22.3 and 25.0. Use `wgpu` (WGSL).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

fail() {
    echo "software-vulkan: $*" >&2
    exit 1
}

(($# > 0)) || fail "usage: $0 COMMAND [ARGUMENT...]"

# The driver's manifest; its name holds the architecture, except in newer Mesa.
find_driver() {
    local folder=/usr/share/vulkan/icd.d name
    for name in "lvp_icd.$(uname -m).json" lvp_icd.json; do
        if [[ -f $folder/$name ]]; then
            echo "$folder/$name"
            return
        fi
    done
}

has_loader() {
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep 'libvulkan\.so\.1' >/dev/null
}

driver=$(find_driver)
if [[ -z $driver ]] || ! has_loader; then
    "$here/apt-install.sh" mesa-vulkan-drivers libvulkan1
    driver=$(find_driver)
fi
[[ -n $driver ]] || fail "Mesa's driver is installed, but its lvp_icd manifest was not found"

# The Vulkan loader's two names for its list of drivers, the newer one first, and
# software rendering for OpenGL, which wgpu would prefer if it found a GPU there.
export VK_DRIVER_FILES=$driver
export VK_ICD_FILENAMES=$driver
export LIBGL_ALWAYS_SOFTWARE=1

# Mesa wants a folder that only this user can read. One fixed name for each user: no
# heap of folders builds up, and no other user's folder is taken.
if [[ -z ${XDG_RUNTIME_DIR:-} ]]; then
    XDG_RUNTIME_DIR=${TMPDIR:-/tmp}/software-vulkan-$EUID
    [[ -d $XDG_RUNTIME_DIR ]] || mkdir -m 700 "$XDG_RUNTIME_DIR"
    if [[ -L $XDG_RUNTIME_DIR || ! -O $XDG_RUNTIME_DIR ]]; then
        fail "$XDG_RUNTIME_DIR is not this user's own folder"
    fi
    chmod 700 "$XDG_RUNTIME_DIR"
    export XDG_RUNTIME_DIR
fi

exec "$@"
