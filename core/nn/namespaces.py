"""The public places of `plugrad.nn` that plugins fill."""

from __future__ import annotations

from plugrad.registry.namespaces import namespace_module

functional = namespace_module("nn.functional", "The functional forms of layers and losses.")
init = namespace_module("nn.init", "Functions that fill a tensor in place.")
