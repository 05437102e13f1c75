"""What the inputs and outputs of an exported graph are."""

from __future__ import annotations

import dataclasses
import enum

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "TensorArgument",
]  # fmt: skip


class InputKind(enum.Enum):
    """What an input of a graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """What an output of a graph is."""

    USER_OUTPUT = enum.auto()


@dataclasses.dataclass
class TensorArgument:
    """A tensor of a graph, by its name."""

    name: str


@dataclasses.dataclass
class ConstantArgument:
    """An argument that is no tensor: the program is for this value of it."""

    name: str
    value: int | float | bool | str | None


@dataclasses.dataclass
class InputSpec:
    """An input: its kind, name, and the name of the tensor in the state_dict that it takes."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self):
        target = "" if self.target is None else f" target={self.target!r}"
        kept = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{kept}"


@dataclasses.dataclass
class OutputSpec:
    """An output: its kind and name."""

    kind: OutputKind
    arg: TensorArgument
    target: str | None = None

    def __str__(self):
        return f"{self.arg.name}: {self.kind.name}"


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of an exported graph, in order."""

    input_specs: list
    output_specs: list

    def _targets(self, kind) -> list:
        return [one.target for one in self.input_specs if one.kind is kind]

    def _by_name(self, kind) -> dict:
        return {one.arg.name: one.target for one in self.input_specs if one.kind is kind}

    @property
    def parameters(self) -> tuple:
        """Names of parameters."""
        return tuple(self._targets(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple:
        """Names of buffers."""
        return tuple(self._targets(InputKind.BUFFER))

    @property
    def lifted_tensor_constants(self) -> tuple:
        """Names of constant tensors."""
        return tuple(self._targets(InputKind.CONSTANT_TENSOR))

    @property
    def user_inputs(self) -> tuple:
        """Names of the arguments, and the values of those that are no tensors."""
        arguments = [one.arg for one in self.input_specs if one.kind is InputKind.USER_INPUT]
        return tuple(one.value if isinstance(one, ConstantArgument) else one.name for one in arguments)

    @property
    def user_outputs(self) -> tuple:
        """Names of the results."""
        return tuple(one.arg.name for one in self.output_specs)

    @property
    def inputs_to_parameters(self) -> dict:
        """{name of an input: name of the parameter}."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict:
        """{name of an input: name of the buffer}."""
        return self._by_name(InputKind.BUFFER)

    @property
    def buffers_to_mutate(self) -> dict:
        """Empty: ops that write in place stand in the graph as they are."""
        return {}

    def __str__(self):
        inputs, outputs = "\n".join(map(str, self.input_specs)), "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
