"""Build plugrad's wheels for other platforms than this one, with Zig's C compiler.

    pip install ziglang wheel
    python native/wheels.py --into dist                   # for all platforms
    python native/wheels.py macosx_11_0_arm64             # for some

One wheel serves every Python from 3.11 on (abi3). Zig brings the C libraries of all platforms; NumPy's headers come out
of its own wheel for the platform. Python's headers are this one's, with the configuration for Windows written here,
as far as the limited API asks for it.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Platform of the wheel -> (Zig's target, platform of a wheel of NumPy whose headers fit).
PLATFORMS = {
    "manylinux_2_17_x86_64": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "manylinux_2_17_aarch64": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "macosx_11_0_x86_64": ("x86_64-macos.11.0", "macosx_14_0_x86_64"),
    "macosx_11_0_arm64": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
    "win_amd64": ("x86_64-windows-gnu", "win_amd64"),
    "win_arm64": ("aarch64-windows-gnu", "win_arm64"),
}
# What Python's headers ask of pyconfig.h on 64-bit Windows.
WINDOWS = {
    "MS_WINDOWS": 1, "MS_WIN64": 1, "HAVE_DECLSPEC_DLL": 1, "Py_ENABLE_SHARED": 1, "HAVE_SSIZE_T": 1,
    "HAVE_STDDEF_H": 1, "SIZEOF_SHORT": 2, "SIZEOF_INT": 4, "SIZEOF_LONG": 4, "SIZEOF_LONG_LONG": 8,
    "SIZEOF_VOID_P": 8, "SIZEOF_SIZE_T": 8, "SIZEOF_WCHAR_T": 2, "SIZEOF_TIME_T": 8, "SIZEOF_FLOAT": 4,
    "SIZEOF_DOUBLE": 8, "SIZEOF_PID_T": 8, "ALIGNOF_LONG": 4, "ALIGNOF_SIZE_T": 8,
}  # fmt: skip


def run(*command) -> None:
    """Run a program; the error of one that fails says which."""
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def headers_of_numpy(platform: str, folder: pathlib.Path) -> pathlib.Path:
    """Return the folder of NumPy's headers for a platform, out of its wheel."""
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder,
        "--platform", platform, "--python-version", "3.11", "numpy>=2")  # fmt: skip
    (wheel,) = folder.glob("numpy-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if "/_core/include/" in name])
    return folder / "numpy" / "_core" / "include"


def library_of_python(object_file: pathlib.Path, machine: str, folder: pathlib.Path) -> pathlib.Path:
    """Return a library for linking on Windows with what an object file needs of python3.dll."""
    names = sorted({name.decode() for name in re.findall(rb"__imp_(_?Py\w+)", object_file.read_bytes())})
    definitions, library = folder / "python3.def", folder / "python3.lib"
    definitions.write_text("LIBRARY python3.dll\nEXPORTS\n" + "".join(f"    {name}\n" for name in names))
    kind = {"x86_64": "i386:x86-64", "aarch64": "arm64"}[machine]
    run(sys.executable, "-m", "ziglang", "dlltool", "-d", definitions, "-l", library, "-m", kind)
    return library


def extension(platform: str, folder: pathlib.Path) -> pathlib.Path:
    """Compile and link the extension for a platform; return its file."""
    target, headers = PLATFORMS[platform]
    machine, system = target.split(".")[0].split("-")[:2]
    windows = system == "windows"
    settings = runpy.run_path(str(ROOT / "setup.py"), run_name="settings")
    python = shutil.copytree(sysconfig.get_path("include"), folder / "python")
    if windows:
        (python / "pyconfig.h").write_text("".join(f"#define {name} {value}\n" for name, value in WINDOWS.items()))
    includes = [ROOT / "native", ROOT / "surface" / "kernels", headers_of_numpy(headers, folder), python]
    compile_ = [
        sys.executable, "-m", "ziglang", "cc", "-target", target, *settings["FLAGS"], "-DPG_BUILDING=1", "-g0",
        "-fno-sanitize=all", "-Wno-pass-failed", *([] if windows else ["-fPIC"]), *(f"-I{one}" for one in includes),
    ]  # fmt: skip
    objects = []
    for source in settings["SOURCES"]:
        objects.append(folder / f"{source}.o")
        run(*compile_, "-c", f"native/{source}", "-o", objects[-1])
    libraries = {
        "linux": ["-lm", "-lpthread"], "macos": ["-undefined", "dynamic_lookup"],
        "windows": [library_of_python(objects[0], machine, folder)] if windows else [],
    }  # fmt: skip
    result = folder / ("_native.pyd" if windows else "_native.abi3.so")
    run(*compile_[:6], "-shared", "-s", *objects, *libraries[system], "-o", result)
    return result


def wheel(platform: str, plain: pathlib.Path, into: pathlib.Path) -> pathlib.Path:
    """Return the wheel for a platform: the one without an extension, with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        module = extension(platform, folder)
        run(sys.executable, "-m", "wheel", "unpack", plain, "--dest", folder)
        (contents,) = folder.glob("plugrad-*/")
        shutil.copy(module, contents / "plugrad" / module.name)
        (described,) = contents.glob("*.dist-info/WHEEL")
        lines = [line for line in described.read_text().splitlines() if line and not line.startswith(("Root", "Tag"))]
        described.write_text("\n".join([*lines, "Root-Is-Purelib: false", f"Tag: cp311-abi3-{platform}", ""]))
        run(sys.executable, "-m", "wheel", "pack", contents, "--dest-dir", into)
    (made,) = into.glob(f"plugrad-*-cp311-abi3-{platform}.whl")
    return made


def main() -> None:
    """Build the wheels that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=f"of {', '.join(PLATFORMS)}; all by default")
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "dist", help="the folder of the wheels")
    given = parser.parse_args()
    unknown = {*given.platforms} - {*PLATFORMS}
    if unknown:
        parser.error(f"unknown platforms: {', '.join(sorted(unknown))}")
    given.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        plain = "import os, runpy; os.environ['PLUGRAD_NATIVE'] = '0'; runpy.run_module('pip', run_name='__main__')"
        run(sys.executable, "-c", plain, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
        (pure,) = pathlib.Path(folder).glob("plugrad-*.whl")
        for platform in given.platforms or PLATFORMS:
            print(wheel(platform, pure, given.into.resolve()))


if __name__ == "__main__":
    main()
