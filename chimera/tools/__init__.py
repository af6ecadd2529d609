"""What the model can do: files, search, shell, plan."""
