"""Mounting and unmounting: the daemon's life, its options, and mistakes on the command line."""
import ctypes
import json
import mmap
import os
import signal
import subprocess

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import checkpoints
from tmtest import TMORPH, Mount, daemon_pid, error_name, folder, tmorph, wait_until


def is_mounted(point):
    return str(point) in tmtest.mount_points()


def gone(point):
    """Waits until neither mount nor daemon is left."""
    wait_until(lambda: not is_mounted(point) and daemon_pid(point) is None, what="the end")


def test_every_raw_way_gives_the_same_bytes():
    made = checkpoints.llama(folder("src") / "m")
    for way in ("auto", "mapped", "pread", "symlink"):
        with Mount(f"m={made.path}", opts=f"raw={way}") as m:
            tmtest.same_tree(made.path, m.load / "m")
            file = m.load / "m/model-00001-of-00002.safetensors"
            assert file.is_symlink() == (way == "symlink"), way
            said = (m.path / ".tmorph/transport.tsv").read_text()
            ways = {line.split("\t")[1] for line in said.splitlines()[1:]}
            allowed = {way} if way != "auto" else {"passthrough", "mapped", "pread"}
            assert ways and ways <= allowed, (way, ways)


def test_the_options_of_the_contract_are_taken():
    made = checkpoints.llama(folder("src") / "m")
    for opts in ("threads=1", "threads=3,timeout=5", "fsname=mymodels", "log=syslog"):
        with Mount(f"m={made.path}", opts=opts) as m:
            tmtest.same_tree(made.path, m.load / "m")
            line = next(t for t in open("/proc/self/mountinfo") if str(m.path) in t)
            kind, name = line.split(" - ")[1].split()[:2]
            assert kind == "fuse.tmorph" and ("fsname" not in opts or name == "mymodels")


def test_of_the_generic_options_those_that_forbid_something_hold():
    made = checkpoints.llama(folder("src") / "m")
    for opts, executes in (("", True), ("ro,dev,suid", True), ("noexec,nosuid", False),
                           ("noexec,exec", True)):
        with Mount(f"m={made.path}", opts=opts) as m:
            flags = os.statvfs(m.path).f_flag
            assert flags & os.ST_NOSUID and flags & os.ST_NODEV, opts
            with open(m.load / "m/config.json", "rb") as f:
                error = error_name(mmap.mmap, f.fileno(), 0, mmap.MAP_PRIVATE,
                                   mmap.PROT_READ | mmap.PROT_EXEC)
            assert error == ("" if executes else "EPERM"), (opts, error)
            m.command("reload m")  # ro or not


