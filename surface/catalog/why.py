"""Which plugin, function or kernel stands behind a name, and why: the lines that `plugrad why` prints."""

from __future__ import annotations

from plugrad import errors, registry
from plugrad import kernels as in_c
from plugrad.backends import cpu_fallback
from plugrad.registry import kernels, preferences


def places(name: str) -> list[str]:
    """Return the dotted public names that a name, bare or dotted, may mean."""
    name = preferences.bare(name)
    hidden = [dotted for plugin in registry.plugins.values() for dotted in plugin.hidden]
    everything = dict.fromkeys((*registry.public, *registry.claims, *kernels.brought, *hidden))
    return [dotted for dotted in everything if name in (dotted, dotted.rpartition(".")[2])]


def known_names() -> set[str]:
    """Return the names to look among for the one that was meant."""
    return {last for dotted in (*registry.public, *registry.claims) if (last := dotted.rpartition(".")[2])}


def explain(name: str, device: str | None = None) -> list[str]:
    """Return lines that say where a name comes from and who else brings it; none when nobody knows the name.

    With a device they say which kernel runs there. Raises LookupError for a device or an op that does not exist.
    """
    if name.startswith("kernels.") and name.count(".") >= 2:
        _, device, name = name.split(".", 2)
    if device is not None:
        return _on_device(name, device)
    lines = []
    short = preferences.bare(name)
    for dotted in places(name) or [one for one in (short, f"Tensor.{short}") if registry.core_has(one)]:
        lines += _of_kernel(dotted) if dotted.startswith("kernels.") else _of_place(dotted)
    return lines + _problems(name.rpartition(".")[2])


def rows(name: str, device: str | None = None) -> list[dict]:
    """Return what `explain` says as dicts.

    `name` is what is told of, `text` what is said of it, `notes` what else there is; `plugin` is that from which the
    name is taken, None where there is none, and `candidates` are all that bring it.

    >>> [row["plugin"] for row in rows("Tensor.exp")]
    ['plugrad:ops-exponential']
    """
    told: list[dict] = []
    for line in explain(name, device):
        if line[:1].isspace() and told:
            told[-1]["notes"].append(line.strip())
            continue
        subject, _, text = line.partition(": ")
        dotted = subject.removeprefix("plugrad.").replace("device ", "backends.")
        plugin, candidates = _claim(dotted) if text else (None, [])
        told.append({
            "name": subject if text else name, "text": text or line, "plugin": plugin, "candidates": candidates,
            "notes": [],
        })  # fmt: skip
    return told


def _claim(dotted) -> tuple:
    """Return (id of the plugin that a dotted name is taken from or None, ids of all that bring it)."""
    if dotted.startswith("kernels."):
        brought = kernels.brought.get(dotted, ())
        chosen = kernels.choose(dotted)[0] if brought else None
        return chosen and chosen.provider.id, [entry.provider.id for entry in brought]
    candidates = registry.candidates_for(dotted)
    try:
        of_core = registry.core_has(dotted) and not dotted.startswith("backends.")
        chosen = registry.choose(dotted)[0] if candidates and not of_core else None
    except registry.AmbiguousNameError:
        chosen = None
    return chosen and chosen.id, [plugin.id for plugin in candidates]


def _of_place(dotted) -> list[str]:
    candidates = registry.candidates_for(dotted)
    lines = [f"    {plugin.id} brings it, but {plugin.hidden[dotted]}"
             for plugin in registry.plugins.values() if dotted in plugin.hidden]  # fmt: skip
    if registry.core_has(dotted):
        return [f"plugrad.{dotted}: plugrad's core defines it itself", *_others(candidates, None), *lines]
    if not candidates:
        return [f"plugrad.{dotted}: blocked", *lines]
    try:
        chosen, why = registry.choose(dotted)
    except registry.AmbiguousNameError as error:
        ids = sorted(plugin.id for plugin in candidates)
        how = str(error).partition(": ")[2]
        return [f"plugrad.{dotted}: ambiguous, {' and '.join(ids)} bring it; {how}", *lines]
    entry = chosen.brought.get(dotted)
    if entry is None:
        text = f"plugrad.{dotted}: promised by {chosen.id}, which is {chosen.status}"
    else:
        source = entry.value.module if entry.kind == "ops" else getattr(entry.value, "__module__", "")
        text = f"plugrad.{dotted}: {entry.name!r} of {entry.kind}, from {chosen.id} ({source})"
    if len(candidates) > 1:
        text += f"; {why}"
    if entry is not None and not chosen.builtin and any(plugin.builtin for plugin in candidates):
        if not getattr(entry.value, "override", False):
            lines.insert(0, "    but it does not say override=True, so using the name is an error")
    return [text, *_others(candidates, chosen), *lines]


