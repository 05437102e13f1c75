"""`python run.py NAME...`: print what the programs of those libraries return, as one line of JSON."""

import json
import sys
import traceback
import warnings

import torch
from programs import PROGRAMS

warnings.simplefilter("ignore")
results = {}
for name in sys.argv[1:]:
    try:
        results[name] = PROGRAMS[name]()
    except Exception:
        results[name] = {"error": traceback.format_exc()}
print(json.dumps({"torch": "plugrad" if "plugrad" in torch.__version__ else "torch", **results}))
