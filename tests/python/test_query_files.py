"""query/NAME.q: files that are made, written to, cut and removed, and have the size they say."""
import io
import os
import pathlib
import subprocess
import tarfile
import threading

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

from expect import table
from test_query import Query, four, mixed, of_rank, read_exact
from test_users import NOBODY, as_user, need_root, open_to_all
from tmtest import Mount, error_name, folder, read_error, wait_until

LIMIT = 65536


# ---------------------------------------------------------------- writing


def shell(script, *args):
    return subprocess.run(["sh", "-c", script, "sh", *map(str, args)], capture_output=True,
                          text=True, timeout=30, check=False)


def test_a_query_is_written_by_a_shell():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        other = folder("files") / "text"
        other.write_text('role == "norm"\n')
        for script, want in (
                ('echo "rank == 1" >"$1"', "rank == 1\n"),
                ('echo "rank == 3" >"$1"', "rank == 3\n"),
                ('echo " or rank == 2" >>"$1"', "rank == 3\n or rank == 2\n"),
                ('printf %s "and n > 0" >>"$1"', "rank == 3\n or rank == 2\nand n > 0"),
                ('cp "$2" "$1"', 'role == "norm"\n'),
                ('cat "$2" "$2" >"$1"', 'role == "norm"\nrole == "norm"\n'),
                ('truncate -s 7 "$1"', "role =="),
                ('truncate -s 10 "$1"', "role ==   "),
                (': >"$1"', ""),
                ('echo one | tee "$1" >&2', "one\n"),
                ('dd if="$2" of="$1" bs=4 status=none', 'role == "norm"\n'),
                ('dd if="$2" of="$1" bs=1 seek=8 skip=8 conv=notrunc status=none',
                 'role == "norm"\n')):
            done = shell(script, q.text, other)
            assert done.returncode == 0, (script, done.stderr)
            assert read_exact(q.text).decode() == want, script
        assert len(q.matches()) == 5
        assert shell('rm "$1"', q.text).returncode == 0
        assert os.listdir(m.model("m") / "query") == []
        assert read_error(q.text) == "ENOENT"
        wait_until(lambda: not q.folder.exists(), what="the end of the folder")


