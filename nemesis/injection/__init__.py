"""How each kind of fault is carried out and undone, one file per kind."""
