"""What `plugrad new` writes: text in which `$name` is replaced; the ending `.txt` is cut off."""
