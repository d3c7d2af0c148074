#!/usr/bin/env python3
"""Who may include whom: the layers, one door per dependency, headers that stand alone.

usage: layers.py ROOT | layers.py --self-test
"""
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

import c_source

# A folder, and the folders that its files may include.
LAYERS = {
    "core": {"core"},
    "compute": {"core", "compute"},
    "formats": {"core", "formats"},
    "fs": {"core", "compute", "formats", "fs"},
    "tools": {"core", "compute", "formats", "fs", "tools"},
}

# A dependency, its headers, and the only files that may see them, through other headers too.
# Where no file is named, any one file may be the door, but only one.
DOORS = [
    ("libfuse", r"(linux/)?(fuse3/.*|fuse(_\w+)?\.h)", ["fs/fuse_*.c", "fs/fuse_*.h"]),
    ("Vulkan", r"(vulkan/.*|volk\.h|vk_\w+\.h)", ["compute/vk/*"]),
    ("libcurl", r"curl/.*", ["core/blob_http.c"]),
    ("jansson", r"jansson(_\w+)?\.h", ["formats/json.c"]),
    ("libxxhash", r"(xxhash|xxh3)\.h", ["core/hash.c"]),
    ("libcrypto", r"openssl/.*", ["core/sha256.c"]),
    ("libyaml", r"yaml\.h", None),
    ("expat", r"expat(_\w+)?\.h", None),
    ("zlib", r"(zlib|zconf)\.h", ["formats/png.c"]),
    ("zstd", r"(zstd|zdict)\w*\.h", None),
]

# What needs no door: C, POSIX, Linux and the CPU.
SYSTEM = re.compile(
    r"((sys|linux|asm|net|netinet|arpa|sanitizer)/[\w/]+|assert|ctype|dirent|dlfcn|endian|errno"
    r"|fcntl|fenv|float|fnmatch|getopt|glob|grp|inttypes|libgen|limits|locale|math|mntent|netdb"
    r"|poll|pthread|pwd|regex|sched|search|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic"
    r"|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|syslog|termios|threads|time"
    r"|unistd|wchar|cpuid|immintrin|x86intrin|arm_neon)\.h"
)

# What meson.build defines for the files that ask for it.
BUILD_DEFINES = ['-DTM_VERSION="0"']

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*?)[ \t]*$", re.MULTILINE)
PROJECT_FORM = re.compile(r"(core|compute|formats|fs|tools|tests)(/[a-z0-9_]+)+(\.[a-z0-9_]+)*\.h")


class Include:
    def __init__(self, line, target):
        self.line = line
        self.quoted = target.startswith('"')
        self.computed = target[:1] not in ('"', "<")
        self.name = target if self.computed else target[1:].split('">'[not self.quoted])[0]


def includes_of(text):
    text = c_source.without_comments(text)
    return [Include(text.count("\n", 0, m.start()) + 1, m[1]) for m in INCLUDE.finditer(text)]


class Tree:
    def __init__(self, root):
        self.root = root
        self.includes = {}
        self.findings = []
        for path in c_source.paths(root, ".c", ".h"):
            if path.split("/")[0] in [*LAYERS, "tests"]:
                self.includes[path] = includes_of(c_source.read(root, path))

    def find(self, path, line, rule, words):
        self.findings.append(f"{path}:{line}: {rule}: {words}")

    def product(self):
        return [(p, i) for p, i in self.includes.items() if not p.startswith("tests/")]


def check_form(tree):
    """Project headers stand in quotes and start at the root; all others in angles."""
    for path, includes in tree.includes.items():
        for inc in includes:
            if inc.computed:
                tree.find(path, inc.line, "form", f"computed include {inc.name}")
            elif inc.quoted and not PROJECT_FORM.fullmatch(inc.name):
                tree.find(path, inc.line, "form", f'"{inc.name}" is not "folder/file.h"')
            elif not inc.quoted and PROJECT_FORM.fullmatch(inc.name):
                tree.find(path, inc.line, "form", f"<{inc.name}> is ours and belongs in quotes")


