#!/usr/bin/env bash
# What the commands print, to the byte, and how they exit.
set -u
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_python
tmorph=$TMORPH

# ---- Checkpoints: tiny (good), two (a collection), cut (damaged), bare (no weights) ----

make_safetensors tiny/model.safetensors \
    model.embed_tokens.weight F32 3,2 model.layers.0.mlp.up_proj.weight BF16 2,2 steps I64 ''
echo '{"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true}' >tiny/config.json
make_safetensors two/step-1/model.safetensors w F32 2
make_safetensors two/step-2/model.safetensors w F32 2
make_safetensors cut/model.safetensors a F32 2 b F32 2
size=$(stat -c %s cut/model.safetensors)
truncate -s $((size - 4)) cut/model.safetensors
mkdir bare
echo nothing >bare/notes.txt
find tiny -exec touch -d '2020-02-02 02:02' {} +

# ---- Version, help, wrong usage ----

version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$project/meson.build")
overview='usage: tmorph COMMAND [ARGUMENT ...]; '"'tmorph --help' lists commands"

said=$("$tmorph" --version)
case $said in
"tmorph $version"$'\n'"mount: "*", http: no, vulkan: no") ;;
*) fail "--version prints '$said', and meson.build says $version" ;;
esac
expect 0 "$said" '' "$tmorph" -V

help="tmorph shows model weights as files: checkpoints of any size as folders of tensors.

usage: tmorph COMMAND [ARGUMENT ...]

  mount   mount checkpoints at MNT
  umount  unmount what tmorph mounted at MNT
  ls      list what a mount would show of SOURCE
  cat     write what a mount would show at PATH of SOURCE
  info    say what SOURCE is: parameters, dtypes, layers, and what is wrong with it
  index   compute the statistics of SOURCE ahead, one index file a weight file
  query   find the tensors of SOURCE of which EXPR is true, reading no weights

'tmorph COMMAND --help' tells more; so does the manual page tmorph(1).
exit status: 0 good, 1 findings, 2 usage or failure"
for word in --help -h help; do
    expect 0 "$help" '' "$tmorph" "$word"
done
for word in --help -h; do
    expect 0 'usage: tmorph umount MNT

unmount what tmorph mounted at MNT' '' "$tmorph" umount "$word"
done

expect 2 '' "$overview" "$tmorph"
expect 2 '' "tmorph: no command 'frobnicate'; 'tmorph --help' lists them" "$tmorph" frobnicate
expect 2 '' "tmorph: no command '--frobnicate'; 'tmorph --help' lists them" "$tmorph" --frobnicate

mount_usage='usage: tmorph mount [-f] [-o OPTS] [[NAME=]SOURCE ...] MNT'
expect 2 '' "tmorph mount: a mount point is needed
$mount_usage" "$tmorph" mount
expect 2 '' "tmorph mount: unknown option 'frob'
$mount_usage" "$tmorph" mount -o ro,frob tiny bare
for option in setuid=nobody remount commentary x 'context="a,b",frob' 'a"b,c"'; do
    unknown=${option%%=*}
    case $option in *,frob) unknown=frob ;; a*) unknown='a"b' ;; esac
    expect 2 '' "tmorph mount: unknown option '$unknown'
$mount_usage" "$tmorph" mount -o "$option" tiny bare
done
for option in ro rw suid nosuid dev nodev exec noexec auto noauto user user=joe users nouser owner \
    group defaults _netdev nofail sync async dirsync atime noatime diratime nodiratime relatime \
    norelatime strictatime nostrictatime lazytime nolazytime symfollow nosymfollow mand nomand \
    iversion noiversion silent loud nonempty default_permissions subtype=x comment=systemd.x \
    x-systemd.automount X-mount.mkdir x-gvfs-name=a context=a:b:c 'context="a:b:c:s0:c1,c2"' \
    fscontext=a defcontext=a rootcontext=a; do
    expect 2 '' 'tmorph: nowhere: No such file or directory' \
        "$tmorph" mount -o "$option,threads=1" tiny nowhere
done
expect 2 '' "tmorph mount: option fsname needs a value
$mount_usage" "$tmorph" mount -o fsname tiny bare
expect 2 '' "tmorph mount: threads=0: a number from 1 to 1024 is needed
$mount_usage" "$tmorph" mount -o threads=0 tiny bare
expect 2 '' "tmorph mount: raw=x: one of auto, passthrough, mapped, pread, symlink
$mount_usage" "$tmorph" mount -o raw=x tiny bare
expect 2 '' 'tmorph: nowhere: No such file or directory' "$tmorph" mount tiny nowhere
expect 2 '' 'tmorph: tiny/config.json: not a folder' "$tmorph" mount tiny tiny/config.json
expect 2 '' "tmorph: $scratch/nowhere: No such file or directory" "$tmorph" mount nowhere bare
expect 2 '' "tmorph: 'tiny' is mounted already ($scratch/tiny); name this one: \
NAME=$scratch/./tiny" "$tmorph" mount tiny ./tiny bare
expect 2 '' "tmorph: $scratch/two/step-1: lies within the source $scratch/two" \
    "$tmorph" mount two two/step-1
