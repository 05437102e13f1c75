"""Helpers the programs share."""


def outcome(action, words=4):
    """What `action` returns, or the class of its exception and the first words of the message."""
    try:
        return action()
    except Exception as error:
        return type(error).__name__, " ".join(str(error).split()[:words])


def parameters_from(random, module, scale=0.3):
    """Fill a module's parameters with NumPy's numbers, in order; returns the module."""
    for parameter in module.parameters():
        values = scale * random.standard_normal(tuple(parameter.shape))
        parameter.data.copy_(parameter.data.new_tensor(values))
    return module
