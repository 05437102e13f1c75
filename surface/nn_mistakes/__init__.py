"""What is likely a mistake in a module, and how it is said: keys that don't fit, parameters that nobody finds, memory
that nobody filled, states that don't load. Imported when there is something to say, or to be put back."""