expect 2 '' 'tmorph umount: one mount point is needed
usage: tmorph umount MNT' "$tmorph" umount
case $said in
*'mount: yes'*)
    expect 2 '' 'tmorph: bare: not a mount point' "$tmorph" umount bare
    expect 2 '' 'tmorph: nowhere: No such file or directory' "$tmorph" umount nowhere
    ;;
*)
    expect 2 '' 'tmorph: this tmorph was built without libfuse3 and cannot mount' \
        "$tmorph" umount bare
    ;;
esac
expect 2 '' 'tmorph ls: a SOURCE is needed
usage: tmorph ls [-l] SOURCE[::PATH] ...' "$tmorph" ls -l
expect 2 '' 'tmorph cat: a SOURCE::PATH is needed
usage: tmorph cat SOURCE::PATH ...' "$tmorph" cat
expect 2 '' 'tmorph info: a SOURCE is needed
usage: tmorph info [--json] SOURCE ...' "$tmorph" info

# ---- ls ----

expect 0 'files
state
error
model.json
metadata.json
tensors.tsv
stats.tsv
layers.tsv
index
query
tensors
tree
layers
experts' '' "$tmorph" ls tiny
expect 0 'model.embed_tokens.weight
model.layers.0.mlp.up_proj.weight
steps' '' "$tmorph" ls tiny::tensors
expect 0 'name
dtype
shape
data.npy
stats.json
hist.tsv
rows.tsv
cols.tsv
lod' '' "$tmorph" ls tiny/model.safetensors::tensors/steps/
expect 0 '-r--r--r--              6 2020-02-02 02:02 name
-r--r--r--              4 2020-02-02 02:02 dtype
-r--r--r--              3 2020-02-02 02:02 shape
-r--r--r--            136 2020-02-02 02:02 data.npy
-r--r--r--           1266 2020-02-02 02:02 stats.json
-r--r--r--         307212 2020-02-02 02:02 hist.tsv
-r--r--r--            225 2020-02-02 02:02 rows.tsv
-r--r--r--            225 2020-02-02 02:02 cols.tsv
dr-xr-xr-x              0 2020-02-02 02:02 lod' '' "$tmorph" ls -l tiny::tensors/steps
expect 0 'lrwxrwxrwx             47 2020-02-02 02:02 model.layers.0.mlp.up_proj.weight -> '\
'../../tensors/model.layers.0.mlp.up_proj.weight
-r--r--r--            835 2020-02-02 02:02 stats.json' '' "$tmorph" ls -l tiny::layers/0
expect 0 'step-1
step-2' '' "$tmorph" ls two
expect 0 'two/step-1::tensors:
w

tiny::layers:
000' '' "$tmorph" ls two/step-1::tensors tiny::layers
expect 2 '' "tmorph: tiny::nothing: nothing: No such file or directory" "$tmorph" ls tiny::nothing
expect 2 '' "tmorph: nowhere: $scratch/nowhere: No such file or directory" "$tmorph" ls nowhere
expect 2 '' "tmorph: bare: $scratch/bare: no weights that can be read (*.safetensors)" \
    "$tmorph" ls bare

# ---- cat ----

expect 0 'ready' '' "$tmorph" cat tiny::state
expect 0 '' '' "$tmorph" cat tiny::error
expect 0 '{
  "format": "pt"
}' '' "$tmorph" cat tiny::metadata.json
expect 0 "$(printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
    name dtype shape params bytes layer role file \
    model.embed_tokens.weight F32 '[3, 2]' 6 24 - embedding model.safetensors \
    model.layers.0.mlp.up_proj.weight BF16 '[2, 2]' 4 8 0 mlp model.safetensors \
    steps I64 '[]' 1 8 - other model.safetensors)" '' "$tmorph" cat tiny::tensors.tsv
expect 0 'BF16
[2, 2]' '' "$tmorph" cat tiny::layers/0/model.layers.0.mlp.up_proj.weight/dtype \
    tiny::tree/model/layers/0/mlp/up_proj/weight/shape
expect 0 '                   -0.75
                     0.5
                       0' '' "$tmorph" cat tiny::tensors/model.embed_tokens.weight/at/0,0 \
    tiny::tensors/lm_head.weight/at/-1,1 tiny::tensors/steps/at/0
expect 0 "$(cat tiny/config.json)" '' "$tmorph" cat tiny::files/config.json
expect 2 'ready' 'tmorph: tiny::nothing: nothing: No such file or directory' \
    "$tmorph" cat tiny::nothing tiny::state
expect 2 '' 'tmorph: tiny::tensors: a folder: see tmorph ls tiny::tensors' \
    "$tmorph" cat tiny::tensors
expect 2 '' 'tmorph: tiny::tensors/steps/at/1: 1: No such file or directory' \
    "$tmorph" cat tiny::tensors/steps/at/1

