# Helpers that tools/quickstart, tests/run and tests/fresh share. Sourced, never run.
# shellcheck shell=bash

# What it takes to build; what it takes to test besides.
# shellcheck disable=SC2034 # used by those who source this file
build_packages=(meson ninja-build gcc libc6-dev pkg-config libfuse3-dev fuse3 libjansson-dev
    libxxhash-dev libssl-dev zlib1g-dev)
# shellcheck disable=SC2034
test_packages=(libcmocka-dev python3 pngcheck rsync tar)
# shellcheck disable=SC2034
full_test_packages=(clang libclang-rt-dev clang-format)

say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# Runs apt-get as root, without questions. A proxy of the environment survives sudo.
apt_get() {
    local as_root=() settings=(DEBIAN_FRONTEND=noninteractive) name
    for name in http_proxy https_proxy no_proxy; do
        if [ -n "${!name:-}" ]; then settings+=("$name=${!name}"); fi
    done
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "installing packages needs root or sudo"
        as_root=(sudo)
    fi
    "${as_root[@]}" env "${settings[@]}" apt-get -o DPkg::Lock::Timeout=300 "$@"
}

package_is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages NAME...: installs those that are not there, and only those.
# The package lists are fetched anew only where the installation fails without that.
need_packages() {
    local name missing=() log
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is no Debian; going on in the hope that these (or their like) are here: $*"
        return 0
    fi
    for name in "$@"; do
        if ! package_is_installed "$name"; then missing+=("$name"); fi
    done
    if [ ${#missing[@]} -eq 0 ]; then return 0; fi
    say "installing ${missing[*]}"
    log=$(mktemp)
    if ! install_packages "${missing[@]}" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get could not install ${missing[*]}"
    fi
    rm -f "$log"
}

install_packages() {
    apt_get install -y --no-install-recommends "$@" && return 0
    apt_get update && apt_get install -y --no-install-recommends "$@"
}

# build_in FOLDER MESON_OPTION...: configures FOLDER (anew where its configuration is of no use
# any more) and builds there. Words come only with a failure.
build_in() {
    local folder=$1 log rc=0
    shift
    mkdir -p "$folder"
    log=$folder/build.log
    configure "$folder" "$@" >"$log" 2>&1 && meson compile -C "$folder" >"$log" 2>&1 || rc=$?
    if [ "$rc" -ne 0 ]; then
        tail -n 100 "$log" >&2
        say "the build in $folder failed; all its words are in $log"
    fi
    return "$rc"
}

configure() {
    local folder=$1
    shift
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" "$@" || meson setup --wipe "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi
}

# is_mounted FOLDER: also where the daemon behind it has died, so nothing here asks FOLDER.
is_mounted() {
    local at
    while read -r _ _ _ _ at _; do
        if [ "$(printf '%b' "$at")" = "$1" ]; then return 0; fi
    done </proc/self/mountinfo
    return 1
}