def test_a_query_is_written_by_an_open_file():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        with open(q.text, "xb", buffering=0) as f:  # several writes, which count at once
            f.write(b"rank ==")
            assert read_exact(q.text) == b"rank =="
            assert "the query ends" in q.error()
            f.write(b" 3")
            assert q.error() == "" and q.matches() == []
            f.seek(8)
            f.write(b"1")
            assert len(q.matches()) == of_rank(1)
            f.seek(12)
            f.write(b"or rank == 0")
            assert read_exact(q.text) == b"rank == 1   or rank == 0"
            assert len(q.matches()) == of_rank(1) + of_rank(0)
            f.truncate(9)
            assert read_exact(q.text) == b"rank == 1" and os.fstat(f.fileno()).st_size == 9
            os.fsync(f.fileno())
        assert error_name(open, q.text, "xb") == "EEXIST"
        with open(q.text, "ab") as f:
            f.write(b" and ")
            f.flush()
            f.write(b"n > 0")
        assert read_exact(q.text) == b"rank == 1 and n > 0"
        with open(q.text, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            f.write(b"1")
        assert read_exact(q.text) == b"rank == 1 and n > 1"
        with open(q.text, "wb") as f:
            assert read_exact(q.text) == b""
            f.write(b"rank == 0")
        assert len(q.matches()) == of_rank(0) == 1


def test_writing_anew_leaves_nothing_of_the_old_text():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        for text in ("rank == 1 or rank == 2", "rank == 0", "", "n > 0"):
            q.text.write_text(text)
            assert q.text.read_text() == text
            with open(q.text, "wb"):
                assert q.text.stat().st_size == 0, "as soon as it is opened"
            q.text.write_text(text)


def test_an_open_file_reads_the_text_that_it_was_opened_with():
    """And whoever opens it then, what was written."""
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        q.text.write_bytes(b"rank == 1")
        with open(q.text, "r+b", buffering=0) as f:
            f.seek(8)
            f.write(b"2")
            assert os.pread(f.fileno(), 100, 0) == b"rank == 1"
            assert q.text.read_bytes() == b"rank == 2"


def test_a_query_has_65536_bytes_and_no_more():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        text = b"rank == 1" + b" " * (LIMIT - 9)
        q.text.write_bytes(text)
        assert read_exact(q.text) == text and len(q.matches()) == of_rank(1)
        assert error_name(lambda: q.text.write_bytes(text + b" ")) == "EFBIG"
        q.text.write_bytes(text)
        with open(q.text, "ab", buffering=0) as f:
            assert error_name(f.write, b"x") == "EFBIG"
        assert error_name(os.truncate, q.text, LIMIT + 1) == "EFBIG"
        with open(q.text, "r+b", buffering=0) as f:
            f.seek(1 << 40)
            assert error_name(f.write, b"x") == "EFBIG"
        assert read_exact(q.text) == text
        assert "a query has at most 65536 bytes" in (m.path / ".tmorph/log").read_text()
        os.truncate(q.text, LIMIT)
        os.truncate(q.text, 9)
        assert read_exact(q.text) == b"rank == 1"


def test_what_else_there_is_to_do_is_refused():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        at = m.model("m") / "query"
        q = Query(m.model("m"), "q").write("rank == 1")
        for name in ("q", "x", "x.Q", "x.q.swp", ".q", ".x.q.new"):
            if name != "q":
                assert error_name(lambda n=name: (at / n).write_text("rank == 1")) == "EINVAL", name
        assert error_name(lambda: (at / "q").write_text("x")) == "EISDIR"
        for action, args in (
                (os.mkdir, (at / "new",)), (os.mkdir, (at / "new.q",)), (os.rmdir, (at / "q",)),
                (os.rename, (q.text, at / "z.q")), (os.symlink, ("q.q", at / "z.q")),
                (os.link, (q.text, at / "z.q")), (os.unlink, (at / "q/matches.tsv",)),
                (os.chmod, (q.text, 0o600)), (os.truncate, (at / "q/error", 0)),
                (lambda: (at / "q/matches.tsv").write_text("x"), ()),
                (lambda: (at / "q/new.q").write_text("x"), ()),
                (lambda: (m.model("m") / "new.q").write_text("x"), ()),
                (lambda: (m.load / "m/new.q").write_text("x"), ()),
                (os.unlink, (m.load / "m/config.json",))):
            got = error_name(action, *args)
            assert got == "EROFS" or got == "ENOENT" and "config" in str(args), (action, args, got)
        assert sorted(os.listdir(at)) == ["q", "q.q"] and read_exact(q.text) == b"rank == 1"
        for name in ("a b.q", "ü\U0001f600.q", "%2F.q", "-n.q", "x" * 253 + ".q", "tab\there.q"):
            (at / name).write_text("rank == 1")
            assert len(table(at / name[:-2] / "matches.tsv")[1]) == of_rank(1), name
            (at / name).unlink()


def test_a_name_has_255_bytes():
    """As statfs says of the whole mount."""
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        at = m.model("m") / "query"
        assert os.statvfs(at).f_namemax == 255
        for letters, error in ((253, ""), (254, "ENAMETOOLONG"), (1000, "ENAMETOOLONG")):
            path = at / ("x" * letters + ".q")
            assert error_name(lambda p=path: p.write_text("rank == 1")) == error, letters


def test_a_query_is_touched():
    """As a file is made, or its time is set: to no effect."""
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        for text in ("", "rank == 1"):
            done = shell('touch "$1"', q.text)
            assert done.returncode == 0, done.stderr
            assert q.text.read_text() == text
            q.write("rank == 1")


def test_no_two_queries_share_a_name():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        at = m.model("m") / "query"
        for name in ("a.q", "a.q.q", "..q", "...q"):
            error_name(lambda n=name: (at / n).write_text("rank == 1"))
        listed = os.listdir(at)
        assert len(listed) == len(set(listed)), listed
        texts = [n for n in listed if os.path.isfile(at / n)]
        assert texts and all(n[:-2] in listed for n in texts), listed


def test_queries_come_and_go_while_they_are_listed_and_read():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        at = m.model("m") / "query"
        stays = Query(m.model("m"), "stays").write("rank == 1")
        want = stays.matches()
        errors, done = [], threading.Event()

        def come_and_go(number):
            try:
                for i in range(40):
                    q = Query(m.model("m"), f"t{number}").write(f"rank == {i % 3} and n > 0")
                    assert q.text.read_text() == f"rank == {i % 3} and n > 0"
                    assert q.error() == ""
                    q.text.unlink()
            except Exception as e:  # told by the main thread
                errors.append(e)

        def look():
            try:
                while not done.is_set():
                    listed = os.listdir(at)
                    assert sorted(n for n in listed if n[0] == "s") == ["stays", "stays.q"]
                    assert stays.matches() == want
            except Exception as e:
                errors.append(e)

        makers = [threading.Thread(target=come_and_go, args=(i,)) for i in range(4)]
        lookers = [threading.Thread(target=look) for _ in range(2)]
        for thread in makers + lookers:
            thread.start()
        for thread in makers:
            thread.join()
        done.set()
        for thread in lookers:
            thread.join()
        assert not errors, errors[:3]
        assert sorted(os.listdir(at)) == ["stays", "stays.q"]


# ---------------------------------------------------------------- reading


def fill(model):
    """Queries of every kind of answer."""
    for name, text in (("yes", "rank == 2"), ("values", "absmax > 1 and l2 != none\n"),
                       ("none", "rank == 9"), ("empty", ""), ("wrong", "rank = 1\n\n"),
                       ("long", " " * 5000 + "n > 0")):
        Query(model, name).write(text)


def test_every_file_has_the_size_that_it_says():
    for source in (mixed()[0].path, four(folder("src") / "m").path):
        with Mount(f"m={source}") as m:
            fill(m.model("m"))
            at = m.model("m") / "query"
            found = sorted(p for p in tmtest.listing(at) if not p.endswith("/"))
            assert len(found) == 6 * 4
            for path in found:
                content = read_exact(at / path)
                with open(at / path, "rb", buffering=0) as f:  # by pieces of any size
                    pieces = b"".join(iter(lambda f=f: f.read(7), b""))
                assert pieces == content, path
                assert (at / path).stat().st_blocks == -(-len(content) // 512)


def test_tar_takes_all_of_it():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        fill(m.model("m"))
        at = m.model("m")
        done = subprocess.run(["tar", "cf", "-", "-C", at, "query"], capture_output=True,
                              timeout=60, check=True)
        assert done.stderr == b""
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            got = {e.name: tar.extractfile(e).read() for e in tar if e.isfile()}
        want = {f"query/{p}": (at / "query" / p).read_bytes()
                for p in tmtest.listing(at / "query") if not p.endswith("/")}
        assert got == want and len(got) == 6 * 4
        out = folder("out")  # and gives back what was written
        subprocess.run(["tar", "xf", "-", "-C", out], input=done.stdout, timeout=60, check=True)
        for path in (out / "query").glob("*.q"):
            (at / "query" / f"again-{path.name}").write_bytes(path.read_bytes())
        tmtest.same_tree(at / "query/values", at / "query/again-values")


def test_an_open_table_stays_as_it_was():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q").write("rank == 1 and n > 0")
        want = (q.folder / "matches.tsv").read_bytes()
        with open(q.folder / "matches.tsv", "rb", buffering=0) as f:
            begin = f.read(10)
            q.write("rank == 2")
            assert begin + f.read() == want
        with open(q.folder / "matches.tsv", "rb", buffering=0) as f:
            want = f.read()
            q.text.unlink()
            assert os.pread(f.fileno(), 1 << 20, 0) == want
        assert error_name(os.stat, q.text) == "ENOENT"


# ---------------------------------------------------------------- who may


def test_another_user_reads_but_does_not_write():
    need_root()
    made = four(open_to_all(folder("src")) / "m")
    with Mount(f"m={made.path}", opts="allow_other") as m:
        q = Query(m.model("m"), "q").write("rank == 1")
        assert as_user(NOBODY, pathlib.Path.read_text, q.text) == "rank == 1"
        assert as_user(NOBODY, pathlib.Path.read_bytes, q.folder / "matches.tsv") == \
            (q.folder / "matches.tsv").read_bytes()
        for action, args in ((pathlib.Path.write_text, (q.text, "rank == 2")),
                             (os.truncate, (q.text, 0)), (os.unlink, (q.text,)),
                             (pathlib.Path.write_text, (q.text.with_name("new.q"), "x"))):
            assert as_user(NOBODY, action, *args) == "EACCES", action
        assert as_user(NOBODY, os.access, q.text, os.W_OK) is False
        assert q.text.stat().st_mode & 0o777 == 0o644
        assert (m.model("m") / "query").stat().st_mode & 0o777 == 0o755
        assert os.listdir(m.model("m") / "query") == ["q.q", "q"]


if __name__ == "__main__":
    tmtest.main(globals())