def check_layers(tree):
    for path, includes in tree.product():
        folder = path.split("/")[0]
        for inc in includes:
            target = inc.name.split("/")[0]
            if inc.quoted and target in [*LAYERS, "tests"] and target not in LAYERS[folder]:
                tree.find(path, inc.line, "layer", f'{folder} may not include "{inc.name}"')


def check_own_header_first(tree):
    for path, includes in tree.product():
        own = path[:-2] + ".h"
        if not path.endswith(".c") or own not in tree.includes:
            continue
        if not includes or not includes[0].quoted or includes[0].name != own:
            line = includes[0].line if includes else 1
            tree.find(path, line, "own header", f'"{own}" must be the first include')


def way_to(tree, path, pattern, seen):
    """The chain of headers by which PATH sees a header of PATTERN, or nothing."""
    for inc in tree.includes.get(path, []):
        if not inc.quoted and pattern.fullmatch(inc.name):
            return [path, f"<{inc.name}>"]
    for inc in tree.includes.get(path, []):
        if inc.quoted and inc.name not in seen:
            seen.add(inc.name)
            way = way_to(tree, inc.name, pattern, seen)
            if way:
                return [path, *way]
    return []


def check_doors(tree):
    for dependency, headers, allowed in DOORS:
        pattern = re.compile(headers)
        users = []
        for path, _ in tree.product():
            way = way_to(tree, path, pattern, {path})
            if way and not any(fnmatch.fnmatch(path, door) for door in allowed or []):
                users.append((path, way))
        if allowed is None and len(users) == 1:
            continue
        door = "one file" if allowed is None else " ".join(allowed)
        for path, way in users:
            tree.find(path, 1, "door", f"{dependency} is for {door} only: {' -> '.join(way)}")


def check_unknown_dependencies(tree):
    doors = [re.compile(headers) for _, headers, _ in DOORS]
    for path, includes in tree.product():
        for inc in includes:
            known = inc.quoted or inc.computed or PROJECT_FORM.fullmatch(inc.name)
            known = known or SYSTEM.fullmatch(inc.name) or any(d.fullmatch(inc.name) for d in doors)
            if not known:
                words = f"<{inc.name}> has neither a door in DOORS nor a place in SYSTEM"
                tree.find(path, inc.line, "door", words)


