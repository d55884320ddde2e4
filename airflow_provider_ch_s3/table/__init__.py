"""The table as values: columns, what goes into each column, and when the parts have settled."""
