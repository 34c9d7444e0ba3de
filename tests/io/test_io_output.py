"""Output is whole or not there, never replaces what nobody gave up, and says who is writing it."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from sfumato.io import InputError
from sfumato.io import output as output_module
from sfumato.io.output import Output, check_file, exchange, rename_new, whole_file
from sfumato.io.results import check_target

filelock = pytest.importorskip("filelock")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["kernel", "portable"])
def ways(request, monkeypatch):
    """With the renames of the Linux kernel, and with those that every system has."""
    if request.param == "portable":
        monkeypatch.setattr(output_module, "_libc", lambda: None)


def write(output, text="new"):
    with output.folder() as folder:
        (folder / "summary.json").write_text(text)


def test_a_name_that_is_taken_is_never_renamed_over(tmp_path, ways):
    for make in (lambda path: path.write_text("new"), lambda path: path.mkdir()):
        source, target = tmp_path / "source", tmp_path / "target"
        make(source)
        target.write_text("old")
        with pytest.raises(FileExistsError):
            rename_new(source, target)
        assert (source.exists(), target.read_text()) == (True, "old")
        target.unlink()
        target.mkdir()
        with pytest.raises(FileExistsError):
            rename_new(source, target)
        assert (source.exists(), names(target)) == (True, [])
        target.rmdir()
        rename_new(source, target)
        assert names(tmp_path) == ["target"]
        target.unlink() if target.is_file() else target.rmdir()


def test_an_exchange_gives_the_old_one_back(tmp_path, ways):
    for name, text in (("a", "new"), ("b", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    old = exchange(tmp_path / "a", tmp_path / "b")
    assert ((tmp_path / "b/file").read_text(), (old / "file").read_text()) == ("new", "old")
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_appears_meanwhile_stays_and_the_result_lies_beside(tmp_path, ways, force):
    target = tmp_path / "r"
    with Output(target, check_target, force=force) as output:
        target.mkdir()
        (target / "thesis.txt").write_text("five years")
        (tmp_path / "r.1").mkdir()
        with pytest.raises(InputError, match="appeared meanwhile.*result lies in .*r.2$"):
            write(output)
    assert names(tmp_path) == ["r", "r.1", "r.2"]
    assert (target / "thesis.txt").read_text() == "five years"
    assert (tmp_path / "r.2/summary.json").read_text() == "new"


def test_a_thesis_put_there_in_the_last_moment_stays_too(tmp_path, ways):
    """After the check and before the exchange: it is put back where it was."""
    target = tmp_path / "r"
    with Output(target, check_target) as output:
        write(output, "old")
    asked = []

    def check(path, force):
        check_target(path, force)
        asked.append(path)
        if len(asked) == 3:
            (target / "thesis.txt").write_text("five years")

    with (
        pytest.raises(InputError, match="result lies in .*r.1$"),
        Output(target, check, force=True) as output,
    ):
        write(output)
    assert names(tmp_path) == ["r", "r.1"]
    assert ((target / "thesis.txt").read_text(), (target / "summary.json").read_text()) == (
        "five years",
        "old",
    )
    assert (tmp_path / "r.1/summary.json").read_text() == "new"


def test_a_result_is_replaced_only_when_asked(tmp_path, ways):
    with Output(tmp_path / "r", check_target) as output:
        write(output, "old")
    with pytest.raises(InputError, match="add --force"), Output(tmp_path / "r", check_target):
        pass
    with Output(tmp_path / "r", check_target, force=True) as output:
        write(output)
    assert (names(tmp_path), (tmp_path / "r/summary.json").read_text()) == (["r"], "new")


def test_files_follow_the_same_rules(tmp_path, ways):
    target, check = tmp_path / "f.csv", check_file("--out")
    with Output(target, check) as output, output.file() as partial:
        partial.write_text("old")
    with pytest.raises(InputError, match="exists"), Output(target, check):
        pass
    with (
        Output(target, check, force=True) as output,
        pytest.raises(ZeroDivisionError),
        output.file() as partial,
    ):
        partial.write_text(f"half {1 / 0}")
    assert (names(tmp_path), target.read_text()) == (["f.csv"], "old")
    with Output(target, check, force=True) as output, output.file() as partial:
        partial.write_text("new")
    assert (names(tmp_path), target.read_text()) == (["f.csv"], "new")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", tmp_path / "no/such.csv"):
        with (
            pytest.raises(InputError, match="is not a file|there is no folder"),
            Output(place, check, force=True),
        ):
            pass


def test_partial_names_cannot_be_foreseen_and_links_are_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("x")
    monkeypatch.setattr(output_module.secrets, "token_hex", lambda _: "f" * 16)
    (tmp_path / ".sfumato-file-ffffffffffffffff.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError), whole_file(tmp_path / "r"):
        pass
    assert (tmp_path / "precious").read_text() == "x"
    monkeypatch.undo()
    seen = set()
    for _ in range(3):
        with whole_file(tmp_path / "r") as partial:
            seen.add(partial.name)
    assert len(seen) == 3


def test_a_second_writer_is_refused_before_the_work(tmp_path):
    with Output(tmp_path / "r", check_target) as output:
        with (
            pytest.raises(InputError, match="being written by another process"),
            Output(tmp_path / "r", check_target),
        ):
            pass
        with Output(tmp_path / "other", check_target) as other:
            write(other)
        write(output)
    assert names(tmp_path) == ["other", "r"]
    with Output(tmp_path / "r", check_target, force=True) as output:
        write(output)


def test_without_locks_two_writers_lose_nothing(tmp_path, monkeypatch, ways):

    def refuse(*_, **__):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with (
        Output(tmp_path / "r", check_target) as first,
        Output(tmp_path / "r", check_target) as second,
    ):
        write(first, "first")
        with pytest.raises(InputError, match="result lies in .*r.1$"):
            write(second, "second")
    assert names(tmp_path) == ["r", "r.1"]
    assert [(tmp_path / name / "summary.json").read_text() for name in ("r", "r.1")] == [
        "first",
        "second",
    ]


KILLED = """
import sys, time
from pathlib import Path
from sfumato.io.output import Output
from sfumato.io.results import check_target
from sfumato.io.output import whole_file
with (
    Output(Path("r"), check_target) as output,
    output.folder() as folder,
    whole_file(Path("r.checkpoint"), output.token),
):
    (folder / "summary.json").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("target", ["r", "another"])
