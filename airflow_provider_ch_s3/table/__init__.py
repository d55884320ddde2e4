"""The table as values: its columns, what goes into which of them, and when its parts have settled."""