def flags_of_fuse():
    try:
        done = subprocess.run(["pkg-config", "--cflags", "fuse3"], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.split() if done.returncode == 0 else None


def check_headers_alone(tree):
    """Each header compiles when it comes first, and again right after itself."""
    fuse_pattern = re.compile(DOORS[0][1])
    compiler = os.environ.get("CC", "cc").split()
    for path, _ in tree.product():
        if not path.endswith(".h"):
            continue
        command = [*compiler, "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Werror", "-Wno-unused"]
        if way_to(tree, path, fuse_pattern, {path}):
            fuse = flags_of_fuse()
            if fuse is None:
                print(f"{path}: not compiled, libfuse is not here", file=sys.stderr)
                continue
            command += fuse
        command += [*BUILD_DEFINES, "-I", tree.root, "-fsyntax-only", "-x", "c", "-"]
        text = f'#include "{path}"\n' * 2
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            tree.find(path, 1, "alone", (errors or ["the compiler failed"])[0])


CHECKS = [
    check_form,
    check_layers,
    check_own_header_first,
    check_doors,
    check_unknown_dependencies,
    check_headers_alone,
]


def lint(root):
    tree = Tree(root)
    for check in CHECKS:
        check(tree)
    return tree


# --- the lint's own test: in a tree that is clean, each planted defect is found ---

CLEAN = {
    "core/a.h": '#ifndef A\n#define A\n#include <stdint.h>\nstruct a { uint8_t b; };\n#endif\n',
    "core/a.c": '#include "core/a.h"\n\n#include <stdio.h>\n',
    "core/hash.c": "#include <xxhash.h>\n",
    "core/sha256.c": "#include <openssl/evp.h>\n",
    "core/blob_http.c": "#include <curl/curl.h>\n",
    "compute/a.c": '#include "core/a.h"\n',
    "compute/vk/a.c": "#include <vulkan/vulkan.h>\n",
    "formats/json.c": '/* #include "fs/a.h" */\n#include <jansson.h>\n',
    "formats/png.c": "#include <zlib.h>\n",
    "formats/recipe.c": "#include <yaml.h>\n",
    "fs/a.h": '#include "core/a.h"\n',
    "fs/fuse_a.h": "#ifndef F\n#define F\n#endif\n",
    "fs/fuse_a.c": '#include "fs/fuse_a.h"\n\n#include <fuse_lowlevel.h>\n',
    "tools/a.c": '#include "fs/a.h"\n#include "fs/fuse_a.h"\n#include "compute/b.h"\n',
    "compute/b.h": "",
    "tests/a.c": '#include <jansson.h>\n#include "tools/a.h"\n#include "tests/unit/a.h"\n',
}

# The file that changes, what it then says, and the finding it must give.
PLANTED = [
    ("core/a.c", '#include "core/a.h"\n#include "formats/x.h"\n', "core/a.c:2: layer"),
    ("core/a.c", '#include "core/a.h"\n#include "tests/x.h"\n', "core/a.c:2: layer"),
    ("compute/a.c", '#include "formats/x.h"\n', "compute/a.c:1: layer"),
    ("formats/a.c", '#include "compute/b.h"\n', "formats/a.c:1: layer"),
    ("formats/a.c", '#  include "fs/a.h"\n', "formats/a.c:1: layer"),
    ("fs/a.c", '#include "fs/a.h"\n#include "tools/x.h"\n', "fs/a.c:2: layer"),
    ("core/a.c", '#include "core/a.h"\n#include "base.h"\n', "core/a.c:2: form"),
    ("core/a.c", '#include "core/a.h"\n#include "../fs/a.h"\n', "core/a.c:2: form"),
    ("core/a.c", '#include "core/a.h"\n#include <core/a.h>\n', "core/a.c:2: form"),
    ("core/a.c", '#include "core/a.h"\n#include HEADER\n', "core/a.c:2: form"),
    ("tests/a.c", '#include "a.h"\n', "tests/a.c:1: form"),
    ("core/a.c", '#include <stdio.h>\n#include "core/a.h"\n', "core/a.c:1: own header"),
    ("core/a.c", "int a;\n", "core/a.c:1: own header"),
    ("fs/tree.c", "#include <fuse_lowlevel.h>\n", "fs/tree.c:1: door"),
    ("fs/tree.c", "#include <fuse3/fuse.h>\n", "fs/tree.c:1: door"),
    ("fs/fuse_a.h", "#pragma once\n#include <fuse_opt.h>\n", "tools/a.c:1: door"),
    ("compute/a.c", "#include <vulkan/vulkan.h>\n", "compute/a.c:1: door"),
    ("core/a.c", '#include "core/a.h"\n#include <curl/curl.h>\n', "core/a.c:1: door"),
    ("formats/a.c", "#include <jansson.h>\n", "formats/a.c:1: door"),
    ("core/b.c", "#include <xxhash.h>\n", "core/b.c:1: door"),
    ("core/b.c", "#include <openssl/sha.h>\n", "core/b.c:1: door"),
    ("formats/b.c", "#include <zlib.h>\n", "formats/b.c:1: door"),
    ("formats/b.c", "#include <yaml.h>\n", "formats/b.c:1: door"),
    ("core/b.c", "#include <lz4.h>\n", "core/b.c:1: door"),
    ("core/b.h", "#pragma once\nuint8_t b(void);\n", "core/b.h:1: alone"),
    ("core/b.h", "struct b { int c; };\n", "core/b.h:1: alone"),
]


def findings_in(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return lint(root).findings


def self_test():
    missed = [f"the clean tree gave {finding}" for finding in findings_in(CLEAN)]
    for path, text, expected in PLANTED:
        found = findings_in({**CLEAN, path: text})
        if not any(finding.startswith(expected) for finding in found):
            missed.append(f"{path} with {text!r} should give {expected}, gave {found}")
    print(*missed, f"{len(PLANTED)} planted defects, {len(missed)} missed", sep="\n")
    return 1 if missed else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    tree = lint(arguments[0])
    print(*tree.findings, f"{len(tree.includes)} files, {len(tree.findings)} findings", sep="\n")
    return 1 if tree.findings or not tree.product() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
