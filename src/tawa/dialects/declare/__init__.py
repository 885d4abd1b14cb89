"""How an operation is declared: a class with named operands, attributes, regions, effects and a structure rule."""
