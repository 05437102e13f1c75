"""`plugrad new`: write a package that brings an op of a family and, on request, one thing of each other kind."""

from __future__ import annotations

import ast
import builtins
import enum
import importlib.util
import keyword
import pathlib
import re
import string

import typer

from plugrad import __version__, extend, registry
from plugrad.cli import MODULES
from plugrad.cli.output import say
from plugrad.registry import HOMES

# Each part of a package: its module, and the entry points (group, name) that the module stands behind.
PARTS = {
    "op": [("ops", "{op}")],
    "loss": [("ops", "{op}_loss"), ("losses", "{Class}Loss")],
    "optimizer": [("optimizers", "{Class}SGD")],
    "scheduler": [("schedulers", "{Class}LR")],
    "layer": [("layers", "{Class}")],
    "init": [("inits", "{op}_")],
    "init_policy": [("init_policies", "{op}")],
    "distribution": [("distributions", "{Class}")],
    "backend": [("backends", "{op}")],
    "compiler": [("compilers", "{op}")],
    "hook": [("hooks", "{op}_tally")],
    "format": [("formats", "{op}")],
    "tracker": [("trackers", "{op}")],
    "command": [("cli", "{command}")],
}
FAMILIES = ("unary", "binary", "op", "reduction", "view", "composite")
Family = enum.Enum("Family", {name: name for name in FAMILIES})  # as typer takes a choice
WITH_OP = ("layer", "init")  # parts whose template builds on the op, where that is unary; else another one is taken
FILES = {  # template: where it goes
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/test.yml",
    "test_package.py": "tests/test_package.py",
    "package.py": "src/{module}/__init__.py",
}
OWN = ("annotations", "collections", "logged", "logging", "math", "numpy", "plugrad", "reference", "types")
PLACES = {
    "backends": 'device="{}"', "compilers": 'plugrad.compile(model, backend="{}")', "cli": "plugrad {}",
    "init_policies": 'plugrad.nn.init.policy("{}")',
    "kernels": "plugrad.{}", "formats": 'plugrad.save(obj, path, format="{}")',
    "trackers": 'plugrad.trackers.track(folder, "{}")',
}  # fmt: skip
SINGULAR = {"losses": "loss", "cli": "command", "init_policies": "init policy"}
LONGEST = 30  # letters of a name, so that lines which hold it stay readable
BEGIN, END = "<!-- contributions:", "<!-- end of contributions -->"


def new(
    name: str = typer.Argument(metavar="NAME", help="The subject: foo becomes the distribution plugrad-foo."),
    op: str = typer.Option(None, help="The op's name, if it differs from the package's."),
    family: Family = typer.Option(
        None, metavar="FAMILY", help=f"What kind of op: {', '.join([one.value for one in Family])}. Without it unary."
    ),
    c: bool = typer.Option(False, "--c", help="Bring a unary op that has kernels in C besides."),
    no_op: bool = typer.Option(False, "--no-op", help="Bring no op, only what the other options name."),
    loss: bool = typer.Option(False, "--loss", help="Bring a loss, as function and Module."),
    optimizer: bool = typer.Option(False, "--optimizer", help="Bring an optimizer."),
    scheduler: bool = typer.Option(False, "--scheduler", help="Bring a learning-rate schedule."),
    layer: bool = typer.Option(False, "--layer", help="Bring a layer; it uses a unary op."),
    init: bool = typer.Option(False, "--init", help="Bring an initialiser, made for a unary op."),
    init_policy: bool = typer.Option(False, "--init-policy", help="Bring a policy that initialises whole models."),
    distribution: bool = typer.Option(False, "--distribution", help="Bring a distribution."),
    backend: bool = typer.Option(False, "--backend", help="Bring a device: NumPy as strict as an accelerator."),
    compiler: bool = typer.Option(False, "--compiler", help="Bring a compiler for plugrad.compile."),
    hook: bool = typer.Option(False, "--hook", help="Bring a hook on ops."),
    format: bool = typer.Option(False, "--format", help="Bring a format of files for plugrad.save and load."),
    tracker: bool = typer.Option(False, "--tracker", help="Bring a tracker of training runs."),
    command: bool = typer.Option(False, "--command", help="Bring a command of `plugrad`."),
    directory: pathlib.Path = typer.Option(".", help="Where to create the package's folder."),
    readme: bool = typer.Option(False, "--readme", help="Only update the table in the README of an existing package."),
):
    """Write a package: an op with gradient, samples and documentation, its tests, and what the options add."""
    if no_op and (op or family or c):
        asked = "op" if op else "family" if family else "c"
        raise typer.BadParameter(f"--no-op leaves out the op that --{asked} describes")
    if c and family not in (None, Family.unary):
        raise typer.BadParameter(f"--c brings a unary op, --family {family.value} another one")
    name = _checked_name(re.sub("^plugrad[-_]", "", name), "NAME").replace("_", "-")
    op = _checked_name(name if op is None else op, "--op").replace("-", "_")
    folder = directory / f"plugrad-{name}"
    if readme:
        write_table(folder)
        return
    asked = {"loss": loss, "optimizer": optimizer, "scheduler": scheduler, "layer": layer, "init": init}
    asked.update(init_policy=init_policy, distribution=distribution)
    asked.update(backend=backend, compiler=compiler, hook=hook, format=format, tracker=tracker, command=command)
    parts = ["op"] * (not no_op) + [part for part, wanted in asked.items() if wanted]
    if not parts:
        raise typer.BadParameter("--no-op leaves nothing: say what to bring instead, such as --loss or --optimizer")
    points = entry_points(op, parts)
    _refuse_taken(op, points, "package, for example" if no_op else "op, for example --op")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise typer.BadParameter(f"{folder} exists and is not empty; choose another name or --directory")
        write(folder, name, op, points, None if no_op else "c" if c else family.value if family else "unary")
    except OSError as error:
        raise typer.BadParameter(f"{folder} can't be written: {error.strerror or error}") from None
    say(f"Wrote {folder}. Next:\n", wrap=False)
    for command in (f"cd {folder}", 'pip install -e ".[test]"', f"plugrad check plugrad-{name}"):
        say(f"    {command}", wrap=False)


