"""What each of plugrad's own plugins brings, as `plugins/index.py` lists it: `python -m plugrad.cli.names_index`."""

from __future__ import annotations

import textwrap

from plugrad import registry

HEAD = '''"""What the plugins of the group `plugrad` bring: ops, public names, and names that have in-place forms.

Written by `python -m plugrad.cli.names_index`. So `import plugrad` loads none of them: a plugin is loaded when one of
its names is first used.
"""

BRINGS = {'''


def rows() -> dict:
    """Return {module: (names of its ops, public names[, names with in-place forms])}, each as one string."""
    result = {}
    registry.ops.values()  # which loads all of them
    for plugin in registry.plugins.values():
        if plugin.builtin and "plugin" in plugin.kinds:
            registry.load(plugin)
            records = [record for record in registry.ops.values() if record.provider is plugin]
            written = set()
            for record in records:
                if record.inplace and record.inplace != "items":
                    written |= {record.name, *(name[7:] for name in record.names if name.startswith("Tensor."))}
            names = ([record.name for record in records], plugin.brought, *([written] if written else []))
            result[plugin.value] = tuple(" ".join(sorted(part)) for part in names)
    return dict(sorted(result.items()))


def page() -> str:
    """Return the source of `plugins/index.py`."""
    lines = [HEAD]
    for module, parts in rows().items():
        line = f"    {module!r}: ({', '.join(map(repr, parts))}),"
        if len(line) <= 120:
            lines.append(line)
            continue
        lines.append(f"    {module!r}: (")
        for names in parts:
            *most, last = textwrap.wrap(names, 108, break_on_hyphens=False) or [""]
            lines += [*(f'        "{row} "' for row in most), f'        "{last}",']
        lines.append("    ),")
    return "\n".join([*lines, "}", ""]).replace("'", '"')


if __name__ == "__main__":
    print(page(), end="")
