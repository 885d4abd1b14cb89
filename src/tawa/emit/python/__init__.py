"""Python source as text: names, the user's statements, parentheses, line breaks."""