def test_a_mount_in_use_stays_with_words():
    made = checkpoints.llama(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        with open(m.load / "m/config.json"):
            done = tmorph("umount", m.path, check=2)
            assert str(m.path) in done.stderr and is_mounted(m.path)
        assert json.loads((m.load / "m/config.json").read_text())


def test_signals_end_the_daemon_and_the_mount():
    made = checkpoints.llama(folder("src") / "m")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        point = folder("mnt")
        tmorph("mount", made.path, point, check=0)
        os.kill(daemon_pid(point), number)
        gone(point)


def test_in_front_it_stays_until_it_is_unmounted():
    made = checkpoints.llama(folder("src") / "m")
    point = folder("mnt")
    process = subprocess.Popen([TMORPH, "mount", "-f", made.path, point], env=tmtest.environment())
    try:
        wait_until(lambda: is_mounted(point) and os.listdir(point / "models"), what="the mount")
        assert process.poll() is None
        tmorph("umount", point, check=0)
        assert process.wait(10) == 0
    finally:
        process.kill()
    gone(point)


def test_a_daemon_lets_its_terminal_and_folder_go():
    made = checkpoints.llama(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        assert os.readlink(f"/proc/{m.pid}/cwd") == "/"
        for fd in range(3):
            assert os.readlink(f"/proc/{m.pid}/fd/{fd}") == "/dev/null", fd
        assert os.getsid(m.pid) != os.getsid(0)


def test_relative_paths_mean_where_mount_was_run():
    src, point = folder("src"), folder("mnt")
    made = checkpoints.llama(src / "m")
    before = os.getcwd()
    try:
        os.chdir(src)
        tmorph("mount", "m", os.path.relpath(point), check=0)
    finally:
        os.chdir(before)
    tmtest.same_tree(made.path, point / "load/m")
    tmorph("umount", point, check=0)
    wait_until(lambda: not is_mounted(point), what="the end")


def test_fstabs_form_is_a_mount():
    made = checkpoints.llama(folder("src") / "m")
    point = folder("mnt")
    tmorph(made.path, point, "-o", "ro,noauto,nofail,_netdev,x-systemd.automount", check=0)
    assert os.listdir(point / "models") == ["m"]
    tmorph("umount", point, check=0)
    gone(point)


def test_two_mounts_do_not_know_each_other():
    src = folder("src")
    one, two = (checkpoints.llama(src / n, seed=i) for i, n in enumerate(("one", "two")))
    with Mount(f"m={one.path}") as m, Mount(f"m={two.path}") as n:
        assert m.pid != n.pid
        tmtest.same_tree(one.path, m.load / "m")
        tmtest.same_tree(two.path, n.load / "m")


def test_a_mount_of_a_mount_reads_through():
    made = checkpoints.llama(folder("src") / "m")
    with Mount(f"m={made.path}") as m, Mount(f"again={m.load / 'm'}") as n:
        tmtest.same_tree(made.path, n.load / "again")
        assert n.state("again") == "ready"


def mount_and_kill(made, point):
    """A mount whose daemon is gone."""
    tmorph("mount", made.path, point, check=0)
    os.kill(daemon_pid(point), signal.SIGKILL)
    wait_until(lambda: error_name(os.listdir, point) == "ENOTCONN", what="ENOTCONN")


def test_a_killed_daemon_leaves_errors_and_no_hang():
    made = checkpoints.llama(folder("src") / "m")
    point = folder("mnt")
    mount_and_kill(made, point)
    tmorph("umount", point, check=0)
    assert not is_mounted(point)


def test_the_next_mount_clears_what_a_killed_daemon_left():
    made = checkpoints.llama(folder("src") / "m")
    point, link = folder("mnt"), folder("links") / "link"
    link.symlink_to(point)
    for path in (point, link, f"{point}/"):
        mount_and_kill(made, point)
        done = tmorph("mount", made.path, path, check=0)
        assert done.stderr == f"tmorph: {path}: the daemon of an earlier mount was gone; cleared\n"
        assert tmtest.mount_points().count(str(point)) == 1, path
        tmtest.same_tree(made.path, point / "load/m")
        tmorph("umount", point, check=0)
        gone(path)


def test_a_dead_mount_of_something_else_is_left_alone():
    if os.geteuid() != 0:
        raise tmtest.Skip("only root can make such a mount")
    made = checkpoints.llama(folder("src") / "m")
    point = folder("mnt")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    rc = libc.mount(b"other", bytes(point), b"fuse.other", 0, options)
    os.close(fd)
    assert rc == 0, os.strerror(ctypes.get_errno())
    try:
        assert error_name(os.listdir, point) == "ENOTCONN"
        done = tmorph("mount", made.path, point, check=2)
        assert done.stderr == f"tmorph: {point}: Transport endpoint is not connected\n"
        tmorph("umount", point, check=2)
        assert tmtest.mount_points().count(str(point)) == 1
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def test_any_path_to_a_mount_point_takes_it_down():
    made = checkpoints.llama(folder("src") / "m")
    base = folder("mnt")
    for name in ("plain", "two words ", "back\\040slash", "line\nfeed\ttab", "#1", "\u00e9"):
        point, link, far = (base / f"{name}{end}" for end in ("", ".link", ".far"))
        point.mkdir()
        link.symlink_to(point.name)
        far.symlink_to(link)
        for path in (point, link, far, f"{link}//", os.path.relpath(point), f"{point}/../{name}"):
            tmorph("mount", made.path, point, check=0)
            done = tmorph("umount", path, check=0)
            assert not done.stderr and not is_mounted(point), (path, done.stderr)
            gone(point)


def test_umount_leaves_what_is_not_ours():
    point, link = folder("mnt"), folder("links") / "link"
    link.symlink_to(point)
    done = tmorph("umount", point, check=2)
    assert done.stderr == f"tmorph: {point}: not a mount point\n"
    done = tmorph("umount", point / "none", check=2)
    assert done.stderr == f"tmorph: {point}/none: No such file or directory\n"
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", point], capture_output=True).returncode:
        raise tmtest.Skip("no tmpfs can be mounted here")
    try:
        for path in (point, link):
            done = tmorph("umount", path, check=2)
            assert done.stderr == (f"tmorph: {path}: mounted here is a filesystem of type tmpfs, "
                                   "not a tensormorph mount\n")
            assert is_mounted(point)
        # it may be covered, though, and comes back
        made = checkpoints.llama(folder("src") / "m")
        (point / "below").touch()
        tmorph("mount", made.path, point, check=0)
        assert os.listdir(point / "models") == ["m"]
        tmorph("umount", point, check=0)
        assert os.listdir(point) == ["below"]
    finally:
        subprocess.run(["umount", point], check=True)


def test_a_second_mount_at_one_place_is_refused_with_the_remedy():
    src = folder("src")
    one, two = (checkpoints.llama(src / name) for name in ("one", "two"))
    link = folder("links") / "link"
    with Mount(f"one={one.path}") as m:
        link.symlink_to(m.path)
        for path in (m.path, link, f"{m.path}/"):
            done = tmorph("mount", two.path, path, check=2)
            assert done.stderr == (
                f"tmorph: {path}: a tensormorph mount already: unmount it (tmorph umount {path}), "
                f"or add to it (a line 'add NAME=/SOURCE' to {path}/.tmorph/ctl)\n")
        assert tmtest.mount_points().count(str(m.path)) == 1
        m.command(f"add two={two.path}\n")
        assert sorted(os.listdir(m.models)) == ["one", "two"]


def test_names_that_clash_name_the_remedy():
    src = folder("src")
    for where in ("a", "b"):
        checkpoints.llama(src / where / "llama")
    point = folder("mnt")
    done = tmorph("mount", src / "a/llama", src / "b/llama", point)
    assert done.returncode == 2 and "llama" in done.stderr and "=" in done.stderr, done.stderr
    assert str(point) not in tmtest.mount_points()


def test_mistakes_of_the_command_line_exit_2_with_words():
    src, point = folder("src"), folder("mnt")
    made = checkpoints.llama(src / "llama")
    for args in (["mount"], ["mount", src / "none", point], ["mount", made.path, src / "nowhere"],
                 ["mount", "-o", "nonsense=1", made.path, point], ["dance"], ["umount", point]):
        done = tmorph(*args)
        assert done.returncode == 2 and done.stderr.strip(), (args, done.returncode, done.stderr)
        assert str(point) not in tmtest.mount_points(), args


if __name__ == "__main__":
    tmtest.main(globals())
