"""`freeze`: a script module whose tensors and attributes are constants of the program."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.jit.generate import Malformed, attribute
from plugrad.jit.modules import RecursiveScriptModule
from plugrad.jit.program import Program
from plugrad.jit.types import TENSOR

__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Return a script module whose parameters and buffers are constants.

    Args:
        mod: a script module in eval mode.
        preserved_attrs: names of further methods, and of attributes, that are kept.
        optimize_numerics: PyTorch's, without meaning here.

    Branches that can't run are left out. What a program writes stays an attribute. Raises RuntimeError for what is no
    script module, or is in training.

    >>> import plugrad as torch
    >>> frozen = torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 3)).eval())
    >>> frozen(torch.ones(1, 2)).shape, list(frozen.parameters())
    (torch.Size([1, 3]), [])
    """
    if not isinstance(mod, RecursiveScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script "
            "your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    kept = {*(preserved_attrs or ())}
    missing = [name for name in kept if not hasattr(mod, name)]
    if missing:
        raise RuntimeError(f"the module has no attribute {missing[0]!r} that could be preserved")
    return _Freezer(mod, kept).frozen(mod, {})


def optimize_for_inference(mod, other_methods=None):
    """Return the script module, frozen in eval mode."""
    return freeze(mod.eval(), preserved_attrs=other_methods)


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None) -> None:
    """Accepted: a frozen program is made of the same ops; `torch.compile` takes it."""


class _Freezer:
    def __init__(self, mod, kept):
        self.top, self.kept = mod, kept
        self.written: set = set()  # (id of a module, name) of what programs write
        for module in mod.modules():
            for tree in module._staged.trees.values():
                self._note_writes(tree["body"], module)

    def _note_writes(self, tree, module):
        if not isinstance(tree, list):
            return
        if len(tree) > 2 and tree[0] in ("=", "aug") and isinstance(tree[2], list):
            stack = [tree[2]]
            while stack:
                one = stack.pop()
                if one[0] == "self":
                    self.written.add((id(_at(module, one[1])), one[2]))
                elif one[0] == "tuple":
                    stack += one[1]
        for one in tree:
            self._note_writes(one, module)

    def frozen(self, module, copies):
        """Return the frozen form of a module."""
        if id(module) in copies:
            return copies[id(module)]
        new = copies[id(module)] = module.__copy__()
        state = new.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            state[table] = dict(state[table])
        state["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
        for name, child in module._modules.items():
            new._modules[name] = None if child is None else self.frozen(child, copies)
        layer = not module._staged.trees
        program = state["_staged"] = Program(module._staged.name)
        program.attributes, program.constants = dict(module._staged.attributes), module._staged.constants
        program.python, program.classes = module._staged.python, module._staged.classes
        for table in ("_parameters", "_buffers"):
            for name, tensor in list(state[table].items()):
                self._take(new, module, table, name, tensor, program, layer)
        program.signatures = {
            name: one for name, one in module._staged.signatures.items()
            if name == "forward" or module is not self.top or name in self.kept
        }  # fmt: skip
        for name, tree in module._staged.trees.items():
            program.trees[name] = {**tree, "body": self._block(tree["body"], module)}
        program.make(new._declares)
        return new

    def _take(self, new, module, table, name, tensor, program, layer):
        if (id(module), name) in self.written or module is self.top and name in self.kept:
            return
        try:
            attribute(name)
        except Malformed:  # items of a list of parameters
            return
        del new.__dict__[table][name]
        if layer:  # its class reads its attributes
            new.__dict__[name] = None if tensor is None else tensor.detach()
            program.attributes[name] = TENSOR

    def _block(self, trees, module):
        left = []
        for tree in trees:
            tree = [tree[0], tree[1], *[self._part(one, module) for one in tree[2:]]]
            if tree[0] == "if" and tree[2][0] == "const":
                left += tree[3] if tree[2][1] else tree[4]
            else:
                left.append(tree)
        return left

    def _part(self, tree, module):
        """Return a tree, or a list of statements, in which what does not change is constant."""
        if not isinstance(tree, list):
            return {key: self._part(one, module) for key, one in tree.items()} if isinstance(tree, dict) else tree
        if tree and isinstance(tree[0], list) and tree[0] and isinstance(tree[0][0], str) and _is_statement(tree[0]):
            return self._block(tree, module)
        if len(tree) == 3 and tree[0] in ("param", "buffer", "self") and isinstance(tree[1], list):
            return self._constant(tree, module)
        if tree and tree[0] == "not":
            inner = self._part(tree[1], module)
            return ["const", not inner[1]] if inner[0] == "const" and type(inner[1]) is bool else ["not", inner]
        return [self._part(one, module) for one in tree]

    def _constant(self, tree, module):
        kind, path, name = tree
        owner = _at(module, path)
        if (id(owner), name) in self.written or owner is self.top and name in self.kept:
            return tree
        if kind == "self":
            value = getattr(owner, name)
            return ["const", value] if type(value) in (int, float, bool, str, type(None)) else tree
        tensor = owner._parameters.get(name) if kind == "param" else owner._buffers.get(name)
        named = tensor is not None and name.isidentifier()
        return ["const", Tensor.clone(tensor.detach())] if named else tree


def _is_statement(tree) -> bool:
    return len(tree) > 1 and type(tree[1]) is int and tree[0] in (
        "=", "aug", "do", "return", "if", "while", "for", "assert", "raise", "with", "del", "break", "continue"
    )  # fmt: skip


def _at(module, path):
    for one in path:
        module = module._modules[one]
    return module
