#!/usr/bin/env bash
# The bash completion offers commands, options, mount options and the paths in a source; all that
# the program knows is in both completions. The zsh one is at least zsh.
set -u
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_python

# shellcheck source=docs/completion/tmorph.bash
. "$project/docs/completion/tmorph.bash"

make_safetensors models/tiny/model.safetensors \
    model.layers.0.mlp.up_proj.weight F32 2,2 model.norm.weight F32 2
mkdir 'with blank' points
tmorph=$TMORPH

# complete LINE: what is offered at its end, a line each, as whole words again.
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
    local COMPREPLY=()
    _tmorph 2>"$scratch/.err"
    if [ "${#COMPREPLY[@]}" -gt 0 ]; then printf '%s\n' "${COMPREPLY[@]}"; fi
    if [ -s "$scratch/.err" ]; then cat "$scratch/.err"; fi
}

# offers LINE WORD...: exactly these, in this order.
offers() {
    local line=$1
    shift
    expect 0 "$(printf '%s\n' "$@")" '' complete_line "$line"
}

offers "$tmorph " mount umount ls cat info index query --help --version
offers "$tmorph m" mount
offers "$tmorph --v" --version
offers "$tmorph mount -" -f -o --help
offers "$tmorph mount -o " allow_other budget= fsname= index= index-dir= log= raw= threads= timeout=
offers "$tmorph mount -o t" threads= timeout=
offers "$tmorph mount -o allow_other,r" allow_other,raw=
offers "$tmorph mount -o allow_other,raw=p" passthrough pread
offers "$tmorph mount -f -o log=s" syslog
offers "$tmorph mount -o index=o" on off
offers "$tmorph mount mod" models
offers "$tmorph mount a=models/t"
offers "$tmorph mount models/tiny poi" points
offers "$tmorph ls -" -l --help
offers "$tmorph ls models/" models/tiny
offers "$tmorph ls with\\ b" 'with blank'
offers "$tmorph ls models/tiny::t" tensors.tsv tensors/ tree/
offers "$tmorph ls models/tiny::layers/000/" layers/000/model.layers.0.mlp.up_proj.weight/ \
    layers/000/stats.json
offers "$tmorph cat models/tiny::tensors/model.n" tensors/model.norm.weight/
offers "$tmorph cat models/tiny::tensors/model.norm.weight/r" \
    tensors/model.norm.weight/raw tensors/model.norm.weight/rows/ \
    tensors/model.norm.weight/rows.tsv
offers "$tmorph cat nothing::t"
offers "$tmorph cat -" --help
offers "$tmorph info --" --json --help
offers "$tmorph info models/tiny/m" models/tiny/model.safetensors
offers "$tmorph index --" --pyramids --jobs --out --part --help
offers "$tmorph index --out poi" points
offers "$tmorph index mod" models
offers "$tmorph query mod" models
offers "$tmorph query models/tiny ab"
offers "$tmorph umount poi" points
offers "$tmorph umount -" --help
offers "$tmorph unknown "

# ---- Both name what the program knows ----

zsh_file=$project/docs/completion/_tmorph
commands=$("$tmorph" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
if [ -z "$commands" ]; then fail "the help names no commands: this test does not understand it"; fi
for command in $commands; do
    complete_line "$tmorph $command" | grep -qx "$command" || fail "bash: no command $command"
    grep -q "^        '$command:" "$zsh_file" || fail "zsh: no command $command"
    for option in $("$tmorph" "$command" --help | grep -oE '(^|[[ ])--?[a-z]+' | tr -d '[ ' |
        sort -u); do
        complete_line "$tmorph $command -" | grep -qx -e "$option" ||
            fail "bash: no option $option of $command"
        # Each command of _arguments stands in one case of the file.
        sed -n "/^        $command)/,/;;/p" "$zsh_file" |
            grep -qE -- "'(\\*|\\(.*\\))?$option\\[" ||
            fail "zsh: no option $option of $command"
    done
done
for option in $("$tmorph" mount --help | sed -nE 's/^     ([a-z_-]+=?).*/\1/p'); do
    complete_line "$tmorph mount -o $option" >"$scratch/offered"
    if [ "${option%=}" = "$option" ]; then
        grep -qx "$option" "$scratch/offered" || fail "bash: no mount option $option"
    else
        complete_line "$tmorph mount -o ${option%=}" | grep -qx "$option" ||
            fail "bash: no mount option $option"
    fi
    grep -q "'${option%=}\\[" "$zsh_file" || fail "zsh: no mount option ${option%=}"
done

if command -v zsh >/dev/null; then
    zsh -n "$zsh_file" || fail "zsh cannot parse its completion"
else
    echo "zsh is not here: its completion was not parsed" >&2
fi
finish