def _others(candidates, chosen) -> list[str]:
    return [
        f"    also brought by {plugin.id} ({plugin.status}), which does not replace it"
        for plugin in candidates
        if plugin is not chosen
    ]


def _of_kernel(dotted) -> list[str]:
    if dotted not in kernels.brought:
        promised = " and ".join(plugin.id for plugin in registry.claims.get(dotted, ()))
        return [f"{dotted}: kernels promised by {promised}"] if promised else []
    chosen, why = kernels.choose(dotted)
    lines = [f"{dotted}: {_kernel_text(chosen.value.function, chosen.provider.id) if chosen else 'none'}; {why}"]
    for entry in kernels.brought[dotted]:
        if entry is not chosen:
            lines.append(f"    also brought by {entry.provider.id}, which does not run")
    return lines


def _kernel_text(function, provider) -> str:
    return f"{function.__module__}.{getattr(function, '__name__', function)} of {provider}"


# ---------------------------------------------------------------------------------------------------- kernels


def _on_device(name, device) -> list[str]:
    """Say which kernel runs on a device; what a call would load is loaded."""
    if device not in registry.backends:
        raise LookupError(
            f"there is no device {device!r}{errors.suggestion(device, registry.backends)}; known: "
            f"{', '.join(sorted(registry.backends))}{registry.hint(device)}"
        )
    try:
        op = registry.op(name.removeprefix("plugrad.").removeprefix("torch."))
    except registry.AmbiguousNameError as error:
        return [str(error)]
    except ImportError as error:  # its plugin does not load
        return [str(error)]
    except AttributeError as error:
        other = "; only ops have kernels" if places(name) else ""
        raise LookupError(f"{error}{other}") from None
    return [*_about_device(device), *_about_kernel(op, device), *_problems(op.name)]


def _about_device(device) -> list[str]:
    reason = registry.reason(device)
    try:
        chosen, why = registry.choose(f"backends.{device}")
    except registry.AmbiguousNameError:
        return [f"device {device}: {reason}"]
    why = f"; {why}" if len(registry.candidates_for(f"backends.{device}")) > 1 else ""
    state = "it can be used here" if reason is None else f"it can't be used here: {reason}"
    return [f"device {device}: brought by {chosen.id}{why}; {state}"]


def _in_c(op) -> list[str]:
    """Say which kernels in C an op has, or why there are none at all."""
    if in_c.why_none() is not None:
        return [f"    no kernels in C: {in_c.why_none()}"]
    direct = op.plan.direct or op.arity == 2 and op.plan.operator(False).direct
    if direct and in_c.is_native(getattr(registry.backend("cpu").functions, direct, None)):
        return [f"    plain calls are calls of the C function {direct!r} ({in_c.level()})"]
    parts = [("it", op.kernels.get("cpu")), *((f.function.__name__, f.kernels.get("cpu")) for f in op.formulas)]
    return [
        f"    {what} calls the C function {kernel.native!r} ({in_c.level()}), and computes in Python what that refuses"
        for what, kernel in parts
        if hasattr(kernel, "native")
    ]


def _written_in(op, device) -> list:
    """Return the ops with kernels of several kinds that a composite names, or a function beside it that it calls."""
    codes, called = [op.kernels["*"].__code__], {}
    for code in codes:
        for name in code.co_names:
            other = op.kernels["*"].__globals__.get(name)
            if hasattr(other, "__code__") and other.__code__ not in codes:
                codes.append(other.__code__)
            record = registry.ops.get(name)
            if record is not None and hasattr(record.kernels.get(device), "choices"):
                called[name] = record
    return list(called.values())


