#!/usr/bin/env bash
# Each command and option that --help names stands in the manual page, and the other way round; and
# the program takes each option that the manual page names.
set -u
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
pages=$project/docs/man

# ---- What is said where, a word a line ----

help_commands() {
    "$TMORPH" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | sort
}

# The list of commands is the first in tmorph(1).
man_commands() {
    sed '/^\.El/q' "$pages/tmorph.1" | sed -n 's/^\.It Cm //p' | sort
}

# The options of a command: those of the usage line, and those that the help explains.
help_options() {
    "$TMORPH" "$1" --help | grep -oE '(^|[[ ])--?[A-Za-z][A-Za-z-]*' | tr -d '[ ' | sort -u
}

# Fl o Ar options, Fl Fl json: --help and -h, which every command has, are not in the help.
man_options() {
    sed -n 's/^\.It Fl //p' "$pages/tmorph-$1.1" |
        sed -E 's/^Fl ([a-z-]+).*/--\1/; t; s/^([A-Za-z]).*/-\1/' | grep -vx -e --help | sort -u
}

synopsis_options() {
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$pages/tmorph-$1.1" |
        grep -oE 'Fl (Fl )?[A-Za-z]+' | sed -E 's/Fl Fl /--/; s/Fl /-/' | grep -vx -e --help |
        sort -u
}

# Of -o: NAME, or NAME= where it takes a value.
help_mount_options() {
    "$TMORPH" mount --help | sed -nE 's/^     ([a-z_-]+=?).*/\1/p' | sort
}

man_mount_options() {
    awk '/^\.It Fl o / { inside = 1 } inside && /^\.Bl/ { depth++ }
        inside && /^\.El/ { if (--depth == 0) exit }
        depth == 1 && /^\.It Cm/ { print $3 ($4 == "Ns" && $5 == "=" ? "=" : "") }' \
        "$pages/tmorph-mount.1" | sort
}

help_ways() {
    "$TMORPH" mount --help | tr -d '\n' | grep -oE 'go: [a-z, ]+threads' |
        sed 's/go: //; s/ *threads//; s/, */\n/g' | sort
}

man_ways() {
    awk '/^\.It Cm raw / { inside = 1 } inside && /^\.El/ { exit }
        inside && /^\.It Cm/ && NF == 3 { print $3 }' "$pages/tmorph-mount.1" | sort
}

# same WHAT HELP MAN
same() {
    if [ -z "$2" ]; then fail "$1: the help names none, so this test does not understand it"; fi
    if [ "$2" != "$3" ]; then
        fail "$1: in the help (-) and in the manual page (+):"
        diff -u <(echo "$2") <(echo "$3") | tail -n +4 >&2
    fi
}

# ---- The comparison ----

same commands "$(help_commands)" "$(man_commands)"
for command in $(help_commands); do
    if [ ! -f "$pages/tmorph-$command.1" ]; then
        fail "$command: there is no docs/man/tmorph-$command.1"
        continue
    fi
    options=$(help_options "$command")
    if [ "$options" != "$(man_options "$command")" ]; then
        same "options of $command" "${options:-none}" "$(man_options "$command")"
    fi
    if [ "$(synopsis_options "$command")" != "$(man_options "$command")" ]; then
        fail "$command: the synopsis and the list of its manual page name other options"
    fi
done
for page in "$pages"/tmorph-*.1; do
    command=${page##*/tmorph-}
    help_commands | grep -qx "${command%.1}" || fail "${page##*/}: the help knows no such command"
done
same 'options of mount -o' "$(help_mount_options)" "$(man_mount_options)"
same 'ways of raw=' "$(help_ways)" "$(man_ways)"

# ---- What the page names is taken ----

example_of() {
    case $1 in
    raw=) echo raw=auto ;;
    index=) echo index=on ;;
    budget= | threads= | timeout=) echo "${1}1" ;;
    *=) echo "${1}x" ;;
    *) echo "$1" ;;
    esac
}
for option in $(man_mount_options); do
    expect 2 '' 'tmorph: nowhere: No such file or directory' \
        "$TMORPH" mount -o "$(example_of "$option")" nowhere
done
for way in $(man_ways); do
    expect 2 '' 'tmorph: nowhere: No such file or directory' "$TMORPH" mount -o "raw=$way" nowhere
done

# ---- The pages themselves ----

if command -v mandoc >/dev/null; then
    for page in "$pages"/*.1; do
        mandoc -T lint -W warning "$page" >"$scratch/lint" ||
            { fail "mandoc finds fault"; cat "$scratch/lint" >&2; }
    done
fi
finish
