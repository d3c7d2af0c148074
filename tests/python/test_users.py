"""Who may do what: other users at a mount, users who are not root, and mount(8) with fstab."""
import contextlib
import os
import pathlib
import pickle
import re
import shlex
import shutil
import signal
import stat
import subprocess

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import checkpoints
from tmtest import ROOT, TMORPH, Mount, Skip, daemon_pid, error_name, folder, wait_until

NOBODY, SOMEBODY = 65534, 65533  # who own no files and processes, on any usual machine
IS_ROOT = os.geteuid() == 0
USER = NOBODY if IS_ROOT else os.geteuid()  # an ordinary one


# ---------------------------------------------------------------- other users


def need_root():
    if not IS_ROOT:
        raise Skip("only root can become another user")


def open_to_all(path):
    """PATH, which other users may enter from now on; skips where they cannot come that far."""
    for part in (tmtest.scratch(), path):
        os.chmod(part, 0o755)
    for part in path.parents:
        if not stat.S_IMODE(part.stat().st_mode) & 1:
            raise Skip(f"other users cannot enter {part}: set TMPDIR to where they can")
    return path


def as_user(uid, action, *args):
    """What ACTION returns, or the name of the errno that it fails with, in a process of UID."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid != os.geteuid():
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            try:
                result = action(*args)
            except OSError as e:
                result = error_name(_raise, e)
            os.write(write_end, pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        data = answer.read()
    os.waitpid(pid, 0)
    assert data, "the other user's process broke down"
    return pickle.loads(data)


def _raise(error):
    raise error


def content(top):
    """Names, and of files the hash, of everything below a folder."""
    return {name: name.endswith("/") or tmtest.sha256(top / name) for name in tmtest.listing(top)}


def model(name="m"):
    """A checkpoint with a subfolder, which everybody may read."""
    made = checkpoints.llama(open_to_all(folder("src")) / name)
    (made.path / "extra").mkdir()
    (made.path / "extra/notes.txt").write_text("notes\n")
    return made


def test_with_allow_other_another_user_reads_everything():
    need_root()
    made = model()
    with Mount(f"m={made.path}", opts="allow_other") as m:
        assert as_user(NOBODY, content, m.load / "m") == content(made.path)
        content(m.model("m"))  # its tables show what is known of the values: all, from here on
        assert as_user(NOBODY, content, m.model("m")) == content(m.model("m"))
        assert as_user(NOBODY, pathlib.Path.read_text, m.path / ".tmorph/version")
        assert as_user(NOBODY, os.stat, m.path / "README").st_uid == 0


def test_with_allow_other_another_user_commands_nothing():
    need_root()
    made = model()
    with Mount(f"m={made.path}", opts="allow_other") as m:
        assert as_user(NOBODY, m.command, "remove m") == "EACCES"
        assert as_user(NOBODY, os.access, m.ctl, os.W_OK) is False
        assert as_user(NOBODY, os.unlink, m.load / "m/config.json") == "EACCES"
        assert os.listdir(m.models) == ["m"]
        m.command("remove m")
        assert not os.listdir(m.models)


def test_without_allow_other_another_user_gets_nothing():
    need_root()
    made = model()
    with Mount(f"m={made.path}") as m:
        for action, path in ((os.listdir, m.path), (os.stat, m.path), (os.listdir, m.load / "m"),
                             (pathlib.Path.read_bytes, m.load / "m/config.json"),
                             (pathlib.Path.read_bytes, m.path / "README")):
            assert as_user(NOBODY, action, path) == "EACCES", (action, path)
            action(path)


# ---------------------------------------------------------------- a daemon that may not do all


def runner(*rights):
    """A function that runs a copy of the program, as a build may be private, with RIGHTS."""
    program = open_to_all(folder("bin")) / TMORPH.name
    shutil.copy(TMORPH, program)
    os.chmod(tmtest.scratch(), 0o1777)  # for what sanitizers report
    command = ["setpriv", *rights, "--", program] if rights else [program]

    def run(*args, check):
        done = subprocess.run([str(a) for a in (*command, *args)], capture_output=True, text=True,
                              timeout=60, env=tmtest.environment(), check=False)
        assert done.returncode == check, (args, done.returncode, done.stderr)
        return done

    return run


def identity(uid):
    """What setpriv needs to become UID; nothing for who that is already."""
    if uid == os.geteuid():
        return ()
    return f"--reuid={uid}", f"--regid={uid}", "--clear-groups"


@contextlib.contextmanager
def private_parts(made, owner):
    """Adds a folder and a file for OWNER alone (for nobody, where we are not root)."""
    path = made.path / "private"
    path.mkdir()
    (path / "key").write_text("key\n")
    (made.path / "private.txt").write_text("key\n")
    try:
        for part in (path, made.path / "private.txt"):
            if IS_ROOT:
                os.chown(part, owner, -1)
            os.chmod(part, 0o700 if IS_ROOT else 0)
        yield
    finally:
        os.chmod(path, 0o700)


def check_private_parts(top, rest):
    """That they show, but not what is in them, and that the REST is there."""
    assert os.listdir(top / "private") == []
    assert tmtest.read_error(top / "private.txt") == "EACCES"
    assert tmtest.listing(top) == rest.keys() | {"private/", "private.txt"}
    assert {name: name.endswith("/") or tmtest.sha256(top / name) for name in rest} == rest


def test_a_folder_that_the_daemon_may_not_read_is_shown_empty():
    made, point = model(), folder("mnt")
    rest = content(made.path)
    # root without the rights by which it reads what it may not
    run = runner(*(["--bounding-set=-dac_override,-dac_read_search"] if IS_ROOT else []))
    with private_parts(made, NOBODY):
        run("mount", f"m={made.path}", point, check=0)
        check_private_parts(point / "load/m", rest)
        assert (point / "models/m/state").read_text() == "ready\n"
        assert f"{made.path}/private.txt: Permission denied" in (point / ".tmorph/log").read_text()
        run("umount", point, check=0)
    tmtest.check_sanitizers()


def test_without_a_mount_it_is_empty_too():
    made, run = model(), runner(*identity(USER))
    with private_parts(made, 0):
        assert run("ls", f"{made.path}::files/private", check=0).stdout == ""
        shown = run("cat", f"{made.path}::files/extra/notes.txt", f"{made.path}::state", check=0)
        assert shown.stdout == "notes\nready\n"
        done = run("cat", f"{made.path}::files/private.txt", check=2)
        assert "private.txt: Permission denied" in done.stderr, done.stderr
    tmtest.check_sanitizers()


# ---------------------------------------------------------------- users who mount


def need_fusermount():
    path = shutil.which("fusermount3")
    if not path or not os.stat(path).st_mode & stat.S_ISUID:
        raise Skip("fusermount3 is not there, or not setuid root")
    if as_user(USER, os.access, "/dev/fuse", os.R_OK | os.W_OK) is not True:
        raise Skip("ordinary users may not open /dev/fuse here")


def check_a_users_mount(point, made, rest):
    line = next(t for t in open("/proc/self/mountinfo") if str(point) in t)
    assert " fuse.tmorph " in line and f"user_id={USER}," in line, line
    assert "nosuid" in line and "nodev" in line, line
    as_user(USER, check_private_parts, point / "load/m", rest)
    assert as_user(USER, os.stat, point / "README").st_uid == USER
    assert as_user(USER, (point / ".tmorph/ctl").write_text, "reload m") == 8
    if IS_ROOT:
        for uid in (0, SOMEBODY):  # not even root
            assert as_user(uid, os.listdir, point) == "EACCES"
        done = runner(*identity(SOMEBODY))("umount", point, check=2)
        assert str(point) in tmtest.mount_points(), done.stderr


def test_an_ordinary_user_mounts_through_fusermount3():
    need_fusermount()
    made, point, run = model(), folder("mnt"), runner(*identity(USER))
    rest = content(made.path)
    os.chown(point, USER, -1)
    link = open_to_all(folder("links")) / "link"
    link.symlink_to(point)
    with private_parts(made, 0):
        run("mount", f"m={made.path}", point, check=0)
        check_a_users_mount(point, made, rest)
        done = run("mount", made.path, point, check=2)
        assert "a tensormorph mount already" in done.stderr, done.stderr
        os.kill(daemon_pid(point), signal.SIGKILL)
        wait_until(lambda: as_user(USER, os.listdir, point) == "ENOTCONN", what="ENOTCONN")
        done = run("mount", f"m={made.path}", point, check=0)
        assert done.stderr == f"tmorph: {point}: the daemon of an earlier mount was gone; cleared\n"
        assert tmtest.mount_points().count(str(point)) == 1
        run("umount", link, check=0)
        assert str(point) not in tmtest.mount_points()
    wait_until(lambda: daemon_pid(point) is None, what="the end of the daemon")
    tmtest.check_sanitizers()


def test_root_takes_down_a_users_mount_that_it_may_not_enter():
    need_root()
    need_fusermount()
    made, point = model(), folder("mnt")
    os.chown(point, USER, -1)
    runner(*identity(USER))("mount", made.path, point, check=0)
    assert error_name(os.listdir, point) == "EACCES"
    tmtest.tmorph("umount", point, check=0)
    assert str(point) not in tmtest.mount_points()


# ---------------------------------------------------------------- mount(8) and fstab


def in_a_namespace(script, *args):
    """Runs SCRIPT (bash) where tmorph is in /usr/local/bin, which nobody else sees."""
    need_root()
    for program in ("unshare", "mount", "mount.fuse3", "setpriv"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/sbin:/usr/sbin"):
            raise Skip(f"there is no {program}")
    if not os.path.isdir("/usr/local/bin"):
        raise Skip("there is no /usr/local/bin to put tmorph in")
    # slave: what others unmount meanwhile is to go from here too
    namespace = ["unshare", "--mount", "--propagation", "slave"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        raise Skip("no mount namespace can be made")
    commands = folder("bin")
    (commands / "tmorph").symlink_to(TMORPH)
    script = f"set -eu\nmount --bind {shlex.quote(str(commands))} /usr/local/bin\n{script}"
    done = subprocess.run([*namespace, "bash", "-c", script, "bash", *map(str, args)],
                          capture_output=True, text=True, timeout=100, env=tmtest.environment())
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


AS_NOBODY = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --"


def documented_lines():
    """The lines for fstab that the README and the manual page promise."""
    pages = [ROOT / "README.md", ROOT / "docs/man/tmorph-mount.1"]
    lines = [line for page in pages for line in page.read_text().splitlines()
             if re.match(r"/\S+\s+/\S+\s+fuse\.tmorph\s", line)]
    assert len(lines) == 2, lines
    return lines


def test_the_documented_line_of_fstab_mounts():
    src = open_to_all(folder("src")) / "my models"
    src.mkdir()
    for name in ("one", "two"):
        checkpoints.llama(src / name)
    for line in documented_lines():
        point = folder("my mnt")
        spelled = {"/data/models": src, "/mnt/models": point}
        fields = [str(spelled.get(f, f)).replace(" ", "\\040") for f in line.split()]
        assert fields[2:] == ["fuse.tmorph", "ro,nofail,allow_other", "0", "0"], fields
        fstab = folder("etc") / "fstab"
        fstab.write_text(" ".join(fields) + "\n")
        said = in_a_namespace(f'''
            trap 'umount -l "$2" 2>/dev/null || true' EXIT
            mount -T "$1" "$2"
            mount -a -T "$1"  # is mounted already
            grep -c -- "${{2##*/my mnt}} fuse.tmorph " /proc/self/mounts
            findmnt -n -r -o SOURCE,FSTYPE "$2"
            cd "$2/load/my models"
            find . -type f -exec {AS_NOBODY} sha256sum {{}} + | sort
            cd /
            umount "$2"
            if grep -- "${{2##*/my mnt}} " /proc/self/mounts; then exit 3; fi
            ''', fstab, point).splitlines()
        files = {f"{tmtest.sha256(src / f)}  ./{f}" for f in tmtest.listing(src)
                 if not f.endswith("/")}
        assert said[0] == "1" and said[1] == f"{src} fuse.tmorph".replace(" ", "\\x20", 1), said
        assert set(said[2:]) == files
        wait_until(lambda: daemon_pid(point) is None, what="the end of the daemon")
    tmtest.check_sanitizers()


def test_mount8_by_type_is_a_mount():
    made, point = model(), folder("mnt")
    said = in_a_namespace(f'''
        trap 'umount -l "$2" 2>/dev/null || true' EXIT
        for options in ro,allow_other ro,allow_other,user,lazytime,nosymfollow,setuid=root; do
            mount -t fuse.tmorph "$1" "$2" -o "$options"
            findmnt -n -r -o FSTYPE,OPTIONS "$2"
            {AS_NOBODY} cat "$2/models/m/state"
            echo "reload m" >"$2/.tmorph/ctl"
            tmorph umount "$2"
        done
        ''', made.path, point).splitlines()
    assert said[1] == said[3] == "ready" and len(said) == 4, said
    for line, noexec in ((said[0], False), (said[2], True)):
        kind, options = line.split(" ", 1)
        options = options.split(",")
        assert kind == "fuse.tmorph" and {"allow_other", "nosuid", "nodev"} <= set(options), line
        assert ("noexec" in options) == noexec, line
    wait_until(lambda: daemon_pid(point) is None, what="the end of the daemon")
    tmtest.check_sanitizers()


def test_mount8_says_why_it_fails():
    point = folder("mnt")
    said = in_a_namespace('''
        if mount -t fuse.tmorph /nowhere/at/all "$1" -o ro 2>&1; then exit 3; fi
        if mount -t fuse.tmorph /usr "$1" -o ro,dance 2>&1; then exit 4; fi
        ''', point)
    assert "tmorph: /nowhere/at/all: No such file or directory" in said, said
    assert "unknown option 'dance'" in said, said


if __name__ == "__main__":
    tmtest.main(globals())
