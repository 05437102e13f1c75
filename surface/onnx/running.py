from plugrad.nn import Module
class ONNXModule(Module): pass
def load(f): pass
