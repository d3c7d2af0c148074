# Bash completion of tmorph(1). It asks tmorph itself for the paths in a source, and needs nothing
# of the package bash-completion.
# shellcheck shell=bash

# What stands before the cursor, as words: bash's own words are split at ':' and '='.
_tmorph_words() {
    local line=${COMP_LINE:0:COMP_POINT}
    # shellcheck disable=SC2162 # a backslash before a blank makes one word
    read -a words <<<"$line"
    if [[ $line == *[[:space:]] && $line != *\\[[:space:]] ]]; then words+=(""); fi
    cur=${words[${#words[@]} - 1]}
}

# Readline replaces only what follows the last of its own breaks: so much is taken off the replies.
_tmorph_trim() {
    local breaks=${COMP_WORDBREAKS//[^:=]/} kept i
    if [[ -z $breaks ]]; then return 0; fi
    kept=${cur##*["$breaks"]}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]:${#cur} - ${#kept}}
    done
}

_tmorph_reply() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# Files, or with -d folders.
_tmorph_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "${1:--f}" -- "$cur")
}

# The last of the options that stand behind -o, separated by commas.
_tmorph_mount_option() {
    local before=${cur%"${cur##*,}"} last=${cur##*,} i
    local options='allow_other budget= fsname= index= index-dir= log= raw= threads= timeout='
    compopt -o nospace 2>/dev/null
    case $last in
    index=*) options='index=on index=off' ;;
    raw=*) options='raw=auto raw=passthrough raw=mapped raw=pread raw=symlink' ;;
    log=*)
        mapfile -t COMPREPLY < <(compgen -W syslog -- "${last#log=}"; compgen -f -- "${last#log=}")
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${before}log=${COMPREPLY[i]}; done
        return 0
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$last")
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$before${COMPREPLY[i]}; done
}

# The names in a folder of a source, folders and links with a slash; of a tensor also those that are
# found but not listed.
_tmorph_list() {
    local line name
    local entry='^([-dl])[-rwx]{9} +[0-9]+ [0-9-]+ [0-9:]+ (.*)$'
    "$1" ls -l "$2" 2>/dev/null | while IFS= read -r line; do
        [[ $line =~ $entry ]] || continue
        name=${BASH_REMATCH[2]}
        case ${BASH_REMATCH[1]} in
        d) name+=/ ;;
        l) name=${name%% -> *}/ ;;
        esac
        printf '%s\n' "$name"
        if [[ $name == shape ]]; then printf '%s\n' raw at/ rows/ cols/ slice/ stats/; fi
    done
}

# SOURCE::PATH
_tmorph_inside() {
    local source=${cur%%::*} path=${cur#*::} folder name
    folder=${path%"${path##*/}"}
    compopt -o nospace 2>/dev/null
    COMPREPLY=()
    while IFS= read -r name; do
        if [[ $folder$name == "$path"* ]]; then COMPREPLY+=("$source::$folder$name"); fi
    done < <(_tmorph_list "${words[0]}" "$source::$folder")
}

_tmorph_mount() {
    local before=${words[${#words[@]} - 2]}
    case $before:$cur in
    -o:*) _tmorph_mount_option ;;
    *:-*) _tmorph_reply '-f -o --help' ;;
    *) _tmorph_files ;;
    esac
}

_tmorph_umount() {
    if [[ $cur == -* ]]; then
        _tmorph_reply --help
        return 0
    fi
    local at type
    COMPREPLY=()
    while read -r _ at type _; do
        printf -v at '%b' "$at"
        if [[ $type == fuse.tmorph && $at == "$cur"* ]]; then COMPREPLY+=("$at"); fi
    done </proc/self/mounts
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then _tmorph_files -d; fi
}

# ls, cat and info: the options, then sources, with the paths in them where those are taken.
_tmorph_sources() {
    local options=$1 paths=${2:-}
    if [[ $cur == -* ]]; then
        _tmorph_reply "$options"
    elif [[ $paths == paths && $cur == *::* ]]; then
        _tmorph_inside
    else
        _tmorph_files
    fi
}

_tmorph_index() {
    case ${words[${#words[@]} - 2]} in
    --out) _tmorph_files -d ;;
    *) _tmorph_sources '--pyramids --jobs --out --part --help' ;;
    esac
}

_tmorph() {
    local words=() cur
    _tmorph_words
    COMPREPLY=()
    if [[ ${#words[@]} -le 2 ]]; then
        _tmorph_reply 'mount umount ls cat info index query --help --version'
        return 0
    fi
    case ${words[1]} in
    mount) _tmorph_mount ;;
    umount) _tmorph_umount ;;
    ls) _tmorph_sources '-l --help' paths ;;
    cat) _tmorph_sources --help paths ;;
    info) _tmorph_sources '--json --help' ;;
    index) _tmorph_index ;;
    query) if [[ ${#words[@]} -le 3 ]]; then _tmorph_sources --help; fi ;;
    esac
    _tmorph_trim
}

complete -F _tmorph tmorph
