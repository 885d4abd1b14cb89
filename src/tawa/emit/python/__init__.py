"""Python as text: names, the user's statements, what stands in parentheses."""