def test_what_a_killed_writer_left_is_cleaned_by_the_next_run(tmp_path, target):
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    (tmp_path / ".sfumato-0123456789abcdef-x.partial").write_text("of somebody else")
    with Output(tmp_path / "alive", check_target):
        pass
    assert len(names(tmp_path)) == 4  # nothing of the living is touched
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(names(tmp_path)) == 4
    with Output(tmp_path / target, check_target) as output:
        write(output)
    assert names(tmp_path) == [".sfumato-0123456789abcdef-x.partial", target]


@pytest.mark.parametrize("there", [False, True])
def test_what_a_killed_writer_had_moved_aside_is_kept(tmp_path, there):
    """Killed between taking the place of what was there and making sure that it may go."""
    with Output(tmp_path / "r", check_target) as output:
        token = output.token
    aside = tmp_path / f".sfumato-{token}-a.partial.replaced"
    aside.mkdir()
    (aside / "thesis.txt").write_text("five years")
    (tmp_path / f".sfumato-{token}-b.partial").write_text("half a checkpoint")
    (tmp_path / ".r.lock").touch()
    if there:
        (tmp_path / "r").mkdir()
    with (
        pytest.raises(InputError, match="exists|is not a result folder"),
        Output(tmp_path / "r", check_target),
    ):
        pass
    with Output(tmp_path / "other", check_target):
        pass
    assert names(tmp_path) == (["r", "r.1"] if there else ["r"])
    assert (tmp_path / ("r.1" if there else "r") / "thesis.txt").read_text() == "five years"


