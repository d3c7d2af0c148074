#!/usr/bin/env python3
"""What can be counted or matched of the style: lengths, parameters, banned names, asserts, blanks.

usage: style.py ROOT | style.py --self-test
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import c_source

PRODUCT = ("core", "compute", "formats", "fs", "tools")
ASSERTING = ("core", "formats", "fs")

MAX_FUNCTION_LINES = 100
MAX_MEDIAN_LINES = 20
MAX_P90_LINES = 50
MAX_PARAMETERS = 6
MAX_FILE_LINES = 800
MAX_COLUMNS = 100
MIN_ASSERTS_PER_1000 = 5
CLANG_FORMAT_MAJOR = 14

# Unbounded, locale dependent, deaf to errors, or not to be had from every compiler.
BANNED = re.compile(
    r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|sscanf|rand|srand"
    r"|setlocale|alloca|_Float16)\b"
)
# Unfinished work. The words are spelt so that this file passes.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
# Folders of one machine, which mean nothing on another.
LOCAL_PATH = re.compile(r"(?<![\w.$}/-])/(work|root)(?![\w.-])")

CODE_SUFFIXES = (".c", ".h", ".py", ".sh", ".build", ".comp")
TEXT_SUFFIXES = (*CODE_SUFFIXES, ".md", ".txt", ".yml", ".yaml")


class Report:
    def __init__(self):
        self.findings = []
        self.facts = []

    def find(self, path, line, rule, words):
        self.findings.append(f"{path}:{line}: {rule}: {words}")

    def find_in_tree(self, rule, words):
        self.findings.append(f"{rule}: {words}")


# --- functions ---


class Function:
    def __init__(self, name, line, lines, parameters):
        self.name, self.line, self.lines, self.parameters = name, line, lines, parameters


def without_directives(code, first_branch_only):
    """CODE without preprocessor lines; with FIRST_BRANCH_ONLY also without what #else brings."""
    kept, hidden, continued = [], [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if directive and not continued:
            word = directive[1]
            if word.startswith("if"):
                hidden.append(False)
            elif word in ("else", "elif") and hidden:
                hidden[-1] = first_branch_only
            elif word == "endif" and hidden:
                hidden.pop()
        is_code = not directive and not continued and not any(hidden)
        continued = (directive or continued) and line.endswith("\\")
        kept.append(line if is_code else "")
    return "\n".join(kept)


def close_of(text, at, pair):
    """Where the bracket at AT closes, or -1."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return -1


def count_parameters(text):
    """How many parameters stand in TEXT, which is what a function's parentheses hold."""
    if text.strip() in ("", "void"):
        return 0
    depth = commas = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        commas += char == "," and depth == 0
    return commas + 1


ATTRIBUTE = re.compile(r"\b(?:__attribute__|__extension__|[A-Z][A-Z0-9_]*)\b")


def function_from(head):
    """(name, parameters) where HEAD, the text before a brace, declares a function, else None."""
    for call in re.finditer(r"(\w+)\s*\(", head):
        if ATTRIBUTE.fullmatch(call[1]):
            continue
        if "=" in head[: call.start()] or call[1] in ("sizeof", "_Alignas"):
            return None
        end = close_of(head, call.end() - 1, "()")
        return call[1], count_parameters(head[call.end() : end])
    return None


def functions_of(text):
    """The functions that a C file defines; None where its braces do not match."""
    for first_branch_only in (False, True):
        code = without_directives(c_source.code_only(text), first_branch_only)
        if code.count("{") == code.count("}"):
            return list(scan(code))
    return None


def scan(code):
    start = at = 0
    while at < len(code):
        if code[at] == ";":
            start = at + 1
        elif code[at] == "{":
            close = close_of(code, at, "{}")
            if close < 0:
                return
            found = function_from(code[start:at])
            if found:
                head = start + len(code[start:at]) - len(code[start:at].lstrip())
                line = code.count("\n", 0, head) + 1
                lines = code.count("\n", head, close) + 1
                yield Function(found[0], line, lines, found[1])
            at = close
            if found or code[close + 1 : close + 2] == "\n":
                start = close + 1
        at += 1


def percentile_90(values):
    return sorted(values)[(len(values) * 9 - 1) // 10]


def check_functions(root, report):
    lengths = {"product": [], "tests": []}
    for path in c_source.paths(root, ".c", ".h"):
        functions = functions_of(c_source.read(root, path))
        if functions is None:
            report.find(path, 1, "braces", "they do not match, so nothing here was measured")
            continue
        group = "product" if path.split("/")[0] in PRODUCT else "tests"
        for f in functions:
            lengths[group].append(f.lines)
            if f.lines > MAX_FUNCTION_LINES:
                words = f"{f.name} has {f.lines} lines, more than {MAX_FUNCTION_LINES}"
                report.find(path, f.line, "function length", words)
            if f.parameters > MAX_PARAMETERS:
                words = f"{f.name} has {f.parameters}, more than {MAX_PARAMETERS}"
                report.find(path, f.line, "parameters", words)
    for group, values in lengths.items():
        if values:
            judge_lengths(group, values, report)


def judge_lengths(group, values, report):
    median, p90 = statistics.median(values), percentile_90(values)
    words = f"{len(values)} functions, lines: median {median:g}, p90 {p90}, longest {max(values)}"
    report.facts.append(f"{group}: {words}")
    if median > MAX_MEDIAN_LINES:
        report.find_in_tree("median length", f"{group}: {median:g} > {MAX_MEDIAN_LINES}")
    if p90 > MAX_P90_LINES:
        report.find_in_tree("p90 length", f"{group}: {p90} > {MAX_P90_LINES}")


# --- C text ---


def multiplies(arguments):
    """Whether ARGUMENTS hold a product, besides the stars that sizeof may hold."""
    return "*" in re.sub(r"sizeof\s*(\((?:[^()]|\([^()]*\))*\)|\*+\s*[\w.>-]+)", "S", arguments)


def check_names(root, report):
    for path in c_source.paths(root, ".c", ".h"):
        code = c_source.code_only(c_source.read(root, path))
        for match in BANNED.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            report.find(path, line, "banned", match[0])
        for match in re.finditer(r"\bmalloc\s*\(", code):
            end = close_of(code, match.end() - 1, "()")
            if multiplies(code[match.end() : end]):
                line = code.count("\n", 0, match.start()) + 1
                report.find(path, line, "banned", "malloc of a product, which may overflow")


def check_asserts(root, report):
    asserts = lines = 0
    for path in c_source.paths(root, ".c", ".h"):
        if path.split("/")[0] in ASSERTING:
            text = c_source.read(root, path)
            lines += text.count("\n")
            asserts += len(re.findall(r"\b(?:static_)?assert\s*\(", c_source.code_only(text)))
    if lines == 0:
        return
    rate = asserts * 1000 / lines
    where = " ".join(ASSERTING)
    words = f"{where}: {rate:.1f} asserts per 1,000 lines"
    report.facts.append(f"{words}, of which there are {lines}")
    if rate < MIN_ASSERTS_PER_1000:
        report.find_in_tree("asserts", f"{words} < {MIN_ASSERTS_PER_1000}")


# --- all text ---


def is_script(root, path):
    if "." in os.path.basename(path):
        return False
    with open(os.path.join(root, path), "rb") as file:
        return file.read(2) == b"#!"


def texts(root):
    """(path, text, is code) of every file that people write; assets and corpora are data."""
    for path in c_source.paths(root):
        if path.startswith(("tests/assets/", "tests/fuzz/corpus/")):
            continue
        code = path.endswith(CODE_SUFFIXES) or is_script(root, path)
        if code or path.endswith(TEXT_SUFFIXES):
            yield path, c_source.read(root, path), code


def check_text(root, report):
    for path, text, code in texts(root):
        if text and not text.endswith("\n"):
            report.find(path, text.count("\n") + 1, "last newline", "missing")
        if code and text.count("\n") > MAX_FILE_LINES:
            report.find(path, 1, "file length", f"{text.count(chr(10))} lines > {MAX_FILE_LINES}")
        for number, line in enumerate(text.split("\n"), 1):
            check_line(path, number, line, code, report)


def check_line(path, number, line, code, report):
    if code and "\t" in line:
        report.find(path, number, "tab", "indent with spaces")
    if line != line.rstrip():
        report.find(path, number, "trailing blank", "")
    if code and len(line) > MAX_COLUMNS:
        report.find(path, number, "columns", f"{len(line)} > {MAX_COLUMNS}")
    for rule, pattern in (("unfinished", UNFINISHED), ("local path", LOCAL_PATH)):
        match = pattern.search(line)
        if match:
            report.find(path, number, rule, match[0])


# --- clang-format: only the version whose layout the project keeps ---


def clang_format():
    for name in (f"clang-format-{CLANG_FORMAT_MAJOR}", "clang-format"):
        program = shutil.which(name)
        if not program:
            continue
        words = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"version (\d+)\.", words)
        if version and int(version[1]) == CLANG_FORMAT_MAJOR:
            return program
    return None


def check_format(root, report):
    program = clang_format()
    files = c_source.paths(root, ".c", ".h")
    if not program or not files or not os.path.exists(os.path.join(root, ".clang-format")):
        report.facts.append(f"layout not checked: no clang-format {CLANG_FORMAT_MAJOR} here")
        return
    command = [program, "--dry-run", "-Werror", *files]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    places = re.findall(r"^(\S+):(\d+):\d+: error:", done.stderr, re.MULTILINE)
    for path, line in {path: line for path, line in reversed(places)}.items():
        report.find(path, line, "layout", "clang-format would change it, here first")
    if done.returncode != 0 and not places:
        report.find_in_tree("layout", done.stderr.strip() or "clang-format failed")


CHECKS = [check_functions, check_names, check_asserts, check_text, check_format]


def lint(root):
    report = Report()
    for check in CHECKS:
        check(root, report)
    return report


# --- the lint's own test: in a tree that is clean, each planted defect is found ---

CLEAN = {
    "core/a.c": "/* strcpy and\n * rand */\n#include <assert.h>\n\n"
    "struct a {\n    int b[2];\n};\n\n"
    'static const char *const words[] = {"strcpy(", "{"};\n\n'
    "#define TWICE(a) \\\n    do {      \\\n        (a)++; \\\n    } while (0)\n\n"
    "__attribute__((format(printf, 1, 2))) int f(const char *a, int b)\n{\n    assert(a);\n"
    "    char *p = malloc(sizeof(*p));\n    char *q = malloc(sizeof *q);\n    return b;\n}\n",
    "tests/a.c": "int main(void)\n{\n    return 0;\n}\n",
    "tools/a": "#!/bin/sh\nmktemp a.XX" "XXXX\nls framework/root home/work/a \"$top/root\"\n",
    "docs/a.md": "x" * 200 + "\n",
    "tests/assets/a.txt": "data \t\n\n/wor" "k/",
    "build/a.c": "\t",
}


def function_with(lines, name="long"):
    return f"int {name}(void)\n{{\n" + "    f();\n" * (lines - 4) + "    return 0;\n}\n"


def call(text):
    return f"void g(char *a)\n{{\n    {text}\n}}\n"


SHORT = "".join(function_with(4, f"s{i}") for i in range(20))

# The file that is added, what it says, and the finding it must give.
PLANTED = [
    ("tests/b.c", SHORT + function_with(101), "tests/b.c:81: function length: long has 101"),
    ("fs/b.c", "int a[] = {1};\n" + function_with(101), "fs/b.c:2: function length"),
    ("fs/b.c", "#ifdef A\nint f(void) {\n#else\nint f(char a) {\n#endif\n" + "f();\n" * 101
     + "}\n", "fs/b.c:2: function length"),
    ("fs/b.c", function_with(30) + function_with(30), "median length: product"),
    ("fs/b.c", SHORT + function_with(60) * 4, "p90 length: product"),
    ("tests/b.c", function_with(60) * 4, "p90 length: tests"),
    ("fs/b.c", "int f(void)\n{\n", "fs/b.c:1: braces"),
    ("fs/b.c", "int f(int a, int b, int c, int d, int e, int (*f)(int, int), int g)\n{\n}\n",
     "fs/b.c:1: parameters: f has 7"),
    ("fs/b.c", "int a;\n" * 801, "fs/b.c:1: file length"),
    *[("fs/b.c", call(f"{name}(a);"), f"fs/b.c:3: banned: {name}") for name in
      "strcpy strcat sprintf strtok atoi sscanf rand setlocale alloca".split()],
    ("fs/b.c", "_Float16 a;\n", "fs/b.c:1: banned: _Float16"),
    ("fs/b.c", call("malloc(n * sizeof(a));"), "fs/b.c:3: banned: malloc"),
    ("fs/b.c", "int a;\n" * 790, "asserts: core formats fs"),
    ("fs/b.c", "\tint a;\n", "fs/b.c:1: tab"),
    ("docs/b.md", "a \n", "docs/b.md:1: trailing blank"),
    ("docs/b.md", "a", "docs/b.md:1: last newline"),
    ("fs/b.c", "/* " + "x" * 95 + " */\n", "fs/b.c:1: columns: 101"),
    ("tools/b", "#!/bin/sh\n# " + "x" * 100 + "\n", "tools/b:2: columns"),
    ("fs/b.c", "/* TO" "DO: more */\n", "fs/b.c:1: unfinished"),
    ("docs/b.md", "FIX" "ME\n", "docs/b.md:1: unfinished"),
    ("tests/b.py", "a = 1  # XX" "X\n", "tests/b.py:1: unfinished"),
    ("docs/b.md", "in /wor" "k/main\n", "docs/b.md:1: local path"),
    ("tests/b.py", 'a = "/ro' 'ot"\n', "tests/b.py:1: local path"),
]

# The clean tree is not laid out by any style, so this one stands in a tree of its own.
LAID_OUT = {".clang-format": "BasedOnStyle: LLVM\n", "tests/a.c": "int a;\n"}
LAYOUT = (LAID_OUT, "tests/b.c", "int b;\nint  c;\n", "tests/b.c:2: layout")


def findings_in(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return lint(root).findings


def self_test():
    missed = [f"the clean tree gave {finding}" for finding in findings_in(CLEAN)]
    planted = [(CLEAN, *defect) for defect in PLANTED]
    if clang_format():
        planted.append(LAYOUT)
    for clean, path, text, expected in planted:
        found = findings_in({**clean, path: text})
        if not any(finding.startswith(expected) for finding in found):
            missed.append(f"{path} with {text[:80]!r} should give {expected}, gave {found[:3]}")
    print(*missed, f"{len(planted)} planted defects, {len(missed)} missed", sep="\n")
    return 1 if missed else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    report = lint(arguments[0])
    print(*report.findings, *report.facts, f"{len(report.findings)} findings", sep="\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