# ---------------------------------------------------------------------------------------------------- names


def _checked_name(name: str, what: str) -> str:
    """Return a name of lower-case words; else end with status 2."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
        hint = f", for example {near!r}" if near else ""
        problem = f"is not a valid name: write lower-case letters, digits, and single - or _ between them{hint}"
    elif len(name) > LONGEST:
        problem = f"is too long: it has {len(name)} letters, {LONGEST} are allowed"
    else:
        return name
    raise typer.BadParameter(f"{name!r} {problem}", param_hint=what)


def _refuse_taken(op: str, points, whose: str) -> None:
    """End with status 2 when the op can't have its name, or plugrad itself has one that the package would bring.

    `whose` name is to be another, and how it would be given, is the end of the sentence.
    """

    def python(name):
        return keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name)

    def free():
        names = (f"{op}{number}" for number in range(2, 99))
        return next(name for name in names if not any(taken(group, name) for group in ("ops", "layers", "losses")))

    clash = next((point for point in points if taken(*point)), None)
    if python(op):
        problem = f"{op!r} is a keyword or builtin of Python"
    elif op in extend.__all__ or op in OWN:
        problem = f"{op!r} is a name that the package's own modules use"
    elif clash is not None:
        problem = f"plugrad itself has {clash[1]!r} already"
    else:
        return
    raise typer.BadParameter(f"{problem}; choose another name for the {whose} {free()}")


def taken(group: str, name: str) -> bool:
    """Whether plugrad itself has a name that an entry point promises; third-party plugins do not count."""
    if group == "cli":
        return name in MODULES
    places = ("", "Tensor", "nn.functional") if group == "ops" else (HOMES[group],)
    for home in places:
        place = f"{home}.{name}".lstrip(".")
        entry, rivals = registry.public.get(place), registry.claims.get(place, ())
        if any(plugin.builtin for plugin in (*rivals, *([entry.provider] if entry else ()))):
            return True
        if entry is not None or rivals or group in ("backends", "compilers", "formats", "init_policies", "trackers"):
            continue
        if registry.core_has(place):
            return True
    return group == "ops" and importlib.util.find_spec(f"plugrad.{name}") is not None


# ---------------------------------------------------------------------------------------------------- files


def entry_points(op: str, parts) -> dict:
    """Return {(group, name): part}: what the package promises, and which part keeps the promise."""
    words = {"op": op, "Class": camel(op), "command": op.replace("_", "-")}
    return {(group, pattern.format_map(words)): part for part in parts for group, pattern in PARTS[part]}


def camel(name: str) -> str:
    """Return a name in CamelCase: soft_clip becomes SoftClip."""
    return "".join(word[0].upper() + word[1:] for word in name.split("_"))


def write(folder: pathlib.Path, name: str, op: str, points: dict, family: str | None) -> None:
    """Write all files of a package into `folder`; without a family it has no op."""
    module = f"plugrad_{name.replace('-', '_')}"
    values = {
        "dist": f"plugrad-{name}", "module": module, "op": op, "Class": camel(op), "version": __version__,
        "api": extend.PLUGRAD_API, "api_range": f"({extend.PLUGRAD_API}, {extend.PLUGRAD_API})",
        "description": _description(op, points), "entry_points": _manifest(module, points),
        "command": op.replace("_", "-"),
    }  # fmt: skip
    sources = {f"{_template(part, family)}.py": f"src/{{module}}/{part}.py" for part in points.values()}
    for template, target in {**FILES, **sources}.items():
        text = (pathlib.Path(__file__).parent / "templates" / f"{template}.txt").read_text(encoding="utf-8")
        _write(folder / target.format(module=module), string.Template(text).substitute(values))
    _write(folder / f"src/{module}/py.typed", "")
    write_table(folder)


def _template(part, family) -> str:
    if part == "op":
        return f"op_{family}"
    return f"{part}_alone" if part in WITH_OP and family not in ("unary", "c") else part


def _write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="\n")


def _description(op, points) -> str:
    """Return what the package brings, in words."""
    articles = [(part, "an" if part[0] in "oi" else "a") for part in dict.fromkeys(points.values())]
    words = [f"the op {op}" if part == "op" else f"{article} {part.replace('_', ' ')}" for part, article in articles]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return listed[0].upper() + listed[1:]


def _manifest(module, points) -> str:
    """Return the tables of entry points."""
    groups: dict = {}
    for (group, name), part in points.items():
        groups.setdefault(group, []).append(f'{name} = "{module}.{part}"\n')
    return "\n".join(f'[project.entry-points."plugrad.{group}"]\n{"".join(groups[group])}' for group in groups)


# ---------------------------------------------------------------------------------------------------- the table


def write_table(folder: pathlib.Path) -> None:
    """Write the table of contributions into a package's README, between its two marks."""
    file = folder / "README.md"
    if not file.is_file():
        raise typer.BadParameter(f"{file} does not exist; without --readme the package is written")
    text = file.read_text(encoding="utf-8")
    start, end = text.find(BEGIN), text.find(END)
    if not 0 <= start < end:
        raise typer.BadParameter(f"{file} has no place for the table: a line {BEGIN} ... --> and a line {END}")
    lines = ["| name | kind | where it appears | what it is |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in contributions(folder)]
    first = text.index("\n", start) + 1
    _write(file, text[:first] + "\n" + "\n".join(lines) + "\n\n" + text[end:])


def contributions(folder: pathlib.Path) -> list[tuple]:
    """Return (name, kind, places, first line of the documentation) of what a package brings, without importing it."""
    import tomllib

    with (folder / "pyproject.toml").open("rb") as stream:
        groups = tomllib.load(stream)["project"].get("entry-points", {})
    rows = []
    for group, points in groups.items():
        kind = group.removeprefix("plugrad.")
        for name, value in points.items() if kind != group else ():
            node = _definition(ast.parse(_source(folder, value)), kind, name)
            doc = (ast.get_docstring(node) if node is not None else None) or ""
            first = doc.partition("\n")[0].replace("|", "\\|")
            rows.append((name, SINGULAR.get(kind, kind[:-1]), _places(kind, name, node), first))
    return rows


def _source(folder, value) -> str:
    """Return the source of the module that an entry point names."""
    path = value.partition(":")[0].replace(".", "/")
    for file in (folder / top / f"{path}{end}" for top in ("src", "") for end in (".py", "/__init__.py")):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise typer.BadParameter(f"pyproject.toml names the module {value!r}, but there is no src/{path}.py in {folder}")


def _definition(tree, kind, name):
    """Return the function or class in a module's source that brings a name; None where the source does not show it."""
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        named = [node.name, *(_keyword(node, "module") if kind == "losses" else _keyword(node, "name"))]
        if kind == "cli":
            named = [node.name.replace("_", "-")]
        if kind in ("backends", "formats", "trackers"):
            named = [
                getattr(line.value, "value", None)
                for line in node.body
                if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", None) == "name"
            ]
        if name in named:
            return node
    return None


def _keyword(node, wanted) -> list:
    """Return the values that a definition's decorators have for a keyword argument, those that are literals."""
    given = [pair for call in node.decorator_list if isinstance(call, ast.Call) for pair in call.keywords]
    values = []
    for pair in given:
        if pair.arg == wanted:
            try:
                values.append(ast.literal_eval(pair.value))
            except ValueError:  # computed: only running it would tell
                continue
    return values


def _places(kind, name, node) -> str:
    """Return where users find a name, as Markdown."""
    if kind != "ops":
        return f"`{PLACES[kind].format(name) if kind in PLACES else f'plugrad.{HOMES[kind]}.{name}'}`"
    at = _keyword(node, "at")
    places = [f"plugrad.{place}" for place in at[0]] if at else [f"plugrad.{name}", f"Tensor.{name}"]
    return ", ".join(f"`{place.removeprefix('plugrad.') if '.Tensor.' in place else place}`" for place in places)


COMMANDS = [new]
