"""The file format: round trips, damaged and foreign files, and failing writes."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate import agents
from afterstate.agents.files import VERSION, Arrays, is_finite, read, write
from afterstate.envs import durable_files
from tests.support.memory import at_most

HEADER = {"tuples": [[0, 1], [4]], "note": "ü", "nested": {"a": [1, 2.5, None]}}
ARRAYS: Arrays = {
    "weights": np.arange(40, dtype=np.float32) / 7,
    "words": np.array([0, 2**64 - 1, 12345], np.uint64),
    "empty": np.zeros(0, np.float32),
    "square": np.arange(6, dtype=np.int16).reshape(2, 3),
    "none": np.zeros((3, 0), np.int8),
    "scalar": np.array(2.5),
    "truths": np.array([True, False]),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "player.npz"
    write(path, "test", HEADER, ARRAYS)
    return path


def assert_same(result: Arrays, expected: Arrays) -> None:
    assert list(result) == list(expected)
    for name, array in expected.items():
        assert result[name].dtype == array.dtype
        assert result[name].shape == array.shape
        assert (result[name] == array).all()


def assert_whole(file: Path) -> None:
    """Assert that the file is as the fixture wrote it, and alone in its folder."""
    assert list(file.parent.iterdir()) == [file]
    assert_same(read(file, "test")[1], ARRAYS)


def assert_refused(file: Path, message: str = ".") -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(file, "test")
    assert file.name in str(caught.value)


# What was written


def test_header_and_arrays_are_read_as_they_were_written(file: Path) -> None:
    header, arrays = read(file)
    assert header["format"] == "afterstate"
    assert header["version"] == VERSION
    assert header["kind"] == "test"
    assert {name: header[name] for name in HEADER} == HEADER
    assert_same(arrays, ARRAYS)
    assert_same(read(str(file), "test")[1], ARRAYS)


def test_arrays_read_are_writeable(file: Path) -> None:
    _, arrays = read(file)
    for array in arrays.values():
        assert array.flags.writeable
        assert array.flags.c_contiguous
        array[...] = 1
    assert_same(read(file)[1], ARRAYS)


def test_large_arrays_survive(tmp_path: Path) -> None:
    """More than one piece of 16 MiB."""
    drawn = np.random.default_rng(1).integers(0, 99, (1 << 22) + 12_345).astype(np.float64)
    write(tmp_path / "large.npz", "test", {}, {"drawn": drawn})
    assert (read(tmp_path / "large.npz")[1]["drawn"] == drawn).all()


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(6).reshape(2, 3).T,
        np.arange(20)[::3],
        np.arange(24).reshape(2, 3, 4).swapaxes(0, 2),
        np.arange(5, dtype=">i4"),
    ],
    ids=["fortran", "transposed", "strided", "swapped", "big-endian"],
)
def test_arrays_of_any_layout_are_read_again(tmp_path: Path, array: npt.NDArray[Any]) -> None:
    write(tmp_path / "layout.npz", "test", {}, {"array": array})
    assert_same(read(tmp_path / "layout.npz")[1], {"array": array})


def test_files_are_smaller_by_level_and_are_read_alike(tmp_path: Path) -> None:
    sizes = []
    for level in (0, 1, 9):
        path = tmp_path / f"level{level}.npz"
        write(path, "test", HEADER, {**ARRAYS, "long": np.arange(10_000) % 77}, level=level)
        assert_same(read(path)[1], {**ARRAYS, "long": np.arange(10_000) % 77})
        sizes.append(path.stat().st_size)
    assert sizes[0] > 80_000 > sizes[1] > sizes[2]


def test_damage_of_an_uncompressed_file_is_refused(tmp_path: Path) -> None:
    """Any byte of the data, which only the checksum guards."""
    path = tmp_path / "player.npz"
    write(path, "test", {}, {"weights": ARRAYS["weights"]}, level=0)
    whole, data = path.read_bytes(), ARRAYS["weights"].tobytes()
    at = whole.index(data)
    for i in range(len(data)):
        path.write_bytes(
            whole[: at + i] + bytes([whole[at + i] ^ 1 << i % 8]) + whole[at + i + 1 :]
        )
        assert_refused(path)


def test_only_the_arrays_asked_for_are_read(file: Path) -> None:
    header, arrays = read(file, only=("words", "weights"))
    assert set(arrays) == {"words", "weights"}
    assert set(header["arrays"]) == set(ARRAYS)
    assert read(file, only=())[1] == {}


def test_numpy_opens_the_file(file: Path) -> None:
    with np.load(file, allow_pickle=False) as archive:
        for name, array in ARRAYS.items():
            assert (archive[name] == array).all()


def test_the_file_is_a_zip_archive_with_a_readable_header(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["header.json", *(f"{name}.npy" for name in ARRAYS)]
        header = json.loads(archive.read("header.json"))
    assert header["arrays"]["square"] == [np.dtype(np.int16).str, [2, 3]]


def test_folders_are_made_and_files_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "player.npz"
    write(path, "test", {}, {"x": np.zeros(3)})
    write(str(path), "test", {}, {"x": np.ones(2)})
    assert read(path)[1]["x"].tolist() == [1, 1]
    assert list(path.parent.iterdir()) == [path]


def test_a_bare_name_is_a_file_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("player.npz", "test", {}, {"x": np.zeros(3)})
    assert (tmp_path / "player.npz").is_file()
    assert read("player.npz")[1]["x"].tolist() == [0, 0, 0]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_file_has_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write(tmp_path / "player.npz", "test", {}, {"x": np.zeros(3)})
    assert (tmp_path / "player.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


# What is damaged


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.npz", tmp_path / "no folder" / "missing.npz"):
        with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
            read(path)


def test_a_file_cut_off_anywhere_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for length in [*range(0, len(whole), 7), *range(len(whole) - 30, len(whole))]:
        file.write_bytes(whole[:length])
        assert_refused(file)


def test_a_file_without_its_beginning_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(1, len(whole), 97):
        file.write_bytes(whole[length:])
        assert_refused(file)


def test_a_flipped_bit_is_refused_or_does_no_harm(file: Path) -> None:
    """Some bits have no meaning, such as those of the date; no bit may change the arrays."""
    whole = file.read_bytes()
    n_refused = 0
    for at in range(len(whole)):
        bit = at % 8
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            _, arrays = read(file, "test")
        except ValueError as error:
            n_refused += 1
            assert file.name in str(error)
        except BaseException as error:
            raise AssertionError(f"bit {bit} of byte {at}: {error!r}") from error
        else:
            assert_same(arrays, ARRAYS)
    assert n_refused > len(whole) // 2


def test_damage_in_the_directory_of_the_archive_is_refused_too(file: Path) -> None:
    """All bits of the first entry of the archive's directory and of its end record."""
    whole = file.read_bytes()
    first, end = whole.index(b"PK\x01\x02"), whole.rindex(b"PK\x05\x06")
    harm: list[str] = []
    for at in [*range(first, first + 57), *range(end, len(whole))]:
        for bit in range(8):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            try:
                assert_same(read(file, "test")[1], ARRAYS)
            except ValueError as error:
                assert file.name in str(error)
            except Exception as error:
                place = at - first if at < end else at - end
                harm.append(f"{'directory' if at < end else 'end'} {place}.{bit}: {error!r}")
    assert harm == []


