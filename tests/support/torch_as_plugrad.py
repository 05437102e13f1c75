"""A plugin of pytest with which `import plugrad` is PyTorch: `pytest -p support.torch_as_plugrad FILE`."""

import importlib
import sys
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    importlib.import_module("torch.utils.data")

for name, module in list(sys.modules.items()):
    if name == "torch" or name.startswith("torch."):
        sys.modules[f"plugrad{name.removeprefix('torch')}"] = module
