# What the tests of the command line share. Sourced, never run.
# shellcheck shell=bash
#
# The environment variable TMORPH names the program. A test is a script that calls these, ends in
# `finish`, and exits 0, 1 after a failure, or 77 with words where it cannot run here.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TMORPH=$(realpath -m "${TMORPH:-$project/build/tools/tmorph}")
if [ ! -x "$TMORPH" ]; then
    echo "$TMORPH: no such program; name it in the environment variable TMORPH" >&2
    exit 1
fi
export TMORPH LC_ALL=C TZ=UTC

scratch=$(mktemp -d)
ended=false
clean_up() {
    if ! "$ended"; then
        if [ -s "$scratch/.err" ]; then cat "$scratch/.err" >&2; fi
        echo 'FAILED: the script ended before its end' >&2
    fi
    rm -rf "$scratch"
}
trap clean_up EXIT
cd "$scratch" || exit 1

failures=0

skip() {
    ended=true
    echo "skipped: $*" >&2
    exit 77
}

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*" >&2
}

finish() {
    ended=true
    if [ "$failures" -gt 0 ]; then
        echo "$failures failed" >&2
        exit 1
    fi
    exit 0
}

need_python() {
    command -v python3 >/dev/null || skip "there is no python3 to make checkpoints with"
}

# expect CODE STDOUT STDERR COMMAND...: the exit code and both outputs must be exactly these. The
# outputs are given without the line feed that ends them; a lone '*' stands for anything.
expect() {
    local code=$1 out=$2 err=$3 rc=0
    shift 3
    "$@" >"$scratch/.out" 2>"$scratch/.err" || rc=$?
    if [ "$rc" -ne "$code" ]; then
        fail "$* : exit code $rc instead of $code"
        cat "$scratch/.err" >&2
    fi
    expect_text "$*" stdout "$out" "$scratch/.out"
    expect_text "$*" stderr "$err" "$scratch/.err"
}

# expect_text WHAT STREAM WANTED FILE
expect_text() {
    if [ "$3" = '*' ]; then return 0; fi
    { printf '%s' "$3"; if [ -n "$3" ]; then echo; fi; } >"$scratch/.wanted"
    if ! cmp -s "$scratch/.wanted" "$4"; then
        fail "$1 : other $2 than wanted (-):"
        diff -u "$scratch/.wanted" "$4" | tail -n +4 >&2
    fi
}

# make_safetensors FILE [NAME DTYPE SHAPE]...: tensors one after the other, SHAPE as 2,3 or '' for a
# scalar. Element i is (i - 3) / 4 as a float, i as an integer.
make_safetensors() {
    mkdir -p "$(dirname "$1")"
    python3 - "$@" <<'END'
import json, math, struct, sys

FORMATS = {"F32": "<f", "F64": "<d", "U8": "<B", "I32": "<i", "I64": "<q"}

def stored(dtype, i):
    if dtype == "BF16":
        return struct.pack("<f", (i - 3) / 4)[2:]
    return struct.pack(FORMATS[dtype], (i - 3) / 4 if dtype[0] == "F" else i)

path, rest = sys.argv[1], sys.argv[2:]
header, data = {"__metadata__": {"format": "pt"}}, b""
for name, dtype, shape in zip(*[iter(rest)] * 3):
    shape = [int(d) for d in shape.split(",") if d]
    begin = len(data)
    data += b"".join(stored(dtype, i) for i in range(math.prod(shape)))
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
END
}

# The fingerprint of a checkpoint of one file that is small enough to be hashed whole.
fingerprint_of() {
    python3 - "$1" <<'END'
import hashlib, os, sys
data = open(sys.argv[1], "rb").read()
start = os.path.basename(sys.argv[1]) + "\0" + str(len(data)) + "\0"
print(hashlib.sha256(start.encode() + data).hexdigest())
END
}