def test_a_thesis_is_not_deleted_when_it_cannot_be_put_back(tmp_path, monkeypatch, ways):
    """It came in the last moment, and then the disk failed: it is moved, not removed."""
    target, asked = tmp_path / "r", []
    with Output(target, check_target) as output:
        write(output, "old")

    def check(path, force):
        check_target(path, force)
        asked.append(path)
        if len(asked) == 3:
            (target / "thesis.txt").write_text("five years")

    with Output(target, check, force=True) as output, monkeypatch.context() as patched:
        real, calls = output_module.exchange, []

        def once(source, place):
            calls.append(source)
            if len(calls) == 2:
                raise OSError(errno.EIO, "the disk is gone")
            return real(source, place)

        patched.setattr(output_module, "exchange", once)
        with pytest.raises(OSError, match="the disk is gone"):
            write(output)
    with Output(tmp_path / "other", check_target):
        pass
    found = [path.read_text() for path in tmp_path.rglob("thesis.txt")]
    assert found == ["five years"]
    assert names(tmp_path) == ["r", "r.1"]


def test_a_lock_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / ".r.lock").write_text("my notes")
    with (
        pytest.raises(InputError, match="is no lock of ours"),
        Output(tmp_path / "r", check_target),
    ):
        pass
    assert (tmp_path / ".r.lock").read_text() == "my notes"


def test_links_in_the_place_of_a_lock_are_not_followed(tmp_path):
    (tmp_path / "precious").write_text("")
    os.link(tmp_path / "precious", tmp_path / ".r.lock")
    with pytest.raises(InputError, match="is no lock"), Output(tmp_path / "r", check_target):
        pass
    (tmp_path / ".r.lock").unlink()
    (tmp_path / ".r.lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(InputError, match="cannot be written to"),
        Output(tmp_path / "r", check_target),
    ):
        pass
    assert (tmp_path / "precious").read_text() == ""


def test_data_are_on_the_disk_before_a_name_points_to_them(tmp_path, monkeypatch):
    log = []
    fsync, rename, replace = os.fsync, output_module._renameat2, os.replace

    def synced(handle):
        log.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))
        fsync(handle)

    def renamed(source, target, flag):
        log.append(("rename", os.path.basename(target)))
        return rename(source, target, flag)

    def replaced(source, target):
        log.append(("rename", os.path.basename(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(output_module, "_renameat2", renamed)
    with Output(tmp_path / "r", check_target) as output:
        log.clear()
        with output.folder() as folder:
            (folder / "summary.json").write_text("{}")
            (folder / "report.html").write_text("")
    assert set(log[:3]) == {
        ("sync", "summary.json"),
        ("sync", "report.html"),
        ("sync", folder.name),
    }
    assert log[2:] == [("sync", folder.name), ("rename", "r"), ("sync", tmp_path.name)]
    log.clear()
    with whole_file(tmp_path / "c") as partial:
        partial.write_text("x")
    assert log[0] == ("sync", partial.name)
    assert log[-1] == ("sync", tmp_path.name)
    assert (tmp_path / "c").read_text() == "x"


@pytest.mark.parametrize(
    "code, said",
    [
        (errno.EROFS, "Read-only"),
        (errno.EACCES, "Permission denied"),
        (errno.ENOSPC, "no space left"),
    ],
)
def test_what_cannot_be_written_is_noticed_before_the_work(tmp_path, monkeypatch, code, said):
    opened = os.open

    def refuse(path, flags, *mode, **more):
        if flags & os.O_CREAT:
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, flags, *mode, **more)

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(InputError, match=f"cannot be written to: .*{said}"),
        Output(tmp_path / "r", check_target),
    ):
        pytest.fail("the work has begun")


def test_a_disk_that_is_full_is_noticed_before_the_work(tmp_path, monkeypatch):
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 * 2**20))
    with (
        Output(tmp_path / "r", check_target) as output,
        pytest.raises(InputError, match=r"only 3.0 MB .* at least 5.0 MB"),
    ):
        output.need(5 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    with pytest.raises(InputError, match="only 0.0 MB"), Output(tmp_path / "r", check_target):
        pytest.fail("the work has begun")
    assert names(tmp_path) == []


def test_a_lock_given_back_in_the_same_moment_is_tried_again(tmp_path, monkeypatch):
    """The other writer ends, and takes its lock file along, between our opening it and our locking
    it.
    """
    first = Output(tmp_path / "r", check_target)
    first.__enter__()
    monkeypatch.setattr(time, "sleep", lambda _: first.release())
    with Output(tmp_path / "r", check_target) as output:
        write(output)
    assert names(tmp_path) == ["r"]
