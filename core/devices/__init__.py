"""Where tensors live: devices and the backends behind them, element types, random generators."""