def _about_kernel(op, device) -> list[str]:
    head = f"op {op.qualname} of {op.provider.id} on {device}: "
    if op.runs_on == "tensors":
        lines = [f"{head}it is written in other ops, and each of those runs its own kernel"]
        return lines + [f"    {line}" for one in _written_in(op, device) for line in _about_kernel(one, device)]
    backend = registry.backends.get(device)
    if backend is not None and backend.symbolic:
        return [f"{head}its shape rule; tensors there have no data"]
    dotted = f"kernels.{device}.{op.qualname}"
    chosen, why = kernels.choose(dotted)
    function = op.kernel_for(device)
    if chosen is not None:
        lines = [head + f"{_kernel_text(function, chosen.provider.id)}; {why}"]
    elif device in op.kernels:
        lines = [head + f"{_kernel_text(function, op.provider.id)}; the op's own kernel for {device}"]
    else:
        lines = [head + f"{_kernel_text(function, op.provider.id)}; its general kernel, {why}"]
    if hasattr(function, "choices"):
        lines += [f"    {number}. {choice}" for number, choice in enumerate(function.choices(), 1)]
    for entry in kernels.brought.get(dotted, ()):
        if entry is not chosen:
            lines.append(f"    {entry.provider.id} brings a kernel, too, which does not run: {why}")
    for plugin in registry.plugins.values():
        if dotted in plugin.hidden:
            lines.append(f"    {plugin.id} brings a kernel, too, but {plugin.hidden[dotted]}")
    if device == "cpu":
        lines += _in_c(op)
    else:
        permitted, who = cpu_fallback.allowed(op)
        does = "it would run on the CPU" if permitted else "that would be an error, no silent run on the CPU"
        lines.append(f"    if the backend lacks what the kernel uses, {does} ({who})")
    return lines


def _problems(name) -> list[str]:
    """Return lines about plugins that promise the name and are blocked or failed."""
    lines = []
    for plugin in registry.plugins.values():
        if any(promised == name for _, promised in plugin.promised):
            if plugin.status == "blocked":
                lines.append(f"{plugin.id} brings {name!r}, but {plugin.reason}")
            elif plugin.error is not None:
                lines.append(registry.describe_failure(plugin))
    return lines


# ---------------------------------------------------------------------------------------------------- preferences


def bringers(name: str) -> list[str]:
    """Return the distributions and plugins that bring a name, or a kernel, as `plugrad prefer` takes them."""
    names: dict = {}
    if name.startswith("kernels.") and name.count(".") >= 2:
        op_name = name.split(".", 2)[2]
        plugins = [entry.provider for entry in kernels.brought.get(name, ())]
        plugins += [p for p in registry.plugins.values() if ("kernels", op_name) in p.promised and p not in plugins]
        plugins += [registry.ops[op_name].provider] if op_name in registry.ops and plugins else []
    else:
        plugins = [plugin for dotted in places(name) for plugin in registry.candidates_for(dotted)]
    for plugin in plugins:
        names.update({plugin.distribution: None, plugin.id: None})
    return list(names)


def preference_rows() -> list[dict]:
    """Return the preferences of all places, the strongest first, with what keeps one from counting."""
    rows, seen = [], {}
    for source, table in preferences.tables():
        for name, distribution in table.items():
            remark = f"{seen[name]} comes first" if name in seen else None
            if remark is None and distribution not in bringers(name):
                remark = "nobody of that name brings it here"
            seen.setdefault(name, source)
            rows.append({"name": name, "distribution": distribution, "source": source, "remark": remark})
    return rows


def objections(name, distribution, file) -> list[str]:
    """Return lines about what keeps a preference that was just written from counting."""
    lines = []
    for dotted in [name] if name.startswith("kernels.") else places(name):
        said, source = preferences.preference(dotted)
        if (said, source) != (distribution, str(file)) and said is not None:
            lines.append(f"but {source} says {said} for {dotted}, and comes first")
    if any(plugin.builtin for dotted in places(name) for plugin in registry.candidates_for(dotted)):
        if distribution.partition(":")[0] != "plugrad":
            lines.append("note: it replaces plugrad's own only if the plugin declares that with override=True")
    return lines