def test_random_damage_is_refused_or_does_no_harm(file: Path) -> None:
    whole = file.read_bytes()
    rng = random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole)
        at, length = rng.randrange(len(whole)), rng.randint(1, 40)
        damaged[at : at + length] = rng.randbytes(rng.choice([0, length, length, 2 * length]))
        file.write_bytes(damaged)
        try:
            assert_same(read(file, "test")[1], ARRAYS)
        except ValueError as error:
            assert file.name in str(error)


# What is not ours


def foreign_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


def empty_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w"):
        pass


def foreign_npz(path: Path) -> None:
    with path.open("wb") as opened:
        np.savez(opened, weights=ARRAYS["weights"])


def foreign_npy(path: Path) -> None:
    with path.open("wb") as opened:
        np.save(opened, ARRAYS["weights"])


def header_only(text: str | bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", text)

    return make


def content(data: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(data)


@pytest.mark.parametrize(
    "make",
    [
        content(b""),
        content(b"PK"),
        content(b"PK\x05\x06"),
        content("2 4 8 / ü\n".encode() * 100),
        content(bytes(10_000)),
        content(random.Random(1).randbytes(10_000)),
        content(b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00]\x94."),
        foreign_zip,
        empty_zip,
        foreign_npz,
        foreign_npy,
        header_only(""),
        header_only(b"\xff\xfe\xfd"),
        header_only("[1, 2]"),
        header_only("null"),
        header_only("17"),
        header_only("{}"),
        header_only('{"format": "afterstate"'),
        header_only('{"format": "pytorch", "version": 1, "kind": "test", "arrays": {}}'),
        header_only('{"format": "afterstate", "version": 1, "kind": "test"}'),
        header_only('{"format": "afterstate", "version": 1, "kind": "test", "arrays": []}'),
        header_only('{"format": "afterstate", "kind": "test", "arrays": {}}'),
        header_only('{"format": "afterstate", "version": 1, "arrays": {}}'),
        header_only('{"format": "afterstate", "version": 1, "kind": "test", "arrays": {"x": 1}}'),
        header_only("[" * 100_000),
        header_only('{"format": "afterstate", "version": 2, "arrays": {}}'),
        header_only('{"format": "afterstate", "version": 2, "kind": ["test"], "arrays": {}}'),
        header_only('{"format": "afterstate", "version": [], "kind": "test", "arrays": {}}'),
        header_only('{"format": "afterstate", "version": 1e999, "kind": "test", "arrays": {}}'),
    ],
)
def test_files_of_others_are_refused(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "foreign.npz"
    make(path)
    assert_refused(path)


@pytest.mark.parametrize("version", [1, VERSION])
def test_a_header_without_kind_is_refused_whatever_kind_is_expected(
    file: Path, version: int
) -> None:
    def forget(header: dict[str, Any]) -> None:
        header.update(version=version)
        del header["kind"]

    rewrite(file, forget)
    for load in (read, lambda path: read(path, only=()), agents.load):
        with pytest.raises(ValueError, match=r"player\.npz"):
            load(file)


def test_another_kind_is_refused_and_named(file: Path) -> None:
    with pytest.raises(ValueError, match=r"player\.npz.*'test'.*'ntuple'"):
        read(file, "ntuple")


@pytest.mark.parametrize("version", [VERSION + 1, 0, "1", None])
def test_another_version_is_refused_and_named(file: Path, version: Any) -> None:
    rewrite(file, lambda header: header.update(version=version))
    assert_refused(file, f"version {version!r}.*update afterstate")


# A header or an entry that lies


def rewrite(
    file: Path,
    change: Callable[[dict[str, Any]], Any],
    entries: dict[str, bytes] | None = None,
) -> None:
    """Rewrite the archive with a changed header and other entries and valid checksums."""
    with zipfile.ZipFile(file) as archive:
        old = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(old["header.json"])
    change(header)
    old["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**old, **(entries or {})}.items():
            archive.writestr(name, data)


def npy(shape: Any, dtype: str, data: bytes, fortran: bool = False) -> bytes:
    """Return an array's entry with an arbitrary header."""
    entry = io.BytesIO()
    described = {"descr": dtype, "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(entry, described)
    return entry.getvalue() + data


def declare(dtype: Any, shape: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        header["arrays"]["weights"] = [dtype, shape]

    return change


def keep(header: dict[str, Any]) -> None:
    """Change nothing."""


def test_rewriting_alone_does_no_harm(file: Path) -> None:
    rewrite(file, keep)
    assert_same(read(file, "test")[1], ARRAYS)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("<f4", [41]),
        ("<f4", [39]),
        ("<f4", [40, 1]),
        ("<f4", []),
        ("<f8", [40]),
        ("<f8", [20]),
        ("<i4", [40]),
        ("|O", [40]),
        ("<f4", 40),
        ("<f4", None),
        (4, [40]),
        ("no type", [40]),
    ],
)
def test_a_header_that_contradicts_an_array_is_refused(file: Path, dtype: Any, shape: Any) -> None:
    rewrite(file, declare(dtype, shape))
    assert_refused(file, "weights")


def test_an_array_that_is_declared_but_missing_is_refused(file: Path) -> None:
    rewrite(file, lambda header: header["arrays"].update(more=["<f4", [3]]))
    assert_refused(file, "more")


@pytest.mark.parametrize(
    "shape",
    [
        *((10**15,), (2**40, 2**40), (2**63,), (41,), (10**4, 10**4), (-1,), (-4, -10)),
        *((10**400,), (10**400, 0, 10**400), (1,) * 100, (10**7,)),
    ],
)
def test_arrays_larger_than_their_data_are_refused_before_allocation(
    file: Path, shape: tuple[int, ...]
) -> None:
    entry = npy(shape, "<f4", ARRAYS["weights"].tobytes())
    rewrite(file, declare("<f4", list(shape)), {"weights.npy": entry})
    with at_most(1 << 21):
        assert_refused(file, "weights|array")


@pytest.mark.parametrize("size", [10**9, 6 * 10**10])
def test_a_directory_that_claims_a_large_array_is_refused_before_allocation(
    file: Path, size: int
) -> None:
    """The directory of the archive and all headers agree on a size; the data are missing."""
    name = b"weights.npy"
    rewrite(file, declare("<f4", [size // 4]), {"weights.npy": npy((size // 4,), "<f4", b"")})
    data = bytearray(file.read_bytes())
    entry = data.rindex(name) - 46  # in the directory
    length = len(name)
    extra = b"\x01\x00\x08\x00" + (size + 128).to_bytes(8, "little")  # the size in 64 bits
    data[entry + 24 : entry + 28] = b"\xff" * 4
    data[entry + 30 : entry + 32] = len(extra).to_bytes(2, "little")
    data[entry + 46 + length : entry + 46 + length] = extra
    end = data.rindex(b"PK\x05\x06")
    directory = int.from_bytes(data[end + 12 : end + 16], "little") + len(extra)
    data[end + 12 : end + 16] = directory.to_bytes(4, "little")
    file.write_bytes(data)
    with zipfile.ZipFile(file) as archive:
        assert archive.getinfo("weights.npy").file_size == size + 128
    with at_most(1 << 21):
        assert_refused(file, "not fit into")


def test_all_arrays_together_are_bounded_too(tmp_path: Path) -> None:
    """Each array alone would fit into the file."""
    path = tmp_path / "many.npz"
    write(path, "test", {}, {f"a{i}": np.zeros(100_000, np.uint8) for i in range(40)})
    length = 900 * path.stat().st_size // 2

    def lie(header: dict[str, Any]) -> None:
        header["arrays"] = {name: ["|u1", [length]] for name in header["arrays"]}

    rewrite(path, lie)
    with at_most(1 << 21):
        assert_refused(path, "not fit into")


def test_other_data_in_a_file_do_not_let_an_array_claim_more(file: Path) -> None:
    """A junk entry makes the file large, and the array has no data."""
    entry, size = npy((10**8,), "<f4", b""), 4 * 10**8
    junk = np.random.default_rng(1).bytes(500_000)
    rewrite(file, declare("<f4", [10**8]), {"weights.npy": entry, "junk": junk})
    assert file.stat().st_size * 1032 > size
    with at_most(1 << 23):
        assert_refused(file, "not fit into")


def test_too_little_memory_is_an_error_of_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("unable to allocate")

    monkeypatch.setattr("afterstate.agents.files.np.empty", fail)
    assert_refused(file, "unable to allocate")


def test_a_header_may_be_checked_before_the_arrays_are_read(file: Path) -> None:
    def refuse(header: dict[str, Any], size: int) -> None:
        raise ValueError(f"kind {header['kind']}, {size} bytes")

    with pytest.raises(ValueError, match=f"kind test, {file.stat().st_size} bytes"):
        read(file, check=refuse)


def test_a_deep_header_is_refused(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", '{"format": "afterstate", "a": ' + "[" * 500_000)
    assert_refused(file)


def test_finite_arrays_are_told_from_others() -> None:
    for array in (*ARRAYS.values(), np.array([-3e38, 3e38], np.float32)):
        assert is_finite(array)
    for bad in (np.nan, np.inf, -np.inf):
        for at in (0, 500, 999):
            array = np.zeros(1_000, np.float32)
            array[at] = bad
            assert not is_finite(array)
            assert not is_finite(array.reshape(10, 100).astype(np.float64))
    assert not is_finite(np.array([np.inf, -np.inf]))


@pytest.mark.parametrize("dtype", ["<f1", "<b4", "|V8", "<M8", "<U2", "<f4,<f4", "", "O"])
def test_a_type_that_is_no_number_is_refused(file: Path, dtype: str) -> None:
    rewrite(file, declare(dtype, [40]))
    assert_refused(file, "weights")


def test_a_directory_that_claims_a_large_header_is_refused_before_allocation(file: Path) -> None:
    rewrite(file, keep)
    data = bytearray(file.read_bytes())
    entry = data.rindex(b"header.json") - 46
    data[entry + 20 : entry + 24] = b"\xff\xff\xff\x7f"  # bytes in the file
    data[entry + 10 : entry + 12] = b"\0\0"  # stored
    file.write_bytes(data)
    with at_most(1 << 23):
        assert_refused(file)


def test_an_array_with_more_data_than_it_says_is_refused(file: Path) -> None:
    entry = npy((39,), "<f4", ARRAYS["weights"].tobytes())
    rewrite(file, declare("<f4", [39]), {"weights.npy": entry})
    assert_refused(file, "weights")


def test_an_entry_that_is_no_array_is_refused(file: Path) -> None:
    for entry in (b"", b"hello", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", b"\x93NUMPY\x09\x00"):
        rewrite(file, keep, {"weights.npy": entry})
        assert_refused(file)


class Trap:
    """An object that sets `sprung` when it is unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _spring, ()


def _spring() -> None:
    Trap.sprung = True


def test_pickled_objects_are_neither_written_nor_read(file: Path) -> None:
    trap = np.array([Trap()], dtype=object)
    with pytest.raises(ValueError):
        write(file, "test", {}, {"weights": trap})
    assert_whole(file)
    entry = io.BytesIO()
    np.lib.format.write_array(entry, trap, allow_pickle=True)
    rewrite(file, declare("|O", [1]), {"weights.npy": entry.getvalue()})
    assert_refused(file, "weights")
    assert not Trap.sprung


def test_a_header_that_is_far_too_long_is_refused(file: Path) -> None:
    rewrite(file, lambda header: header.update(note=" " * (1 << 21)))
    assert_refused(file, "too long")


# A write that fails


class FullDisk(io.FileIO):
    """A file on a disk with `room` free bytes."""

    room = 0

    def write(self, data: Any, /) -> int:
        """Write all or raise OSError."""
        size = memoryview(data).nbytes
        if size > FullDisk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        FullDisk.room -= size
        return super().write(data)


@pytest.mark.parametrize("room", [0, 1, 50, 300, 1_000])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(FullDisk, "room", room)
    with monkeypatch.context() as patched:
        patched.setattr(durable_files, "open", FullDisk, raising=False)
        with pytest.raises(OSError, match="No space left"):
            write(file, "test", {}, {"weights": np.random.default_rng(1).random(1_000)})
    assert_whole(file)


@pytest.mark.parametrize("function", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt("broken")])
def test_a_write_that_fails_late_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, function: str, error: BaseException
) -> None:
    def fail(*args: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail)
        with pytest.raises(type(error), match="broken"):
            write(file, "test", {}, {"weights": np.ones(3)})
    assert_whole(file)


def test_a_header_unfit_for_json_leaves_the_old_file_and_nothing_else(file: Path) -> None:
    with pytest.raises(TypeError):
        write(file, "test", {"note": object()}, {"weights": np.ones(3)})
    assert_whole(file)


def test_a_first_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="broken"):
            write(tmp_path / "player.npz", "test", {}, ARRAYS)
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    write(link, "test", {}, {"weights": np.ones(3)})
    assert link.is_symlink()
    assert read(file)[1]["weights"].tolist() == [1, 1, 1]


def test_writing_to_a_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a file"):
        write(tmp_path, "test", {}, {})


def test_a_device_is_refused_at_once() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("needs a device without end")
    with pytest.raises(ValueError, match="/dev/zero must be a file on a disk"):
        read("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ValueError, match="must be a file on a disk"):
        read(tmp_path / "pipe.npz")