# Each source is opened once, whatever is asked of it; another of its name is another.
mkdir other
cp -r tiny other
# shellcheck disable=SC2317 # called by expect
names() {
    "$tmorph" cat "$@" | sed -n 's/^  "name": "\(.*\)",$/\1/p'
}
expect 0 "$(printf '%s\n' tiny tiny-2 tiny tiny-2 tiny-3)" '' names tiny::model.json \
    other/tiny::model.json "$scratch/tiny::model.json" other/tiny::model.json \
    two/../tiny::model.json
expect 0 $'tiny::layers:\n000\n\ntiny::layers:\n000' '' "$tmorph" ls tiny::layers tiny::layers

"$tmorph" cat tiny::files/model.safetensors | cmp - tiny/model.safetensors ||
    fail "cat of a weight file gives other bytes"
python3 - >wanted.npy <<'END'
import struct, sys
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }"
text += b" " * (-(11 + len(text)) % 64) + b"\n"
sys.stdout.buffer.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text +
                        struct.pack("<2f", -0.75, -0.25))
END
"$tmorph" cat tiny::tensors/model.embed_tokens.weight/slice/:2,0:1.npy | cmp - wanted.npy ||
    fail "a slice is not the NumPy file that it should be"

# ---- info ----

card() {
    cat <<END
name          $1
source        $scratch/$1
format        safetensors
architecture  $2
tensors       $3
parameters    $4
bytes         $5
dtypes        $6
quantised     -
layers        $7
experts       -
tied          $8
state         $9
END
}
tied='lm_head.weight = model.embed_tokens.weight'
tiny=$(card tiny LlamaForCausalLM 3 11 '40 B' 'F32 24 B, BF16 8 B, I64 8 B' 1 "$tied" ready)
damage="model.safetensors: tensor 'b': data ends at byte $size, but the file has $((size - 4)) \
bytes: cut short (expected $size)"

expect 0 "$tiny" '' "$tmorph" info tiny
expect 0 "$(card two/step-1 - 1 2 '8 B' 'F32 8 B' - - ready)

$(card two/step-2 - 1 2 '8 B' 'F32 8 B' - - ready)" '' "$tmorph" info two/
expect 2 "$(card cut - 2 4 '16 B' 'F32 16 B' - - damaged)
damage: $damage" '' "$tmorph" info cut
expect 2 "$tiny" "tmorph: nowhere: $scratch/nowhere: No such file or directory" \
    "$tmorph" info nowhere tiny
expect 2 '' "tmorph: bare: $scratch/bare: no weights that can be read (*.safetensors)" \
    "$tmorph" info bare

json() {
    cat <<END
{
  "name": "$1",
  "source": "$scratch/$1",
  "format": "safetensors",
  "state": "$2",
  "error": $3,
  "architecture": $4,
  "layers": $5,
  "experts": 0,
  "tensors": $6,
  "parameters": $7,
  "parameters_stored": $7,
  "bytes": $8,
  "dtypes": {$9},
  "tied": [${10}],
  "fingerprint": "$(fingerprint_of "$1/model.safetensors")",
  "files": [
    {"name": "model.safetensors", "bytes": $(stat -c %s "$1/model.safetensors"), "state": "$2", \
"error": $3}
  ],
  "unused": [],
  "warnings": []
}
END
}
tiny_json=$(json tiny ready null '"LlamaForCausalLM"' 1 3 11 40 '"F32": 24, "BF16": 8, "I64": 8' \
    '["lm_head.weight", "model.embed_tokens.weight"]')
cut_json=$(json cut damaged "\"$damage\"" null 0 2 4 16 '"F32": 16' '')

expect 0 "$tiny_json" '' "$tmorph" info --json tiny
expect 2 "$cut_json" '' "$tmorph" info --json cut
expect 2 "[
$tiny_json
,
$cut_json
]" '' "$tmorph" info --json tiny cut

# ---- A damaged file ----

expect 0 'damaged
'"$damage" '' "$tmorph" cat cut::state cut::error
expect 0 '                   -0.75' '' "$tmorph" cat cut::tensors/a/at/0
expect 0 'F32' '' "$tmorph" cat cut::tensors/b/dtype
for file in data.npy raw; do
    expect 2 '' "tmorph: cut::tensors/b/$file: model.safetensors: damaged, so tensor 'b' cannot be \
read" "$tmorph" cat "cut::tensors/b/$file"
done

# ---- An output that cannot be written to ----

# shellcheck disable=SC2317 # called by expect
closed() {
    "$@" >&-
}
# shellcheck disable=SC2317
full() {
    "$@" >/dev/full
}
for arguments in --version --help 'ls --help' 'ls tiny' 'info tiny' 'info --json tiny' \
    'cat tiny::state' 'cat tiny::tensors/steps/data.npy'; do
    before=
    case $arguments in cat*) before="${arguments#cat }: " ;; esac
    # shellcheck disable=SC2086 # the arguments are words
    expect 2 '' "tmorph: ${before}cannot write: Bad file descriptor" closed "$tmorph" $arguments
    if [ -c /dev/full ]; then
        # shellcheck disable=SC2086
        expect 2 '' "tmorph: ${before}cannot write: No space left on device" \
            full "$tmorph" $arguments
    fi
done

finish
