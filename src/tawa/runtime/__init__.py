"""What users touch: the jit wrapper, installation, settings, explanations."""
