"""C sources as the lint tests read them: which files there are, and text without comments."""
import os
import re

SKIPPED_FOLDERS = re.compile(r"^(build.*|__pycache__|\.(?!ci$).*)$")

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//(?:\\\n|[^\n])*)"""
    r"""|(?P<literal>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)


def paths(root, *suffixes):
    """Paths of the project's files below ROOT, relative to it, sorted; all where no suffix."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not SKIPPED_FOLDERS.match(f)]
        for name in files:
            if not suffixes or name.endswith(suffixes):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """TEXT with each comment turned into blanks: every line keeps its number."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)


def code_only(text):
    """TEXT without comments and without what its literals say."""

    def replace(match):
        if match["comment"]:
            return _blank(match[0])
        quote = match[0][0]
        return quote + "_" * (len(match[0]) - 2) + quote

    return _TOKEN.sub(replace, text)
