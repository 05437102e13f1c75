"""`plugrad why` and `plugrad prefer`: what stands behind a name, and the user's word on it."""

import json
import os
import tomllib

import pytest

from plugrad.cli import settings
from plugrad.registry.settings import user_file
from support.distribution_builder import DISTRIBUTIONS, build, command, kernel_plugin, op_module, output, refusal

CLASH = DISTRIBUTIONS / "clash_a", DISTRIBUTIONS / "clash_b"
TAN = "import plugrad; print(plugrad.zeros(1).tan().item(), plugrad.tan(plugrad.zeros(1)).item())"


# ---------------------------------------------------------------------------------------------------- why


def test_why_tells_what_stands_behind_a_name(tmp_path):
    text = command("why", "twice", paths=CLASH).stdout
    assert "plugrad.twice: ambiguous, plugrad-clash-a:twice and plugrad-clash-b:twice bring it" in text
    text = command("why", "twice", paths=CLASH, PLUGRAD_PREFER="twice=plugrad-clash-b").stdout
    assert "promised by plugrad-clash-b:twice, which is not loaded; preferred by the environment" in text
    assert "also brought by plugrad-clash-a:twice (not loaded), which does not replace it" in text
    text = command("why", "twice", paths=CLASH, PLUGRAD_BLOCK="plugrad-clash-a").stdout
    assert "promised by plugrad-clash-b:twice" in text
    assert "plugrad-clash-a:twice brings 'twice', but PLUGRAD_BLOCK keeps it out" in text
    text = command("why", "relu").stdout
    assert "plugrad.relu: 'relu' of ops, from plugrad:ops-activation (plugrad.plugins.ops.activation)" in text
    failed = command("why", "broken", "--device", "cpu", paths=[DISTRIBUTIONS / "broken"]).stdout
    assert "plugin plugrad-broken:broken 1.0 failed at import: KeyError" in failed


def test_why_tells_which_kernel_runs(tmp_path):
    paths = [kernel_plugin(tmp_path, name, value) for name, value in (("a", 7), ("b", 8))]
    paths.append(kernel_plugin(tmp_path, "c", 9, op="relu"))

    def why(name, *more, device="cpu", **options):
        return command("why", name, "--device", device, *more, paths=paths, **options).stdout

    text = why("tan")
    assert "device cpu: brought by plugrad:backends-cpu; it can be used here" in text
    assert "tan of plugrad:ops-trigonometry; its general kernel, neither of two runs until you prefer one" in text
    assert "plugrad-a:tan brings a kernel, too, which does not run" in text
    text = why("Tensor.tan", PLUGRAD_PREFER="kernels.cpu.tan=plugrad-b")
    assert "plugin_b.tan_cpu of plugrad-b:tan; preferred by the environment" in text
    assert "plugin_a.tan_cpu of plugrad-a:tan; the only kernel for that device" in why("tan", PLUGRAD_BLOCK="plugrad-b")
    text = why("tan", PLUGRAD_BLOCK="kernels.cpu.tan")
    assert "its general kernel" in text and "plugrad-a:tan brings a kernel, too, but PLUGRAD_BLOCK keeps it out" in text
    assert "the op's own kernel for cpu" in why("relu")
    assert command("why", "kernels.cpu.relu", paths=paths).stdout == why("relu")
    assert "each of those runs its own kernel" in why("mse_loss")
    assert "its shape rule" in why("tan", device="meta")
    cuda = why("tan", device="cuda")
    assert "that would be an error, no silent run on the CPU (it is off unless you allow it)" in cuda
    assert "it would run on the CPU (the environment)" in why("tan", device="cuda", PLUGRAD_FALLBACK="cos,tan")
    assert "there is no device 'cdua'; did you mean 'cuda'?" in refusal("why", "tan", "--device", "cdua")
    assert "only ops have kernels" in refusal("why", "optim.SGD", "--device", "cpu")


# ---------------------------------------------------------------------------------------------------- prefer


def test_prefer_writes_the_nearest_pyproject(tmp_path):
    file = tmp_path / "pyproject.toml"
    before = '# mine\r\n[project]\r\nname = "x"  # é\r\n\r\n[tool.plugrad]\r\nblock = ["a"]\r\n\r\n[x]\r\ny = 1\r\n'
    file.write_bytes(before.encode())
    (tmp_path / "src").mkdir()
    options = {"paths": CLASH, "cwd": tmp_path / "src", "XDG_CONFIG_HOME": str(tmp_path / "home")}
    said = command("prefer", "twice", "Plugrad_Clash.B", **options).stdout
    assert said == f"{file}: twice is taken from plugrad-clash-b\n"
    assert file.read_bytes().decode() == before + '\r\n[tool.plugrad.prefer]\r\ntwice = "plugrad-clash-b"\r\n'
    assert output("import plugrad; print(plugrad.twice.__module__)", *CLASH, cwd=tmp_path) == "plugrad_clash_b\n"
    assert "it was already" in command("prefer", "twice", "plugrad-clash-b", **options).stdout
    command("prefer", "Tensor.twice", "plugrad-clash-a:twice", **options)
    command("prefer", "twice", "plugrad-clash-a", "--user", **options)
    user = tmp_path / "home" / "plugrad" / "config.toml"
    assert user.read_text() == '[prefer]\ntwice = "plugrad-clash-a"\n'
    rows = json.loads(command("prefer", "--json", PLUGRAD_PREFER="twice=plugrad-x", **options).stdout)
    assert [(row["name"], row["distribution"], row["source"], row["remark"]) for row in rows] == [
        ("twice", "plugrad-x", "the environment", "nobody of that name brings it here"),
        ("twice", "plugrad-clash-b", str(file), "the environment comes first"),
        ("Tensor.twice", "plugrad-clash-a:twice", str(file), None),
        ("twice", "plugrad-clash-a", str(user), "the environment comes first"),
    ]
    assert "comes first" in command("prefer", "twice", "plugrad-clash-a", "--user", **options).stdout
    command("prefer", "twice", "--remove", **options)
    command("prefer", "Tensor.twice", "--remove", **options)
    assert file.read_bytes().decode() == before + "\r\n[tool.plugrad.prefer]\r\n"
    assert "has no preference for twice" in command("prefer", "twice", "--remove", **options).stdout
    assert not (tmp_path / "src" / "pyproject.toml").exists()


def test_prefer_for_kernels_and_without_a_project(tmp_path):
    paths = [kernel_plugin(tmp_path, "a", 7), kernel_plugin(tmp_path, "b", 8)]
    options = {"paths": paths, "cwd": "/", "XDG_CONFIG_HOME": str(tmp_path)}
    if any(os.path.exists(os.path.join(folder, "pyproject.toml")) for folder in ("/",)):
        pytest.skip("the root folder has a pyproject.toml")
    said = command("prefer", "kernels.cpu.tan", "plugrad-b", **options).stdout
    assert said == f"{tmp_path / 'plugrad' / 'config.toml'}: kernels.cpu.tan is taken from plugrad-b\n"
    assert output(TAN, *paths, cwd="/", XDG_CONFIG_HOME=str(tmp_path)) == "8.0 8.0\n"


def test_prefer_refuses_what_it_does_not_know(tmp_path):
    build(tmp_path, "plugrad-relu", {"plugrad.ops": {"relu": "plugin_relu"}}, plugin_relu=op_module("relu"))
    options = {"paths": [*CLASH, tmp_path], "cwd": tmp_path, "XDG_CONFIG_HOME": str(tmp_path)}
    assert "did you mean twice" in refusal("prefer", "twise", "plugrad-clash-a", **options)
    assert "did you mean plugrad-clash-a" in refusal("prefer", "twice", "plugrad-clsh-a", **options)
    assert "there are plugrad-clash-a" in refusal("prefer", "twice", "numpy", **options)
    assert "--remove" in refusal("prefer", "twice", **options)
    said = command("prefer", "relu", "plugrad-relu", "--user", **options).stdout
    assert "note: it replaces plugrad's own only" in said


TABLES = [
    "", "[project]\nname = 'x'", "[tool.plugrad]\nprefer = {a = \"b\"}  # why\n[x]\n",
    "[tool.plugrad]\nprefer = {}\n",
    "[tool.plugrad.prefer]\na = 'b' # why\n# end\n\n\n[x]\ny = 1\n", "[tool.plugrad]\r\nprefer.a = 'b'\r\n[x]\r\n",
    "[ tool . 'plugrad' . prefer ] # here\nswish = 'old'  # kept\n",
    "[tool.plugrad]\nprefer = { \"swish\" = 'old', b = 'c' }\n",
    "[tool.plugrad]\nx = \"\"\"\n[tool.plugrad.prefer]\n\"\"\"\n", "[[tool.plugrad.other]]\na = 1\n",
]  # fmt: skip


@pytest.mark.parametrize("text", TABLES)
def test_changing_a_file_keeps_all_the_rest(tmp_path, text):
    file = tmp_path / "pyproject.toml"
    file.write_bytes(text.encode())
    for key, value in (("swish", "plugrad-a"), ("optim.Lion", "plugrad-b"), ("swish", "plugrad-c"), ("swish", None)):
        before = file.read_bytes().decode()
        assert settings.change(file, settings.PROJECT, key, value)
        now = file.read_bytes().decode()
        table = tomllib.loads(now)["tool"]["plugrad"]["prefer"]
        assert table.get(key) == value
        assert len(set(before.splitlines(True)) - set(now.splitlines(True))) <= 1, "more than one line was changed"
        assert ("\r\n" in now) == ("\r\n" in text)
        assert all(comment in now for comment in ("# why", "# end", "# here") if comment in text)


UNSAFE = ["[tool]\nplugrad = {block = []}\n", "tool.plugrad.prefer.a = 'b'\n", "[tool\n", "tool = 3\n"]


@pytest.mark.parametrize("text", UNSAFE)
def test_what_can_not_be_changed_safely_is_left_alone(tmp_path, text):
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(settings.UneditableError, match=r"nothing was written|by hand"):
        settings.change(file, settings.PROJECT, "swish", "plugrad-a")
    assert file.read_text() == text


def test_the_users_file_is_where_typer_puts_it():
    import typer

    assert str(user_file().parent) == typer.get_app_dir("plugrad")
